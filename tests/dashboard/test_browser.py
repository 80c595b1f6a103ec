"""The dashboard in Debian's Chromium."""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import pytest

from tests.dashboard.browser import ARGUMENTS, CHROMIUM, ROOT, serving, settle
from tests.dashboard.builders import add_recorded_runs, recorded_events
from warmup_insights.model.run import RunRecord, own_process
from warmup_insights.storage import EventStore

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not Path(CHROMIUM).exists(), reason="no Chromium"),
]


@pytest.mark.long
def test_from_an_uploaded_log_to_its_four_views(tmp_path, visit):
    """The document's log: coverage, graph memory, captures, and a defragmenter log."""
    logs = [
        ROOT / "sample_logs" / "vllm-fork" / "warmup_doc_capture.log",
        ROOT / "sample_logs" / "vllm-gaudi" / "defragmenter_doc.log",
    ]
    with serving(tmp_path / "new.db") as (address, _):
        visitor = visit(address)
        page = visitor.open("/")
        page.locator('input[type="file"]').set_input_files([str(log) for log in logs])
        links = page.get_by_role("link", name=re.compile("Open run"))
        links.nth(1).wait_for()
        links.first.click()
        page.get_by_text("62.5 %", exact=True).first.wait_for()
        settle(page)
        for words in ("Prompt buckets", "Decode buckets", "Memory budget",
                      "Warmed and captured"):  # fmt: skip
            page.get_by_text(words, exact=True).wait_for()
        page.locator(".js-plotly-plot .main-svg").first.wait_for()
        drawn = page.locator(".js-plotly-plot").all_inner_texts()
        assert any("captured 15" in text for text in drawn)
        assert any("23.75 GiB" in text for text in drawn)
        assert any("15 of 24, 62.5 %" in text for text in drawn)
        page.get_by_role("tab", name="Graph memory").click()
        page.get_by_text("Graph memory: reserved against used").wait_for()
        assert "tab=Graph+memory" in page.url
        visitor.open("/")
        page.locator('input[type="file"]').set_input_files(str(logs[1]))
        page.get_by_text("already stored, nothing was added").wait_for()
        page.get_by_role("link", name=re.compile("Open run")).click()
        page.get_by_text("Defragmenter completed in 3 s", exact=False).wait_for()
        visitor.close()


@pytest.mark.long
def test_logs_are_dropped_onto_the_first_page(tmp_path, visit):
    """One with a start-up is opened from there; one without any is not kept."""
    other = tmp_path / "page.txt"
    other.write_text("<!DOCTYPE html><html></html>\n")
    log = ROOT / "sample_logs" / "vllm" / "made_v1_negative_kv_cache.log"
    with serving(tmp_path / "first.db") as (address, _):
        visitor = visit(address, viewport={"width": 1280, "height": 1400})
        page = visitor.open("/")
        page.locator('input[type="file"]').set_input_files([str(log), str(other)])
        page.get_by_text("looks like a web page", exact=False).wait_for()
        page.get_by_role("link", name=re.compile("Open run")).click()
        page.get_by_text("Memory at the failure", exact=True).wait_for()
        page.get_by_text("no room for the KV cache", exact=False).first.wait_for()
        settle(page)
        page.locator(".js-plotly-plot", has_text="Short by").first.wait_for()
        visitor.close()


@pytest.mark.long
def test_two_runs_are_compared_from_the_list(full_server, visit):
    visitor = visit(full_server, viewport={"width": 1280, "height": 900})
    page = visitor.open("/?q=recorded")
    page.get_by_text("3 of", exact=False).wait_for()
    tick(page, 1, 2)
    page.get_by_text("2 chosen").wait_for()
    page.get_by_role("button", name="Compare").click()
    page.get_by_text("Settings that differ", exact=True).wait_for()
    settle(page)
    assert len(re.findall(r"run=[0-9a-c]{12}", page.url)) == 2
    page.get_by_test_id("stTable").first.filter(has_text="KV blocks").wait_for()


@pytest.mark.long
def test_the_table_of_a_comparison_fits_a_phone(tmp_path, visit):
    """A name without a blank wraps above its column."""
    with EventStore(tmp_path / "runs.db") as store:
        add_recorded_runs(store)
        ids = [run.run_id for run in store.runs(limit=2)]
        for run_id in ids:
            store.update_run(run_id, label=f"{run_id}{'x' * 24}.log")
    with serving(tmp_path / "runs.db") as (address, _):
        visitor = visit(address, viewport={"width": 480, "height": 900})
        page = visitor.open(f"/compare?run={ids[0]}&run={ids[1]}")
        table = page.get_by_test_id("stTable").first
        table.wait_for()
        settle(page)
        hidden = table.evaluate(
            "e => Math.max(...[...e.querySelectorAll('*')].map("
            "c => c.scrollWidth - c.clientWidth))"
        )
        assert hidden <= 1
        visitor.close()


@pytest.mark.long
def test_open_in_the_list_leads_to_the_run(full_server, visit):
    page = visit(full_server).open("/?q=recorded")
    table = page.get_by_test_id("stDataFrame").first
    table.wait_for()
    settle(page)
    box = table.bounding_box()
    page.mouse.click(box["x"] + 32 + 32, box["y"] + 18 + 35)
    page.get_by_role("heading", name="recorded 2").wait_for()
    assert "run=" in page.url


def tick(page, *rows: int) -> None:
    """Tick rows of the first table of a page, the first is 1."""
    table = page.get_by_test_id("stDataFrame").first
    table.wait_for()
    settle(page)
    box = table.bounding_box()
    for row in rows:
        page.mouse.click(box["x"] + 16, box["y"] + 18 + 35 * row)
        settle(page)


@pytest.mark.long
def test_a_run_is_named_and_deleted_after_a_second_question(tmp_path, visit):
    with EventStore(tmp_path / "runs.db") as store:
        add_recorded_runs(store)
    with serving(tmp_path / "runs.db") as (address, _):
        page = visit(address).open("/")
        tick(page, 1)
        page.get_by_role("button", name="Label and notes").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Label").fill("the best one")
        dialog.get_by_label("Notes").fill("keep *this*")
        dialog.get_by_role("button", name="Save").click()
        dialog.wait_for(state="hidden")
        with EventStore(tmp_path / "runs.db") as store:
            named = store.find_run("the best one")
        assert named.notes == "keep *this*"
        settle(page)
        page.get_by_role("button", name="Delete").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("button", name="Keep").click()
        dialog.wait_for(state="hidden")
        with EventStore(tmp_path / "runs.db") as store:
            assert store.count_runs() == 3
        settle(page)
        page.get_by_role("button", name="Delete").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        page.get_by_text("2 of 2 runs", exact=False).wait_for()
        with EventStore(tmp_path / "runs.db") as store:
            assert store.count_runs() == 2
            assert store.runs(label="the best one") == []


@pytest.mark.long
def test_clicking_a_cell_shows_the_history_of_its_bucket(full_server, visit):
    tall = {"width": 1280, "height": 1200}
    page = visit(full_server, viewport=tall).open("/run?run=recorded+0&tab=Buckets")
    plot = page.locator(".js-plotly-plot .main-svg").first
    plot.wait_for()
    settle(page)
    page.wait_for_timeout(500)
    heat = page.locator(".js-plotly-plot .nsewdrag").first.bounding_box()
    page.mouse.click(heat["x"] + heat["width"] * 0.17, heat["y"] + heat["height"] * 0.9)
    page.get_by_text("captured \u00b7", exact=False).wait_for()


@pytest.mark.long
def test_the_live_page_follows_a_run(tmp_path, visit):
    """Figures change by themselves while events arrive; then the run is finished."""
    database = tmp_path / "live.db"
    with EventStore(database) as store, serving(database) as (address, _):
        run = _Recording(store)
        run.write(14)
        page = visit(address).open("/live")
        page.get_by_text("live run").first.wait_for()
        page.get_by_text("running", exact=True).first.wait_for()
        run.write_until("decode", 2)
        page.get_by_text("bucket 2 of 3", exact=False).wait_for(timeout=600_000)
        run.finish()
        page.get_by_text("Nothing is going on").wait_for(timeout=600_000)
        page.get_by_text("finished", exact=True).first.wait_for()
        page.close()  # before the server stops: it refreshes by itself


class _Recording:
    """A run whose events arrive bit by bit, as a recorder writes them."""

    def __init__(self, store: EventStore) -> None:
        self.store = store
        self.events = list(recorded_events())
        self.shift = time.time() - (self.events[0].time or 0.0)
        with store.begin() as transaction:
            transaction.ensure_run(
                RunRecord(
                    run_id="a" * 12, label="live run", status="running",
                    heartbeat_at=time.time(), process=own_process(),
                )
            )  # fmt: skip
        self.beating = threading.Event()
        self.heart = threading.Thread(target=self._beat, daemon=True)
        self.heart.start()

    def _beat(self) -> None:
        while not self.beating.wait(2.0):
            with self.store.begin() as transaction:
                transaction.update_run("a" * 12, heartbeat_at=time.time())

    def write(self, count: int) -> None:
        batch, self.events = self.events[:count], self.events[count:]
        now = [
            msgspec.structs.replace(event, time=event.time + self.shift)
            if event.time is not None else event
            for event in batch
        ]  # fmt: skip
        with self.store.begin() as transaction:
            transaction.append("a" * 12, now)

    def write_until(self, phase: str, index: int) -> None:
        for count, event in enumerate(self.events, 1):
            if getattr(event, "phase", "") == phase and event.index == index:
                self.write(count)
                return
        raise AssertionError("no such step")

    def finish(self) -> None:
        self.write(len(self.events))
        self.beating.set()
        self.heart.join()
        with self.store.begin() as transaction:
            transaction.update_run("a" * 12, status="finished")


HOSTILE = (
    "INFO 08-02 17:37:44 hpu_model_runner.py:493] Prompt bucket config (min, step, "
    "max_warmup) bs:[1, 32, 4], seq:[128, 128, 1024]\n"
    "INFO 08-02 17:37:45 config.py:1] Initializing an LLM engine (v0.6.0) with config: "
    "model='<img src=x onerror=alert(1)>**b** $x^2$ :smile: [l](javascript:alert)',"
    " speculative_config=None\n"
    "WARNING 08-02 17:37:46 hpu_model_runner.py:1] Configuration: <script>alert(2)"
    "</script> \x1b[2J\u202egnp.exe was not warmed-up! " + "W" * 3000 + "\n"
)


@pytest.mark.long
def test_a_hostile_log_shows_as_harmless_text(tmp_path, visit):
    log = tmp_path / "<b>hostile<i>.log"
    log.write_text(HOSTILE)
    with serving(tmp_path / "hostile.db") as (address, _):
        visitor = visit(address, viewport={"width": 1280, "height": 900})
        page = visitor.open("/")
        page.on("dialog", lambda dialog: visitor.troubles.append("a dialog opened"))
        page.locator('input[type="file"]').set_input_files(str(log))
        link = page.get_by_role("link", name=re.compile("Open run"))
        link.first.wait_for()
        page.get_by_text("<b>hostile<i>.log").first.wait_for()
        link.first.click()
        settle(page)
        for tab in page.get_by_role("tab").all():
            tab.click()
            settle(page)
            assert (
                page.locator("img[src='x'], a[href^='javascript'], .katex").count() == 0
            )
        page.get_by_role("heading", name="<b>hostile").first.wait_for()
        page.get_by_text("<img src=x").first.wait_for()
        main = page.get_by_test_id("stMain")
        assert main.evaluate("e => e.scrollWidth <= e.clientWidth")
        visitor.close()


@pytest.mark.long
def test_the_data_of_a_figure_can_be_taken_away(full_server, visit, tmp_path):
    page = visit(full_server).open("/run?run=recorded+0&tab=Graph+memory")
    page.get_by_text("Memory budget", exact=True).wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").first.click()
    path = tmp_path / "budget.csv"
    download.value.save_as(path)
    lines = path.read_text().splitlines()
    assert lines[0] == "step,kind,meaning,bytes,start_bytes,text"
    assert f"KV cache,part,kv_cache,{60 * 1024**3},0,60 GiB" in lines


@pytest.mark.long
def test_the_server_refuses_pages_of_another_name(full_server, chromium):
    """No data goes to a foreign name that points at this machine."""
    port = urlsplit(full_server).port
    browser = chromium.browser_type.launch(
        executable_path=CHROMIUM,
        args=[*ARGUMENTS, "--host-resolver-rules=MAP evil.example 127.0.0.1"],
    )
    page = browser.new_page()
    page.goto(f"http://evil.example:{port}/", wait_until="commit")
    page.wait_for_timeout(4000)
    assert page.get_by_test_id("stDataFrame").count() == 0
    browser.close()
