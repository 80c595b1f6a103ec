"""Why torch.compile's cache was looked for under another name than by an earlier run.

The name of the directory is a hash of four hashes: of environment variables, of the
settings, of the compiler and of the model's code (vLLM `compilation/backends.py`). What
they are made of is in `cache_key_factors.json` in that directory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from warmup_insights.model.summary import CompileFacts, RunSummary

PARTS = {
    "env": "environment variables", "config": "settings", "compiler": "the compiler",
    "code": "the code of the model",
}  # fmt: skip
_OF_A_POD = re.compile(
    r"(?:host|port|rank|addr|path|root|home|dir|folder|node|pod|indices|(?:^|_)ip|"
    r"(?:worker|instance|replica)_?id)s?$",
    re.I,
)
_OUTSIDE = re.compile(
    r"WARMUP_INSIGHTS_|command$|served_model_name$|port$|host$|"
    r"VLLM_(?:LOG|CACHE_ROOT$|PORT$|HOST_IP$|API_KEY$|RPC_BASE_PATH$|CPU_KVCACHE_SPACE$|"
    r"NO_USAGE_STATS$|DO_NOT_TRACK$|ENABLE_V1_MULTIPROCESSING$|WORKER_MULTIPROC_METHOD$|"
    r"MEDIA_|CONFIG_ROOT$|XLA_CACHE_PATH$|DEBUG_|SERVER_DEV_MODE$)"
)
"""What no key of a cache is made of (vLLM `envs.py compile_factors`)."""
MOST = 20


@dataclass(frozen=True)
class Factor:
    """Something that the name is made of, and its value in each run; None is absent."""

    name: str
    values: tuple[str | None, str | None]

    @property
    def variable(self) -> str | None:
        """The environment variable that it is."""
        part, _, name = self.name.partition(".")
        return name if part == "env" else None

    @property
    def is_of_a_pod(self) -> bool:
        """Whether its name is that of a host, port, rank or path: no other pod has it."""
        return _OF_A_POD.search(self.name) is not None


@dataclass(frozen=True)
class KeyChange:
    """How the keys of two runs differ: hashes of directories, parts and factors."""

    hashes: tuple[str | None, str | None]
    parts: tuple[str, ...] | None
    """Of `PARTS` those that differ; None where the runs do not state theirs."""
    factors: tuple[Factor, ...]
    candidates: tuple[Factor, ...] | None = None
    """For a compiled function (AOT), whose parts vLLM lists nowhere: what differs between
    the runs and may be one of them. None where the key is that of a directory of graphs."""

    @property
    def sentence(self) -> str:
        """What differs, as far as the runs show it."""
        first, second = self.hashes
        where = f" ({first[:12]}, {second[:12]})" if first and second else ""
        text = f"The compile caches have different keys{where}"
        if self.candidates is not None:
            return f"{text}: {_candidates_text(self.candidates)}."
        if self.factors:
            shown = "; ".join(map(_values, self.factors[:3]))
            rest = len(self.factors) - 3
            return f"{text}: {shown}" + (f"; and {rest} more." if rest > 0 else ".")
        if self.parts:
            names = " and ".join(PARTS[part] for part in self.parts)
            return (
                f"{text}: {names} differ, by their hashes; which of them is in "
                "cache_key_factors.json of both directories."
            )
        return (
            f"{text}; which part of the key differs is in cache_key_factors.json of both "
            "directories, and with VLLM_LOGGING_LEVEL=DEBUG in the log."
        )


def key_change(old: RunSummary, new: RunSummary) -> KeyChange | None:
    """The difference; None where the keys are equal or unknown."""
    first, second = old.compile, new.compile
    if first is None or second is None:
        return None
    hashes = (first.hash, second.hash)
    candidates = None
    if not all(hashes):
        hashes = (first.aot_hash, second.aot_hash)
        candidates = _candidates(old, new)
    factors = _factors(first, second)
    parts = _parts(first, second)
    is_other = all(hashes) and hashes[0] != hashes[1]
    if not is_other and not parts and not factors:
        return None
    is_known = bool(parts or factors)
    return KeyChange(hashes, parts, factors, None if is_known else candidates)


def _candidates(old: RunSummary, new: RunSummary) -> tuple[Factor, ...]:
    """Settings with another value, and variables that a recorder found in one run only."""
    recorded = old.source.kind == new.source.kind == "recorder"
    both = dict.fromkeys((*old.config, *new.config))
    found = []
    for name in both:
        values = tuple(
            None if run.config.get(name) is None else str(run.config[name])
            for run in (old, new)
        )
        is_told = None not in values or (recorded and name.startswith("VLLM_"))
        if is_told and values[0] != values[1] and not _OUTSIDE.match(name):
            found.append(Factor(name, (values[0], values[1])))
    return tuple(found[:MOST])


def _candidates_text(candidates: tuple[Factor, ...]) -> str:
    if not candidates:
        return (
            "nothing that the runs state differs; variables of the environment are in the "
            "run of a recorder, not in a log"
        )
    shown = "; ".join(map(_values, candidates[:3]))
    more = f"; and {len(candidates) - 3} more" if len(candidates) > 3 else ""
    return f"of what differs, part of them may be {shown}{more}"


def _parts(first: CompileFacts, second: CompileFacts) -> tuple[str, ...] | None:
    if not first.key or not second.key:
        return None
    return tuple(
        part
        for part in PARTS
        if part in first.key
        and part in second.key
        and first.key[part] != second.key[part]
    )


def _factors(first: CompileFacts, second: CompileFacts) -> tuple[Factor, ...]:
    if not first.factors or not second.factors:
        return ()
    names = dict.fromkeys((*first.factors, *second.factors))
    found = [
        Factor(name, (first.factors.get(name), second.factors.get(name)))
        for name in names
        if first.factors.get(name) != second.factors.get(name)
    ]
    return tuple(found[:MOST])


def _values(factor: Factor) -> str:
    shown = ["absent" if value is None else value[:60] for value in factor.values]
    return f"{factor.variable or factor.name} ({shown[0]}, {shown[1]})"
