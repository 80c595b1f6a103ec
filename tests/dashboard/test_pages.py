"""Every page on a full, an empty, a damaged and a newer database."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from streamlit.testing.v1 import AppTest

from dashboard.run_tabs import TABS
from dashboard.text import short_name
from dashboard.widgets import MOST_COMPARED
from tests.dashboard.builders import add_run as add_recorded
from tests.dashboard.builders import recorded_events
from tests.dashboard.conftest import APP, ROOT
from tests.storage.builders import add_run
from warmup_insights.analysis.pareto import GOALS
from warmup_insights.cli import cli
from warmup_insights.ingest.single import ingest_path
from warmup_insights.model.events import ConfigRecorded, RunStarted, ServerReady
from warmup_insights.runs import refresh
from warmup_insights.storage import EventStore

PAGES = {
    "runs": "app_pages/runs.py",
    "run": "app_pages/run.py",
    "compare": "app_pages/compare.py",
    "memory": "app_pages/memory.py",
    "buckets": "app_pages/buckets.py",
    "live": "app_pages/live.py",
}
KINDS = ["full_database", "empty_database", "damaged_database", "newer_database"]
every_page = pytest.mark.parametrize("page", list(PAGES))


def open_page(monkeypatch, database, page: str, **query) -> AppTest:
    """The page as it is after another one in the same session."""
    monkeypatch.setenv("WARMUP_INSIGHTS_DB", str(database))
    app = AppTest.from_file(str(APP), default_timeout=600)
    app.session_state["app-runs"] = 1  # the first run leaves figures for the next one
    for name, value in query.items():
        app.query_params[name] = value
    return app.switch_page(PAGES[page]).run()


def texts(app: AppTest) -> str:
    """Everything that is written on the page."""
    parts = [
        *app.markdown,
        *app.caption,
        *app.title,
        *app.subheader,
        *app.error,
        *app.code,
        *app.text,
    ]
    return "\n".join(str(part.value) for part in parts)


@pytest.mark.long
@every_page
@pytest.mark.parametrize("kind", KINDS)
def test_no_page_ever_shows_a_trace(monkeypatch, request, kind, page):
    """An empty one names the next command, an unusable database is an error."""
    app = open_page(monkeypatch, request.getfixturevalue(kind), page)
    assert not app.exception
    assert app.title or app.error
    if kind == "empty_database":
        commands = "\n".join(block.value for block in app.code)
        # The lab needs no run.
        is_lab = page == "buckets" and "Strategies side by side" in texts(app)
        assert is_lab or "warmup-insights " in commands
    if kind == "damaged_database":
        assert app.error[0].value.count("SQLite database") == 1
    if kind == "newer_database":
        assert "pip install" in app.error[0].value
        assert "9\\.9" in app.error[0].value


NEEDLES = {
    "Timeline": "**Start-up**",
    "Buckets": "bucket",
    "Graph memory": "budget",
    "Capture": "Prompt",
    "While serving": "Shapes without a bucket",
}
"""What a tab surely shows, so that a tab that stays closed is noticed."""


@pytest.mark.long
def test_every_tab_is_shown_for_every_kind_of_run(monkeypatch, full_database):
    """All sample logs, whatever they lack; runs that look alike are looked at once."""
    with EventStore(full_database) as store:
        runs, summaries = store.runs(), store.summaries()
    seen = set()
    app = open_page(monkeypatch, full_database, "run", run=runs[0].run_id)
    for run in runs:
        summary = summaries[run.run_id]
        tabs = tuple(tab.title for tab in TABS if tab.has_content(summary))
        kind = (tabs, run.engine, run.status, summary.memory is None)
        if kind in seen:
            continue
        seen.add(kind)
        app.query_params["run"] = run.run_id
        for title in tabs:
            app.query_params["tab"] = app.session_state["tab"] = title
            app.run()
            assert not app.exception, (run.source_name, title, app.exception)
            assert NEEDLES.get(title, "") in texts(app), (run.source_name, title)
            assert bool(app.error) == bool(summary.failure), (run.source_name, title)
    assert len(seen) > 15


def test_a_run_can_be_named_by_a_label_and_a_wrong_one_is_a_sentence(
    monkeypatch, full_database
):
    app = open_page(monkeypatch, full_database, "run", run="recorded 1")
    assert app.title[0].value == "recorded 1"
    app = open_page(monkeypatch, full_database, "run", run="nonsense")
    assert "There is no run" in app.error[0].value


def test_a_trend_of_real_runs_has_no_mark(monkeypatch, tmp_path):
    with EventStore(tmp_path / "a.db") as store:
        for number in range(4):
            model, synthetic = ("o/made", True) if number < 2 else ("o/m", False)
            add_run(
                store, f"run{number}",
                [
                    RunStarted(engine="vllm", model=model, time=100.0 * number,
                               synthetic=synthetic),
                    ServerReady(time=100.0 * number + 60 + number),
                ],
            )  # fmt: skip
            refresh(store, f"run{number}")
    app = open_page(monkeypatch, tmp_path / "a.db", "runs")
    app.session_state["view"] = "Trend"
    app.run()
    assert "2 runs, median 1 min 02 s" in texts(app)
    assert "nan" not in texts(app)


def test_the_search_of_the_runs_page_filters_the_table(monkeypatch, full_database):
    app = open_page(monkeypatch, full_database, "runs")
    before = len(app.dataframe[0].value)
    (search,) = (box for box in app.text_input if box.label == "Search")
    search.set_value("recorded").run()
    assert before > 40
    assert list(app.dataframe[0].value["name"]) == [
        "recorded 2", "recorded 1", "recorded 0",
    ]  # fmt: skip


def test_choosing_a_phase_changes_the_map(monkeypatch, full_database):
    app = open_page(monkeypatch, full_database, "run", run="recorded 0")
    app.session_state["tab"] = "Buckets"
    app.run()
    assert "**Prompt buckets**" in [m.value.split(" :")[0] for m in app.markdown]
    app.button_group[0].set_value("decode").run()
    assert "**Decode buckets**" in [m.value.split(" :")[0] for m in app.markdown]


@pytest.mark.parametrize("page", ["run", "compare", "memory", "runs"])
def test_simulated_figures_are_marked(monkeypatch, full_database, page):
    query = {"run": "recorded 0"}
    if page == "compare":
        query = {"run": ["recorded 0", "recorded 1"]}
    if page == "memory":
        query = {"q": "recorded"}
    app = open_page(monkeypatch, full_database, page, **query)
    shown = texts(app)
    if page == "runs":
        table = app.dataframe[0].value
        is_recorded = table["name"].str.startswith("recorded")
        assert set(table[is_recorded]["figures"]) == {"simulated"}
    else:
        assert "simulated" in shown or "all synthetic" in shown


def test_predictions_from_a_run_are_added_to_the_configurations(
    monkeypatch, full_database
):
    app = open_page(monkeypatch, full_database, "memory", q="recorded")
    with EventStore(full_database) as store:
        run_id = store.find_run("recorded 0").run_id
    app.selectbox(key="plan-from").set_value(run_id).run()
    assert not app.exception
    assert "**Pick for balanced**" in texts(app)
    (figure,) = app.get("plotly_chart")
    assert '"name":"planned"' in figure.proto.spec.replace(": ", ":")


def test_predictions_follow_limits_of_the_engine(monkeypatch, full_database):
    """Another block size is planned without graphs: a table as `plan` prints it."""
    app = open_page(monkeypatch, full_database, "memory", q="recorded")
    with EventStore(full_database) as store:
        run_id = store.find_run("recorded 0").run_id
    app.selectbox(key="plan-from").set_value(run_id).run()
    app.number_input(key="plan-max-num-batched-tokens").set_value(512).run()
    assert not app.exception
    assert "cannot be generated with other settings" in texts(app)
    app.number_input(key="plan-max-num-batched-tokens").set_value(None)
    app.number_input(key="plan-block-size").set_value(256).run()
    assert not app.exception
    assert "**Planned without graphs**" in texts(app)
    table = next(each.value for each in app.dataframe if "plan" in each.value)
    assert list(table["block size"]) == ["128", "256"]
    assert list(table["KV blocks"]) == ["600", "300"]


def test_runs_have_one_name_on_the_page_of_a_comparison(monkeypatch, full_database):
    """That of the list to choose from, of the line of each run, and of its notes."""
    with EventStore(full_database) as store:
        runs = [run for run in store.runs() if run.source_name and run.model][:3]
    ids = [run.run_id for run in runs]
    app = open_page(monkeypatch, full_database, "compare", run=ids)
    lines = [each.value.replace("\\", "") for each in app.caption]
    options = app.multiselect[0].options
    for letter, run in zip("ABC", runs, strict=True):
        (line,) = [line for line in lines if f" {run.run_id} " in line]
        (option,) = [text for text in options if text.startswith(short_name(run.name))]
        front, _, back = option.partition(" \u00b7 ")[0].partition("\u2026")
        assert line.startswith((f"{letter} \u00b7 {front}", front))
        assert back in line


def test_the_lab_has_the_buckets_of_the_chosen_engine_version(
    monkeypatch, empty_database
):
    app = open_page(monkeypatch, empty_database, "buckets")
    version = next(box for box in app.selectbox if box.label == "Bucketing rules of")
    assert version.value == "v0.26.0"
    newest = texts(app)
    version.set_value("v0.19.0").run()
    assert not app.exception
    assert texts(app) != newest


def test_a_failed_run_opens_with_its_cause_and_what_to_change(
    monkeypatch, full_database
):
    with EventStore(full_database) as store:
        failed = store.runs(status="failed")
    assert len(failed) >= 2
    for run in failed:
        app = open_page(monkeypatch, full_database, "run", run=run.run_id)
        shown = texts(app)
        assert app.error[0].value.startswith("Failed")
        assert "**Evidence**" in shown
        assert "**Memory at the failure**" in shown
        assert "last good start of this model" in shown
        assert "**Advice**" in shown or "No change can be computed" in shown
        assert "Nothing to advise" not in shown
        message = store_message(full_database, run.run_id)
        evidence = [block.value for block in app.code if message[:200] in block.value]
        assert len(evidence) <= 1


def store_message(database, run_id: str) -> str:
    with EventStore(database) as store:
        failure = store.summary(run_id).failure
    return failure.message or "nothing"


def test_two_configurations_are_too_few_for_a_pick(monkeypatch, tmp_path):
    with EventStore(tmp_path / "two.db") as store:
        for number, captured in enumerate((3, 4)):
            events = recorded_events(captured=captured, scale=1 + number / 2)
            add_recorded(store, f"run{number}", events)
    app = open_page(monkeypatch, tmp_path / "two.db", "memory")
    assert "Too few configurations" in texts(app)
    assert "Pick for" not in texts(app)


def test_the_overview_of_a_failed_run_has_what_to_change_and_its_price(
    monkeypatch, full_database
):
    with EventStore(full_database) as store:
        (run_id, *_) = [
            run.run_id
            for run in store.runs(status="failed")
            if store.summary(run.run_id).failure.kind == "no_kv_cache"
        ]
    app = open_page(monkeypatch, full_database, "run", run=run_id, tab="Overview")
    assert "**Advice**" in texts(app)
    assert "**Price**" in texts(app)


def test_the_lab_opens_on_the_strategy_of_the_run(monkeypatch, tmp_path):
    """A version without the padding-aware strategy does not offer it."""
    settings = {"max_num_seqs": 8, "max_num_batched_tokens": 512, "max_model_len": 1024,
                "block_size": 128, "VLLM_EXPONENTIAL_BUCKETING": "false",
                "VLLM_DECODE_BS_BUCKET_MAX": 4}  # fmt: skip
    engine = RunStarted(engine="vllm-gaudi", version="0.14.1", device_kind="hpu")
    with EventStore(tmp_path / "a.db") as store:
        events = [engine, ConfigRecorded(settings=settings)]
        add_recorded(store, "run0", events)
    app = open_page(monkeypatch, tmp_path / "a.db", "buckets", run="run0")
    assert not app.exception
    assert app.button_group[0].value == ["exp", "lin"]
    assert app.button_group[1].value == "lin"
    assert "no effect" not in "".join(each.value for each in app.warning)


def test_the_first_page_lists_failed_starts_first_and_no_empty_column(
    monkeypatch, full_database
):
    table = open_page(monkeypatch, full_database, "runs").dataframe[0].value
    statuses = [status[0] for status in table["status"]]
    failed = statuses.count("failed")
    assert failed
    assert set(statuses[:failed]) == {"failed"}
    # Then the latest; those whose log has no time come last.
    has_time = list(table["started"][failed:].notna())
    assert has_time == sorted(has_time, reverse=True)
    assert not [name for name in table if table[name].isna().all()]
    assert table[table["status"].map(lambda s: s[0] == "failed")]["happened"].all()
    contents = set(table["happened"].dropna())
    assert "No start-up in these lines; 2 benchmark results" in contents
    assert any(text.startswith("Ends with ") for text in contents)


def test_too_few_configurations_offer_a_plan_and_a_sweep(monkeypatch, tmp_path):
    log = APP.parents[1] / "sample_logs" / "vllm-fork" / "warmup_doc_capture.log"
    with EventStore(tmp_path / "one.db") as store:
        ingest_path(store, str(log))
    app = open_page(monkeypatch, tmp_path / "one.db", "memory")
    assert "warmup-insights sweep" in app.code[0].value
    assert "Pick for" not in texts(app)
    (button,) = [b for b in app.button if "Plan from" in b.label]
    button.click().run()
    assert not app.exception
    assert "**Pick for balanced**" in texts(app)
    assert "Planned, not run" in texts(app)


@pytest.mark.parametrize(
    ("goal", "wanted"),
    [("requests", "recorded 2"), ("captured", "recorded 1"), ("fastest", None)],
)
def test_the_pick_follows_the_goal(monkeypatch, full_database, goal, wanted):
    app = open_page(monkeypatch, full_database, "memory", q="recorded")
    app.button_group(key="goal").set_value(goal).run()
    assert not app.exception
    shown = texts(app)
    assert f"**Pick for {GOALS[goal]}**" in shown
    if wanted is not None:
        reserve = {"recorded 2": "0\\.1", "recorded 1": "0\\.1875"}[wanted]
        (heading,) = [each.value for each in app.subheader]
        assert reserve in heading


def test_buckets_without_a_line_of_their_own_are_explained(monkeypatch, tmp_path):
    path = tmp_path / "runs.db"
    with EventStore(path) as store:
        log = ROOT / "sample_logs" / "vllm-fork" / "warmup_doc_capture.log"
        (run_id,) = ingest_path(store, str(log)).run_ids
    app = open_page(monkeypatch, path, "run", run=run_id)
    app.session_state["tab"] = "Buckets"
    app.run()
    assert not app.exception
    assert "17 have no line of their own. They count as warmed" in texts(app)


def test_misses_of_a_start_without_a_warm_up_blame_no_range(monkeypatch, tmp_path):
    """Whether the ranges are large enough is a question of its own, which advice answers."""
    path = tmp_path / "runs.db"
    with EventStore(path) as store:
        log = ROOT / "sample_logs" / "vllm-gaudi" / "made_skip_warmup.log"
        (run_id,) = ingest_path(store, log).run_ids
    app = open_page(monkeypatch, path, "run", run=run_id, tab="While serving")
    assert not app.exception
    assert "VLLM_SKIP_WARMUP=false" in texts(app)
    assert "No single maximum is too small" not in texts(app)


def test_a_start_of_one_line_leaves_no_empty_page(monkeypatch, tmp_path):
    log = tmp_path / "begin.log"
    log.write_text(
        "INFO 11-12 16:04:20 llm_engine.py:176] Initializing an LLM engine (v0.5.3.post1) "
        "with config: model='a/b', speculative_config=None, device_config=hpu\n"
    )
    path = tmp_path / "runs.db"
    with EventStore(path) as store:
        (run_id,) = ingest_path(store, log).run_ids
    app = open_page(monkeypatch, path, "run", run=run_id)
    assert not app.exception
    assert "No figures in these lines" in texts(app)


def test_sleeps_are_on_the_page_and_in_show(monkeypatch, tmp_path):
    """Each is a row of the page; `show` prints the last ten and how many there are."""
    begin = (ROOT / "sample_logs" / "vllm" / "made_v1_2026_tp2.log").read_text()
    log = tmp_path / "sleeps.log"
    log.write_text(begin + "".join(
        f"(EngineCore pid=20) INFO 07-16 10:00:{4 * n:02d} [abstract.py:331] It took {n}.5 "
        f"seconds to fall asleep.\n(EngineCore pid=20) INFO 07-16 10:00:{4 * n + 2:02d} "
        "[abstract.py:349] It took 0.5 seconds to wake up tags {'weights'}.\n"

        for n in range(6)
    ))  # fmt: skip
    path = tmp_path / "runs.db"
    with EventStore(path) as store:
        (run_id,) = ingest_path(store, log).run_ids
    app = open_page(monkeypatch, path, "run", run=run_id, tab="While serving")
    assert not app.exception
    (table,) = (each.value for each in app.dataframe if "at (UTC)" in each.value)
    assert list(table["time (s)"]) == [
        0.5,
        0.5,
        1.5,
        0.5,
        2.5,
        0.5,
        3.5,
        0.5,
        4.5,
        0.5,
        5.5,
        0.5,
    ]
    shown = CliRunner().invoke(cli, ["show", str(log)]).output
    assert "the last 10 of 12; --json prints all" in shown


def test_a_cache_without_room_failed_while_it_was_allocated(monkeypatch, tmp_path):
    """The last line before the error is that of the profiling run."""
    path = tmp_path / "runs.db"
    with EventStore(path) as store:
        log = ROOT / "sample_logs" / "vllm" / "made_v1_negative_kv_cache.log"
        (run_id,) = ingest_path(store, log).run_ids
    app = open_page(monkeypatch, path, "run", run=run_id)
    assert "Stage **allocating the KV cache**" in texts(app)


def test_more_runs_than_are_compared_are_cut_with_a_word(monkeypatch, tmp_path):
    """An address can name as many as somebody writes into it."""
    path = tmp_path / "many.db"
    with EventStore(str(path)) as store:
        ids = [f"run{number}" for number in range(MOST_COMPARED + 3)]
        for run_id in ids:
            add_run(store, run_id, started_at=100.0)
    app = open_page(monkeypatch, path, "compare", run=ids)
    assert not app.exception
    assert app.multiselect[0].value == ids[:MOST_COMPARED]
    assert f"the first {MOST_COMPARED} are compared" in app.warning[0].value


def test_a_file_without_a_start_up_names_the_next_step(monkeypatch, tmp_path):
    path = tmp_path / "none.db"
    with EventStore(str(path)) as store:
        add_run(store, "run0", source_kind="log", source_name="a.txt")
    app = open_page(monkeypatch, path, "run", run="run0")
    assert "No start-up in these lines" in texts(app)
    assert "warmup-insights ingest server.log" in texts(app)
