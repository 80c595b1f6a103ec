"""Reports: the figures of the table, text that stays text, nothing from the network."""

from __future__ import annotations

import base64
import html
import json
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from dashboard import shown
from dashboard.report import (
    MOST_ROWS,
    Chart,
    compared_sections,
    report_html,
    run_sections,
)
from tests.analysis.builders import config, start_up
from tests.cli.decisions import invoke
from tests.dashboard.browser import ARGUMENTS, CHROMIUM, ROOT
from tests.helpers import REAL_LOGS, folded
from tests.safety.hostile import MARKUP
from warmup_insights.analysis.advice import RunFacts, advise
from warmup_insights.analysis.summary import Folded
from warmup_insights.export.redact import Redactor
from warmup_insights.export.runs import RunWithLines
from warmup_insights.ingest.find import find_files
from warmup_insights.ingest.outcome import Options
from warmup_insights.ingest.single import ingest_path
from warmup_insights.model.figures import BY_NAME, all_figures, text_of
from warmup_insights.model.summary import RunSummary
from warmup_insights.runs import current
from warmup_insights.storage import EventStore

FAILED = ROOT / "sample_logs" / "vllm" / "made_v1_negative_kv_cache.log"
BARS = ROOT / "sample_logs" / "vllm-gaudi" / "made_v0_26_bars.log"
SAMPLE = ROOT / "sample_logs" / "vllm-fork" / "warmup_doc_capture.log"
TYPES = {"bar", "scatter", "heatmap"}
"""Kinds of traces that charts have."""
OTHER = ROOT / "sample_logs" / "vllm" / "made_v1_2026_tp2.log"


class Cells(HTMLParser):
    """Rows of the tables under a heading."""

    def __init__(self, text: str, heading: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.scripts = 0
        self._heading, self._found, self._tag = heading, False, ""
        # The library behind the page is large, and no table is in it.
        self.feed(text.split("<script>")[0])

    def handle_starttag(self, tag, attrs):
        self._tag = tag
        self.scripts += tag == "script"
        if tag == "tr" and self._found:
            self.rows.append([])
        if tag == "td" and self._found:
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        self._found &= tag != "table"
        self._tag = ""

    def handle_data(self, data):
        if self._tag == "h3":
            self._found = data == self._heading
        elif self._tag == "td" and self._found:
            self.rows[-1][-1] += data


def charts(page: str) -> list[dict[str, Any]]:
    """What is drawn in a report, on light and on dark."""
    found = re.findall(r'<script type="application/json" class="\w+">(.*?)</', page)
    return [json.loads(text) for text in found]


def report_of(*folds: Folded) -> str:
    runs = []
    for fold in folds:
        findings = advise(RunFacts(fold.summary, fold.rows))
        runs.append(RunWithLines(fold, findings=findings))
    return report_html(runs)


def folded_logs(folder: Path) -> list[Folded]:
    """Every start-up in the logs of a folder."""
    with EventStore("sqlite://") as store:
        for log in find_files([str(folder)]):
            ingest_path(store, log, Options(synthetic="made_" in log))
        return [current(store, run) for run in store.runs(limit=None)]


@pytest.fixture(scope="module")
def folds():
    return folded_logs(ROOT / "sample_logs")


@pytest.mark.long
def test_reports_have_the_figures_of_the_table(folds):
    """Of all samples and of one real log in three."""
    for fold in [*folds, *(folded_logs(REAL_LOGS) if REAL_LOGS.is_dir() else ())[::3]]:
        check_report(fold)


@pytest.mark.long
def test_every_figure_is_that_of_the_table_and_made_up_ones_are_marked(folds):
    """Of one sample in six; of all in the test that takes long."""
    for fold in folds[::6]:
        check_report(fold)


def check_report(fold):
    """The report has the same numbers as everywhere."""
    summary, text = fold.summary, report_of(fold)
    assert len(text) < 6_000_000
    rows = Cells(text, "Figures and their evidence").rows
    found = {row[0]: row[1] for row in rows if row}
    for figure in all_figures([summary]):
        if figure.read(summary) is not None:
            value = figure.text(summary)
            assert found[figure.title] == value, summary.source.name
    page = text.split("<script>")[0]
    check_headline(page, summary)
    check_drawn(page, summary)
    buckets = Cells(text, f"All {len(fold.rows):,} buckets").rows
    assert len([row for row in buckets if row]) == min(len(fold.rows), MOST_ROWS)
    assert {trace["type"] for chart in charts(page) for trace in chart["data"]} <= TYPES
    is_marked = "synthetic data" in page or "simulated device" in page
    is_made_up = summary.synthetic or summary.device.kind == "simulated"
    assert is_marked == is_made_up, summary.source.name


def test_commands_in_sentences_are_code():
    """A single backtick stays, and what stands between two is escaped."""
    (fold,) = folded_logs(BARS)
    page = report_of(fold).split("<script>")[0]
    assert "<code>warmup-insights vllm serve ...</code> counts" in page
    run = RunWithLines(fold, findings=advise(RunFacts(fold.summary, fold.rows)))
    odd = replace(run.findings[0], effect="a `<b>` and ` alone")
    page = report_html([replace(run, findings=[odd])])
    assert "a <code>&lt;b&gt;</code> and ` alone" in page


def check_headline(page: str, summary: RunSummary) -> None:
    """Label, text and remark of each, as `shown` has them for the pages."""
    for label, value, _, note, _ in shown.headline(summary):
        figure = f"{label}</span><strong>{html.escape(value)}</strong>"
        assert figure in page, label
        assert note is None or html.escape(note) in page, label


def check_drawn(page: str, summary: RunSummary) -> None:
    """What stands beside the bars, on light and on dark alike."""
    drawn = [
        [text for trace in chart["data"] for text in trace.get("text") or [] if text]
        for chart in charts(page)
    ]
    assert drawn[::2] == drawn[1::2]
    written = {str(text) for texts in drawn for text in texts}
    memory = summary.memory_or_none
    names = [f"{phase}_graph_used_bytes" for phase in summary.buckets or {}]
    is_less = any(part.name == "unused" for part in memory.parts)
    cache = "kv_cache_allocated_bytes" if is_less else "kv_cache_bytes"
    names += [cache, "total_bytes"] if memory.parts else []
    for name in names:
        if BY_NAME[name].read(summary) is not None:
            assert text_of(summary, name) in written, name


def test_a_comparison_has_the_figures_of_all(folds):
    pair = [f for f in folds if f.summary.source.name in (SAMPLE.name, OTHER.name)]
    rows = Cells(report_of(*pair), "Figures").rows
    found = {row[0]: row[1:] for row in rows if row}
    for figure in all_figures([fold.summary for fold in pair]):
        for fold, cell in zip(pair, found.get(figure.title, []), strict=False):
            assert cell.split("  ")[0].startswith(figure.text(fold.summary).split()[0])


def hostile() -> Folded:
    fold = folded([config(**{MARKUP: MARKUP, "</script>": "1"})])
    summary = structs.replace(
        fold.summary, label=MARKUP[:70], model=MARKUP, status="failed"
    )
    return Folded(summary, fold.rows)


def test_bars_are_drawn_without_a_script(folds):
    """Horizontal bars lie in the page itself, to the scale of the figure."""
    by_name = {fold.summary.source.name: fold for fold in folds}
    pair = [RunWithLines(by_name[SAMPLE.name]), RunWithLines(by_name[OTHER.name])]
    for sections in (
        run_sections(RunWithLines(by_name[BARS.name])),
        compared_sections(pair),
    ):
        charts = [chart for section in sections for chart in section.charts]
        assert charts[0].bars
        for chart in charts:
            check_bars(chart)


def check_bars(chart: Chart) -> None:
    """The bars of the page are those of the figure, or the figure has other marks."""
    figure = json.loads(chart.light)
    traces = figure["data"]
    is_one_of_a_name = len(traces) == 1 or figure["layout"].get("barmode") == "stack"
    is_bars = is_one_of_a_name and all(
        each.get("orientation") == "h" for each in traces
    )
    assert bool(chart.bars) == is_bars, chart.title
    bars = [bar for row in chart.bars.values() for bar in row]
    if is_bars:
        assert all(bar.left + bar.width < 100.01 for bar in bars)
        widest = max(bar.width for bar in bars)
        lengths = [x for trace in traces for x in numbers(trace["x"])]
        assert sorted(bar.width / widest for bar in bars) == pytest.approx(
            sorted(x / max(lengths) for x in lengths), abs=0.001
        )
        texts = [text for trace in traces for text in trace.get("text") or () if text]
        assert sorted(bar.text for bar in bars if bar.text) == sorted(texts)


def numbers(values: Any) -> list[float]:
    """Numbers as plotly writes them: a list, or the bytes of an array."""
    if isinstance(values, list):
        return values
    data = base64.b64decode(values["bdata"])
    return list(np.frombuffer(data, dtype=values["dtype"]))


def test_text_of_logs_stays_text():
    text = report_of(hostile())
    assert Cells(text, "").scripts == Cells(report_of(folded([])), "").scripts
    assert "<img" not in text.split("<script>")[0]
    assert html.escape("<script>alert(1)")[:20] in text


def test_redaction_is_consistent_and_whole():
    texts = {
        "model": "/home/alice/models/llama", "host": "gpu-node-7", "user": "alice",
        "url": "http://10.1.2.3:8000/v1", "line": "alice on gpu-node-7 wrote to bob@corp.com",
        "cache": "/home/alice/.cache/vllm/torch_compile_cache/ab12", "pod": "vllm-0-xyz",
        "six": "tcp://[fe80::1:2:3]:29500", "name": "node3.cluster.local listens",
        "version": "0.26.0", "time": "12:30:05", "module": "vllm.v1.engine.core",
    }  # fmt: skip
    fold = folded([config(**texts)])
    settings = Redactor().folded(fold).summary.config
    everything = " ".join(map(str, settings.values()))
    for word in (
        "alice",
        "gpu-node-7",
        "10.1.2.3",
        "bob@",
        "vllm-0-xyz",
        "fe80",
        "cluster.",
    ):
        assert word not in everything, (word, settings)
    assert settings["user"] in settings["line"]
    assert settings["host"] in settings["line"]
    assert settings["version"] == "0.26.0"
    assert settings["time"] == "12:30:05"
    assert settings["module"] == "vllm.v1.engine.core"


@pytest.mark.parametrize("name", ["vllm", "memory", "prompt", "finished", "model"])
def test_a_name_that_is_a_word_of_the_summary_changes_no_fact(name):
    fold = folded(
        [*start_up(), config(cache=f"/home/{name}/x/y", note=f"{name} was here")]
    )
    summary = Redactor().folded(fold).summary
    assert summary.config["note"] == "user-1 was here"
    assert structs.replace(summary, config={}) == structs.replace(
        fold.summary, config={}
    )


def test_names_of_one_run_are_replaced_in_all_and_advice_stays(tmp_path):
    text = SAMPLE.read_text(encoding="utf-8")
    logs = [tmp_path / "one.log", tmp_path / "two.log"]
    logs[0].write_text(text, encoding="utf-8")
    logs[1].write_text(
        text.replace("hpu_model_runner", "/home/carol/a/b"), encoding="utf-8"
    )
    out = tmp_path / "report.html"
    for options in ((), ("--redact",)):
        made = invoke(
            "report",
            logs[0],
            "-o",
            out,
            "--force",
            "--db",
            tmp_path / "no.db",
            *options,
        )
        assert made.exit_code == 0, made.output
        page = out.read_text(encoding="utf-8").split("<script>")[0]
        assert "got no graph" in page
    redactor = Redactor()
    redactor.add_names_of(folded([config(user="carol", host="node-17")]).summary)
    plain = redactor.folded(folded([config(line="carol on node-17")]))
    assert plain.summary.config["line"] == "user-1 on host-1"


def test_the_command(tmp_path):
    out, absent = tmp_path / "report.html", tmp_path / "absent.db"
    made = invoke("report", SAMPLE, "-o", out, "--redact", "--db", absent)
    assert made.exit_code == 0, made.output
    assert "62.5 %" in out.read_text(encoding="utf-8")
    assert not absent.exists()
    again = invoke("report", SAMPLE, "-o", out, "--db", absent)
    assert "--force" in str(again.exception)
    both = invoke("report", SAMPLE, OTHER, "-o", out, "--force", "--db", absent)
    assert both.exit_code == 0, both.output
    assert "Comparison" in out.read_text(encoding="utf-8")


@pytest.mark.long
@pytest.mark.parametrize("folder", [ROOT / "sample_logs", REAL_LOGS])
def test_a_report_of_the_largest_log_needs_less_than_300_mib(tmp_path, folder):
    if not folder.is_dir():
        pytest.skip("no real logs")
    log = max(find_files([str(folder)]), key=lambda name: Path(name).stat().st_size)
    code = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    command = [sys.executable, "-m", "warmup_insights", "report", log]
    done = subprocess.run(
        [sys.executable, "-c", code, *command, "-o", tmp_path / "report.html"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert int(done.stdout) < 300 * 1024, log  # KiB


MARKED_UP = "<b>x</b><a href='javascript:alert(3)'>y</a>" + MARKUP[:64]
NAME = "<img src=x onerror=alert(4)><b>{}.log"
CUT = """() => [...document.querySelectorAll('.plot')].flatMap(plot => {
  const box = plot.getBoundingClientRect();
  return [...plot.querySelectorAll('.main-svg text')].filter(text => {
    const place = text.getBoundingClientRect();
    return text.textContent.trim() && (
      place.left < box.left - 1 || place.right > box.right + 1 ||
      place.top < box.top - 1 || place.bottom > box.bottom + 1);
  }).concat([...plot.querySelectorAll('.legend .scrollbar')].filter(
    bar => bar.getBoundingClientRect().height > 0)
  ).map(text => `${plot.getAttribute('aria-label')} ${text.textContent}`);
})"""
"""Texts of charts that are not wholly on them, and legends that scroll."""
PAPER_PX = (718, 1047)
"""An A4 page within its margins."""


def hostile_logs(folder: Path) -> list[Path]:
    """Samples with markup in their names and wherever a line quotes something."""
    made = []
    for number, source in enumerate((OTHER, FAILED, BARS)):
        text = source.read_text(encoding="utf-8")
        text = re.sub(r"'[^'\n]+'", lambda _: repr(MARKED_UP), text)
        text = re.sub(r"[\w.-]+/[\w./-]+", MARKED_UP[:40], text)
        made.append(folder / NAME.format(number))
        made[-1].write_text(text, encoding="utf-8")
    return made


def reports(folder: Path, folds: list[Folded]) -> list[Path]:
    """A report of each kind: one run, runs side by side, text that means harm."""
    by_name = {fold.summary.source.name: fold for fold in folds}
    sample, other = by_name[SAMPLE.name], by_name[OTHER.name]
    texts = [report_of(sample), report_of(other), report_of(sample, other)]
    made = [folder / f"{number}.html" for number in range(len(texts) + 2)]
    for path, text in zip(made, [*texts, report_of(hostile())], strict=False):
        path.write_text(text, encoding="utf-8")
    hostile_ones = hostile_logs(folder)
    for log in hostile_ones:
        made.append(folder / f"{log.stem[-1]}-hostile.html")
        done = invoke("report", log, "-o", made[-1], "--db", folder / "no.db")
        assert done.exit_code == 0, done.output
    done = invoke("report", *hostile_ones, "-o", made[4], "--db", folder / "no.db")
    assert done.exit_code == 0, done.output
    return made


@pytest.mark.long
@pytest.mark.browser
@pytest.mark.skipif(not Path(CHROMIUM).exists(), reason="no Chromium")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_opens_without_a_network(tmp_path, folds, scheme):
    """Charts are drawn whole, nothing is requested, nothing is complained about."""
    sync_api = pytest.importorskip("playwright.sync_api")
    made = reports(tmp_path, folds)
    # What differs by the colour of the page are the charts, which the first ones have.
    made = made if scheme == "light" else made[:3]
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        for path in made:
            context = browser.new_context(
                offline=True,
                color_scheme=scheme,
                viewport={"width": 390, "height": 800},
            )
            page = context.new_page()
            troubles, requests = [], []
            page.on("console", lambda message, t=troubles: t.append(message.text))
            page.on("pageerror", lambda error, t=troubles: t.append(str(error)))
            page.on("dialog", lambda dialog, t=troubles: t.append(dialog.message))
            page.on("request", lambda request, r=requests: r.append(request.url))
            page.goto(path.as_uri())
            page.wait_for_selector("body[data-drawn=all]")
            assert troubles == []
            assert requests == [path.as_uri()]
            assert page.locator("img, iframe, object, embed, main a").count() == 0
            assert page.evaluate("document.documentElement.scrollWidth") <= 390
            plots = page.locator(".plot").count()
            assert page.locator(".plot:has(.main-svg)").count() == plots
            assert plots > 4 or path.stem not in ("0", "1")
            assert page.evaluate(CUT) == [], path
            check_paper(page)
            context.close()
        check_without_scripts(browser, made[0], scheme)
        browser.close()


def check_without_scripts(browser: Any, path: Path, scheme: str) -> None:
    """Where a viewer runs no script, bars and their texts are on the page."""
    context = browser.new_context(
        java_script_enabled=False,
        color_scheme=scheme,
        viewport={"width": 390, "height": 800},
    )
    page = context.new_page()
    page.goto(path.as_uri())
    for plot in page.locator(".plot:has(.bars)").all():
        edge = plot.bounding_box()
        texts = plot.locator(".bars b, .bars i, .bars em").all()
        assert texts
        for box in (text.bounding_box() for text in texts):
            assert edge["x"] - 1 <= box["x"]
            assert box["x"] + box["width"] <= edge["x"] + edge["width"] + 1
            assert box["y"] + box["height"] <= edge["y"] + edge["height"] + 1
    context.close()


def check_paper(page: Any) -> None:
    """No chart is cut, by the edge of the paper or by the end of a page."""
    width, height = PAPER_PX
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.wait_for_timeout(300)
    assert page.evaluate(CUT) == []
    for card in page.locator(".charts .card").all():
        box = card.bounding_box()
        assert box["x"] + box["width"] <= width
        assert box["height"] < height
        inside = card.evaluate("e => getComputedStyle(e).breakInside")
        assert inside == "avoid"
    pdf = page.pdf(format="A4")
    assert pdf.startswith(b"%PDF")
