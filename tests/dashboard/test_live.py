"""The live page: what is going on, alarms, and growing logs on the server."""

from __future__ import annotations

import time

import msgspec
import pytest

from dashboard import data, logs
from tests.dashboard.builders import recorded_events
from tests.dashboard.conftest import ROOT
from tests.dashboard.test_pages import open_page, texts
from warmup_insights.analysis.summary import RunFold
from warmup_insights.model.events import WarmupStep
from warmup_insights.model.run import RunRecord, own_process
from warmup_insights.storage import EventStore
from warmup_insights.units import format_duration

RUN = "a" * 12
LOG = ROOT / "sample_logs" / "vllm-fork" / "warmup_doc_capture.log"


def record(database, *, silent_s: float, heartbeat_s: float = 0.0) -> None:
    """A run whose last event was so long ago, and its recorder's last sign of life."""
    events = list(recorded_events())[:18]
    last = max(event.time for event in events if event.time is not None)
    shift = time.time() - silent_s - last
    with EventStore(database) as store, store.begin() as transaction:
        transaction.ensure_run(
            RunRecord(
                run_id=RUN, label="live run", status="running", model="tiny/model",
                heartbeat_at=time.time() - heartbeat_s, process=own_process(),
            )
        )  # fmt: skip
        transaction.append(
            RUN,
            [
                event
                if event.time is None
                else msgspec.structs.replace(event, time=event.time + shift)
                for event in events
            ],
        )


def test_a_run_that_goes_on_has_no_alarm(monkeypatch, tmp_path):
    record(tmp_path / "live.db", silent_s=1.0)
    app = open_page(monkeypatch, tmp_path / "live.db", "live")
    assert "live run" in texts(app)
    assert not app.warning
    assert not app.error


def test_the_time_so_far_goes_on_between_events(monkeypatch, tmp_path):
    """A stage of minutes without an event, such as an allocation, is time that passes."""
    record(tmp_path / "live.db", silent_s=90.0)
    app = open_page(monkeypatch, tmp_path / "live.db", "live")
    shown = {metric.label: metric.value for metric in app.metric}
    with EventStore(tmp_path / "live.db") as store:
        times = [e.time for e in store.events(RUN) if e.time is not None]
    passed = time.time() - min(times)
    near = {format_duration(passed - late) for late in range(60)}
    assert any(shown["So far"][:8] == text[:8] for text in near)


def test_silence_longer_than_the_longest_step_is_an_alarm(monkeypatch, tmp_path):
    record(tmp_path / "live.db", silent_s=90.0)
    app = open_page(monkeypatch, tmp_path / "live.db", "live")
    assert "No event for" in app.warning[0].value


def test_a_dead_recorder_is_an_error(monkeypatch, tmp_path):
    record(tmp_path / "live.db", silent_s=90.0, heartbeat_s=90.0)
    app = open_page(monkeypatch, tmp_path / "live.db", "live")
    assert "stopped writing" in app.error[0].value
    assert ":red-badge[failed]" in texts(app)


@pytest.mark.parametrize("heartbeat_s", [0.0, 90.0])
def test_the_list_is_filtered_by_the_status_that_it_shows(
    monkeypatch, tmp_path, heartbeat_s
):
    """The stored status of a run whose recorder was cut off is still `running`."""
    record(tmp_path / "live.db", silent_s=90.0, heartbeat_s=heartbeat_s)
    app = open_page(monkeypatch, tmp_path / "live.db", "runs")
    found = {}
    for status in ("running", "failed"):
        box = next(box for box in app.selectbox if box.label == "Any status")
        box.set_value(status).run()
        tables = app.dataframe
        found[status] = [row[0] for row in tables[0].value["status"]] if tables else []
    assert found == (
        {"running": [], "failed": ["failed"]}
        if heartbeat_s
        else {"running": ["running"], "failed": []}
    )


def test_paths_can_only_be_named_where_the_owner_allows_it(monkeypatch, empty_database):
    app = open_page(monkeypatch, empty_database, "live")
    assert not [field for field in app.text_input if "on this server" in field.label]
    monkeypatch.setenv("WARMUP_INSIGHTS_ALLOW_PATHS", "1")
    app = open_page(monkeypatch, empty_database, "live")
    assert [field for field in app.text_input if "on this server" in field.label]


def test_only_new_events_are_read_again(monkeypatch, tmp_path):
    """The page of a run goes on with the fold that it has."""
    record(tmp_path / "live.db", silent_s=1.0)
    app = open_page(monkeypatch, tmp_path / "live.db", "live")
    read = []
    take = RunFold.add_all
    monkeypatch.setattr(
        RunFold,
        "add_all",
        lambda self, new: take(self, [read.append(e) or e for e in new]),
    )
    more = WarmupStep(phase="prompt", bucket=(2, 256, 0), index=4, total=4)
    with EventStore(tmp_path / "live.db") as store, store.begin() as transaction:
        transaction.append(RUN, [msgspec.structs.replace(more, time=time.time())])
    app.run()
    assert "bucket 4 of 4" in app.get("progress")[0].proto.text
    assert [event.bucket for event in read] == [(2, 256, 0)]


def test_a_growing_log_is_read_again_and_again(monkeypatch, empty_database, tmp_path):
    lines = LOG.read_bytes().splitlines(keepends=True)
    log = tmp_path / "growing.log"
    log.write_bytes(b"".join(lines[:12]))
    monkeypatch.setattr(logs, "SHARE", 0.0)
    monkeypatch.setenv("WARMUP_INSIGHTS_ALLOW_PATHS", "1")
    app = open_page(monkeypatch, empty_database, "live")
    app.text_input[0].set_value(str(log))
    app.button[0].click().run()
    assert ":blue-badge[running]" in texts(app)
    with EventStore(empty_database) as store:
        (run,) = store.runs()
        assert run.status == "running"
        before = run.num_events
    log.write_bytes(b"".join(lines))
    app.run()
    with EventStore(empty_database) as store:
        (run,) = store.runs()
        assert (run.status, run.num_events > before) == ("running", True)
        assert store.summary(run.run_id).phase("prompt").captured == 15
    assert app.get("progress")[0].proto.text == "Warmed up, not ready yet"
    next(button for button in app.button if button.label == "Stop").click().run()
    with EventStore(empty_database) as store:
        assert store.runs()[0].status == "finished"


def test_a_missing_or_vanished_log_is_a_sentence(monkeypatch, empty_database, tmp_path):
    monkeypatch.setenv("WARMUP_INSIGHTS_ALLOW_PATHS", "1")
    app = open_page(monkeypatch, empty_database, "live")
    app.text_input[0].set_value(str(tmp_path / "no such.log"))
    app.button[0].click().run()
    assert "There is no file" in app.error[0].value
    log = tmp_path / "vanishing.log"
    log.write_bytes(LOG.read_bytes())
    app.text_input[0].set_value(str(log))
    app.button[0].click().run()
    log.unlink()
    app.session_state["followed"][str(log)].next_at = 0.0
    app.run()
    assert "cannot be read" in app.error[0].value


def test_a_server_whose_recorder_falls_silent_is_folded_anew(monkeypatch):
    """It may have been killed, although its start-up stays finished."""
    monkeypatch.setattr(data, "_place", lambda: ())
    keys = {
        data.VERSIONS[RunRecord](
            RunRecord(run_id="r", status="finished", heartbeat_at=time.time() - age)
        )
        for age in (0.0, 3600.0)
    }
    assert len(keys) == 2
