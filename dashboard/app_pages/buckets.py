"""Buckets lab: what a strategy would generate, before an engine is started."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import streamlit as st

from dashboard import data, lab, widgets
from dashboard.charts.base import Picture
from dashboard.charts.buckets import (
    bucket_map,
    buckets_frame,
    choose_axes,
    names_for,
    panels_of,
)
from dashboard.run_controls import names, requested_runs
from dashboard.shown import frame_of
from dashboard.text import markdown
from warmup_insights.analysis.plan.regenerate import rules_version, strategy_of
from warmup_insights.bucketing.base import StrategyName
from warmup_insights.bucketing.file import generated_file
from warmup_insights.bucketing.padding import Assumption, LengthDistribution, Trial
from warmup_insights.bucketing.versions import (
    MAIN,
    NEWEST_RELEASE,
    RELEASES,
    rules_name,
)
from warmup_insights.export.buckets import compare_table, dropped_table
from warmup_insights.model.run import RunRecord
from warmup_insights.model.summary import BucketRow
from warmup_insights.units import format_duration

_ASSUMPTIONS: dict[Assumption, str] = {
    "uniform": "every length equally likely",
    "log-uniform": "every order of magnitude equally likely",
}


def render() -> None:
    """Show the page."""
    st.title("Buckets lab", anchor=False)
    st.caption(
        "Which buckets vllm-gaudi would generate, what it would drop, and how much of "
        "your requests would be padding. Nothing runs; "
        "`warmup-insights buckets compare` and `buckets generate` print the same."
    )
    inputs, results = st.columns([1, 2.6], gap="medium")
    with inputs:
        base = _base()
        version = _version(base)
        limits, variables, lengths_text, assumption, strategies = _form(base, version)
    with results:
        lengths = lab.read_lengths(lengths_text, assumption, limits["max_model_len"])
        trials = lab.run_trials(
            limits, lab.read_overrides(variables), strategies, lengths, version
        )
        _side_by_side(trials, lengths, base)
        _one(trials, base)


def _base() -> RunRecord | None:
    """A run whose limits fill the form."""
    if data.store().newest_change()[0] == 0:
        return None
    requested = requested_runs()
    known = names(tuple(requested))
    chosen = st.selectbox(
        "Start from a run", list(known), format_func=known.__getitem__,
        index=list(known).index(requested[0]) if requested else None, placeholder="No run",
        help="Its limits and bucketing variables fill the form; its times estimate the "
        "warm-up",
    )  # fmt: skip
    if chosen is None:
        return None
    return data.store().run(chosen)


def _version(base: RunRecord | None) -> str:
    """The engine version whose rules are used."""
    own = NEWEST_RELEASE if base is None else rules_version(data.summary(base))
    known = list(dict.fromkeys([MAIN, *reversed(RELEASES), own]))
    return st.selectbox(
        "Bucketing rules of", known, index=known.index(own), format_func=rules_name,
        key="lab-version" if base is None else f"lab-{base.run_id}-version",
        help="They differ from version to version",
    )  # fmt: skip


def _form(
    base: RunRecord | None, version: str
) -> tuple[dict[str, int], str, str, Assumption, list[StrategyName]]:
    summary = None if base is None else data.summary(base)
    stated = {} if summary is None else lab.limits_of(summary)
    key = "lab" if base is None else f"lab-{base.run_id}"
    known = lab.strategies_of(version)
    strategies = st.pills(
        "Strategies", known, selection_mode="multi", default=known,
        key=f"{key}-strategies-{len(known)}",
        format_func=lambda name: lab.STRATEGY_TITLES[cast(StrategyName, name)],
    )  # fmt: skip
    first, wide, last = st.columns(2), st.container(), st.columns(2)
    places = (first[0], wide, first[1], *last)  # the longest name stands by itself
    limits = {
        name: int(
            place.number_input(
                words, 1, 10_000_000, stated.get(name, default), help=explanation,
                key=f"{key}-{name}",
            )
        )
        for (name, (words, explanation, default)), place in zip(
            lab.LIMITS.items(), places, strict=True
        )
    }  # fmt: skip
    variables = st.text_area(
        "Variables", "" if summary is None else lab.variables_of(summary),
        key=f"{key}-variables", height=110, max_chars=20_000,
        placeholder="VLLM_PROMPT_BS_BUCKET_MAX=4\nVLLM_DECODE_BLOCK_BUCKET_STEP=256",
        help="As in the environment of the engine, one NAME=VALUE a line",
    )  # fmt: skip
    lengths = st.text_area(
        "Request lengths", key=f"{key}-lengths", height=110, max_chars=2_000_000,
        placeholder="350 12\n1200 3", help="Tokens, and how often, one pair a line",
    )  # fmt: skip
    assumption = st.selectbox(
        "Without lengths, assume", list(_ASSUMPTIONS), format_func=_ASSUMPTIONS.__getitem__,
        disabled=bool(lengths.strip()), key=f"{key}-assumption",
    )  # fmt: skip
    chosen = [name for name in known if name in strategies]
    return limits, variables, lengths, assumption, chosen


def _side_by_side(
    trials: list[Trial], lengths: LengthDistribution, base: RunRecord | None
) -> None:
    if not trials:
        widgets.empty("No strategy chosen", "Choose at least one of the strategies.")
        return
    costs = {} if base is None else lab.seconds_per_bucket(data.buckets(base))
    table = compare_table(trials, lengths, costs)
    hint = f"Padding for {'lengths ' * lengths.is_assumed}{lengths.name}."
    if lengths.is_assumed:
        hint += " Give your own as request lengths."
    if "warm-up, estimated" in table.header:
        hint += f" Warm-up estimated with {_costs_words(costs)} of the chosen run."
    widgets.table(
        frame_of(table), key="strategies", title="Strategies side by side",
        hint=markdown(hint),
    )  # fmt: skip
    for problem in table.note.splitlines():
        st.warning(markdown(problem))


def _costs_words(costs: Mapping[str, float]) -> str:
    return " and ".join(
        f"{format_duration(costs[phase])} per {phase} bucket"
        for phase in ("prompt", "decode")
    )


def _one(trials: list[Trial], base: RunRecord | None) -> None:
    """The buckets of one strategy, first of that of the run."""
    made = {t.strategy: t for t in trials if t.generated is not None}
    if not made:
        return
    own = None if base is None else strategy_of(data.summary(base))
    chosen = st.segmented_control(
        "Look at", list(made), default=own if own in made else next(iter(made)),
        required=True,
        format_func=lambda name: lab.STRATEGY_TITLES[cast(StrategyName, name)],
        key="lab-look" if base is None else f"lab-{base.run_id}-look",
    )  # fmt: skip
    trial = made[chosen]
    assert trial.generated is not None
    for note in trial.generated.notes:
        st.warning(markdown(note))
    for phase in ("prompt", "decode"):
        _map(trial, phase)
    dropped = frame_of(dropped_table(trial.generated.dropped, show_all=True))
    if not dropped.empty:
        with st.expander(f"{len(dropped):,} dropped candidates"):
            st.dataframe(dropped, hide_index=True)
            widgets.csv_button(dropped, "dropped")
    text = generated_file(trial.generated)
    st.download_button(
        "Bucket file", text, f"buckets_{trial.strategy}.txt", "text/plain",
        on_click="ignore", icon=":material/download:", key="bucket-file",
        help="For VLLM_BUCKETING_FROM_FILE",
    )  # fmt: skip


def _map(trial: Trial, phase: str) -> None:
    assert trial.generated is not None
    made = trial.generated
    kept = made.prompt if phase == "prompt" else made.decode
    rows = buckets_frame(
        [
            BucketRow(phase=phase, bucket=tuple(bucket), generated=True)
            for bucket in kept
        ]
    )
    if rows.empty:
        st.caption(f"No {phase} bucket.")
        return
    axes = choose_axes(list(rows["bucket"]), names_for(3))
    total = len(rows)
    hint = f"{total:,} buckets would be warmed up."
    if axes.panel is not None:
        panels = panels_of(rows, axes)
        value = st.select_slider(
            f"{phase.capitalize()}: {axes.names[axes.panel]}", list(panels),
            key=f"lab-panel-{phase}-{trial.strategy}",
        )  # fmt: skip
        rows = panels[value]
        hint += f" These are the {len(rows):,} with {axes.names[axes.panel]} {value}."
    picture = Picture(
        f"{phase.capitalize()} buckets",
        hint,
        rows[["phase", "bucket"]],
        lambda _: bucket_map(rows, axes),
    )
    widgets.chart(picture, key=f"lab-{phase}-{trial.strategy}", simulated="not run")


with widgets.guarded():
    render()
