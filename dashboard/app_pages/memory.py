"""Memory configurations: which one to choose, and what was traded for what."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from dashboard import configurations, data, shown, widgets
from dashboard.charts.base import Picture
from dashboard.charts.runs import NO_MODEL, with_series
from dashboard.run_controls import names
from dashboard.text import markdown, sentence, short_name, visible
from warmup_insights.analysis.pareto import (
    GOALS,
    TOLERANCE,
    ConfigurationRow,
    Pick,
    configuration_rows,
    differing,
    is_higher_better,
    marked_together,
    pick,
    settings_text,
)
from warmup_insights.analysis.plan.cache import CachePlanner
from warmup_insights.analysis.plan.planning import PlanSettings
from warmup_insights.analysis.sentences import count_text
from warmup_insights.errors import InputError
from warmup_insights.model.figures import BY_NAME
from warmup_insights.model.run import RunRecord
from warmup_insights.units import GIB

MOST = 200
LISTED = 2_000


def render() -> None:
    """Show the page."""
    st.title("Memory configurations", anchor=False)
    st.caption(
        "More memory for graphs leaves less for the KV cache; more graphs take longer to "
        "capture. Which start to choose, and what the others give up."
    )
    if data.store().newest_change()[0] == 0:
        widgets.empty(
            "No runs yet",
            "A sweep of the reference engine has all figures that are compared here:",
            "warmup-insights sweep --gpu-memory-utilization 0.5,0.7,0.9 "
            "--graph-reserved-mem 0.1,0.2,0.4",
        )
        return
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        text = st.text_input(
            "Search", placeholder="Search, such as the name of a sweep", width=320,
            key="q", bind="query-params", label_visibility="collapsed",
            icon=":material/search:",
        )  # fmt: skip
        rows = data.run_rows(data.store(), {"text": text.strip()}, LISTED)
        source = None
        if not rows.empty:
            rows = _group(rows)
            source, settings = _plan_fields(rows)
    if rows.empty:
        widgets.empty("No run matches", "Search for something else.")
        return
    planned, note = ([], "") if source is None else _planned(source, settings)
    summaries = data.summaries(data.store(), list(rows["run_id"]))
    runs = configuration_rows(summaries)
    names = dict(zip(rows["run_id"], rows["name"], strict=True))
    together = marked_together([*runs, *planned]) if planned else runs
    points = configurations.points_frame(together, names, summaries)
    drawn = configurations.axes_of(together, points)
    if drawn is None or len(drawn[1]) < configurations.FEW:
        if source is None:
            _more(rows)
    else:
        behind = [*drawn[1]["run_id"], st.session_state.get("plan-from")]
        shown_runs = rows[rows["run_id"].isin(behind)]
        is_simulated = shown_runs["device_kind"] == "simulated"
        label = shown.how_synthetic(shown_runs["synthetic"].astype(bool) | is_simulated)
        chosen = _choice(together, label)
        _figure(drawn, label, chosen, together, note)
    _table(points[points["run_id"] != ""])


def _more(rows: pd.DataFrame) -> None:
    """What makes the points that a choice needs."""
    newest = data.store().run(rows["run_id"].iloc[0])
    summary = data.summary(newest)
    with widgets.card(
        "Too few configurations to choose from",
        "Three runs are needed that state two of these: "
        f"{BY_NAME['captured_percent'].title}, "
        "KV cache tokens or blocks, and a time to ready, of the warm-up or of the engine's "
        "initialisation.",
    ):
        try:
            data.planner(newest)
        except InputError as error:
            st.markdown(f"No plan from the newest run: {sentence(error)}")
        else:
            st.button(
                f"Plan from {markdown(short_name(newest.name))}", type="primary",
                icon=":material/calculate:", on_click=_plan_from, args=(newest.run_id,),
            )  # fmt: skip
        st.markdown("Or run some, with this device and model:")
        st.code(configurations.sweep_command(summary), language=None, wrap_lines=True)


def _plan_from(run_id: str) -> None:
    st.session_state["plan-from"] = run_id


def _group(rows: pd.DataFrame) -> pd.DataFrame:
    """The runs of one model on one device: only they can be traded for each other."""
    named = with_series(rows)
    known = named[named[["warmup_s", "ready_s"]].notna().any(axis=1)]
    timed = known["series"].value_counts().index
    counts = named["series"].value_counts()
    rest = [name for name in named["series"].unique() if name not in timed]
    # Runs of an unknown model can be of several: they are the last resort.
    options = sorted([*timed, *rest], key=lambda name: name.startswith(NO_MODEL))
    chosen = st.selectbox(
        "Model and device", options, label_visibility="collapsed", width=420,
        format_func=lambda name: f"{visible(name)}  \u00b7  {count_text(min(counts[name], MOST), 'run')}",
        key="group",
    )  # fmt: skip
    kept: pd.DataFrame = named[named["series"] == chosen].head(MOST)
    return kept


def _plan_fields(rows: pd.DataFrame) -> tuple[str | None, PlanSettings]:
    """The run to plan from, and limits of the engine; an empty field is as in the run."""
    known = names()
    options = [i for i in rows["run_id"] if i in known]
    if st.session_state.get("plan-from") not in options:
        st.session_state.pop("plan-from", None)
    chosen = st.selectbox(
        "Plan from a run", options, index=None, width=380,
        format_func=known.__getitem__, placeholder="Plan: what one run gives with other "
        "settings", label_visibility="collapsed", key="plan-from",
    )  # fmt: skip
    if chosen is None:
        return None, PlanSettings()
    tokens, size = (
        st.number_input(
            option, min_value=1, value=None, step=1, width=220, key=f"plan-{option}",
            placeholder="as in the run", help=f"As `plan --{option}`",
        )
        for option in ("max-num-batched-tokens", "block-size")
    )  # fmt: skip
    return chosen, PlanSettings(max_num_batched_tokens=tokens, block_size=size)


def _planned(run_id: str, settings: PlanSettings) -> tuple[list[ConfigurationRow], str]:
    """Predictions from a run, with notes; those without graphs are shown at once."""
    run = data.store().run(run_id)
    try:
        if settings.block_size is None:
            made = data.planner(run)
            notes = made.plan(settings).notes
            return configurations.planned(made, settings), " ".join(notes)
        reason = "What graphs take with another block size is unknown."
    except InputError as error:
        reason = sentence(error)
    _without_graphs(run, settings, reason)
    return [], ""


def _without_graphs(run: RunRecord, settings: PlanSettings, reason: str) -> None:
    """The KV cache and the number of buckets with other limits, as `plan` prints them."""
    summary = data.summary(run)
    try:
        plans = CachePlanner(summary).beside_own([settings])
    except InputError:
        st.warning(reason)
        return
    notes = dict.fromkeys(note for plan in plans for note in plan.notes)
    (_, frame), *ranges = configurations.cache_frames(plans)
    widgets.table(
        frame, key="without-graphs",
        title="Planned without graphs", hint=markdown(" ".join([f"{reason.rstrip('.')}.", *notes])),
        simulated=shown.provenance(summary),
    )  # fmt: skip
    for title, frame in ranges:
        widgets.table(
            frame, key="ranges", title=title, hint="As much as equal starts differ.",
            simulated=shown.provenance(summary),
        )  # fmt: skip


def _choice(rows: list[ConfigurationRow], label: str | None) -> Pick | None:
    """The configuration for the goal, why it is, and what the next two give up."""
    goal = str(
        st.segmented_control(
            "Choose for", list(GOALS), default="balanced", required=True, key="goal",
            format_func=GOALS.__getitem__, bind="query-params",
        )
    )  # fmt: skip
    found, names = pick(rows, goal), differing(rows)
    with widgets.card(f"Pick for {GOALS[goal]}", simulated=label):
        if found is None:
            st.markdown("No configuration states the figure that this goal counts.")
            return None
        st.subheader(markdown(settings_text(found.row, names)), anchor=False)
        made = "" if found.row.run_id else "Planned, not run: "
        why = made + found.why
        st.markdown(f"{markdown(why[0].upper() + why[1:])}.")
        for row, text in found.others:
            st.markdown(f"- **{markdown(settings_text(row, names))}** {markdown(text)}")
        st.caption(
            f"Differences of up to {100 * TOLERANCE:g} % do not count, nor those between "
            "runs of one configuration. `compare`, `sweep` and `plan` have `--goal` as well."
        )
    return found


def _figure(
    drawn: tuple[configurations.FigureAxes, pd.DataFrame],
    label: str | None,
    chosen: Pick | None,
    together: list[ConfigurationRow],
    note: str,
) -> None:
    axes, points = drawn
    settings = differing(together)
    picked = settings_text(chosen.row, settings) if chosen is not None else ""
    hint = "Up" if is_higher_better(axes.y) else "Down"
    hint += " and to the right is better" if is_higher_better(axes.x) else " is better"
    if axes.colour is not None:
        hint += f"; brighter is a larger {BY_NAME[axes.colour].title}"
    if points["line"].duplicated().any():
        hint += f". Lines connect points that differ in {markdown(settings[-1])} only"
    x, y = (BY_NAME[name].title for name in axes[:2])
    picture = Picture(
        f"{y[0].upper()}{y[1:]} against {x}",
        f"{hint}. Click a point to open its run. {markdown(note)}",
        points,
        lambda frame: configurations.configurations_figure(frame, axes, picked),
    )
    event = widgets.chart(
        picture, key="configurations", simulated=label, selectable=True
    )
    clicked = [
        p["customdata"][0] for p in event["selection"]["points"] if p.get("customdata")
    ]
    with st.container(horizontal=True):
        for run_id in [run_id for run_id in clicked if run_id][: widgets.MOST_COMPARED]:
            widgets.open_run(run_id, f"Open run {run_id}")


def _table(points: pd.DataFrame) -> None:
    table = points.drop(columns=["kind", "settings", "line"]).sort_values(
        "best", ascending=False, key=lambda column: column == True  # noqa: E712
    )  # fmt: skip
    first = [name for name in ("name", "best") if name in table]
    table = table[[*first, *(name for name in table if name not in first)]]
    if "graph_memory_bytes" in table:
        table["graph_memory_bytes"] = table["graph_memory_bytes"] / GIB
    hint = "Tick two or more to compare them."
    if points["kind"].eq("run, not compared").any():
        hint += (
            " Runs without a box in *Not beaten* are not compared: they failed or were stopped, a "
            "figure is unknown or contradictory, or the start is of another kind than most (cold, warm)."
        )
    with widgets.card("Runs", hint, data=points, key="points"):
        event = st.dataframe(
            table, hide_index=True, on_select="rerun", selection_mode="multi-row",
            key=widgets.key_of("memory-runs", table["run_id"]),
            height=widgets.table_height(len(table)), placeholder=widgets.UNKNOWN,
            column_config=_columns(table),
        )  # fmt: skip
        widgets.compare_button(widgets.ticked(event, table["run_id"]))


def _columns(table: pd.DataFrame) -> dict[str, Any]:
    """Figures by their names, with units; settings keep those of the engine."""
    column = st.column_config
    formats = {"s": "%.4g", "count": "localized", "number": "%.4g", "bytes": "%.4g"}
    units = {"s": " (s)", "bytes": " (GiB)"}
    figures = {
        name: column.NumberColumn(
            shown.label(name) + units.get(BY_NAME[name].unit, ""),
            format=formats[BY_NAME[name].unit],
        )
        for name in configurations.FIGURES
        if name in table and BY_NAME[name].unit in formats
    }
    return {
        "run_id": "Id",
        "name": column.TextColumn("Run", width=widgets.text_width(table, "name")),
        "best": column.CheckboxColumn("Not beaten"),
        "doubtful": widgets.DOUBTFUL if table["doubtful"].notna().any() else None,
        **figures,
        "captured_percent": column.ProgressColumn(
            "Captured (%)", format="%.1f", min_value=0.0, max_value=100.0
        ),
    }


with widgets.guarded():
    render()
