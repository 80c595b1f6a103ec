"""Building blocks of all pages: headings, figures with their data, empty states."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.components.v2 import component

from dashboard import shown
from dashboard.charts.base import Picture, make_room, mark_synthetic, on_dark
from dashboard.charts.buckets import bucket_text
from dashboard.palette import SERVING_COLOURS, STATUS_COLOURS
from dashboard.shown import Headline
from dashboard.text import markdown, sentence
from warmup_insights.analysis.sentences import serving_words
from warmup_insights.errors import WarmupInsightsError
from warmup_insights.export.tables import csv_text
from warmup_insights.model.run import RunRecord
from warmup_insights.model.summary import RunSummary

RUNS, RUN, COMPARE, MEMORY, BUCKETS, LIVE = (
    "app_pages/runs.py",
    "app_pages/run.py",
    "app_pages/compare.py",
    "app_pages/memory.py",
    "app_pages/buckets.py",
    "app_pages/live.py",
)
MOST_COMPARED = 12
"""Runs side by side."""
UNKNOWN = "\u2013"
"""What a table shows where nothing is known."""
DOUBTFUL = st.column_config.TextColumn(
    "Contradictory", help="Figures of this row whose evidence contradicts itself"
)
"""The column of figures of a list of runs that contradict themselves."""
_BUTTONS = [["toImage"], ["zoom2d", "resetScale2d"]]


@contextmanager
def guarded() -> Iterator[None]:
    """Show a known error as its sentence instead of a trace."""
    try:
        yield
    except WarmupInsightsError as error:
        st.error(sentence(error), icon=":material/error:")


def is_dark() -> bool:
    """Whether the visitor looks at the dark theme."""
    return st.context.theme.type == "dark"


_WHEN_DRAWN = """export default function({ setTriggerValue }) {
  const began = performance.now();
  const look = () => {
    const isDrawn = document.querySelector(".js-plotly-plot .main-svg") !== null;
    if (isDrawn || performance.now() - began > 10000) setTriggerValue("drawn", true);
    else setTimeout(look, 50);
  };
  look();
}"""
"""Runs the app again when the browser has drawn the first figure."""


def count_run() -> None:
    """Note one more run of the app for this visitor."""
    st.session_state["app-runs"] = st.session_state.get("app-runs", 0) + 1


def comes_later(key: str) -> bool:
    """Whether the rest of the page is drawn with the next run, which follows by itself.

    Only in the first run of a session: its browser has Plotly still to load, and each
    further figure would delay the first one.
    """
    if st.session_state.get("app-runs", 0) != 1:
        return False
    with st.container(key=key):
        st.caption("More figures follow.")
        component("when_drawn", js=_WHEN_DRAWN)(on_drawn_change=lambda: None)
    return True


def empty(title: str, sentence: str, command: str | None = None) -> None:
    """What a page shows when it has nothing to show: why, and what to do next."""
    with st.container(border=True, gap="small"):
        st.markdown(f"**{title}**")
        st.markdown(sentence)
        if command is not None:
            st.code(command, language=None, wrap_lines=True)


def headline(figures: Sequence[Headline], *, even: bool = True) -> None:
    """Headline figures, as many beside each other as fit; `even` not inside columns."""
    with st.container(horizontal=True, gap="small"):
        for figure in figures:
            st.metric(
                figure.label,
                markdown(figure.value),
                delta=figure.remark,
                delta_color="red" if figure.doubt else "off",
                delta_arrow="off",
                help=markdown(figure.doubt) if figure.doubt else figure.help,
                border=True,
                height="stretch" if even else "content",
            )


def status_badges(status: str, summary: RunSummary) -> None:
    """The status of a run, which is that of its start, and how serving ended."""
    end = serving_words(summary)
    tone = None if end is None else SERVING_COLOURS.get(end, "red")
    # Of a start whose serving broke nothing is green.
    start = "gray" if tone == "red" else STATUS_COLOURS.get(status, "gray")
    st.badge(status, color=start)  # type: ignore[arg-type]
    if tone is not None:
        st.badge(f"serving: {end}", color=tone)  # type: ignore[arg-type]


def open_run(run_id: str, label: str = "Open") -> None:
    """A link to the page of a run."""
    st.page_link(
        RUN, label=label, icon=":material/speed:", query_params={"run": run_id}
    )


def download(
    label: str, content: str | Callable[[], str], name: str, mime: str,
    *, key: str, icon: str = "download", help: str | None = None,
) -> None:  # fmt: skip
    """Something to take away."""
    st.download_button(
        label, content, name, mime, key=key, help=help, on_click="ignore",
        type="tertiary", icon=f":material/{icon}:",
    )  # fmt: skip


def csv_button(table: pd.DataFrame, key: str) -> None:
    """A table to take away, as CSV in which no text is a formula."""

    def text() -> str:
        rows = table.astype("object").where(table.notna(), None)
        rows = rows.map(lambda v: bucket_text(v) if isinstance(v, tuple) else v)
        return csv_text(list(table.columns), rows.itertuples(index=False, name=None))

    download(
        "CSV", text, f"{key}.csv", "text/csv", key=f"{key}-csv", help="This data as CSV"
    )


def compare_button(run_ids: Sequence[str]) -> None:
    """Goes to the comparison of runs that are ticked, the first is the baseline."""
    if st.button(
        "Compare", icon=":material/compare_arrows:", type="primary",
        disabled=not 2 <= len(run_ids) <= MOST_COMPARED,
        help=f"Two to {MOST_COMPARED} runs; the first in the list is the baseline",
    ):  # fmt: skip
        st.switch_page(COMPARE, query_params={"run": run_ids})


def ticked(event: Any, run_ids: pd.Series) -> list[str]:
    """The runs whose rows a visitor ticked in a table."""
    return [run_ids.iloc[n] for n in event["selection"]["rows"] if n < len(run_ids)]


def key_of(name: str, ids: Iterable[str]) -> str:
    """A key for a table of these rows, so that ticks never move to another row."""
    return f"{name}-{zlib.crc32(' '.join(ids).encode()):08x}"


def table_height(rows: int, *, most: int = 12) -> int:
    """Pixels of a table of so many rows and its head; it scrolls when there are more than
    `most`. A row is 35 pixels at a font of 16, and the theme's is 15."""
    return 2 + 33 * (min(rows, most) + 1)


def text_width(table: pd.DataFrame, name: str) -> int:
    """Pixels that the longest text of a column takes; a narrow one keeps its head."""
    longest = 0 if name not in table else table[name].dropna().map(len).max()
    return max(130, 20 + round(6.4 * int(longest)))


@contextmanager
def card(title: str, hint: str | None = None, *, data: pd.DataFrame | None = None,
         key: str = "", simulated: str | None = None) -> Iterator[None]:  # fmt: skip
    """A frame with a title, what to look at, and its data to take away."""
    with st.container(border=True, gap="xsmall"):
        head = st.container(
            horizontal=True, vertical_alignment="center",
            horizontal_alignment="distribute", gap="small",
        )  # fmt: skip
        badge = "" if simulated is None else f" :gray-badge[{simulated}]"
        head.markdown(f"**{title}**{badge}", width="content")
        if data is not None:
            with head:
                csv_button(data, key)
        if hint is not None:
            st.caption(hint)
        yield


def chart(
    picture: Picture,
    *,
    key: str,
    simulated: str | None = None,
    selectable: bool = False,
) -> Any:
    """A picture in its frame, with its data to take away, if it has any.

    Gives the selection of a selectable figure.
    """
    title, hint, data = picture.title, picture.hint, picture.frame
    if data.empty:
        return None
    figure = picture.draw(data)
    make_room(figure)
    if simulated is not None:
        mark_synthetic(figure, simulated)
    with card(title, hint, data=data, key=key, simulated=simulated):
        return st.plotly_chart(
            on_dark(figure) if is_dark() else figure,
            key=key,
            on_select="rerun" if selectable else "ignore",
            selection_mode="points",
            config={
                "displaylogo": False,
                "modeBarButtons": _BUTTONS,
                "scrollZoom": False,
                "toImageButtonOptions": {"format": "png", "scale": 2, "filename": key},
            },
            alt=f"{title}. {hint}",
        )


def table(
    rows: pd.DataFrame,
    *,
    key: str,
    title: str,
    hint: str,
    columns: Mapping[str, Any] | None = None,
    simulated: str | None = None,
) -> None:
    """A table in its frame, if it has rows."""
    if rows.empty:
        return
    with card(title, hint, data=rows, key=key, simulated=simulated):
        st.dataframe(
            rows,
            hide_index=True,
            column_config=dict(columns or {}),
            placeholder=UNKNOWN,
        )


@dataclass(frozen=True)
class View:
    """A run and how it is looked at."""

    run: RunRecord
    summary: RunSummary

    @property
    def simulated(self) -> str | None:
        """What stands beside the figures; None for a real device."""
        return shown.provenance(self.summary)

    def key(self, name: str) -> str:
        """A key of a widget that is another one for another run."""
        return f"{self.run.run_id}-{name}"

    def chart(
        self, picture: Picture, key: str, *, selectable: bool = False,
        without: tuple[str, str] | None = None,
    ) -> Any:  # fmt: skip
        """A picture of this run in its frame; the selection of a selectable one.

        `without` is what stands in its place where it has no data: a title and why.
        """
        if without is not None and picture.frame.empty:
            return empty(*without)
        return chart(
            picture,
            key=self.key(key),
            simulated=self.simulated,
            selectable=selectable,
        )

    def table(
        self, rows: pd.DataFrame, *, key: str, title: str, hint: str,
        columns: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """A table of this run in its frame, if it has rows."""
        table(
            rows, key=self.key(key), title=title, hint=hint, columns=columns,
            simulated=self.simulated,
        )  # fmt: skip
