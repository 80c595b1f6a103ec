"""Advice after a failure that no lack of memory explains: by its text, by its kind, or none."""

from __future__ import annotations

import re
from collections.abc import Iterator

from warmup_insights.analysis.advice.cause import (
    STEP_PROFILING,
    failure_rule,
    plugin_of,
)
from warmup_insights.analysis.advice.change import Value, Way
from warmup_insights.analysis.advice.facts import Failed, RunFacts
from warmup_insights.analysis.advice.finding import Finding, rule
from warmup_insights.analysis.advice.known_texts import EAGER, MORE_HOST, OTHER_WEIGHTS
from warmup_insights.analysis.advice.remedies import known_error
from warmup_insights.analysis.advice.rules_settings import probe_of
from warmup_insights.analysis.advice.rules_start import kernel_caches
from warmup_insights.analysis.advice.stated import (
    OTHER_RELEASE,
    OWN_CHOICE,
    named_features,
    without_library,
)
from warmup_insights.analysis.advice.ways import finding_of, num_ranks
from warmup_insights.analysis.sentences import progress_text, without_hint
from warmup_insights.bucketing.base import GPUS
from warmup_insights.model.failure_text import CRASH
from warmup_insights.model.phases import phase_words
from warmup_insights.model.summary import PHASES, RunSummary, is_true
from warmup_insights.rules.setting_lives import has_setting
from warmup_insights.units import GIB, format_bytes, format_duration

MAX_MESSAGE = 160
_PROFILED_BUCKETS = (
    "VLLM_PROFILE_PROMPT, VLLM_PROFILE_DECODE, VLLM_PROFILE_UNIFIED and VLLM_PT_PROFILE"
)
_MAY_BE_CUT = "the log does not hold the cause: it may be cut, or the start still runs"
_ANNOUNCES = "the log does not hold the cause: this line only announces it"
GAUDI_BYTES = 40 * GIB
"""Less than any Gaudi 2 (96 GB) or 3 (128 GB) has, and more than the first generation."""
_DMESG = "Linux `mm/oom_kill.c`; a process that gets SIGKILL prints nothing"
_KERNEL = "dmesg -T | grep -i 'killed process' on the host"


_ABOVE = re.compile(
    r"ZMQError: Operation not supported|^BrokenPipeError|root cause|stack ?trace|Failed core proc|^Executor failed|(?:died|exited) unexpectedly|"
    r"(?:Core|core|[Ee]ngine|WorkerProc) initialization failed"
)
"""Of errors that only announce another one; a socket that was closed supports nothing."""
_UNNAMED = re.compile(
    r"(?i)(?!.{0,300}:)(?:uncaught exception|exception in |error (?:in|while|executing)|"
    r".{0,100}(?:failed to start|handler failed|hit an exception|fatal error))"
)
"""A heading without the error that it announces."""
_FOR_MEMORY = re.compile(r"(?i)out of memory|oom[-_ ]?kill")
"""What ended a process for the memory of its host or container, as the kernel, Slurm and
Kubernetes print it."""
_CRASHED = re.compile(
    r"(?:Failed core proc\(s\): \{.{0,400}'|died unexpectedly \(exit code): -(4|6|7|8|11)\b"
)
"""Exit codes of processes that crashed (vLLM `v1/engine/utils.py wait_for_engine_startup`,
`v1/executor/multiproc_executor.py monitor_workers`)."""
_QUOTES = re.compile(r"Worker failed with error '\w")
"""The executor quotes what its worker raised (vLLM `v1/executor/multiproc_executor.py`)."""


def shown_message(found: Failed) -> str:
    """The text of an error on one line, cut where it is long."""
    text = " ".join(without_hint(found.message).split())
    if len(text) <= MAX_MESSAGE:
        return text.rstrip(".")
    return f"{text[:MAX_MESSAGE].rpartition(' ')[0]} …"


def numbers_at(facts: RunFacts, found: Failed) -> dict[str, Value]:
    """Where it failed and after how long, as far as it is known."""
    numbers: dict[str, Value] = {} if found.line is None else {"line": found.line}
    seconds = facts.served_s if found.is_serving else facts.figure("wall_s")
    if seconds is not None:
        numbers["served_s" if found.is_serving else "wall_s"] = seconds
    return numbers


@failure_rule(
    "the text of the error is one with which an engine on Gaudi ends when it has profiled",
    "the failure",
    formula="none: the text is the evidence",
    margin="none: nothing else raises these texts",
    source="vllm-gaudi `hpu_model_runner.py`, `warmup_model`; `hpu_worker.py`, `execute_model`",
    example="`AssertionError: Finished profiling` 70 s after the first line",
)
def deliberate_stop(facts: RunFacts, found: Failed) -> Iterator[Finding]:
    """A setting with which the engine profiles ended it on purpose."""
    what, names = "a bucket", _PROFILED_BUCKETS
    if STEP_PROFILING in found.message:
        what, names = "steps", "VLLM_PROFILE_STEPS"
    yield finding_of(
        facts,
        f"The engine ended on purpose: {shown_message(found)}{found.where}.",
        numbers_at(facts, found),
        [Way(f"unset {names}, when a whole run is wanted", f"no profile of {what}")],
        "the engine goes on where it ended",
    )


@failure_rule(
    "a KeyError, AttributeError, TypeError, ImportError or NameError ended the engine",
    "the failure, engine and version",
    formula="none: the kind of the error is the evidence",
    margin="texts that name a setting, a model or a package have a rule of their own",
    source="vllm-gaudi README: the vLLM commit of each release",
    example="`KeyError: 0` in a plugin on another day's vLLM",
)
def program_error(facts: RunFacts, found: Failed) -> Iterator[Finding]:
    """An error of a program: no setting of memory or buckets changes it."""
    engine = facts.summary.engine
    who = f"{engine.name or 'the engine'} {engine.version or 'of unknown version'}"
    plugin = ""
    if engine.name == "vllm-fork" or (
        facts.summary.device.kind == "hpu" and engine.name is None
    ):
        plugin = (
            "; vllm-hpu-extension as the requirements of the fork name it, and the image of "
            "the Gaudi software that its release names"
        )
    together = _pair(facts, found) or Way(
        f"versions that were released together: of vLLM, its plugins and connectors{plugin}",
        _ends_in(found),
    )
    other = Way(
        "another release of vLLM: a newer one, or the one that last started this model",
        "another image; an error of a release is in its list of issues",
    )
    is_request = _OF_A_REQUEST.search(found.message) is not None
    is_of_vllm = is_request or (found.module or "").startswith("vllm/")
    is_own = engine.name == "vllm" and is_of_vllm
    yield finding_of(
        facts,
        f"An error of a program, no lack of memory: {shown_message(found)}{found.where}, {who}.",
        numbers_at(facts, found),
        [
            *_of_another_device(facts),
            *_of_the_part(facts, found),
            *([other, together] if is_own else [together, other]),
            *_of_other_weights(facts, found),
            *_without_warmup(facts, found),
            *([] if found.module or is_request else [MODELS_TRANSFORMERS]),
        ],
        "the call finds what it expects, if that is its cause",
    )


_OF_A_REQUEST = re.compile(
    r"KeyError: ['\"](?:[a-z\d]{1,20}[_-]){0,3}(?:[\da-f]{16,32}|[\da-f]{8}-(?:[\da-f]{4}-){3}[\da-f]{12})"
    r"(?:-[\da-f]{1,12}){0,2}['\"]"
)
"""A request that the engine's own tables lack: ids are `chatcmpl-` and others with hexadecimal
digits behind, or a UUID (vLLM `v1/engine/input_processor.py`, `entrypoints`)."""
_DEVICES = ("cpu", "cuda", "hpu", "xpu", "tpu", "neuron")
"""Values of --device (vLLM to 0.8)."""


def _of_another_device(facts: RunFacts) -> Iterator[Way]:
    """The device that was given is of another kind than the one that the build found."""
    given, kind = facts.summary.config.get("device"), facts.summary.device.kind
    if given in _DEVICES and kind in _DEVICES and given != kind:
        yield Way(
            f"no --device {given}: this vLLM found {kind}, and each kind of device has a build "
            "of its own",
            f"the engine runs on {kind}, or another environment",
        )


def _ends_in(found: Failed) -> str:
    if found.module:
        return f"the traceback ends in {found.module}"
    return (
        "the log holds no proof; the last frames above the line name the package whose call "
        "failed"
    )


def _pair(facts: RunFacts, found: Failed) -> Way | None:
    """A plugin and a vLLM that were made for each other (vllm-gaudi README; docs of
    vllm-ascend, `versioning_policy`), where the run has a plugin."""
    plugin, version = plugin_of(facts, found), facts.summary.engine.version
    if plugin is None:
        return None
    return Way(
        f"the {plugin} that was made for vLLM {version or 'of the version installed'}, or the "
        f"vLLM (release or commit) that the {plugin} installed names: `pip list` shows the pair",
        _ends_in(found),
    )


MODELS_TRANSFORMERS = Way(
    "the transformers that the model was made with (`transformers_version` in its "
    "config.json), where the frames lead through transformers or code of the model",
    "models that need another one do not load",
)
_FRAMEWORKS = (
    "vllm", "torch", "tpu_inference", "jax", "neuronx", "libneuronxla", "habana_frameworks",
)  # fmt: skip
"""Packages in which most tracebacks end, whatever was wrong."""
_REPORTED = re.compile(
    r"\b(?:CalledProcess|FloatingPoint|OS|IO|Connection|Timeout|Permission|FileNotFound)Error\b|"
    r"\bstatus=\d"
)
"""Errors that a package only reports: of a program that it called, of the system, of a device."""
_ABSENT = re.compile(r"unsupported operand type\(s\) for .{1,40}'NoneType'")
"""A figure of a model's configuration that is not there, where its layers are made."""
_OF_PARTS = re.compile(r"\b[\w/]{1,80}\.py\b|\[(?i:aiter)\]")
"""Files, and libraries of kernels by what their lines begin with."""


def _of_the_part(facts: RunFacts, found: Failed) -> Iterator[Way]:
    """What leaves out the part of the engine in which the traceback ends or which the error
    names by its file; for another package one that fits."""
    files = " ".join([found.module or "", *_OF_PARTS.findall(found.message)])
    config = facts.summary.config
    for feature in named_features(files, config)[:2]:
        yield feature.way(config)
    package = (found.module or "").partition("/")[0]
    if _ABSENT.search(found.message) and "/models/" in (found.module or ""):
        yield Way(
            "the transformers that this vLLM was made with (`pip check`), or a newer vLLM: later "
            "ones may give no value for what the model's configuration leaves out",
            "models that need the other one do not load",
        )
    if package in ("transformers", "transformers_modules", "tokenizers"):
        yield MODELS_TRANSFORMERS
    elif _REPORTED.search(found.message):
        return
    elif package and not package.startswith(_FRAMEWORKS):
        yield Way(
            f"{package} of the version that this vLLM names (`pip check`): the traceback ends "
            f"in its {found.module}",
            "another environment",
        )


@failure_rule(
    "the process was killed from outside",
    "the failure; time of the lines",
    formula="startupProbe = 1.5 x the longest start seen",
    margin="who killed it is not named: the process prints nothing after the signal",
    source=_DMESG,
    example="`line 193: 124064 Killed` after 53 minutes of serving",
)
def killed(facts: RunFacts, found: Failed) -> Iterator[Finding]:
    """The process was killed from outside, in its start or while it served."""
    seconds = facts.figure("wall_s")
    numbers = numbers_at(facts, found)
    when = " while it served" if found.is_serving else ", before it was ready"
    if not found.is_serving:
        done = sum(row.warmed for row in facts.rows)
        total = sum(facts.count(f"{phase}_generated") for phase in PHASES)
        numbers["num_warmed"] = done
        if seconds is not None:
            when = f" {format_duration(seconds)} after its first line"
            when += f" after {done} of {total} buckets" if total else ""
            when += ", before it was ready"
    if _FOR_MEMORY.search(found.message):
        yield finding_of(
            facts,
            f"The process was killed for lack of host memory{when}{found.where}.",
            numbers,
            [MORE_HOST],
            "the process is not ended, where this is enough; no figure shows how much it needs",
        )
        return
    look = Way(
        f"look for who did it: {_KERNEL}, `kubectl describe pod` (OOMKilled, a probe)",
        "the log does not hold the cause; a recorder would not either: nothing runs after "
        "the signal",
        kind="look",
    )
    probe = None if found.is_serving else probe_of(facts.history)
    allowed = [] if probe is None else [
        Way(
            f"a startupProbe that allows {probe.allowed_s} s",
            f"a hanging start is found later; {probe.longest_s:.0f} s is the longest seen",
        )
    ]  # fmt: skip
    yield finding_of(
        facts,
        f"The process was killed{when}{found.where}.",
        numbers,
        [look, *allowed],
        "tells a lack of host memory from a probe or a person",
        tuple(probe.yaml().splitlines()) if probe else (),
    )


_TERMINATED = re.compile(
    r"SIGTERM|KeyboardInterrupt: \S{0,20} ?terminated|SystemExit: 15"
)
"""What vLLM prints of SIGTERM; a person at a keyboard sends SIGINT."""
FIRST_PROBE_S = 30.0
"""A probe of Kubernetes with its own periodSeconds (10) and failureThreshold (3) ends a
container no earlier."""


@rule(
    "the engine got SIGTERM before it was ready",
    "the line of the stop; time of the lines",
    formula="startupProbe = 1.5 x the longest start seen",
    margin="who sent it is not named; no finding for a stop from a keyboard",
    source="vLLM `entrypoints/openai/api_server.py signal_handler`, docs `deployment/k8s`",
    example="`KeyboardInterrupt: terminated` while the weights were loaded",
)
def stopped_early(facts: RunFacts) -> Iterator[Finding]:
    """The start was ended by SIGTERM, which a probe of Kubernetes sends too."""
    summary, seconds = facts.summary, facts.figure("wall_s")
    if summary.status != "stopped" or not _TERMINATED.search(summary.stop or ""):
        return
    probe = probe_of(facts.history)
    allowed = "more than the start takes" if probe is None else f"{probe.allowed_s} s"
    when = ""
    if seconds is not None:
        when = f" at least {format_duration(seconds)} after its first line"
    sender = Way(
        "the log of what started it (the script, `journalctl`, the scheduler of the cluster)",
        "the engine does not print who sent the signal",
        kind="look",
    )
    probed = Way(
        f"in Kubernetes a startupProbe that allows {allowed} (failureThreshold x "
        "periodSeconds), where `kubectl describe pod` names a probe that failed",
        "a hanging start is found later; a person or a scheduler sends the same signal",
    )
    is_early = seconds is not None and seconds < FIRST_PROBE_S
    yield finding_of(
        facts,
        f"The start was ended by SIGTERM{when}, before it was ready.",
        {} if seconds is None else {"wall_s": seconds},
        [sender] if is_early else [probed, sender],
        "names who ended it: no probe of Kubernetes does so soon"
        if is_early
        else "the start is not ended while it makes progress",
        tuple(probe.yaml().splitlines()) if probe and not is_early else (),
        severity="medium",
    )


@failure_rule(
    "a failure has a line and no other rule",
    "the failure",
    formula="none",
    margin="no cause is named; on a Gaudi with less than 40 GiB the generation of the "
    "device comes first",
    source="vLLM `envs.py` (VLLM_LOGGING_LEVEL), Gaudi docs on runtime environment "
    "variables (ENABLE_CONSOLE, LOG_LEVEL_ALL); vllm-gaudi FAQ (Gaudi 2 or 3)",
    example="`MODULE:PT_LAZY Error, ValidateSyncInputTensors` after the weights",
)
def failure_unexplained(facts: RunFacts, found: Failed) -> Iterator[Finding]:
    """A failure whose line is known and whose cause no rule names."""
    is_hpu = facts.summary.device.kind == "hpu"
    more = (
        "ENABLE_CONSOLE=true LOG_LEVEL_ALL=3 prints what the driver and the bridge do"
        if is_hpu
        else "VLLM_LOGGING_LEVEL=DEBUG prints the steps before it"
    )
    where = " while it served" if found.is_serving else ""
    ends_in = f", which ends in {found.module}" if found.module else ""
    price = "the log names the error and not its cause, as far as rules know it"
    if _ABOVE.search(found.message) and not _QUOTES.search(found.message):
        more = (
            "the error of the process that ended is above it or in the log of its rank; with "
            "none there it was ended from outside (dmesg, exit code)"
        )
        price = _ANNOUNCES
        if (crash := _CRASHED.search(found.message)) is not None:
            more = (
                f"the process ended by signal {crash[1]}, in native code: PYTHONFAULTHANDLER=1 "
                "prints the frames that led there"
            )
    elif found.message.endswith(("Error", "Exception")):
        price = "the error has no text: the frame above it names what was wrong"
    elif CRASH.search(found.message):
        more = (
            "a line above the signal may state what went wrong; otherwise another version of the "
            "library that crashed, which "
            + (
                f"{found.module} calls"
                if found.module
                else "the innermost frames may name"
            )
        )
        price = "the line names the signal alone"
    elif _UNNAMED.match(found.message):
        more = (
            "the error itself is not in the log: lines that were cut off, or a formatter that "
            "writes the exception (exc_info) with the line, or stderr"
        )
        price = _ANNOUNCES
    first = [
        *_first_generation(facts),
        *_without_artefacts(facts),
        *_of_other_weights(facts, found),
        *_of_the_part(facts, found),
        *_past_the_stage(facts, found),
    ]
    read = Way(
        f"read the traceback around that line{ends_in}; {more}", price, kind="look"
    )
    yield finding_of(
        facts,
        f"The engine failed{where}{found.where}: {shown_message(found)}.",
        numbers_at(facts, found),
        [*first, read, *_other_release(facts, found, price)],
        lambda way: _effect_of(way, found),
    )


_OF_COMPILATION = ("compile", "graph_capture", "graph_memory_profile")


def _past_the_stage(facts: RunFacts, found: Failed) -> Iterator[Way]:
    """What leaves out the stage that failed, where a start does without it; the stage is that of
    the failure, for another follows the last one that the log shows."""
    stage = found.phase or ""
    is_there = facts.summary.device.kind in GPUS
    if stage.startswith(_OF_COMPILATION) and is_there and not found.is_serving:
        yield EAGER
    yield from _without_warmup(facts, found)


_OF_A_KERNEL = re.compile(
    r"(?i)^(?!.{0,600}(?:build|install|available)).{0,600}(?:\bkernels?\b|\bbackend|\bMoE\b|attention)"
)


def _other_release(facts: RunFacts, found: Failed, price: str) -> Iterator[Way]:
    """Another release, where an error with a text of its own was raised in the start; first no
    choice of a kernel, where the text is about one."""
    is_raised = re.match(r"[\w.]{1,100}Error: \S|NotImplementedError$", found.message)
    if is_raised is None or price == _ANNOUNCES or found.is_serving:
        return
    kind = facts.summary.device.kind
    if kind in GPUS and _OF_A_KERNEL.search(found.message):
        yield OWN_CHOICE
    yield OTHER_RELEASE


def _effect_of(first: Way, found: Failed, rule: str = "") -> str:
    """What comes of the first way: of another one than reading on, an engine without it."""
    if first.kind == "look":
        return "shows which call failed, and with what"
    effect = (
        "engine keeps serving" if found.is_serving else "start gets past this error"
    )
    is_sure = rule == "setting_refused" and bool(first.changes)
    return f"the {effect}" + ("" if is_sure else ", if that is its cause")


_SHAPES = re.compile(
    r"size of tensor a \(|expanded size of the tensor|shape mismatch: value tensor|"
    r"start \(\d{1,12}\) \+ length|shape '\[[\d, -]{1,80}\]' is invalid"
)
"""What torch states where a tensor is copied into one of another shape."""


_OF_QUANTISATION = re.compile(
    r"/layers/quantization/|vllm_gaudi/ops/hpu_(?:awq|gptq|fp8|modelopt|compressed_tensors)"
)


def _of_other_weights(facts: RunFacts, found: Failed) -> Iterator[Way]:
    """A weight of the checkpoint has another shape than its parameter, as it was loaded, or the
    code of its quantisation refused it."""
    is_loading = (found.phase or "").startswith("load")
    if not found.is_serving and _OF_QUANTISATION.search(found.module or ""):
        yield OTHER_WEIGHTS
    if not is_loading or not _SHAPES.search(found.message):
        return
    if facts.summary.config.get("enable_expert_parallel") is True:
        yield Way(
            "--enable-expert-parallel left out for one start",
            "each rank holds a part of every expert; shows whether experts are cut wrongly",
        )
    yield Way(
        "a vLLM (or plugin) as new as the checkpoint, or the revision of the checkpoint that "
        "this version was tested with",
        "another image or checkpoint; the frames name the weight's layer and its quantisation",
    )


def _without_artefacts(facts: RunFacts) -> Iterator[Way]:
    """The error was raised in a compiled artefact; whether an earlier start made it, no line
    states (vLLM `compilation/caching.py`). A crash may be in any library that it calls."""
    failure = facts.summary.failure
    if failure is None or CRASH.search(failure.message):
        return
    if failure.artifact is not None:
        yield Way(
            "VLLM_DISABLE_COMPILE_CACHE=1 for one start: the traceback leads through a compiled "
            "artefact, which an earlier start may have left",
            "one cold start; with no error then, remove the cache (VLLM_CACHE_ROOT)",
        )


def _without_warmup(facts: RunFacts, found: Failed) -> Iterator[Way]:
    """A warm-up on HPU failed, which serving does without (vllm-gaudi `hpu_model_runner.py
    warmup_model`)."""
    stage = found.phase or ""
    is_warming = stage.startswith("model_warmup") or found.bucket is not None
    if facts.summary.device.kind != "hpu" or not is_warming or found.is_serving:
        return
    mode = has_setting(facts.summary, "VLLM_DEVELOPER_MODE")
    yield Way(
        "VLLM_SKIP_WARMUP=true"
        + (" with VLLM_DEVELOPER_MODE=1" if mode else "")
        + " for one start: shows whether the warm-up alone fails",
        "each shape compiles when a request needs it, and may fail then",
    )


def _first_generation(facts: RunFacts) -> Iterator[Way]:
    """A Gaudi of the first generation has 32 GB; the engines were made for 2 and 3.

    Nothing, where the run states that it is one of these.
    """
    total, device = facts.figure("total_bytes"), facts.summary.device
    is_newer = (device.name or "").lower() in ("gaudi2", "gaudi3")
    if device.kind == "hpu" and not is_newer and total and total < GAUDI_BYTES:
        yield Way(
            "a Gaudi 2 or 3",
            f"another device: this one has {format_bytes(total)}, as the first generation, "
            "for which vLLM on Gaudi is not made",
        )


@rule(
    "a log of a whole start that loads or has loaded weights ends before readiness or an error",
    "version, settings, weights, time of the lines",
    formula="none; `high` where host memory available < weights of all ranks",
    margin="low unless less host memory was available than the weights take; no finding where "
    "lines were cut out or a setting is missing",
    source=_DMESG,
    example="95.63 GiB of weights at utilisation 0.89 beside 18 GiB of free host "
    "memory: the last line is that of torch.compile",
)
def ended_without_trace(facts: RunFacts) -> Iterator[Finding]:
    """A whole log of a start that ends before it is ready, without any error."""
    summary, seconds = facts.summary, facts.figure("wall_s")
    weights = facts.figure("weights_bytes")
    is_whole = summary.engine.version is not None and "max_model_len" in summary.config
    is_loading = facts.stage.startswith("load")
    is_starting = facts.stage.startswith(("starting", *_CONNECTING))
    if not _is_open_end(summary) or is_starting or _waited_s(summary) >= _LEAST_WAIT_S:
        return
    if seconds is None or not is_whole or (weights is None and not is_loading):
        return
    known = summary.checkpoint
    is_short = (
        known is not None
        and weights is not None
        and known.available_bytes is not None
        and known.available_bytes < weights * (summary.ranks or 1)
    )
    look = f"look whether the kernel ended it: {_KERNEL}"
    change = f"the rest of the log, if it goes on; if the process ended here, {look}"
    if is_short:
        change = (
            f"{look}; a lower --gpu-memory-utilization leaves the host more where both "
            "share memory"
        )
    host = [
        n.text for n in summary.notes if n.topic == "checkpoint" and "RAM" in n.text
    ]
    numbers: dict[str, Value] = {"wall_s": seconds}
    if weights is not None:
        numbers["weights_bytes"] = weights
    yield finding_of(
        facts,
        f"The log ends after {format_duration(seconds)} with "
        f"{progress_text(summary.progress)}: not ready, without an error or a stop.",
        numbers,
        [Way(change, _MAY_BE_CUT, kind="look"), _STACKS],
        "separates a killed process from a log that was cut",
        tuple(host[-2:]),
        severity="high" if is_short else "low",
    )


_CONNECTING = ("start_engine", "start_workers", "init_worker", "distributed_init")
"""Stages in which ranks start and find one another."""
_STILL_S = 300.0
"""Longer than ranks take to start and connect."""
_LEAST_WAIT_S = 180.0
_MINUTE = re.compile(r"block found in (\d{1,6}) seconds?")


def _is_open_end(summary: RunSummary) -> bool:
    """Whether the log ends before readiness, without an error, a stop or a cut."""
    is_cut = any(note.topic == "elided" for note in summary.notes)
    return summary.status == "unknown" and summary.serving is None and not is_cut


def _waited_s(summary: RunSummary) -> float:
    """For how long lines state that a process waits for others."""
    return float(
        sum(
            int(match[1]) * note.count
            for note in summary.notes
            if note.topic == "keep_alive" and (match := _MINUTE.search(note.text))
        )
    )


_STACKS = Way(
    "`py-spy dump --pid` of each worker, while it waits",
    "shows the call in which each is; the log does not hold it",
    kind="look",
)


def _ways_apart(facts: RunFacts) -> Iterator[Way]:
    """What to try where the ranks of a start may not reach one another: what the run has
    already is left out."""
    summary = facts.summary
    if summary.device.kind in ("cuda", "rocm") and num_ranks(facts) > 1:
        named = {
            "NCCL_P2P_DISABLE": "NCCL_P2P_DISABLE=1",
            "disable_custom_all_reduce": "--disable-custom-all-reduce",
        }
        left = [
            text for name, text in named.items()
            if not is_true(summary.config, name)
        ]  # fmt: skip
        if left:
            yield Way(
                f"{' and '.join(left)} for one start, on one node",
                "slower between the devices; where it helps, the host keeps them from one "
                "another's memory: ACS or the IOMMU (iommu=pt as an argument of the kernel)",
            )
        show = "NCCL_DEBUG=INFO: the last line of each rank names"
        if any(note.topic == "nccl_log" for note in summary.notes):
            show = (
                "NCCL_DEBUG_SUBSYS=ALL: the last line of each rank (`NCCL INFO`) names"
            )
        yield Way(
            f"{show} what it waits for; on several "
            "nodes NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME with the interface they share",
            "a longer log",
            kind="look",
        )
    yield _STACKS


@rule(
    "the log of a start on several ranks ends while they start and connect",
    "version, settings, ranks, time of the lines",
    formula="none; `medium` where this took 300 s, or NCCL warned of a call that failed",
    margin="low otherwise; no finding once weights were loaded or lines were cut out",
    source="vLLM docs `usage/troubleshooting`; `distributed/device_communicators/pynccl.py`",
    example="the last line names the version of NCCL, 2 ranks, no other line for 7 minutes",
)
def ended_while_connecting(facts: RunFacts) -> Iterator[Finding]:
    """Ranks started, and no line shows that they found one another."""
    summary, seconds = facts.summary, facts.figure("wall_s")
    stage, ranks = facts.stage, summary.ranks or 1
    is_known = summary.engine.version is not None and "max_model_len" in summary.config
    if not _is_open_end(summary) or ranks < 2 or not stage.startswith(_CONNECTING):
        return
    if any(note.topic == "ray_wait" for note in summary.notes):
        return
    if seconds is None or not is_known or facts.figure("weights_bytes") is not None:
        return
    took = summary.time.seconds_by_phase().get(stage, 0.0)
    stated = next((n.text for n in summary.notes if n.topic == "nccl"), None)
    known = known_error(stated) if stated is not None else None
    without = "without an error" if stated is None else f"and a call failed: {stated}"
    yield finding_of(
        facts,
        f"The log ends after {format_duration(seconds)} while {ranks} ranks start and connect, "
        f"{without}.",
        {"wall_s": seconds, "ranks": ranks},
        [
            *(known.ways if known is not None else ()),
            *_ways_apart(facts),
            Way("the rest of the log, if it goes on", _MAY_BE_CUT, kind="look"),
        ],
        "the ranks find one another, or the log shows which does not",
        severity="medium" if took >= _STILL_S or stated is not None else "low",
    )


@rule(
    "a process waited for others for three minutes or more, and the log ends so",
    "the lines that state it; stage",
    formula="sum of the seconds stated",
    margin="only where the log ends before readiness; compilation takes as long at times",
    source="vLLM `distributed/device_communicators/shm_broadcast.py`",
    example="`No available shared memory broadcast block found in 60 seconds` five times, in "
    "graph capture",
)
def ended_while_waiting(facts: RunFacts) -> Iterator[Finding]:
    """The log ends with lines that workers do not answer."""
    summary, waited = facts.summary, _waited_s(facts.summary)
    if not _is_open_end(summary) or waited < _LEAST_WAIT_S:
        return
    stage = phase_words(summary.progress.stage)
    yield finding_of(
        facts,
        f"The workers did not answer for {format_duration(waited)}, and the log ends in "
        f"{stage}.",
        {"waited_s": waited},
        _ways_to_kernels(summary)
        if facts.stage == "kernel_build"
        else [*_ways_past(facts.stage), *_ways_apart(facts)],
        "shows whether this stage hangs or takes long",
        severity="medium",
    )


def _ways_to_kernels(summary: RunSummary) -> list[Way]:
    """What to do where kernels are built: one rank builds a module, and the others wait for
    its lock (torch `utils/file_baton.py`, which AITER has a copy of)."""
    return [
        Way(f"let it end, and {kernel_caches(summary)[1]}", "disk for the caches"),
        Way(
            "the locks removed that an ended process left (`lock` files in the folder of the "
            "builds)",
            "only while no process builds there",
        ),
        _STACKS,
    ]


def _ways_past(stage: str) -> Iterator[Way]:
    """What leaves out the stage that does not end."""
    if stage.startswith(("compile", "graph", "kernel", "profile", "model_warmup")):
        yield Way(
            "--enforce-eager for one start",
            "slower decoding; with it the start gets past compilation and graphs, if they are "
            "what hangs",
            {"enforce_eager": True},
        )
    if stage.startswith("graph"):
        yield Way(
            '--compilation-config with "cudagraph_mode": "PIECEWISE"',
            "attention runs outside of graphs",
        )


def _known(facts: RunFacts, found: Failed) -> Iterator[Finding]:
    """The cause that the text of an error names, and what removes it."""
    stated = facts.statement
    if stated is None:
        return
    ways = list(stated.ways)
    if stated.rule == "packages_mismatch" and _OF_VLLM.search(found.message):
        pair = _pair(facts, found)
        ways = [*([pair] if pair else []), *ways]
    if stated.rule == "build_failed":
        ways += _without_warmup(facts, found)
    if stated.rule in _OF_LIBRARIES:
        named = f"{found.module} {found.message}"
        ways += without_library(named, ways, facts.summary.config)
    when = " while it served" if found.is_serving else ""
    yield finding_of(
        facts,
        f"{stated.title}{when}: {shown_message(found)}{found.where}.",
        numbers_at(facts, found),
        ways,
        lambda first: _effect_of(first, found, stated.rule),
    )


_OF_VLLM = re.compile(
    r"No module named '?vllm[\w.]|cannot import name '\w{1,80}' from '?vllm"
)
"""What a plugin does not find in a vLLM that it was not made for."""


_OF_LIBRARIES = (
    "build_failed", "device_unsupported", "missing_tool", "packages_mismatch",
)  # fmt: skip
"""Rules of texts that may be about a library that has others beside it."""
_TABLE = {
    "setting_refused": (
        "the engine refused a setting or a combination, and its message states what fits",
        "vLLM `config/model.py`, `config/scheduler.py`, `config/parallel.py`, `lora/`",
        "28 attention heads and tensor parallel size 8: 4, with two pipeline stages too"),
    "device_unsupported": (
        "the device cannot do what the model, its quantisation or the build needs",
        "vLLM `platforms/cuda.py`, `model_executor/layers/quantization`; Triton `runtime/errors.py`",
        "bfloat16 on a T4: --dtype half"),
    "memory_changed": (
        "more memory of the device was free after profiling than before",
        "vLLM `v1/worker/gpu_worker.py`, `determine_available_memory`",
        "`Error in memory profiling. Initial free memory ..., current free memory ...`"),
    "driver_mismatch": (
        "the driver of the host does not fit the image", "CUDA error codes 35, 802, 803 and 804",
        "driver 11040 under an image of CUDA 12: a newer driver, or an older image"),
    "device_unreachable": (
        "no device is visible, another process holds it, or it failed",
        "torch `cuda/__init__.py`; vLLM `config/device.py`; the Gaudi bridge's device acquire",
        "`Failed to infer device type`: the container was started without its devices"),
    "port_in_use": (
        "an address is in use already",
        "errno EADDRINUSE; vLLM `entrypoints/openai/api_server.py create_server_socket`",
        "`[Errno 98] ... ('0.0.0.0', 8000): address already in use`"),
    "shared_memory": (
        "shared memory (/dev/shm) is too small", "NCCL `misc/shmutils.cc`; torch multiprocessing",
        "64 MiB, which Docker gives: --ipc=host or --shm-size"),
    "disk_full": (
        "a file system is full, may not be written or fails, or too many files are open",
        "errno ENOSPC, EDQUOT, EACCES, EROFS, EMFILE, ESTALE, ENOLCK and EIO",
        "`[Errno 28] No space left on device` while weights are downloaded"),
    "host_limit": (
        "memory, threads or the way of starting processes of the host end the start",
        "vLLM `config/cache.py verify_with_parallel_config`, `utils`; torch "
        "`c10/core/CPUAllocator.cpp`",
        "16 GiB of swap space on a host of 15 GiB"),
    "model_access": (
        "files of the model are missing, broken or not to be had",
        "huggingface_hub `errors.py`; transformers `utils/hub.py`; safetensors",
        "a gated repository without HF_TOKEN"),
    "model_unsupported": (
        "this version does not know the model, its code, tokenizer or quantisation",
        "vLLM `model_executor/models/registry.py`, `config/model.py`; transformers "
        "`configuration_auto.py`",
        "a model type that transformers does not recognise: a newer release"),
    "ranks_not_connected": (
        "ranks, nodes or the library between devices failed",
        "torch `distributed`; NCCL `ncclResult_t`; vLLM `v1/executor/ray_utils.py`",
        "3 of 4 clients joined after 600 s: one node does not reach the address"),
    "missing_tool": (
        "a compiler, library or package was not found",
        "vLLM `envs.py`; torch `utils/cpp_extension.py`; the dynamic linker",
        "nvcc not found: install it, or VLLM_USE_FLASHINFER_SAMPLER=0"),
    "build_failed": (
        "a kernel or graph was not compiled or not captured",
        "Triton `runtime/build.py`; torch `utils/cpp_extension.py`, `_inductor`; FlashInfer `jit`",
        "`Failed to find C compiler`: gcc in the image"),
    "packages_mismatch": (
        "packages were built for other versions of one another", "the dynamic linker; NumPy",
        "`undefined symbol` in a kernel library built for another torch"),
}  # fmt: skip
"""Rule of a text to when it applies, the source behind it and an example."""
_FORMULAS = {
    "setting_refused": "from the figures of the text: the limit that it states, the largest "
    "power of two of ranks that divides, the next whole multiple, utilisation x used / allowed"
}
TEXT_RULES = tuple(
    failure_rule(
        applies_when, "the failure", name=name, source=source, example=example,
        formula=_FORMULAS.get(name, "none: the way out follows from the text"),
        margin="only where the text of the error names it; values are those of the text",
    )(_known)
    for name, (applies_when, source, example) in _TABLE.items()
)  # fmt: skip

RULES = (
    *TEXT_RULES, deliberate_stop, program_error, killed, stopped_early, failure_unexplained,
    ended_without_trace, ended_while_connecting, ended_while_waiting,
)  # fmt: skip
