"""Screenshots of every page, from the demo data.

    python docs/make_screenshots.py [FOLDER]

Reads the sample logs, runs the reference warm-up on the CPU and a small sweep on a
simulated device, starts the dashboard and takes pictures of it in Chromium; then the walks
of the tests take theirs. Nothing is drawn by hand, so the pictures stay true; they are
written to `docs/screenshots`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.dashboard.browser import (
    ARGUMENTS,
    CHROMIUM,
    PICTURES,
    ROOT,
    serving,
    settle,
)
from warmup_insights.storage import EventStore

MISSED = "sample_logs/vllm-gaudi/made_v0_26_developer_mode.log"
FAILED = "sample_logs/vllm/made_v1_negative_kv_cache.log"
BARS = "sample_logs/vllm-gaudi/made_v0_26_bars.log"
SERVED = "cpu, serving"
RESERVES = (0.05, 0.1, 0.2, 0.4)
UTILIZATIONS = (0.5, 0.9)


class Shot(NamedTuple):
    """A picture: its name, the address, and how the page is looked at."""

    name: str
    path: str
    width: int = 1280
    height: int = 860
    scheme: str = "light"
    whole: bool = False


def warmup(*arguments: str) -> None:
    """Run a command of the project."""
    subprocess.run(
        [sys.executable, "-m", "warmup_insights", *arguments],
        cwd=ROOT, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip


def make_demo(database: Path) -> None:
    """The demo database, and a sweep over two memory settings."""
    db = ("--db", str(database))
    warmup("demo", "--no-dashboard", *db)
    for log in (MISSED, FAILED, BARS):
        warmup("ingest", log, "--synthetic", "--label", Path(log).stem, *db)
    warmup("run", "--device", "cpu", "--serve", "--quiet", "--label", SERVED, *db)
    for reserve in RESERVES:
        for utilization in UTILIZATIONS:
            warmup(
                "run", "--device", "simulated:gaudi2", "--quiet", *db,
                "--graph-reserved-mem", str(reserve),
                "--gpu-memory-utilization", str(utilization),
                "--label", f"grid: reserve {reserve:g}, utilisation {utilization:g}",
            )  # fmt: skip


def shots(database: Path) -> list[Shot]:
    """Every page, with the runs of the demo."""
    with EventStore(database) as store:
        runs = store.runs()
        served = store.find_run(SERVED).run_id
        swept = [r.run_id for r in runs if (r.label or "").startswith("grid")]
    compared = "&".join(f"run={run_id}" for run_id in swept[:3])
    tabs = (
        "Advice", "Timeline", "Buckets", "Graph memory", "Capture",
        "Sampler and defragmenter",
    )  # fmt: skip
    return [
        Shot("runs", "/"),
        Shot("runs-trend", "/?view=Trend", height=640),
        Shot("run", "/run?run=documented", width=1600, whole=True),
        Shot("run-dark", "/run?run=documented", width=1600, scheme="dark", whole=True),
        Shot("run-phone", "/run?run=documented", width=420, height=1400),
        Shot("run-failure", "/run?run=no+reserve+left", whole=True),
        *(
            Shot(
                f"run-{tab.lower().replace(' ', '-')}",
                f"/run?run={served}&tab={tab.replace(' ', '+')}",
                whole=True,
            )
            for tab in tabs
        ),
        Shot(
            "buckets-from-bars", f"/run?run={Path(BARS).stem}&tab=Buckets", whole=True
        ),
        Shot(
            "run-misses", f"/run?run={Path(MISSED).stem}&tab=Bucket+misses", height=800
        ),
        Shot("compare", f"/compare?{compared}"),
        Shot("compare-time-and-memory", f"/compare?{compared}&view=Time+and+memory"),
        Shot("memory-configurations", "/memory?q=grid", height=1000),
        Shot("operators-slow", "/run?run=cuda+start", whole=True),
        Shot("operators-failure", f"/run?run={Path(FAILED).stem}", whole=True),
        Shot(
            "operators-reserve", "/memory?q=documented&goal=most+captured", height=1000
        ),
        Shot("buckets-lab", f"/buckets?run={swept[0]}", width=1600, height=1100),
        Shot("live", "/live", height=520),
    ]


def take(browser: Any, address: str, shot: Shot, folder: Path) -> None:
    """One picture."""
    context = browser.new_context(
        viewport={"width": shot.width, "height": shot.height}, color_scheme=shot.scheme
    )
    page = context.new_page()
    page.goto(address + shot.path, wait_until="commit")
    settle(page)
    if shot.name == "operators-reserve":
        page.get_by_role("button", name="Plan from documented").click()
        page.get_by_text("Pick for").first.wait_for()
        settle(page)
    page.wait_for_timeout(1500)
    if shot.whole:
        height = page.get_by_test_id("stMain").evaluate("e => e.scrollHeight")
        page.set_viewport_size({"width": shot.width, "height": int(height)})
        page.wait_for_timeout(1500)
    page.screenshot(path=str(folder / f"{shot.name}.png"))
    context.close()


def walk(folder: Path) -> None:
    """The pictures of the walks, which are tests."""
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "long", "-n", "0",
         "tests/dashboard/test_walks.py"],
        cwd=ROOT, check=True, env={**os.environ, PICTURES: str(folder)},
    )  # fmt: skip


def main() -> None:
    """Make the demo and take every picture."""
    from playwright.sync_api import sync_playwright

    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work, sync_playwright() as playwright:
        database = Path(work) / "demo.db"
        make_demo(database)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        with serving(database) as (address, _):
            for shot in shots(database):
                take(browser, address, shot, folder)
                sys.stderr.write(f"{folder / shot.name}.png\n")
        browser.close()
    walk(folder)


if __name__ == "__main__":
    main()
