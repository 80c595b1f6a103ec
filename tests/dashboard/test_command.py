"""The `dashboard` command, and that its pages show what other commands print."""

from __future__ import annotations

import json
import socket

import pytest
from click.testing import CliRunner

from dashboard import comparing, configurations, lab, server
from dashboard.charts.buckets import buckets_frame
from dashboard.server import environment, known, options, read_settings
from dashboard.shown import frame_of
from dashboard.text import markdown, sentence
from tests.analysis import builders
from tests.dashboard.test_pages import open_page
from warmup_insights.analysis.compare import compare
from warmup_insights.analysis.pareto import configuration_rows
from warmup_insights.analysis.plan.regenerate import rules_version
from warmup_insights.bucketing.padding import assume_lengths
from warmup_insights.cli import cli
from warmup_insights.cli import dashboard as module
from warmup_insights.errors import InputError
from warmup_insights.export.buckets import compare_table
from warmup_insights.model.figures import BY_NAME, format_figure
from warmup_insights.storage import EventStore
from warmup_insights.units import format_percent

pytestmark = pytest.mark.long

RUNS = ("recorded 0", "recorded 1", "recorded 2")


@pytest.fixture
def started(monkeypatch, tmp_path):
    """What the command would start."""
    calls = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(server, "serve", lambda *given: calls.append(given))
    return calls


def test_it_listens_on_this_machine_only(started, tmp_path):
    result = CliRunner().invoke(cli, ["dashboard", "--db", str(tmp_path / "a.db")])
    (arguments, env), *_ = started
    assert result.exit_code == 0
    assert "--server.address=127.0.0.1" in arguments
    assert "--server.enableXsrfProtection=true" in arguments
    assert "--browser.gatherUsageStats=false" in arguments
    assert "--logger.hideWelcomeMessage=true" in arguments
    assert "--server.maxUploadSize=400" in arguments
    assert "--server.allowedHosts=127.0.0.1" in arguments
    assert read_settings(env) == read_settings(
        {"WARMUP_INSIGHTS_DB": str(tmp_path / "a.db")}
    )
    assert "Warning" not in result.stderr
    assert f"There is no database {tmp_path}/a.db yet;" in result.stderr
    EventStore(tmp_path / "a.db").close()
    result = CliRunner().invoke(cli, ["dashboard", "--db", str(tmp_path / "a.db")])
    assert "There is no database" not in result.stderr


def test_another_address_is_warned_about(started):
    result = CliRunner().invoke(cli, ["dashboard", "--host", "0.0.0.0", "--db", "x.db"])
    assert "without a password" in result.stderr
    assert "--server.address=0.0.0.0" in started[0][0]
    assert not [a for a in started[0][0] if "allowedHosts" in a]


def test_a_proxy_has_a_name_of_its_own(started):
    CliRunner().invoke(cli, ["dashboard", "--allow-host", "runs.example"])
    assert "--server.allowedHosts=runs.example" in started[0][0]
    assert "--server.allowedHosts=localhost" in started[0][0]


def test_paths_and_browser_are_options(started):
    CliRunner().invoke(cli, ["dashboard", "--allow-paths", "--no-browser"])
    arguments, env = started[0]
    assert read_settings(env).allow_paths
    assert "--server.headless=true" in arguments
    CliRunner().invoke(cli, ["dashboard"])
    arguments, env = started[1]
    assert not read_settings(env).allow_paths
    assert "--server.headless=false" in arguments


def test_what_is_no_database_is_not_served(started, tmp_path):
    (tmp_path / "text.db").write_text("no database\n" * 99)
    for name, problem in (
        ("text.db", "is not a SQLite database"), (".", "is a folder"),
        ("nowhere/a.db", "does not exist"),
    ):  # fmt: skip
        result = CliRunner().invoke(cli, ["dashboard", "--db", name])
        assert problem in str(result.exception)
    assert not started


def test_without_streamlit_the_error_names_what_to_install(monkeypatch, started):
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    result = CliRunner().invoke(cli, ["dashboard"])
    assert result.exit_code == 1
    assert "warmup-insights[dashboard]" in str(result.exception)
    assert not started


def test_passwords_are_not_printed(started):
    url = "postgresql://user:secret@host/db"
    result = CliRunner().invoke(cli, ["dashboard", "--db", url])
    assert "secret" not in result.output + result.stderr
    assert started[0][1]["WARMUP_INSIGHTS_DB"] == url


def test_every_option_is_one_of_streamlit():
    arguments = options(host="127.0.0.1", port=1, max_upload_mb=1, open_browser=False)
    # An older Streamlit may lack a detail of the look, never a setting of the server.
    unknown = set(arguments) - set(known(arguments))
    assert all(argument.startswith("--theme.padding") for argument in unknown)
    assert known(["--theme.colourOfTheMoon=red"]) == []


def test_options_of_other_apps_are_left_out():
    env = environment(
        {"STREAMLIT_SERVER_PORT": "1", "A": "b"}, database="d", allow_paths=False
    )
    assert "STREAMLIT_SERVER_PORT" not in env
    assert env["A"] == "b"


def test_the_compare_page_shows_what_compare_prints(monkeypatch, full_database):
    printed = json.loads(
        CliRunner()
        .invoke(cli, ["compare", *RUNS, "--db", str(full_database), "--json"])
        .stdout
    )
    app = open_page(monkeypatch, full_database, "compare", run=list(RUNS))
    app.toggle[0].set_value(True).run()
    shown = app.table[0].value.map(lambda cell: cell.replace("\u00a0", " "))
    assert list(shown.columns[1:]) == [markdown(run) for run in RUNS]
    shown.columns = ["figure", *RUNS]
    cells = {row["figure"]: row for row in shown.to_dict("records")}
    assert len(cells) == len(printed["figures"]) > 10
    with EventStore(full_database) as store:
        summaries = {run: store.summary(store.find_run(run).run_id) for run in RUNS}
    for figure in printed["figures"]:
        row = cells[markdown(figure["title"])]
        known = BY_NAME.get(figure["name"])
        for run, value in zip(RUNS, figure["values"], strict=True):
            step = 0.0 if known is None else known.step(summaries[run])
            assert row[run].startswith(format_figure(value, figure["unit"], step))
        for run, change in zip(RUNS[1:], figure["changes"], strict=True):
            assert (change["verdict"] in ("better", "worse")) == row[run].endswith(
                ("better", "worse")
            )
    settings = app.table[1].value
    names = [markdown(row["name"]) for row in printed["settings"]]
    assert list(settings["setting"]) == names


def test_the_compare_page_copies_the_markdown_of_compare(monkeypatch, full_database):
    printed = CliRunner().invoke(
        cli, ["compare", *RUNS[:2], "--db", str(full_database), "--markdown"]
    )
    app = open_page(monkeypatch, full_database, "compare", run=list(RUNS[:2]))
    app.session_state["view"] = "Markdown"
    app.run()
    assert app.code[0].value == printed.stdout.rstrip("\n")


def test_phases_and_budgets_of_a_comparison_are_those_of_the_runs(full_database):
    with EventStore(full_database) as store:
        runs = [store.find_run(name) for name in RUNS]
        summaries = [store.summary(run.run_id) for run in runs]
    result = compare(summaries)
    phases = comparing.phases_table(result, summaries)
    totals = phases.groupby("run")["duration_s"].sum()
    for name, summary in zip(RUNS, summaries, strict=True):
        assert totals[name] == pytest.approx(summary.time.wall_s)
    memory = comparing.memory_table(result)
    cache = memory[memory["name"] == "kv_cache"].set_index("run")["bytes"]
    assert cache["recorded 0"] == summaries[0].memory.kv_cache_bytes


def test_the_memory_page_marks_what_no_run_beats(full_database):
    with EventStore(full_database) as store:
        runs = [store.find_run(name) for name in RUNS]
        summaries = [store.summary(run.run_id) for run in runs]
    points = configurations.points_frame(configuration_rows(summaries), {})
    found = points.set_index("run_id")
    # 6, 7 and 5 of 7 buckets captured; 600, 400 and 750 blocks; equal warm-up.
    assert list(found["num_kv_blocks"]) == [600, 400, 750]
    assert list(found["captured_percent"].round(1)) == [85.7, 100.0, 71.4]
    assert list(found["best"]) == [True, True, True]


def test_the_lab_counts_what_buckets_generate_counts():
    defaults = {name: default for name, (*_, default) in lab.LIMITS.items()}
    limits = {**defaults, "max_num_seqs": 8, "max_model_len": 1024}
    trials = lab.run_trials(
        limits, {}, ["exp", "lin", "pad"], assume_lengths("uniform", 1024), "v0.24.0"
    )
    table = frame_of(compare_table(trials, assume_lengths("uniform", 1024)))
    for trial, row in zip(trials, table.to_dict("records"), strict=True):
        result = CliRunner().invoke(
            cli,
            ["buckets", "generate", "--json", "--strategy", trial.strategy,
             "--assume", "uniform", "--engine-version", "0.24.0",
             *[f"--{name.replace('_', '-')}={value}"
               for name, value in limits.items()]],
        )  # fmt: skip
        printed = json.loads(result.stdout)
        assert row["prompt"] == str(len(printed["prompt_buckets"]))
        assert row["decode"] == str(len(printed["decode_buckets"]))
        assert row["dropped"] == str(len(printed["dropped"]))
        share = format_percent(100 * printed["padding"]["prompt"]["ratio"])
        assert row["prompt padding"] == f"{share} of tokens"


def test_the_lab_assumes_what_the_command_assumes(monkeypatch, empty_database):
    app = open_page(monkeypatch, empty_database, "buckets")
    asked = CliRunner().invoke(cli, ["buckets", "compare", "--help"]).stdout
    (assumed,) = [
        box for box in app.selectbox if box.label == "Without lengths, assume"
    ]
    assert f"[default: {assumed.value}]" in " ".join(asked.split())


def test_wrong_input_of_the_lab_is_a_sentence():
    with pytest.raises(InputError, match="Line 2 of the variables"):
        lab.read_overrides("A=1\nnonsense")
    with pytest.raises(InputError, match="lengths:1"):
        lab.read_lengths("many", "uniform", 10)
    assert lab.read_overrides("export A='1'  # why\n\n") == {"A": "1"}


def test_visitors_of_the_lab_read_no_file_of_the_server(
    monkeypatch, empty_database, tmp_path
):
    secret = tmp_path / "secret.txt"
    secret.write_text("the first line", encoding="utf-8")
    app = open_page(monkeypatch, empty_database, "buckets")
    app.text_area[0].set_value(f"VLLM_BUCKETING_FROM_FILE={secret}").run()
    assert "names a file of this server" in app.error[0].value
    assert "the first" not in app.error[0].value


def test_the_lab_page_shows_a_wrong_variable_as_a_sentence(monkeypatch, empty_database):
    app = open_page(monkeypatch, empty_database, "buckets")
    app.text_area[0].set_value("VLLM_PROMPT_BS_BUCKET_MIN=many").run()
    assert not app.exception
    assert "not a whole number" in app.error[0].value


def test_the_lab_starts_from_a_run(full_database):
    with EventStore(full_database) as store:
        summary = store.summary(store.find_run("recorded 0").run_id)
        rows = buckets_frame(store.bucket_summaries(summary.run_id))
    assert lab.limits_of(summary) == {
        "max_num_seqs": 2, "max_num_batched_tokens": 256, "max_model_len": 4096,
        "block_size": 128, "num_kv_blocks": 600,
    }  # fmt: skip
    # Warmed in 1 to 4 s and 1 to 3 s, captured in 1 s and 0.5 s each.
    costs = lab.seconds_per_bucket(rows)
    assert costs["prompt"] == pytest.approx((1 + 2 + 3 + 4 + 3) / 4)
    assert costs["decode"] == pytest.approx((1 + 2 + 3 + 1.5) / 3)


@pytest.mark.parametrize(
    ("recorded", "expected"), [({}, "v0.19.0"), ({"vllm_gaudi_version": "0.26.0"}, "v0.26.0")]
)  # fmt: skip
def test_the_lab_takes_the_rules_that_a_plan_of_the_run_takes(recorded, expected):
    engine = builders.started(version="0.19.0")
    settings = builders.config(max_num_seqs="32", **recorded)
    summary = builders.summary_of([engine, settings])
    assert rules_version(summary) == expected
    assert lab.limits_of(summary) == {"max_num_seqs": 32}


def test_the_advice_of_a_run_is_that_of_advise(monkeypatch, full_database):
    printed = json.loads(
        CliRunner()
        .invoke(cli, ["advise", "recorded 0", "--db", str(full_database), "--json"])
        .stdout
    )["findings"]
    app = open_page(monkeypatch, full_database, "run", run="recorded 0")
    app.session_state["tab"] = "Advice"
    app.run()
    with EventStore(full_database) as store:
        run_id = store.find_run("recorded 0").run_id
    shown = [m.value for m in app.markdown if m.value.startswith("**Advice**")]
    assert shown == [
        f"**Advice** {sentence(finding['suggestion'].replace(' RUN`', f' {run_id}`'))}"
        for finding in printed
    ]
    assert len(shown) > 1


def test_a_port_that_is_taken_is_named_with_the_option(empty_database):
    """Before the address is printed, which would be that of another server."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        found = CliRunner().invoke(
            cli, ["dashboard", "--db", str(empty_database), "--port", str(port)]
        )
    assert str(found.exception) == f"Port {port} is taken; choose another with --port"
    assert "http" not in found.output
