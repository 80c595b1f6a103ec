"""Figures of the table on pages: short names, what they mean, marks on doubtful ones."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from dashboard.text import WHOLE, visible
from warmup_insights.analysis.advice import Finding
from warmup_insights.analysis.sentences import began_text, contradiction_sentence
from warmup_insights.export.findings import number_text
from warmup_insights.export.tables import TextTable
from warmup_insights.model.figures import BY_NAME, broken_laws, part_text, text_of
from warmup_insights.model.run import RunRecord
from warmup_insights.model.summary import RunSummary

MARK = "contradictory"
LABELS = {
    "wall_s": "Start-up",
    "captured_percent": "Captured",
    "graph_memory_bytes": "Graph memory",
    "prompt_capture_percent": "Prompt captured",
    "decode_capture_percent": "Decode captured",
    "gc_s": "Garbage collection",
    "graphs_captured": "Captured at start",
    "lazy_captures": "Captured while serving",
}
"""Names that fit above a number; the others are the titles of the table."""
HELP = {
    "ready_s": "From the first line or event until the server is ready",
    "wall_s": "From the first line or event to the last one of the start-up",
    "warmup_s": "As the engine states it",
    "start": "Cold: nothing came from a cache of an earlier start; warm: all that is known "
    "of did; eager: the model is not compiled",
    "engine_init_s": "Profiling, KV cache and warm-up, as the engine states it",
    "compile_s": "As the engine sums it up, else the sum of its parts",
    "prompt_capture_percent": "Buckets with evidence of a capture, of all generated",
    "decode_capture_percent": "Buckets with evidence of a capture, of all generated",
    "unlogged_s": "Time between two log lines that no phase explains",
    "misses": "Shapes at run time that no bucket covered; each compiles when it first "
    "comes, in the middle of a request",
    "gc_s": "Host time in Python's garbage collector while buckets ran",
    "gc_freeze_s": "Taking the objects alive before warm-up out of the collector's reach",
}
"""What a figure means, where its name is not enough."""
_DEVICES = {
    "hpu": "Gaudi", "cuda": "CUDA GPU", "rocm": "ROCm GPU", "xpu": "Intel GPU",
    "tpu": "TPU", "cpu": "CPU", "simulated": "simulated device",
}  # fmt: skip


def engine_words(name: str | None, version: str | None) -> str:
    """An engine with its version, as in the commands; empty where both are unknown."""
    return " ".join(word for word in (name, version) if word)


def device_words(
    kind: str | None, name: str | None, guessed: Sequence[str] = ()
) -> str:
    """A device by its own name, else by what people call its kind; a guess is marked."""
    words = _DEVICES.get(kind or "", kind or "")
    if name:
        words = re.sub(r"\Agaudi(\d)", r"Gaudi \1", name)
    return f"{words} (guessed)" if "device.kind" in guessed else words


def badges(summary: RunSummary) -> list[str]:
    """What ran: engine, device, ranks, as far as they are known."""
    engine, device = summary.engine, summary.device
    are_guessed = " (guessed)" if "ranks" in summary.guessed else ""
    texts = [
        engine_words(engine.name, engine.version),
        device_words(device.kind, device.name, summary.guessed),
        f"{summary.ranks} ranks{are_guessed}" if (summary.ranks or 1) > 1 else "",
    ]
    return [text for text in texts if text]


def facts(summary: RunSummary) -> list[str]:
    """Which run it is, when it started and where its figures come from."""
    texts = [
        f"run {summary.run_id}",
        summary.model,
        began_text(summary) if summary.time.started is not None else None,
        f"from {summary.source.kind} {summary.source.name or ''}".strip(),
    ]
    return [text for text in texts if text]


def label(name: str) -> str:
    """The name of a figure above its number."""
    title = BY_NAME[name].title
    return LABELS.get(name) or f"{title[0].upper()}{title[1:]}"


def doubt(summary: RunSummary, name: str) -> str | None:
    """Both sides of the evidence for a figure; None unless they contradict each other."""
    found = [contradiction_sentence(broken) for broken in broken_laws(summary, name)]
    return " ".join(found) or None


def provenance(run: RunSummary | RunRecord) -> str | None:
    """What stands beside figures that no real device gave; None for real ones."""
    kind = run.device.kind if isinstance(run, RunSummary) else run.device_kind
    if kind == "simulated":
        return "simulated device"
    return "synthetic data" if run.synthetic else None


def how_synthetic(flags: Collection[bool]) -> str | None:
    """Whether some runs, or all, are made up or simulated; None for real ones."""
    if not any(flags):
        return None
    return "all synthetic" if all(flags) else "some synthetic"


def evidence_text(finding: Finding) -> str:
    """The figures that a finding is based on; their units stand behind the numbers."""
    return ", ".join(
        f"{_number_words(name)} {number_text(name, value)}"
        for name, value in finding.numbers.items()
    )


def _number_words(name: str) -> str:
    """The name of a number behind a finding, in words. It can be another number than the
    figure of that name: `free_bytes` of a failure is what was free when it failed."""
    words = re.sub(r"\Anum_|_(?:bytes|s)\Z", "", name).replace("_", " ")
    return re.sub(r"\bkv\b", "KV", words).replace("warmup", "warm-up")


def frame_of(table: TextTable) -> pd.DataFrame:
    """A table of a command as a frame."""
    return pd.DataFrame(list(map(list, table.rows)), columns=list(table.header)).map(
        visible
    )


def config_frame(config: Mapping[str, Any]) -> pd.DataFrame:
    """Setting and value, as text that does nothing."""
    rows = [(visible(name), visible(value, WHOLE)) for name, value in config.items()]
    return pd.DataFrame(sorted(rows), columns=["setting", "value"])


def notes_frame(summary: RunSummary) -> pd.DataFrame:
    """Lines worth knowing that are no figure."""
    rows = [(visible(n.topic), n.count, visible(n.text)) for n in summary.notes]
    return pd.DataFrame(rows, columns=["topic", "times", "text"])


class Headline(NamedTuple):
    """One headline figure; `doubt` is the evidence where it contradicts itself."""

    label: str
    value: str
    help: str | None = None
    note: str | None = None
    doubt: str | None = None

    @property
    def remark(self) -> str | None:
        """What stands below the number; None where nothing does."""
        known = [text for text in (MARK if self.doubt else None, self.note) if text]
        return ", ".join(known) or None


def figure(
    summary: RunSummary, name: str, *, title: str | None = None, note: str | None = None
) -> list[Headline]:
    """A figure of the table as a headline; nothing when it is unknown."""
    known = BY_NAME[name]
    if known.read(summary) is None:
        return []
    words, broken = title or label(name), doubt(summary, name)
    return [Headline(words, known.text(summary), HELP.get(name), note, broken)]


def headline(summary: RunSummary) -> list[Headline]:
    """What matters first; unknown figures are left out."""
    extent = "its beginning is not in the log" if summary.time.is_excerpt else None
    figures = figure(summary, "ready_s") or figure(summary, "wall_s", note=extent)
    figures += figure(summary, "warmup_s")
    if not figures:
        figures += figure(summary, "engine_init_s")
    for phase, part in (summary.buckets or {}).items():
        has_share = part.capture_percent is not None
        name = f"{phase}_capture_percent" if has_share else f"{phase}_warmed"
        count = text_of(summary, f"{phase}_captured") if has_share else ""
        note = f"{count} of {text_of(summary, f'{phase}_generated')}".strip()
        figures += figure(summary, name, note=note)
    if not summary.buckets:
        figures += figure(summary, "graphs_captured")
    cache = None
    memory = summary.memory_or_none
    for share in memory.parts:
        if share.name == "kv_cache":
            cache = part_text(summary, share)
    if cache is None and BY_NAME["kv_cache_bytes"].read(summary) is not None:
        cache = text_of(summary, "kv_cache_bytes")
    figures += (
        figure(summary, "num_kv_blocks", note=cache)
        or figure(summary, "kv_cache_tokens", note=cache)
        or figure(summary, "kv_cache_bytes")
    )
    figures += figure(summary, "max_concurrency")
    reserved = None
    if memory.graph_reserved_bytes is not None:
        reserved = f"of {text_of(summary, 'graph_reserved_bytes')} reserved"
    figures += figure(summary, "graph_memory_bytes", note=reserved) or figure(
        summary, "warmup_allocated_bytes"
    )
    return figures
