"""Advice after a failure that no lack of memory explains, or that no line explains."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

from warmup_insights.analysis.advice.cause import Failed, explained
from warmup_insights.analysis.advice.facts import RunFacts
from warmup_insights.analysis.advice.finding import Finding, Rule, Value, Way
from warmup_insights.analysis.advice.ways import finding_of
from warmup_insights.analysis.probe import startup_probe
from warmup_insights.model.summary import PHASES
from warmup_insights.units import GIB, format_bytes, format_duration

MAX_MESSAGE = 160
GAUDI_BYTES = 40 * GIB
"""Less than any Gaudi 2 (96 GB) or 3 (128 GB) has, and more than the first generation."""
_KERNEL = "dmesg -T | grep -i 'killed process' on the host"


_ABOVE = re.compile(
    r"root cause|stack ?trace|Failed core proc|^Executor failed|(?:died|exited) unexpectedly|"
    r"(?:Core|core|[Ee]ngine|WorkerProc) initialization failed"
)
"""Of errors that only announce another one."""


def shown_message(found: Failed) -> str:
    """The text of an error on one line, cut where it is long."""
    text = " ".join(found.message.split())
    if len(text) <= MAX_MESSAGE:
        return text.rstrip(".")
    return f"{text[:MAX_MESSAGE].rpartition(' ')[0]} …"


def numbers_at(facts: RunFacts, found: Failed) -> dict[str, Value]:
    """Where it failed and after how long, as far as it is known."""
    numbers: dict[str, Value] = {} if found.line is None else {"line": found.line}
    serving = facts.summary.serving
    seconds = facts.figure("wall_s")
    if found.is_serving:
        seconds = serving.duration_s if serving is not None else None
    if seconds is not None:
        numbers["served_s" if found.is_serving else "wall_s"] = seconds
    return numbers


def deliberate_stop(facts: RunFacts) -> Iterator[Finding]:
    """A change made to the engine ended the start on purpose."""
    found = explained(facts, "deliberate_stop")
    if found is None:
        return
    yield finding_of(
        "deliberate_stop",
        f"The start was ended on purpose: {shown_message(found)}{found.where}.",
        numbers_at(facts, found),
        [
            Way(
                "remove the statement that raises it, when a whole start is wanted",
                "no setting of the engine raises it: somebody put it in to profile",
            )
        ],
        "the start goes on where it was ended",
    )


def program_error(facts: RunFacts) -> Iterator[Finding]:
    """An error of a program: no setting of memory or buckets changes it."""
    found = explained(facts, "program_error")
    if found is None:
        return
    engine = facts.summary.engine
    who = f"{engine.name or 'the engine'} {engine.version or 'of unknown version'}"
    plugin = "vllm-gaudi of this version names the vLLM that it was made for"
    yield finding_of(
        "program_error",
        f"A program failed, not its memory: {shown_message(found)}{found.where}, {who}.",
        numbers_at(facts, found),
        [
            Way(
                "versions that were released together: of vLLM, its plugins and connectors"
                + (f"; {plugin}" if engine.name == "vllm-gaudi" else ""),
                "the log holds no proof; the last frames above the line name the package "
                "whose call failed",
            )
        ],
        "the call finds what it expects",
    )


def killed(facts: RunFacts) -> Iterator[Finding]:
    """The process was killed from outside, in its start or while it served."""
    found = explained(facts, "killed")
    if found is None:
        return
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
    look = Way(
        f"look for who did it: {_KERNEL}, `kubectl describe pod` (OOMKilled, a probe)",
        "the log does not hold the cause; a recorder would not either: nothing runs after "
        "the signal",
    )
    probe = None if found.is_serving else startup_probe(facts.history)
    allowed = [] if probe is None else [
        Way(
            f"a startupProbe that allows {probe.allowed_s} s",
            f"a hanging start is found later; {probe.longest_s:.0f} s is the longest seen",
        )
    ]  # fmt: skip
    yield finding_of(
        "killed",
        f"The process was killed{when}{found.where}.",
        numbers,
        [look, *allowed],
        "tells a lack of host memory from a probe or a person",
        tuple(probe.yaml().splitlines()) if probe else (),
    )


def failure_unexplained(facts: RunFacts) -> Iterator[Finding]:
    """A failure whose line is known and whose cause no rule names."""
    found = explained(facts, "failure_unexplained")
    if found is None:
        return
    is_hpu = facts.summary.device.kind == "hpu"
    more = (
        "ENABLE_CONSOLE=true LOG_LEVEL_ALL=3 prints what the driver and the bridge do"
        if is_hpu
        else "VLLM_LOGGING_LEVEL=DEBUG prints the steps before it"
    )
    where = " while it served" if found.is_serving else ""
    price = "the log names the error and not its cause, as far as rules know it"
    announces = "the log does not hold the cause: this line only announces it"
    if _ABOVE.search(found.message):
        more = (
            "the error of the process that ended is above it or in the log of its rank; with "
            "none there it was ended from outside (dmesg, exit code)"
        )
        price = announces
    elif found.message.endswith(("Error", "Exception")):
        price = "the error has no text: the frame above it names what was wrong"
    elif ":" not in found.message:
        more = (
            "a formatter that writes the exception (exc_info) with the line, or stderr"
        )
        price = announces
    yield finding_of(
        "failure_unexplained",
        f"The engine failed{where}{found.where}: {shown_message(found)}.",
        numbers_at(facts, found),
        [
            *_first_generation(facts),
            Way(f"read the traceback around that line; {more}", price),
        ],
        "shows which call failed, and with what",
    )


def _first_generation(facts: RunFacts) -> Iterator[Way]:
    """A Gaudi of the first generation has 32 GB; the engines were made for 2 and 3."""
    total = facts.figure("total_bytes")
    if facts.summary.device.kind == "hpu" and total and total < GAUDI_BYTES:
        yield Way(
            "a Gaudi 2 or 3",
            f"another device: this one has {format_bytes(total)}, as the first generation, "
            "for which vLLM on Gaudi is not made",
        )


def ended_without_trace(facts: RunFacts) -> Iterator[Finding]:
    """A whole log of a start that ends before it is ready, without any error."""
    summary, seconds = facts.summary, facts.figure("wall_s")
    weights = facts.figure("weights_bytes")
    is_whole = summary.engine.version is not None and "max_model_len" in summary.config
    is_cut = any(note.topic == "elided" for note in summary.notes)
    is_loading = summary.progress.stage.startswith(("load", "start"))
    if summary.status != "unknown" or summary.serving is not None or is_loading:
        return
    if seconds is None or weights is None or not is_whole or is_cut:
        return
    known = summary.checkpoint
    is_short = (
        known is not None
        and known.available_bytes is not None
        and known.available_bytes < weights * (summary.ranks or 1)
    )
    end = Way(
        "the rest of the log, if it goes on; if the process ended here, look whether the "
        f"kernel ended it: {_KERNEL}",
        "the log does not hold the cause: it may be cut, or the start still runs",
    )
    if is_short:
        end = Way(
            f"look whether the kernel ended it: {_KERNEL}; a lower --gpu-memory-utilization "
            "leaves the host more where both share memory",
            end.price,
        )
    host = [
        n.text for n in summary.notes if n.topic == "checkpoint" and "RAM" in n.text
    ]
    finding = finding_of(
        "ended_without_trace",
        f"The log ends after {format_duration(seconds)} in {summary.progress.stage}: not "
        "ready, without an error or a stop.",
        {"wall_s": seconds, "weights_bytes": weights},
        [end],
        "tells a killed process from a log that was cut",
        tuple(host[-2:]),
    )
    yield finding if is_short else dataclasses.replace(finding, severity="low")


_DMESG = "Linux `mm/oom_kill.c`; a process that gets SIGKILL prints nothing"
RULES = (
    Rule(
        "deliberate_stop",
        "the text of the error shows that a person ended the start",
        "the failure",
        deliberate_stop,
        formula="none: the text is the evidence",
        margin="only texts that no engine has of its own",
        source="`AssertionError: Finished profiling`, put into a copy of the engine",
        example="`AssertionError: Finished profiling` 70 s after the first line",
    ),
    Rule(
        "program_error",
        "a KeyError, AttributeError, TypeError, ImportError or NameError ended the engine",
        "the failure, engine and version",
        program_error,
        formula="none: the kind of the error is the evidence",
        margin="the package is not named: a summary holds no frames; texts that name a setting, "
        "a model or a package have a rule of their own",
        source="vllm-gaudi README: the vLLM commit of each release",
        example="`KeyError: 0` in a plugin on another day's vLLM",
    ),
    Rule(
        "killed",
        "the process was killed from outside",
        "the failure; time of the lines",
        killed,
        formula="startupProbe = 1.5 x the longest start seen",
        margin="who killed it is not named: the process prints nothing after the signal",
        source=_DMESG,
        example="`line 193: 124064 Killed` after 53 minutes of serving",
    ),
    Rule(
        "failure_unexplained",
        "a failure has a line and no other rule",
        "the failure",
        failure_unexplained,
        formula="none",
        margin="no cause is named; on a Gaudi with less than 40 GiB the generation of the "
        "device comes first",
        source="vLLM `envs.py` (VLLM_LOGGING_LEVEL), Gaudi docs on runtime environment "
        "variables (ENABLE_CONSOLE, LOG_LEVEL_ALL); vllm-gaudi FAQ (Gaudi 2 or 3)",
        example="`MODULE:PT_LAZY Error, ValidateSyncInputTensors` after the weights",
    ),
    Rule(
        "ended_without_trace",
        "a log of a whole start, with weights loaded, ends before readiness or an error",
        "version, settings, weights, time of the lines",
        ended_without_trace,
        formula="none; `high` where host memory available < weights of all ranks",
        margin="low unless less host memory was available than the weights take; silent where "
        "lines were cut out, a setting is missing or weights were the last that was loaded",
        source=_DMESG,
        example="95.63 GiB of weights at utilisation 0.89 beside 18 GiB of free host "
        "memory: the last line is that of torch.compile",
    ),
)
