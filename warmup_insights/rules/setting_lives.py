"""From which version to which one an engine reads a setting, and what replaced it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from warmup_insights.model.summary import RunSummary

Version = tuple[int, ...]


@dataclass(frozen=True)
class SettingLife:
    """When an engine began to read a setting, and when it stopped.

    `pattern` matches the whole name, or `name=value` where only one value is meant.
    `first` is the first version known to read it; None where it was always there.
    `last` is the first version that no longer does (`ignored`, `renamed`) or that warns
    about it (`deprecated`); None while nothing advises against it. `instead` may refer to
    groups of the pattern, and is empty where nothing replaces it. `before` is how the same was
    set before `first`, with `{value}` where its value stands; empty where nothing did.
    """

    pattern: str
    engine: str
    first: Version | None = None
    last: Version | None = None
    state: str = ""
    instead: str = ""
    because: str = ""
    before: str = ""


_RANGES = r"VLLM_{}_BUCKET_(MIN|STEP|MAX|PAD_MAX|PAD_PERCENT)"
_NO_SHARES = (
    "graph memory is no longer divided between prompts and decodes (2025-06-12); every "
    "bucket gets a graph"
)
_NO_ORDER = "every bucket gets a graph (2025-06-12), so there is no order to choose"

LIVES: tuple[SettingLife, ...] = (
    SettingLife(
        r"VLLM_GRAPH_(?:MULTIMODAL_)?PROMPT_RATIO", "vllm-gaudi",
        last=(0, 10), state="ignored", because=_NO_SHARES,
    ),
    SettingLife(
        r"VLLM_GRAPH_(?:MULTIMODAL_)?PROMPT_RATIO", "vllm-fork",
        last=(0, 9), state="ignored", because=_NO_SHARES,
    ),
    SettingLife(
        r"VLLM_GRAPH_(?:PROMPT|DECODE)_STRATEGY", "vllm-gaudi",
        last=(0, 10), state="ignored", because=_NO_ORDER,
    ),
    SettingLife(
        r"VLLM_GRAPH_(?:PROMPT|DECODE)_STRATEGY", "vllm-fork",
        last=(0, 9), state="ignored", because=_NO_ORDER,
    ),
    SettingLife(
        _RANGES.format("PROMPT_SEQ"), "vllm-gaudi", last=(0, 11, 2), state="renamed",
        instead=r"VLLM_PROMPT_QUERY_BUCKET_\1",
        because="prompt buckets have a query length and a context since v0.11.2",
    ),
    SettingLife(
        r"VLLM_DECODE_SEQ_BUCKET_(MIN|STEP|MAX)", "vllm-gaudi", last=(0, 10),
        state="renamed", instead=r"VLLM_DECODE_BLOCK_BUCKET_\1",
        because="decode buckets count KV blocks since vllm-fork 1.18, not tokens",
    ),
    SettingLife(
        r"VLLM_EXPONENTIAL_BUCKETING", "vllm-gaudi", last=(0, 20), state="deprecated",
        instead="VLLM_BUCKETING_STRATEGY",
        because="it overrules VLLM_BUCKETING_STRATEGY, and cannot name the padding-aware "
        "strategy",
    ),
    SettingLife(
        r"VLLM_ENABLE_EXPERIMENTAL_FLAGS", "vllm-gaudi", last=(0, 11, 2),
        state="ignored", instead="VLLM_DEVELOPER_MODE",
        because="the code reads VLLM_DEVELOPER_MODE, for the per-bucket log lines too",
    ),
    SettingLife(r"VLLM_BUCKETING_FROM_FILE", "vllm-gaudi", first=(0, 11, 2)),
    SettingLife(r"VLLM_BUCKETING_STRATEGY", "vllm-gaudi", first=(0, 20)),
    SettingLife(_RANGES.format("PROMPT_(?:QUERY|CTX)"), "vllm-gaudi", first=(0, 11, 2)),
    SettingLife(r"VLLM_DEVELOPER_MODE", "vllm-gaudi", first=(0, 11, 2)),
    SettingLife(r"cudagraph_specialize_lora", "vllm", first=(0, 11, 1)),
    SettingLife(r"VLLM_MULTIMODAL_BUCKETS", "vllm-gaudi", first=(0, 11, 2)),
    SettingLife(r"VLLM_MULTIMODAL_RESOLUTIONS", "vllm-gaudi", first=(0, 26)),
    SettingLife(
        r"max_cudagraph_capture_size", "vllm", first=(0, 11, 1), before="--cuda-graph-sizes"
    ),
    SettingLife(r"cudagraph_capture_sizes", "vllm", first=(0, 6, 6)),
    SettingLife(r"safetensors_load_strategy=prefetch", "vllm", first=(0, 19)),
    SettingLife(r"safetensors_load_strategy=eager", "vllm", first=(0, 11, 2)),
    SettingLife(r"VLLM_DEEP_GEMM_WARMUP=skip", "vllm", first=(0, 11, 2)),
    SettingLife(r"enable_flashinfer_autotune", "vllm", first=(0, 16)),
    SettingLife(r"load_format=fastsafetensors", "vllm", first=(0, 8, 2)),
    SettingLife(r"load_format=runai_streamer", "vllm", first=(0, 6, 6)),
    SettingLife(r"VLLM_ENABLE_STARTUP_PLAN", "vllm", first=(0, 26)),
    SettingLife(r"cudagraph_mode=FULL_DECODE_ONLY", "vllm", first=(0, 10, 1)),
    SettingLife(r"skip_mm_profiling", "vllm", first=(0, 10, 1)),
    SettingLife(
        r"attention_backend", "vllm", first=(0, 14),
        before="VLLM_ATTENTION_BACKEND={value}",
    ),
    SettingLife(
        r"VLLM_ATTENTION_BACKEND=TRITON_ATTN", "vllm", first=(0, 11),
        before="VLLM_ATTENTION_BACKEND=TRITON_ATTN_VLLM_V1",
    ),
    SettingLife(
        r"moe_backend", "vllm", first=(0, 17), before="VLLM_USE_FLASHINFER_MOE_...=0"
    ),
    SettingLife(
        r"linear_backend", "vllm", first=(0, 22), before="VLLM_NVFP4_GEMM_BACKEND={value}"
    ),
    SettingLife(
        r"all2all_backend", "vllm", first=(0, 11, 2), before="VLLM_ALL2ALL_BACKEND={value}"
    ),
)  # fmt: skip
"""What is known: `first` is a version whose source has the setting, and of those that
were looked at (vllm 0.6.6 to 0.33, vllm-gaudi 0.10 to 0.27) the lowest."""

_VERSION = re.compile(r"v?(?!0\.1\.dev)([0-9]+(?:\.[0-9]+){0,3})")
"""A build of a clone without tags is 0.1.dev and the number of its commits."""


def read_version(text: str | None) -> Version | None:
    """The numbers that a version begins with; None if it does not begin with any."""
    match = _VERSION.match(text or "")
    return tuple(int(part) for part in match[1].split(".")) if match else None


def default_utilization(engine: str | None, version: str | None) -> float | None:
    """`gpu_memory_utilization` where none is set (vLLM `config/cache.py`); None for an engine
    or a version that is not known."""
    known = read_version(version)
    if known is None or engine not in ("vllm", "vllm-gaudi", "vllm-fork"):
        return None
    return 0.9 if known < (0, 20) else 0.92


def has_setting(summary: RunSummary, setting: str) -> bool:
    """Whether the version of a run reads a setting (`name`, or `name=value`).

    False where the version is unknown, and for settings that its engine's table lacks.
    """
    engine, version = summary.engine.name, read_version(summary.engine.version)
    if engine == "reference":
        engine, version = (
            "vllm-gaudi",
            read_version(summary.config.get("bucketing_version")),
        )
    if version is None:
        return False
    found = [
        life
        for life in LIVES
        if life.engine == engine and re.fullmatch(life.pattern, setting)
    ]
    return bool(found) and all(
        (life.first is None or version >= life.first)
        and (life.last is None or version < life.last or life.state == "deprecated")
        for life in found
    )


_OLDER = re.compile(r" \((?:--)?[A-Za-z][\w-]{3,40} in older versions[^()]{0,60}\)")
"""What a text has besides for versions that are older."""
_GIVEN = (
    r"(?![\w-])(?: (?P<value>[A-Z\d_]{4,40}\b|(?:triton|marlin|cutlass|allgather_reducescatter)\b"
    r"(?: or (?:triton|marlin|cutlass)\b)?))?"
)
"""Behind an option of a kernel: its value, or none."""


def as_named_in(text: str, engine: str | None, version: Version | None) -> str:
    """A text about options in the names that a version has for them, without those of older
    ones; as it is where the version is not known."""
    if version is None or engine != "vllm":
        return text
    text = _OLDER.sub("", text)
    for life in LIVES:
        if life.before and life.first is not None and version < life.first:
            text = _as_before(life, text)
    return text


def _as_before(life: SettingLife, text: str) -> str:
    """The text with what did the same before a setting, with its value where it has one."""
    name, _, value = life.pattern.partition("=")
    if value:
        return re.sub(rf"\b{life.pattern}\b", life.before, text)

    def named(match: re.Match[str]) -> str:
        given = match["value"]
        return life.before.format(value=given) if given else life.before.split("=")[0]

    return re.sub(f"--{name.replace('_', '-')}{_GIVEN}", named, text)


def dead_in(engine: str | None, version: Version, setting: str) -> SettingLife | None:
    """What became of a setting that this version ignores, renamed or deprecated."""
    for life in LIVES:
        is_over = life.last is not None and version >= life.last
        if life.engine == engine and is_over and re.fullmatch(life.pattern, setting):
            return life
    return None


def successor(life: SettingLife, setting: str) -> str:
    """What to use instead of a setting; empty where nothing replaces it."""
    match = re.fullmatch(life.pattern, setting)
    return match.expand(life.instead) if match is not None else ""
