"""What a report costs: to make, and to open until its first chart is on the screen.

    python benchmarks/report.py [--log LOG] [--rounds 10] [--json FILE]

Making is processor time beside that of a Python that imports the libraries a report needs.
Opening is wall time in Chromium until the first chart is on the screen, drawn by the page
itself, and until plotly.js has drawn it anew, beside a page that plotly itself writes with
one small chart. Each is measured in turns with its reference. Without a log the largest
sample.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import plotly.graph_objects as go

from tests.dashboard.browser import ARGUMENTS, CHROMIUM, ROOT

LARGEST = max((ROOT / "sample_logs").rglob("*.log"), key=lambda p: p.stat().st_size)
LIBRARIES = "import jinja2, numpy, pandas, plotly.graph_objects, sqlalchemy"
WATCH = """
const drawn = '.main-svg .points, .main-svg .heatmaplayer image';
for (const [name, chart] of [['first', '.bars i, ' + drawn], ['library', drawn]])
  new MutationObserver((_, observer) => {
    if (!document.querySelector(chart)) return;
    observer.disconnect();
    requestAnimationFrame(() => setTimeout(() => performance.mark(name), 0));
  }).observe(document, {childList: true, subtree: true});
"""


def cost(command: list[str]) -> tuple[float, float]:
    """Processor seconds of a command, and its peak memory in MiB."""
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def making(log: Path, report: Path, rounds: int) -> dict[str, float]:
    """Seconds and memory of the command, and its ratio to importing the libraries."""
    ours = [
        sys.executable, "-m", "warmup_insights", "report", str(log), "--force",
        "-o", str(report), "--db", str(report.with_suffix(".db")),
    ]  # fmt: skip
    reference = [sys.executable, "-c", LIBRARIES]
    cost(ours)  # byte code and file cache
    pairs = [(cost(ours), cost(reference)) for _ in range(rounds)]
    return {
        "make_s": round(statistics.median(mine[0] for mine, _ in pairs), 2),
        "make_times_imports": round(
            statistics.median(mine[0] / other[0] for mine, other in pairs), 2
        ),
        "peak_mib": round(max(mine[1] for mine, _ in pairs)),
    }


def chart_ms(browser: Any, page_file: Path) -> tuple[float, float]:
    """From navigation until a frame with the first chart was drawn; until plotly.js had
    drawn one."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.add_init_script(WATCH)
    page.goto(page_file.as_uri())
    page.wait_for_function("performance.getEntriesByName('library').length")
    first, library = (
        float(page.evaluate(f"performance.getEntriesByName('{name}')[0].startTime"))
        for name in ("first", "library")
    )
    context.close()
    return first, library


def opening(report: Path, rounds: int) -> dict[str, float]:
    """Milliseconds to the first chart; to that of plotly.js, and its ratio to a page of
    plotly."""
    from playwright.sync_api import sync_playwright

    reference = report.with_name("reference.html")
    go.Figure(go.Bar(x=[1, 2, 3], y=[2, 1, 3])).write_html(str(reference))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        chart_ms(browser, report)
        pairs = [
            (chart_ms(browser, report), chart_ms(browser, reference))
            for _ in range(rounds)
        ]
        browser.close()
    return {
        "first_chart_ms": round(statistics.median(mine[0] for mine, _ in pairs)),
        "library_chart_ms": round(statistics.median(mine[1] for mine, _ in pairs)),
        "library_chart_times_plotly": round(
            statistics.median(mine[1] / other[1] for mine, other in pairs), 2
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--log", type=Path, default=LARGEST)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.html"
        found = {
            "log": options.log.name,
            **making(options.log, report, options.rounds),
            "size_mib": round(report.stat().st_size / 2**20, 2),
            **opening(report, options.rounds),
        }
    print(json.dumps(found, indent=2))
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
