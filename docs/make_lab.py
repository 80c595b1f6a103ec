"""Writes the tables of the labs into the pages, from docs/lab.json and docs/bridge.json.

`python docs/make_lab.py` rewrites what stands between the markers; `--check` exits 1
when a page is not current. `python -m tests.vllm_plugin.lab` and
`python -m tests.devices.bridge_lab` make the results.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from warmup_insights.units import format_bytes, format_duration

DOCS = Path(__file__).parent
ENGINE = DOCS / "lab.json"
BRIDGE = DOCS / "bridge.json"
COLUMNS = (
    "buckets", "phases and `Warmup finished in`", "graphs", "passes while serving",
    "misses", "moves of the defragmenter", "tokens",
)  # fmt: skip
"""Checks whose figures are shown; the last column covers all of them."""

Row = Mapping[str, Any]


def starts(results: Iterable[Row]) -> Iterator[str]:
    """Every start: what was compared, and whether it was equal."""
    for result in results:
        found = result.get("starts", {})
        if not found:
            continue
        yield f"{_engine(result)}:\n"
        yield f"| start | {' | '.join(COLUMNS)} | all equal |"
        yield "|---" * (len(COLUMNS) + 2) + "|"
        for name, checks in found.items():
            cells = [checks.get(title, {}).get("text", "") for title in COLUMNS]
            if "failure" in checks:
                cells[0] = checks["failure"]["text"]
            wrong = [title for title, each in checks.items() if not each["holds"]]
            verdict = f"not {', '.join(wrong)}" if wrong else "yes"
            yield f"| {' | '.join([name, *cells, verdict])} |"
        yield ""


def plans(results: Iterable[Row]) -> Iterator[str]:
    """What `plan` predicted, and what the start that it predicted had."""
    for result, found in _with_promises(results):
        yield f"{_engine(result)}; each cell is predicted, observed:\n"
        yield "| start | buckets | KV blocks | graphs | graph memory | warm-up | kept |"
        yield "|---" * 7 + "|"
        for name, row in found.items():
            if name == "fit":
                continue
            predicted, observed = row["predicted"], row["observed"]
            numbers = [
                f"{predicted[key]:,}, {observed[key]:,}"
                for key in ("buckets", "blocks", "graphs")
            ]
            sizes = [
                format_bytes(side["graph_bytes"]) for side in (predicted, observed)
            ]
            low, high = map(format_duration, predicted["warmup_range_s"])
            time = (
                f"{format_duration(predicted['warmup_s'])} ({low} to {high}), "
                f"{format_duration(observed['warmup_s'])}"
            )
            cells = (name, *numbers, ", ".join(sizes), time, _kept(row))
            yield f"| {' | '.join(cells)} |"
        yield ""


def fits(results: Iterable[Row]) -> Iterator[str]:
    """What `buckets fit` predicted, and the same traffic on the fitted file."""
    for result, found in _with_promises(results):
        if "fit" not in found:
            continue
        row = found["fit"]
        predicted, observed = row["predicted"], row["observed"]
        yield f"{_engine(result)}:\n"
        yield "| | buckets | misses | padding | time of the buckets | kept |"
        yield "|---" * 6 + "|"
        for name, side in (("predicted", predicted), ("observed", observed)):
            cells = (
                name,
                str(side["buckets"]),
                str(side["misses"]),
                f"{side['padding_percent']:.2f} %",
                format_duration(side["buckets_s"]),
                _kept(row),
            )
            yield f"| {' | '.join(cells)} |"
        yield ""


def bridge(result: Row) -> Iterator[str]:
    """Each check on the Python of the bridge: what was found in each mode."""
    modes = result["modes"]
    yield (
        f"Bridge {result['bridge']}, torch {result['torch']}, compiled parts by stand-ins, "
        f"{result['date']}:\n"
    )
    yield f"| check | {' | '.join(f'{mode} mode' for mode in modes)} |"
    yield "|---" * (len(modes) + 1) + "|"
    for name in dict.fromkeys(name for checks in modes.values() for name in checks):
        cells = []
        for checks in modes.values():
            found = checks.get(name)
            verdict = "" if found is None or found["holds"] else "does not hold: "
            cells.append("" if found is None else f"{verdict}{found['text']}")
        yield f"| {' | '.join([name, *cells])} |"


def _with_promises(results: Iterable[Row]) -> Iterator[tuple[Row, Row]]:
    for result in results:
        if result.get("promises"):
            yield result, result["promises"]


def _kept(row: Row) -> str:
    return "yes" if row["holds"] else "no"


def _engine(result: Row) -> str:
    engine = result["engine"]
    where = ", simulated device" if engine["simulated"] else ""
    return (
        f"vLLM {engine['vllm']} with vllm-gaudi {engine['vllm_gaudi']}{where}, "
        f"{result['date']}"
    )


BLOCKS = (
    ("instrument-vllm.md", "lab", ENGINE, starts),
    ("instrument-vllm.md", "bridge", BRIDGE, bridge),
    ("plan.md", "lab", ENGINE, plans),
    ("bucketing.md", "lab", ENGINE, fits),
)
"""Page, block in it, results, and what makes the lines of them."""


def main() -> None:
    """Rewrite the pages, or compare."""
    for name, block, source, lines in BLOCKS:
        results = json.loads(source.read_text(encoding="utf-8"))
        page = DOCS / name
        text = page.read_text(encoding="utf-8")
        begin, end = f"<!-- begin {block} -->\n", f"<!-- end {block} -->"
        before, found, rest = text.partition(begin)
        _, also_found, after = rest.partition(end)
        if not found or not also_found:
            raise SystemExit(f"{page} has no block {block}")
        body = "\n".join(lines(results)).rstrip("\n")
        new = f"{before}{begin}{body}\n{end}{after}"
        if "--check" in sys.argv[1:]:
            if new != text:
                raise SystemExit(f"{page} is not current: run `python {__file__}`")
        else:
            page.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
