"""A database from somebody else runs no code, changes nothing outside, and ends no loop."""

from __future__ import annotations

import shutil
import sqlite3

import pytest
from click.testing import CliRunner

from tests.dashboard.test_pages import open_page
from tests.helpers import ROOT
from tests.safety.hostile import (
    HOSTILE,
    MARKUP,
    columns,
    make_database,
    poison,
    run_script,
)
from warmup_insights.cli import cli
from warmup_insights.cli.printing import print_notes, print_tables
from warmup_insights.errors import StoreError, WarmupInsightsError
from warmup_insights.export.tables import make_table
from warmup_insights.storage import EventStore
from warmup_insights.storage.engine import MAX_VALUE

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT"
PROGRAMS = {
    "trigger": "CREATE TRIGGER t AFTER UPDATE ON runs BEGIN DELETE FROM events; END",
    "trigger on a view": "CREATE VIEW v AS SELECT 1 AS a; CREATE TRIGGER t INSTEAD OF "
    "INSERT ON v BEGIN DELETE FROM runs; END",
    "view": f"ALTER TABLE runs RENAME TO r; CREATE VIEW runs AS {ENDLESS} i, * FROM n, r",
    "view of the version": "ALTER TABLE alembic_version RENAME TO a; "
    f"CREATE VIEW Alembic_Version AS {ENDLESS} i AS version_num FROM n",
    "virtual table": "ALTER TABLE store_info RENAME TO s; "
    "CREATE VIRTUAL TABLE store_info USING fts5(name, value)",
    "generated column": "ALTER TABLE runs ADD COLUMN evil "
    "AS (hex(zeroblob(400000000))) VIRTUAL",
}


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A database with one run, and the id of the run."""
    path = tmp_path_factory.mktemp("hostile") / "template.db"
    return path, make_database(path)


@pytest.fixture
def database(template, tmp_path):
    return shutil.copy(template[0], tmp_path / "a.db")


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_programs_in_a_database_are_refused(program, read_only, database):
    run_script(database, program)
    before = database.read_bytes()
    with pytest.raises(StoreError, match=r"holds a .* that this program did not make"):
        EventStore(database, read_only=read_only)
    assert database.read_bytes() == before


def test_tables_and_views_of_the_owner_may_stay(database):
    run_script(
        database,
        "CREATE VIEW mine AS SELECT * FROM runs; CREATE TABLE notes (a TEXT); "
        "CREATE INDEX quick ON events (kind)",
    )
    with EventStore(database) as store:
        assert len(store.runs()) == 1


def test_a_schema_cannot_call_unsafe_functions(database):
    """Nor can SQLite load anything: extensions are off, and schemas are not trusted."""
    run_script(database, "CREATE VIEW mine AS SELECT load_extension('/tmp/x') AS a")
    with EventStore(database) as store, store._engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA trusted_schema").scalar() == 0
        raw = connection.connection.driver_connection
        with pytest.raises(
            sqlite3.OperationalError, match=r"unsafe use|not authorized"
        ):
            raw.execute("SELECT * FROM mine").fetchall()
        with pytest.raises(sqlite3.OperationalError, match=r"not authorized"):
            raw.execute("SELECT load_extension('/tmp/x')")


@pytest.mark.parametrize("version", ["9" * 5000, "²", -1, b"\xff", "", "1e5", "' OR 1"])
def test_a_version_that_is_none_is_a_sentence(version, database):
    poison(database, "alembic_version", "version_num", version)
    with pytest.raises(StoreError):
        EventStore(database)


def test_a_value_beyond_all_sizes_is_a_sentence(database):
    if not hasattr(sqlite3.Connection, "setlimit"):
        pytest.skip("Python 3.10 cannot limit the size of a value")
    run_script(database, f"UPDATE runs SET notes = zeroblob({MAX_VALUE + 1})")
    with EventStore(database) as store, pytest.raises(StoreError, match="too big"):
        store.runs()


def commands(run_id):
    return [
        ["runs"], ["runs", "--json"], ["show", run_id], ["show", run_id, "--json"],
        ["show", run_id, "--buckets"], ["show", run_id, "--events"],
        ["export", run_id, "--format", "markdown"], ["export", run_id, "--format", "csv"],
        ["compare", run_id, run_id], ["advise", run_id], ["plan", run_id],
    ]  # fmt: skip


COLUMNS = [
    ("runs", "label"), ("runs", "model"), ("runs", "source_name"), ("runs", "notes"),
    ("runs", "status"), ("events", "payload"), ("events", "kind"), ("sources", "name"),
    ("sources", "report"), ("source_lines", "text"), ("run_summaries", "summary"),
    ("bucket_summaries", "bucket"), ("bucket_summaries", "executed"),
    ("bucket_summaries", "duration_s"), ("bucket_summaries", "state"),
]  # fmt: skip
SMALL = [
    value for value in HOSTILE if not (isinstance(value, str) and len(value) > 60_000)
]


@pytest.mark.long
@pytest.mark.parametrize(("table", "column"), COLUMNS, ids=map(".".join, COLUMNS))
def test_hostile_rows_are_shown_or_are_a_sentence(
    table, column, template, database, tmp_path, monkeypatch
):
    """Whatever a row holds: no trace, no file but the database's, none of it run."""
    path, run_id = template
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    for number, value in enumerate([MARKUP, "[" * 5000, *SMALL]):
        shutil.copy(path, database)
        if not poison(database, table, column, value):
            continue
        # Every command meets every kind of value, in turns: all pairs would take long.
        some = commands(run_id)[number % 6 :: 6]
        for arguments in some:
            result = CliRunner().invoke(cli, [*arguments, "--db", str(database)])
            assert isinstance(
                result.exception, (type(None), SystemExit, WarmupInsightsError)
            ), (value, arguments, result.exception)
            assert "\x1b[2J" not in result.stdout
    assert list(home.iterdir()) == []
    left = {entry.name for entry in tmp_path.iterdir()}
    assert left <= {"home", "a.db", "a.db-wal", "a.db-shm"}


def test_there_are_the_columns_that_are_poisoned(database):
    assert set(COLUMNS) <= set(columns(database))


def test_a_name_does_not_steer_the_terminal(capsys):
    """Neither in a cell, a head, a title nor in the note of a table."""
    acting = "\x1b[2Jmodel\x07\r\u202eenil\x9b31m\x1b]0;title\x07"
    print_tables([make_table(acting, (acting,), [(acting,)], note=acting)])
    printed = capsys.readouterr().out
    assert printed.count("model") == 4
    assert [part for part in ("\x1b[2J", "\x07", "\r", "\u202e", "\x9b", "\x1b]") if part in printed] == []  # fmt: skip
    print_notes(["\x1b[2Jnote"])
    assert capsys.readouterr().out == "Note: \ufffd[2Jnote\n"


PAGES_OF_ROWS = [
    ("runs", "label", "runs"), ("runs", "model", "run"), ("runs", "notes", "run"),
    ("runs", "engine", "runs"), ("run_summaries", "summary", "run"),
    ("run_summaries", "summary", "runs"), ("run_summaries", "warmup_s", "runs"),
    ("bucket_summaries", "duration_s", "run"), ("bucket_summaries", "bucket", "memory"),
    ("events", "payload", "run"), ("sources", "report", "run"),
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(
    ("table", "column", "page"), PAGES_OF_ROWS, ids=map(".".join, PAGES_OF_ROWS)
)
def test_the_dashboard_shows_hostile_rows_or_a_sentence(
    table, column, page, template, database, monkeypatch
):
    path, run_id = template
    for value in (MARKUP, b"\xff\xfe", "[" * 5000, "1"):
        shutil.copy(path, database)
        assert poison(database, table, column, value)
        app = open_page(monkeypatch, database, page, run=run_id)
        assert not app.exception, (value, app.exception[0].message)


def test_no_page_lets_html_through():
    """Whatever a row holds is shown by widgets that escape it."""
    sources = {
        path: path.read_text("utf-8") for path in (ROOT / "dashboard").rglob("*.py")
    }
    app = ROOT / "dashboard" / "app.py"
    # The one exception is a style sheet of constants.
    styles = 'st.html(STYLE + (DARK if widgets.is_dark() else ""))'
    assert sources[app].count(styles) == 1
    sources[app] = sources[app].replace(styles, "")
    assert len(sources) > 20
    for word in (
        "unsafe_allow_html",
        "st.html(",
        "components.v1",
        "allow_dangerous",
        "st.iframe",
    ):
        assert [path.name for path, text in sources.items() if word in text] == []
