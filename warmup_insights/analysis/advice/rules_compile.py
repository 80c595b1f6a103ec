"""Advice on compilation: caches of recipes, torch.compile and XLA, and what is kept in them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from warmup_insights.analysis.advice.cause import failure_rule, poisoned_by
from warmup_insights.analysis.advice.change import Value, Way
from warmup_insights.analysis.advice.facts import LEAST_S, Failed, RunFacts, Start
from warmup_insights.analysis.advice.finding import (
    Finding,
    rule,
    severity_in,
    severity_of,
    start_rule,
)
from warmup_insights.analysis.advice.ways import finding_of
from warmup_insights.analysis.causes import KeyChange, key_change
from warmup_insights.analysis.compare import SettingRow, compare_settings
from warmup_insights.analysis.sentences import count_of, shortened, value_text
from warmup_insights.analysis.summary.compilation import RECIPES
from warmup_insights.model.summary import (
    PHASES,
    CompileFacts,
    CompilePart,
    RunSummary,
    is_true,
)
from warmup_insights.units import format_duration

NOTABLE_SHARE = 0.15
"""Share of the start from which a cold compile cache is more than a low finding."""
AOT_LEFT = 0.12
"""Of the time of torch.compile, what stays when a whole function is loaded (vLLM's AOT)."""
RECIPE_GAIN = (0.65, 0.93)
"""Share of compilation that a recipe cache saved in vllm-gaudi's documentation."""
RECIPE_MB = 8192
ON_CPU = (
    "the next start with the same versions and settings compiles with what torch keeps there; "
    "vLLM 0.26 to 0.32 save a whole function on a CPU and cannot load it"
)
"""Two starts of a small model with vLLM 0.32: 44 s, then 12 s."""
MOST_SETTINGS = 5
_NETWORK = re.compile(
    r"(?:^|[/_.-])(nfs|efs|smb|cifs|lustre|gpfs|cephfs|glusterfs|fsx)(?:[/_.0-9-]|$)",
    re.I,
)
_RANK = re.compile(r"/rank_\d{1,5}_\d{1,5}(?:/.*)?$")
_HOME = re.compile(r"(?:/home/|~|/Users/)")
_LOST = re.compile(r"/(?:(?:var/)?tmp|dev/shm)/")
"""Folders that go with the host's or the container's end."""
_TRUE = ("1", "true")
_NOT_BUILT = re.compile(
    r"Failed to initialize FlashInfer All ?[Rr]educe[^:]{0,60}: .{0,200}(?:build failed|ninja|nvcc)",
    re.I,
)
_ONCE = re.compile(r"(?i:source) code has changed|file corrupted")
"""Reasons that the next start does not have, for this one saved the function anew (vLLM
`compilation/decorators.py`)."""


@rule(
    "the HPU recipe cache is off, deleted at each start, or on a network file system",
    "PT_HPU_RECIPE_CACHE_CONFIG as the bridge prints it, time of warm-up",
    formula="65 to 93 % of the warm-up without captures",
    margin="at least 8,192 MB and twice the limit: the oldest recipes go when it is full",
    source="vllm-gaudi documentation, managing warm-up",
    example="documented: 66 s of warm-up to 23 s (BF16), 504 s to 34 s (FP8)",
)
def recipe_cache(facts: RunFacts) -> Iterator[Finding]:
    """The recipe cache of an HPU is off, deleted at each start, or on a network."""
    stated = facts.summary.config.get(RECIPES)
    seconds = facts.figure("warmup_s")
    if not isinstance(stated, str) or seconds is None or seconds < LEAST_S:
        return
    path, delete, size = (*(part.strip() for part in stated.split(",")), "", "", "")[:3]
    spent = _compiling_s(facts, seconds)
    limit = size if size.isdigit() else RECIPE_MB
    gain: tuple[float, float] | None = (RECIPE_GAIN[0] * spent, RECIPE_GAIN[1] * spent)
    effect = (
        f"a second start reuses what it compiled in these {format_duration(spent)}; "
        "vllm-gaudi's documentation reports 66 s to 23 s (BF16) and 504 s to 34 s (FP8); "
        "graphs are captured again"
    )
    if not path:
        title = (
            f"Recipes are not kept on disk; warm-up took {format_duration(seconds)}."
        )
        change = f"{RECIPES}={recipe_setting(facts.summary)}"
    elif delete.lower() in _TRUE:
        title = f"The recipe cache in {path} is deleted at each start."
        change = f"{RECIPES}={path},false,{limit}"
    elif _NETWORK.search(path):
        title = f"The recipe cache is on a network file system ({path})."
        change = f"{RECIPES}=/var/cache/recipes,false,{limit}"
        gain = None
        effect = (
            f"recipes load from a local disk; warm-up took {format_duration(seconds)}, "
            "and the cache is not made for network file systems"
        )
    else:
        return
    yield Finding(
        severity_in(facts.start, gain[0] if gain is not None else None, "medium"),
        title,
        {"warmup_s": seconds, "compiling_s": spent, "value": stated},
        RECIPES,
        change,
        effect,
        changes={RECIPES: change.partition("=")[2]},
        gain_s=gain,
        price="local disk up to the limit in MB, a directory for each rank and "
        "model; at the limit the oldest recipes go",
        part_s=gain[0] if gain is not None else None,
    )


def recipe_setting(summary: RunSummary) -> str | None:
    """The recipe cache switched on, where the run shows that it has no directory."""
    stated = summary.config.get(RECIPES)
    if not isinstance(stated, str) or stated.partition(",")[0].strip():
        return None
    size = (*stated.split(","), "", "")[2].strip()
    limit = max(RECIPE_MB, 2 * int(size)) if size.isdigit() else RECIPE_MB
    return f"/var/cache/recipes,false,{limit}"


def _compiling_s(facts: RunFacts, warmup_s: float) -> float:
    """The part of a warm-up that compiles: as recorded, else all but the captures."""
    phases = [facts.summary.phase(name) for name in PHASES]
    recorded = [each.compile_s for each in phases if each.compile_s is not None]
    if recorded:
        return sum(recorded)
    captures = facts.summary.time.seconds_of(*(f"{name}_graphs" for name in PHASES))
    return max(0.0, warmup_s - captures)


@start_rule(
    "torch.compile took 10 s and 5 % of the start or most of it, and loaded "
    "nothing from its cache",
    "compile times of vLLM, cache directory",
    formula="with a saved function (AOT) all but 12 to 24 %; else half to all of the "
    "longest graph of each model",
    margin="no finding where the directory lies under a home directory or another run loaded "
    "it, unless compilation is the largest part or the last run of the model had another "
    "key; low below 15 %, and where the directory is kept and settings were changed",
    source="vLLM docs/design/torch_compile; compilation/backends.py, decorators.py",
    example="tensor parallel 4 in vLLM 0.23: 60 of 696 s, saved as a whole",
)
def compile_cache(facts: RunFacts, start: Start) -> Iterator[Finding]:
    """torch.compile took nothing from its cache, or the cache is what is kept."""
    compiled = facts.summary.compile
    stated = facts.figure("compile_s")
    spent = stated or start.seconds.get("compile")
    if compiled is None or spent is None:
        return
    if facts.summary.engine.name != "vllm" or not _is_missed(compiled):
        return
    if facts.summary.start.aot_reason or facts.summary.device.kind == "neuron":
        return
    is_dominant = start.dominant == "compile"
    part = max(spent, start.seconds.get("compile", 0.0))
    if not is_dominant and not start.is_long(spent):
        return
    where = compiled.saved_to or compiled.directory or ""
    is_off = _is_off(facts.summary) or _is_off_beside(facts)
    is_kept = not is_off and (
        bool(_HOME.match(where))
        or any(_loaded(other, where) for other in facts.history if where)
    )
    saved = any(part.what == "aot" for part in compiled.parts)
    is_whole = compiled.saved_to is not None or saved
    is_cpu = facts.summary.device.kind == "cpu"
    key, other = (None, []) if is_off else other_key(facts)
    is_kept = is_kept or (bool(other) and is_root_kept(facts))
    if is_kept and not is_dominant and key is None and not other:
        return
    setting, change = _kept_by(where, is_off=is_off, is_kept=is_kept)
    if key is not None:
        setting, change = key_advice(key)
    source = ""
    if stated is not None:
        source = f", {format_duration(spent)} of it" if spent < part else ""
        source += " as torch.compile states"
    result = "nothing came from its cache"
    if is_off:
        result = "its cache is switched off"
        if not _is_off(facts.summary):
            result = "the cache of an engine beside it is switched off"
    yield Finding(
        severity_of(start.share(part))
        if start.share(part) >= NOTABLE_SHARE and not is_kept
        else "low",
        f"Compilation took {start.of_all(part)}{source}; {result}.",
        {
            "part_s": part,
            "compile_s": spent,
            # Not Dynamo, and not what the engine sums up.
            "num_compilations": sum(
                part.what == "graph" and part.from_cache is False
                for part in compiled.parts
            ),
        },
        setting,
        change,
        ON_CPU if is_cpu else _stays(compiled.parts, is_whole=is_whole),
        gain_s=None
        if is_cpu
        else _compile_gain(spent, compiled.parts, is_whole=is_whole),
        details=tuple(_reasons(key, other)),
        price="the directory may be copied, but not written by many hosts over NFS",
        phase="compile",
        part_s=part,
    )


def _is_missed(compiled: CompileFacts) -> bool:
    """Whether nothing came from the cache; a CPU of vLLM 0.26 states only that a whole function
    was saved."""
    is_saved = compiled.cache is None and not compiled.parts and compiled.saved_to
    return compiled.cache == "miss" or bool(is_saved)


@rule(
    "torch.compile took 10 s or more with its cache switched off, in a log that does not hold the "
    "whole start",
    "compile times of vLLM; its line that the cache is off, or the variable",
    formula="none: how long the rest of the start takes is not known",
    margin="a whole start has `compile_cache`",
    source="vLLM `compilation/backends.py`, `is_compile_cache_enabled`",
    example="an engine of a training job: 4 min 27 s of torch.compile in each start",
)
def compile_cache_off(facts: RunFacts) -> Iterator[Finding]:
    """What torch.compile made is not kept, in a start of which only a part is known."""
    summary, spent = facts.summary, facts.figure("compile_s")
    if facts.start is not None or summary.engine.name != "vllm" or spent is None:
        return
    if spent >= LEAST_S and _is_off(summary):
        yield Finding(
            "medium",
            f"Compilation took {format_duration(spent)} as torch.compile states, and its cache "
            "is off.",
            {"compile_s": spent},
            "VLLM_DISABLE_COMPILE_CACHE",
            "unset VLLM_DISABLE_COMPILE_CACHE, and no force_disable_caches in "
            "inductor_compile_config",
            "the next start with the same versions and settings loads the graphs; Dynamo runs again",
            price="disk; a program that changes the code of the model between starts has switched "
            "it off on purpose",
            phase="compile",
            part_s=spent,
        )


@start_rule(
    "modules of a Neuron device were compiled for 10 s and 5 % of the start or more",
    "the lines of the compiler",
    formula="0 to the seconds of the compilation",
    margin="no gain is certain: modules that came from the cache take no time of it",
    source="AWS Neuron documentation, Neuron persistent cache",
    example="Neuron 0.16: 13 min 44 s of 16 min 09 s",
)
def neuron_cache(facts: RunFacts, start: Start) -> Iterator[Finding]:
    """The compiler of a Neuron device made modules that a kept cache would hold."""
    seconds = start.seconds.get("compile", 0.0)
    if facts.summary.device.kind != "neuron" or not start.is_long(seconds):
        return
    yield Finding(
        severity_of(start.share(seconds)),
        f"Compilation took {start.of_all(seconds)}.",
        {"compile_s": seconds},
        "NEURON_COMPILE_CACHE_URL",
        "NEURON_COMPILE_CACHE_URL (/var/tmp/neuron-compile-cache where it is not set) on a volume "
        "that outlives the container, or in S3",
        "the next start with the same model, shapes and compiler loads the modules",
        gain_s=(0.0, seconds),
        price="disk; where the directory is kept already, nothing has to be changed",
        phase="compile",
        part_s=seconds,
    )


@rule(
    "FlashInfer could not build its all-reduce",
    "its line with the reason",
    formula="none: the log has no time of it alone",
    margin="only where the line states a build that failed",
    source="vLLM `distributed/device_communicators/flashinfer_all_reduce.py`, "
    "`config/compilation.py` PassConfig",
    example="four ranks in vLLM 0.19: 18 s of nvcc in each start, and no fusion",
)
def all_reduce_not_built(facts: RunFacts) -> Iterator[Finding]:
    """Each start compiles an all-reduce that cannot be built, and does without it then."""
    if not any(_NOT_BUILT.match(note.text) for note in facts.summary.notes):
        return
    build = Way(
        "the CUDA toolkit that FlashInfer needs in the image (nvcc and headers as new as torch's "
        "CUDA), or flashinfer-jit-cache of FlashInfer's version",
        "some GB of image",
    )
    without = Way(
        '--compilation-config \'{"pass_config": {"fuse_allreduce_rms": false}}\'',
        "none: the fusion is off in this run, too",
    )
    yield finding_of(
        facts,
        "FlashInfer could not build its all-reduce, so it is not fused with the norm; each start "
        "tries again.",
        {},
        [build, without],
        "the start does not compile in vain; how long it took is in no line",
        severity="low",
    )


def _is_off(summary: RunSummary) -> bool:
    """Whether the cache was switched off: as set, or as the engine printed."""
    is_set = is_true(summary.config, "VLLM_DISABLE_COMPILE_CACHE")
    return is_set or summary.start.caches.get("torch_compile") == "off"


def _is_off_beside(facts: RunFacts) -> bool:
    """Whether an engine of the same model that started at the same time states that the cache is
    off, and this one names none: of equal lines of several engines a log may hold one (Ray)."""
    summary, compiled = facts.summary, facts.summary.compile
    if compiled is None or compiled.names_cache:
        return False
    same = (summary.engine, summary.model)
    return any(
        (other.engine, other.model) == same and _is_off(other) for other in facts.beside
    )


def _reasons(key: KeyChange | None, rows: Sequence[SettingRow]) -> Iterator[str]:
    """Why the key is another one: by itself, or settings that differ from the last start."""
    if key is not None:
        yield f"Against a start with the same settings, as far as stated: {key.sentence}"
    if not rows:
        return
    shown = "; ".join(
        f"{row.name} {value_text(row.values[0])}, now {value_text(row.values[1])}"
        for row in rows[:MOST_SETTINGS]
    )
    more = len(rows) - MOST_SETTINGS
    rest = f"; and {more} more" if more > 0 else ""
    yield (
        f"The last start of this model had another key and other settings: {shown}{rest}. "
        "The first start after such a change compiles; which of them are part of the key is "
        "in cache_key_factors.json of both directories."
    )


def _kept_by(where: str, *, is_off: bool, is_kept: bool) -> tuple[str, str]:
    """Setting and change; `where` is the directory, `is_kept` whether it outlives the start."""
    if is_off:
        return "VLLM_DISABLE_COMPILE_CACHE", "unset VLLM_DISABLE_COMPILE_CACHE"
    if is_kept and where:
        where = _RANK.sub("", where)
        return "VLLM_CACHE_ROOT", f"nothing: what was compiled is in {where}; keep it"
    root = _own_root(where)
    if root is not None:
        return (
            "VLLM_CACHE_ROOT",
            f"{root} kept, and the same VLLM_CACHE_ROOT in every start",
        )
    return (
        "VLLM_CACHE_ROOT",
        "VLLM_CACHE_ROOT on a volume that outlives the container",
    )


def _own_root(where: str) -> str | None:
    """The root of the cache where it was set: another than `~/.cache/vllm`, and no folder that
    goes with the host's or the container's end."""
    root, found, _ = where.partition("/torch_compile_cache/")
    is_known = bool(found) and "redacted" not in root
    is_default = root.endswith("/.cache/vllm")
    return root if is_known and not (is_default or _LOST.match(root)) else None


def _loaded(other: RunSummary, where: str) -> bool:
    """Whether another run found what lies there."""
    found = other.compile
    return (
        found is not None
        and found.cache in ("hit", "partial")
        and found.directory is not None
        and "redacted" not in where
        and found.directory == where
    )


def _graphs_s(parts: Sequence[CompilePart]) -> float:
    """Seconds of graphs that were compiled, of the largest range of each model.

    Ranges of one model are compiled side by side, so only the longest counts.
    """
    longest: dict[int, float] = {}
    model = 0
    for part in parts:
        if part.what == "graph" and not part.from_cache and part.duration_s is not None:
            longest[model] = max(longest.get(model, 0.0), part.duration_s)
        elif part.what == "total":
            model += 1
    return sum(longest.values())


def _compile_gain(
    spent: float, parts: Sequence[CompilePart], *, is_whole: bool
) -> tuple[float, float] | None:
    """What a warm start saves: with AOT all but a share, without it the graphs."""
    if is_whole:
        return (1 - 2 * AOT_LEFT) * spent, (1 - AOT_LEFT) * spent
    graphs = min(spent, _graphs_s(parts))
    return (0.5 * graphs, graphs) if graphs else None


def _stays(parts: Sequence[CompilePart], *, is_whole: bool) -> str:
    if is_whole:
        return (
            "the next start with the same versions and settings loads the whole function; "
            f"about {100 * AOT_LEFT:.0f} % of the time stays"
        )
    dynamo = sum(part.duration_s or 0.0 for part in parts if part.what == "dynamo")
    stays = f"; Dynamo ({format_duration(dynamo)}) runs again" if dynamo else ""
    return f"the next start with the same versions and settings loads the graphs{stays}"


@start_rule(
    "XLA compiled shapes for 10 s and 5 % of the start or more (TPU)",
    "precompilation times",
    formula="0 to the sum of compile times",
    margin="only shapes that the log states as compiled",
    source="tpu-inference runner/compilation_manager.py",
    example="Qwen3-32B on v6e-8: 419 of 536 s",
)
def xla_cache(facts: RunFacts, start: Start) -> Iterator[Finding]:
    """XLA compiled every shape at this start (TPU)."""
    compiled = facts.summary.compile
    if compiled is None or facts.summary.engine.name != "tpu-inference":
        return
    made = [p.duration_s for p in compiled.parts if p.duration_s and not p.from_cache]
    took, lasted = sum(made), start.seconds.get("compile", 0.0)
    # Calls after it compile what could not be compiled ahead, and run every shape.
    calls = start.seconds.get("model_warmup", 0.0)
    whole = min(start.wall_s, lasted + calls)
    is_parallel = took > whole > 0
    stated = facts.figure("compile_s") or 0.0
    seconds = min(max(lasted if is_parallel else took, stated), start.wall_s)
    if not made or not start.is_long(seconds):
        return
    title = f"XLA compilation took {start.of_all(seconds)}"
    if calls and whole > seconds:
        own = f"{format_duration(seconds)} of it as the engine states compilation"
        title = f"XLA compilation and warm-up calls took {start.of_all(whole)}, {own}"
    sizes = "several at a time" if is_parallel else f"{format_duration(took)} together"
    yield Finding(
        severity_of(start.share(seconds)),
        f"{title}: {len(made)} shapes are listed, {sizes}, "
        f"{format_duration(max(made))} the longest.",
        {"compile_s": seconds, "num_shapes": len(made), "longest_s": max(made)},
        "VLLM_XLA_CACHE_PATH",
        "VLLM_XLA_CACHE_PATH (~/.cache/vllm/xla_cache where it is not set) on a volume that "
        "outlives the container",
        "a second start with the same versions, shapes and devices loads what is kept; "
        "tracing and loading stay; the log does not show whether some came from the cache",
        gain_s=(0.0, seconds),
        price="disk; where the directory is kept already, nothing has to be changed",
        phase="model_warmup" if start.dominant == "model_warmup" else "compile",
        part_s=max(seconds, whole),
    )


_DIRECTORY = re.compile(
    r"\S{0,400}?/(?:torch_aot_compile|torch_compile_cache)/[0-9a-f]{6,64}(?=/|$)"
)


@failure_rule(
    "a compiled function was loaded from a cache, and the error was raised in it",
    "the failure with its traceback, lines of the caches",
    formula="none: the directory is that of the artefact in the traceback, or that was "
    "loaded",
    margin="no finding where nothing was loaded, and where memory ran out; `high` when another "
    "start failed in the same directory",
    source="vLLM `compilation/decorators.py`, `compilation/caching.py`; torch "
    "`_inductor/standalone_compile.py`",
    example="`AssertionError: Expected tensors only` in a loaded function, for 16 hours "
    "at every restart",
)
def poisoned_cache(facts: RunFacts, found: Failed) -> Iterator[Finding]:
    """An artefact that was loaded from a cache failed: each restart loads it again."""
    folders = cache_folders(facts.summary)
    where = " and ".join(folders) or "the compile cache (VLLM_CACHE_ROOT)"
    again = [
        other
        for other in facts.history
        if poisoned_by(other) and set(cache_folders(other)) & set(folders)
    ]
    times = f", as {len(again)} other starts that loaded it" if len(again) > 1 else ""
    times = ", as another start that loaded it" if len(again) == 1 else times
    message = shortened(" ".join(found.message.split()))
    yield finding_of(
        facts,
        f"The start failed in what it had loaded from the compile cache{times}{found.where}: "
        f"{message}.",
        {"num_starts": 1 + len(again), **({"line": found.line} if found.line else {})},
        [
            Way(
                f"remove {where}",
                "the next start compiles anew, and saves what it compiled",
            )
        ],
        "every restart loads the same files and fails in the same place until they are gone",
        tuple(folders),
        severity="high" if again else "medium",
    )


@rule(
    "a compiled function (AOT) of an earlier start was found and not loaded",
    "the line of the failed load, or the recorder",
    formula="none: the engine states the reason",
    margin="low, and `medium` when another start of the model could not load it either; nothing "
    "to do where the code was changed, or the file was damaged, before this start alone",
    source="vLLM `compilation/decorators.py`, `_try_load_aot_compiled_fn`",
    example="vLLM 0.26 and 0.32 on a CPU, every start: a first start compiled for 44 s, "
    "later ones for 12 s, with torch's own cache",
)
def saved_not_loaded(facts: RunFacts) -> Iterator[Finding]:
    """A compiled function of an earlier start was there, could not be loaded, and was made
    again; the engine saves it again as well."""
    summary = facts.summary
    reason = summary.start.aot_reason
    if reason is None:
        return
    again = [other for other in facts.same_model if other.start.aot_reason is not None]
    spent = facts.figure("compile_s")
    numbers: dict[str, Value] = {"num_starts": 1 + len(again)}
    if spent is not None:
        numbers["compile_s"] = spent
    times = f", as in {count_of(len(again), 'other start')}" if again else ""
    once = Way(
        "nothing, if torch or another package was changed since: this start saved it anew",
        "compiled anew once after each change",
    )
    saved = Way("nothing: this start saved it anew", "compiled anew once")
    off = Way(
        "another release of vLLM, or VLLM_USE_AOT_COMPILE=0, which leaves saving and loading "
        "out; torch's own cache of graphs stays",
        "compare the times of two starts: what it saves depends on the model",
    )
    yield finding_of(
        facts,
        "A compiled function that an earlier start saved was not loaded"
        f"{times}, and the model was compiled again: {shortened(reason)}.",
        numbers,
        [off, once] if again or not _ONCE.search(reason) else [saved],
        "a start that loads the function does not compile",
        severity="medium" if again else "low",
    )


@rule(
    "kernels were compiled while serving (vLLM)",
    "the lines of its JIT monitor",
    formula="none: their number; no line states what one took",
    margin="low: each held up the requests of a step once, and for how long is not stated",
    source="vLLM `utils/jit_monitor.py`: monitored from the end of the warm-up on",
    example="vLLM 0.22.1: two kernels of a speculative decoder at its first requests",
)
def late_kernels(facts: RunFacts) -> Iterator[Finding]:
    """Kernels that no run of the warm-up needed, compiled when requests did."""
    late = [
        row
        for row in facts.summary.serving_or_none.jit
        if row.what.startswith(("Triton", "CuTeDSL"))
    ]
    if not late:
        return
    names = list(dict.fromkeys(row.kernel for row in late))
    shown = ", ".join(names[:2]) + (", …" if len(names) > 2 else "")
    ahead = Way(
        "requests like the real ones before those that count: short and long prompts, several at "
        "once, and images, guided output or adapters (LoRA) where they come",
        "the first that counts comes that much later",
    )
    kept = Way(
        "TRITON_CACHE_DIR and VLLM_CACHE_ROOT on a volume that stays: what an earlier start "
        "compiled is loaded",
        "the first start with these versions still compiles",
    )
    yield finding_of(
        facts,
        f"Compiled while serving: {count_of(len(late), 'kernel')} ({shown}).",
        {"num_kernels": len(late)},
        [ahead, kept],
        f"{count_of(len(late), 'compilation')} less while requests wait",
        severity="low",
    )


def cache_folders(summary: RunSummary) -> list[str]:
    """The directories of the artefacts that a failure leads through, or that were loaded."""
    compiled = summary.compile
    loaded = [p.detail for p in compiled.parts if p.what == "aot"] if compiled else []
    paths = [
        summary.failure.artifact if summary.failure else None,
        *loaded,
        compiled.directory if compiled else None,
    ]
    found = [match[0] for path in paths if path and (match := _DIRECTORY.match(path))]
    return list(dict.fromkeys(found))[:2]


def other_key(facts: RunFacts) -> tuple[KeyChange | None, list[SettingRow]]:
    """How the key of the cache differs from that of the latest run: by itself where the
    settings are equal, else the settings that differ."""
    latest = _latest(facts)
    change = key_change(latest, facts.summary) if latest is not None else None
    if latest is None or change is None or not all(change.hashes):
        return None, []
    rows, _ = compare_settings([latest, facts.summary])
    # The options of a command are settings of their own.
    of_start = ("kind of start", " cache", "command")
    differing = [row for row in rows if not row.name.endswith(of_start)]
    variables = {factor.variable for factor in change.factors}
    if variables.issuperset(row.name for row in differing):
        return change, []
    return None, differing


def _latest(facts: RunFacts) -> RunSummary | None:
    """The latest other run of the same model whose key is known."""
    known = [
        other
        for other in facts.same_model
        if other.compile and (other.compile.hash or other.compile.aot_hash)
    ]
    return max(known, key=lambda run: run.time.started or 0.0, default=None)


def is_root_kept(facts: RunFacts) -> bool:
    """Whether another run of this model loaded something from the same root of the cache."""
    own = _root(facts.summary)
    return own is not None and any(
        other.compile is not None
        and other.compile.cache in ("hit", "partial")
        and _root(other) == own
        for other in facts.same_model
    )


def _root(summary: RunSummary) -> str | None:
    where = summary.compile.directory if summary.compile is not None else None
    root, found, _ = (where or "").partition("/torch_compile_cache/")
    return root if found and "redacted" not in root else None


def key_advice(change: KeyChange) -> tuple[str, str]:
    """Setting and change for a key that differs although the settings are equal."""
    factor = next((f for f in change.factors if f.is_of_a_pod), None)
    if factor is None:
        return (
            "VLLM_LOGGING_LEVEL",
            "compare cache_key_factors.json of both directories; or VLLM_LOGGING_LEVEL=DEBUG "
            "for one start of each",
        )
    name = factor.variable or factor.name
    return (
        name,
        f"the same {name} in every start, or a release of vLLM that leaves it out of the key",
    )


FAILURE_RULES = (poisoned_cache,)
RULES = (
    recipe_cache, compile_cache, compile_cache_off, xla_cache, neuron_cache, saved_not_loaded,
    late_kernels, all_reduce_not_built,
)  # fmt: skip
