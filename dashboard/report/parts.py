"""What a report is made of: sections of text, findings, charts and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import unescape

import pandas as pd

from dashboard.charts.base import Figure, Picture, make_room, mark_synthetic, on_dark
from dashboard.charts.buckets import bucket_text
from dashboard.palette import darkened
from dashboard.text import visible

MOST_ROWS = 2000
"""Rows of a table that are in the file; what is left out is counted below it."""
LONG_LEGEND = 8
"""Entries of a legend beyond which a chart takes the whole width."""


@dataclass(frozen=True)
class Table:
    """Rows of text under column heads; `left_out` were too many for the file."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    left_out: int = 0


@dataclass(frozen=True)
class Bar:
    """A part of a row of horizontal bars: where it lies, in per cent of the axis."""

    left: float
    width: float
    light: str
    dark: str
    is_hatched: bool
    text: str


@dataclass(frozen=True)
class Chart:
    """A picture for a light and for a dark page, and its data.

    `bars` are its rows where it has horizontal bars: the page draws them without a
    script, so that they are on the screen before the library of charts has been read.
    """

    title: str
    hint: str
    light: str
    dark: str
    height: int
    has_long_legend: bool
    bars: Mapping[str, Sequence[Bar]]
    table: Table


@dataclass
class Section:
    """A part of the report; what is empty is left out."""

    title: str
    made_up: str | None = None
    """What stands on its charts when no real device gave their figures."""
    paragraphs: list[str] = field(default_factory=list)
    findings: list[Mapping[str, object]] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    tables: list[tuple[str, Table]] = field(default_factory=list)

    @property
    def has_content(self) -> bool:
        """Whether there is anything to show."""
        return bool(self.paragraphs or self.findings or self.charts or self.tables)

    def chart(self, picture: Picture) -> None:
        """Draw a picture for both kinds of page, if it has data."""
        if picture.frame.empty:
            return
        figure = picture.draw(picture.frame)
        entries = make_room(figure)
        if self.made_up is not None:
            mark_synthetic(figure, self.made_up)
        figure.update_layout(template="none")
        height = int(figure.layout.height)
        self.charts.append(
            Chart(
                picture.title, picture.hint, _json(figure), _json(on_dark(figure)),
                height, entries > LONG_LEGEND, _bars(figure), table_of(picture.frame),
            )
        )  # fmt: skip

    def table(self, title: str, frame: pd.DataFrame) -> None:
        """Add a frame as a table, if it has rows."""
        if len(frame):
            self.tables.append((title, table_of(frame)))


def _bars(figure: Figure) -> dict[str, list[Bar]]:
    """The rows of a figure of horizontal bars, one of a name; none of any other figure."""
    is_plain = len(figure.data) == 1 or figure.layout.barmode == "stack"
    if not is_plain or any(
        trace.type != "bar" or trace.orientation != "h" for trace in figure.data
    ):
        return {}
    ends = {str(name): 0.0 for name in figure.layout.yaxis.categoryarray or ()}
    places = []
    for number, trace in enumerate(figure.data):
        for index, (name, length) in enumerate(zip(trace.y, trace.x, strict=True)):
            start = ends.get(name, 0.0) if trace.base is None else trace.base[index]
            ends[name] = start + length
            places.append((number, index, name, start, length))
    limits = figure.layout.xaxis.range
    share = 100 / (limits[1] if limits else max(ends.values(), default=0.0) or 1.0)
    rows: dict[str, list[Bar]] = {_plain(name): [] for name in ends}
    for number, index, name, start, length in places:
        trace = figure.data[number]
        shade = _item(trace.marker.color, index)
        bar = Bar(
            left=round(start * share, 3), width=round(length * share, 3),
            light=shade, dark=darkened(shade),
            is_hatched=bool(_item(trace.marker.pattern.shape, index)),
            text=_item(trace.text, index),
        )  # fmt: skip
        rows[_plain(name)].append(bar)
    return rows


def _plain(label: str) -> str:
    """A label of a figure without the markup that figures understand."""
    return unescape(label.replace("<br>", " "))


def _item(values: str | Sequence[str] | None, index: int) -> str:
    """A property of one bar; it may be given once for all of them."""
    return values or "" if values is None or isinstance(values, str) else values[index]


def _json(figure: Figure) -> str:
    """A figure as JSON that cannot end the script element in which it stands."""
    return str(figure.to_json().replace("<", "\\u003c"))


def table_of(frame: pd.DataFrame) -> Table:
    """A frame as a table of text."""
    rows = [
        tuple(_cell(value) for value in row)
        for row in frame.head(MOST_ROWS).itertuples(index=False, name=None)
    ]
    return Table(list(map(str, frame.columns)), rows, max(0, len(frame) - MOST_ROWS))


def _cell(value: object) -> str:
    if isinstance(value, tuple):
        return bucket_text(value)
    if value is None or value != value:
        return ""
    if isinstance(value, float):
        return f"{value:,.6g}"
    return visible(value)
