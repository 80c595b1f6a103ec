"""Colours, one per meaning, the same on every page.

Figures are drawn in those of a light page; `darkened` puts those of a dark one in their
place.

The hues are those of Okabe and Ito ("Color Universal Design", 2008) and of Paul Tol's
muted scheme, which people with any colour vision can tell apart; `tests/dashboard`
measures that. No chart relies on colour alone: bars are labelled, cells have a sign.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from warmup_insights.model.summary import OF_OTHER_RANK


class Tone(NamedTuple):
    """A colour on a light and on a dark page."""

    light: str
    dark: str


MEANINGS: dict[str, Tone] = {
    # what memory holds and what time is spent on
    "load": Tone("#E69F00", "#F0B429"),
    "profile": Tone("#CC79A7", "#D98FBA"),
    "kv_cache": Tone("#009E73", "#2BB894"),
    "compile": Tone("#882E72", "#B265A0"),
    "sampler": Tone("#999933", "#B8B84D"),
    "defrag": Tone("#44AA99", "#5CC2B1"),
    "prepare": Tone("#8A99AB", "#7F90A4"),
    "margin": Tone("#D3DAE3", "#3A4858"),
    "held": Tone("#3F4A57", "#B7C3D0"),
    "outside": Tone("#7A5C3A", "#A98050"),
    "total": Tone("#5B6B7D", "#93A4B7"),
    "unlogged": Tone("#B9C2CD", "#56657A"),
    # what became of a bucket; warming and capturing are also phases of time
    "generated": Tone("#CBD3DD", "#3D4B5C"),
    "warmed": Tone("#56B4E9", "#72C6F5"),
    "captured": Tone("#0072B2", "#1F74BD"),
    "reserved": Tone("#A9CBE6", "#27506F"),
    "skipped": Tone("#F0E442", "#E8DC3A"),
    "missed": Tone("#D55E00", "#F07A1F"),
    "executed_differently": Tone("#7A1F3D", "#F4A6C0"),
}
"""Meaning to colour. `captured` is graph memory and graph capture everywhere."""

INK, MUTED, GRID = "#1B2733", "#5B6B7D", "#E6EBF1"
"""Text, what stands behind it, and the lines of a grid."""
DARK = {tone.light: tone.dark for tone in MEANINGS.values()}
DARK |= {INK: "#E4EAF1", MUTED: "#93A4B7", GRID: "#263341"}
"""Colour on a light page to that on a dark one."""

PHASE_MEANINGS: dict[str, str] = {
    "load_model": "load",
    "load_weights": "load",
    "download": "load",
    "init_model": "load",
    "quantize": "load",
    "reload_weights": "load",
    "partition_model": "load",
    "profile_run": "profile",
    "encoder_profile": "profile",
    "graph_memory_profile": "profile",
    "kv_cache": "kv_cache",
    "compile": "compile",
    "sampler_warmup": "sampler",
    "defrag_warmup": "defrag",
    "graph_capture": "captured",
    "prompt_graphs": "captured",
    "decode_graphs": "captured",
    "encoder_graph_capture": "captured",
    "decoder_graph_capture": "captured",
    "kernel_warmup": "warmed",
    "unlogged": "unlogged",
    "lines_cut_out": "unlogged",
}
"""Phase of a start-up to meaning; what is not listed is `prepare` or `warmed`."""

PART_MEANINGS: dict[str, str] = {
    "at_start": "held",
    "weights": "load",
    "profiling": "profile",
    "non_torch": "outside",
    "margin": "margin",
    "other": "prepare",
    "graphs": "reserved",
    "unused": "margin",
    "kv_cache": "kv_cache",
}
"""Part of the memory budget (`summary.memory.parts`) to meaning, as bars stack them."""

STATES: dict[str, str] = {
    "generated": "only generated",
    "warmed": "warmed",
    "captured": "captured",
    "skipped": "capture skipped",
    "missed": "bucket miss",
    "executed_differently": "ran as another shape",
}
"""State of a bucket to the words for it, in the order of legends."""

SIGNS = {"skipped": "\u2013", "missed": "\u2715", "executed_differently": "\u2260"}
"""A sign in the cells of the states that need attention."""

HEAT = "Cividis"
"""Scale for amounts; the same to every kind of colour vision."""

STATUS_COLOURS = {
    "finished": "green",
    "running": "blue",
    "skipped": "yellow",
    "failed": "red",
    "stopped": "orange",
    "unknown": "gray",
}
"""Status of a run to the badge colour of Streamlit."""


SERVING_COLOURS = {
    "out of memory": "red", "killed": "red", "failed": "red", "stopped": "gray",
}  # fmt: skip
"""How serving ended (`sentences.serving_words`) to the badge colour of Streamlit."""


def colour(meaning: str) -> str:
    """The colour of a meaning. Raises KeyError for one that has none."""
    return MEANINGS[meaning].light


def darkened(part: Any, *, is_colour: bool = True) -> Any:
    """A colour, or a part of a figure as plain values, as a dark page has it.

    What is under a key without `color` is left alone: it may be text of a log.
    """
    if isinstance(part, str):
        return DARK.get(part, part) if is_colour else part
    if isinstance(part, list | tuple):
        return [darkened(item, is_colour=is_colour) for item in part]
    if isinstance(part, dict):
        return {k: darkened(v, is_colour="color" in k) for k, v in part.items()}
    return part


def phase_meaning(name: str) -> str:
    """The meaning of a start-up phase, the same for all ranks."""
    base = name.removesuffix(OF_OTHER_RANK)
    if base in PHASE_MEANINGS:
        return PHASE_MEANINGS[base]
    return "warmed" if base.endswith("_warmup") else "prepare"
