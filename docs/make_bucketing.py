"""Writes the pictures in docs/bucketing/ and the generated blocks of docs/bucketing.md.

`python docs/make_bucketing.py` rewrites them; `--check` exits 1 when one is not current.
A block stands between `<!-- made: NAME -->` and `<!-- end -->`; the rest is hand-written.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from warmup_insights.bucketing.exponential import exponential_range
from warmup_insights.bucketing.file import BucketFile, parse_bucket_lines
from warmup_insights.bucketing.generate import generate
from warmup_insights.bucketing.linear import linear_range, padding_aware_range
from warmup_insights.bucketing.lookup import BucketTable
from warmup_insights.bucketing.padding import assume_lengths, report_padding
from warmup_insights.bucketing.settings import settings_from_mapping
from warmup_insights.bucketing.versions import DIFFERENCES

PAGE = Path(__file__).with_name("bucketing.md")
PICTURES = Path(__file__).with_name("bucketing")
BLOCK = re.compile(r"(<!-- made: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)

LARGEST = 4096
RANGES = {
    "linear": linear_range(128, 512, LARGEST),
    "exponential": exponential_range(128, 128, LARGEST, 13),
    "padding-aware": padding_aware_range(128, 128, LARGEST, 1024, 25),
}
PARAMETERS = {
    "linear": "min 128, step 512, max 4096",
    "exponential": "min 128, step 128, max 4096, limit 13",
    "padding-aware": "min 128, step 128, max 4096, pad_max 1024, pad_percent 25",
}
FILE = """\
(1, [128, 256, 512], [0, 4, 8])
(1, 1024, range(0, 13, 4))
(1, 2048, 0)
([1, 2, 4], 1, range(16, 65, 16))
"""
EXAMPLE = {
    "max_num_seqs": 16,
    "block_size": 128,
    "max_num_batched_tokens": 2048,
    "max_model_len": 4096,
    "num_kv_blocks": 1000,
}

WIDTH, HEIGHT = 640, 400
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 50, 55
INK, GRID, STEP, PADDING = "#24292f", "#d0d7de", "#0969da", "#ffd8a8"
PROMPT, DECODE = "#0969da", "#bc4c00"


class Canvas:
    """An SVG picture with two axes; positions are given in their units."""

    def __init__(
        self, title: str, x_label: str, y_label: str, top: float, right: float
    ) -> None:
        self._top, self._right = top, right
        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'width="{WIDTH}" height="{HEIGHT}" role="img" font-family="sans-serif">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
            self._text(WIDTH / 2, 26, title, 15),
            self._text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, x_label, 13),
            f'<g transform="translate(18 {(TOP + HEIGHT - BOTTOM) / 2:.0f}) rotate(-90)">'
            + self._text(0, 0, y_label, 13)
            + "</g>",
        ]

    def at(self, x: float, y: float) -> str:
        """The place of a point as `x,y` of the picture."""
        across = LEFT + x / self._right * (WIDTH - LEFT - RIGHT)
        down = HEIGHT - BOTTOM - y / self._top * (HEIGHT - TOP - BOTTOM)
        return f"{across:.1f},{down:.1f}"

    def add_grid(self, x_ticks: Sequence[int], y_ticks: Sequence[int]) -> None:
        """Lines and numbers at both axes."""
        for tick in x_ticks:
            self._line(self.at(tick, 0), self.at(tick, self._top), GRID)
            across, down = self.at(tick, 0).split(",")
            self._parts.append(
                self._text(float(across), float(down) + 18, str(tick), 12)
            )
        for tick in y_ticks:
            self._line(self.at(0, tick), self.at(self._right, tick), GRID)
            across, down = self.at(0, tick).split(",")
            self._parts.append(
                self._text(float(across) - 6, float(down) + 4, str(tick), 12, "end")
            )

    def add_shape(self, points: Sequence[str], fill: str, stroke: str) -> None:
        """A filled polygon or, without a fill, a line."""
        name = "polyline" if fill == "none" else "polygon"
        self._parts.append(
            f'<{name} points="{" ".join(points)}" fill="{fill}" stroke="{stroke}" '
            'stroke-width="1.5"/>'
        )

    def add_dot(self, x: float, y: float, color: str, label: str) -> None:
        """A point with its name as hover text."""
        across, down = self.at(x, y).split(",")
        self._parts.append(
            f'<circle cx="{across}" cy="{down}" r="5" fill="{color}">'
            f"<title>{escape(label)}</title></circle>"
        )

    def add_note(self, x: float, y: float, text: str, color: str) -> None:
        """A text that starts at a point."""
        across, down = self.at(x, y).split(",")
        self._parts.append(
            self._text(float(across), float(down), text, 13, "start", color)
        )

    def svg(self) -> str:
        """The whole picture."""
        return "\n".join([*self._parts, "</svg>"]) + "\n"

    def _line(self, start: str, end: str, color: str) -> None:
        (x1, y1), (x2, y2) = start.split(","), end.split(",")
        self._parts.append(
            f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{color}"/>'
        )

    @staticmethod
    def _text(
        x: float,
        y: float,
        text: str,
        size: int,
        anchor: str = "middle",
        color: str = INK,
    ) -> str:
        return (
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
            f'fill="{color}">{escape(text)}</text>'
        )


def staircase(name: str) -> str:
    """The bucket that each length lands in; the filled part is padding."""
    values = RANGES[name]
    canvas = Canvas(
        f"{name}: {PARAMETERS[name]}",
        "query length of the request (tokens)",
        "query length of its bucket (tokens)",
        LARGEST,
        LARGEST,
    )
    stairs, before = [], 0
    for value in values:
        stairs += [canvas.at(before, value), canvas.at(value, value)]
        before = value
    canvas.add_shape(
        [canvas.at(0, 0), *stairs, canvas.at(LARGEST, LARGEST)], PADDING, "none"
    )
    ticks = range(0, LARGEST + 1, 512)
    canvas.add_grid(ticks, ticks)
    canvas.add_shape([canvas.at(0, 0), canvas.at(LARGEST, LARGEST)], "none", INK)
    canvas.add_shape(stairs, "none", STEP)
    canvas.add_note(LARGEST * 0.04, LARGEST * 0.93, f"{len(values)} buckets", STEP)
    canvas.add_note(LARGEST * 0.04, LARGEST * 0.85, "filled: padding", "#9a6700")
    return canvas.svg()


def example_file() -> BucketFile:
    """The buckets of the file that the page shows."""
    return parse_bucket_lines(FILE.splitlines(), "buckets.txt")


def file_picture() -> str:
    """The buckets of the example file by query length and blocks."""
    file = example_file()
    canvas = Canvas(
        "file: each line is one bucket or a product",
        "query length (tokens)",
        "context (blocks)",
        72,
        2304,
    )
    canvas.add_grid(range(0, 2305, 256), range(0, 73, 8))
    for bucket in file.prompt:
        canvas.add_dot(bucket.query_len, bucket.num_blocks, PROMPT, str(tuple(bucket)))
    for bucket in file.decode:
        canvas.add_dot(bucket.query_len, bucket.num_blocks, DECODE, str(tuple(bucket)))
    canvas.add_note(700, 60, f"{len(file.prompt)} prompt buckets", PROMPT)
    canvas.add_note(
        700, 54, f"{len(file.decode)} decode buckets (3 batch sizes each)", DECODE
    )
    return canvas.svg()


def pictures() -> dict[str, str]:
    """Every picture by its file name."""
    made = {f"{name}.svg": staircase(name) for name in RANGES}
    return {**made, "file.svg": file_picture()}


def range_block(name: str) -> str:
    """The picture of a strategy and its values."""
    values = ", ".join(map(str, RANGES[name]))
    return (
        f"![Staircase of the {name} strategy](bucketing/{name}.svg)\n\n"
        f"With {PARAMETERS[name]}: {values}.\n"
    )


def file_block() -> str:
    """The example file, its picture and what it stands for."""
    file = example_file()
    return (
        f"```\n{FILE}```\n\n"
        "![Buckets of the example file](bucketing/file.svg)\n\n"
        f"These lines stand for {len(file.prompt)} prompt and {len(file.decode)} decode "
        "buckets.\n"
    )


def compare_block() -> str:
    """The strategies for one configuration, by the numbers of `buckets compare`."""
    lines = [
        "| strategy | prompt buckets | decode buckets | padded prompt tokens | "
        "padded decode blocks |",
        "|---|---|---|---|---|",
    ]
    for strategy, title in (
        ("exp", "exponential"),
        ("lin", "linear"),
        ("pad", "padding-aware"),
    ):
        settings = settings_from_mapping(EXAMPLE, {"VLLM_BUCKETING_STRATEGY": strategy})
        generated = generate(settings)
        report = report_padding(
            settings,
            BucketTable(settings, generated),
            assume_lengths("uniform", settings.max_model_len),
        )
        assert report.prompt is not None
        assert report.decode_blocks is not None
        lines.append(
            f"| {title} | {len(generated.prompt)} | {len(generated.decode)} | "
            f"{report.prompt.ratio * 100:.1f} % | {report.decode_blocks.ratio * 100:.1f} % |"
        )
    limits = ", ".join(f"{name} {value}" for name, value in EXAMPLE.items())
    return "\n".join(lines) + f"\n\nFor {limits}, and lengths assumed uniform.\n"


def versions_block() -> str:
    """What differs between versions of the engine, one row each."""
    words = {True: "yes", False: "no"}
    rows = ["| difference | from version on |", "|---|---|"]
    for title, history in DIFFERENCES.values():
        values = "; ".join(
            f"{version}: {words.get(value, value)}" for version, value in history
        )
        rows.append(f"| {title} | {values} |")
    return "\n".join(rows) + "\n"


def blocks() -> dict[str, str]:
    """Every generated block by its name."""
    made = {name: range_block(name) for name in RANGES}
    return {
        **made,
        "file": file_block(),
        "versions": versions_block(),
        "compare": compare_block(),
    }


def page(text: str) -> str:
    """The text of the page with every block made anew."""
    made = blocks()
    found = [match[2] for match in BLOCK.finditer(text)]
    if sorted(found) != sorted(made):
        raise SystemExit(f"the page has the blocks {found}, expected {list(made)}")
    return BLOCK.sub(lambda match: f"{match[1]}\n{made[match[2]]}\n{match[3]}", text)


def outputs() -> dict[Path, str]:
    """What every made file should hold."""
    made = {PICTURES / name: svg for name, svg in pictures().items()}
    return {**made, PAGE: page(PAGE.read_text(encoding="utf-8"))}


def outdated() -> list[Path]:
    """The made files that are missing or hold something else."""
    return [
        path
        for path, text in outputs().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]


def main(arguments: Sequence[str]) -> int:
    """Rewrite all files, or with `--check` name those that are not current."""
    if "--check" in arguments:
        for path in outdated():
            sys.stderr.write(f"{path} is not current: run python {__file__}\n")
        return 1 if outdated() else 0
    PICTURES.mkdir(exist_ok=True)
    for path, text in outputs().items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
