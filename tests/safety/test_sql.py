"""Values reach a database as bound parameters only; no text of SQL is made of them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from warmup_insights.model.run import RunRecord
from warmup_insights.runs import delete_runs
from warmup_insights.storage import EventStore

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [
    path
    for folder in ("warmup_insights", "parsers", "dashboard")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
SQL = re.compile(
    r"\b(?:SELECT|INSERT|UPDATE|DELETE|PRAGMA|BEGIN|CREATE|DROP|ALTER|ATTACH|VACUUM"
    r"|WHERE|VALUES|ON CONFLICT|SAVEPOINT)\b"
)
ALLOWED = {
    # Names of tables and columns out of our own schema, checked before, and the driver's
    # mark for a parameter.
    "store.py": {
        "table",
        "table.name",
        "names",
        "settings",
        "self._mark",
        "rows",
    },
    "queries.py": {"', '.join(sources.c.keys())", "_SOURCES"},
    # DEFERRED or IMMEDIATE, set where a transaction begins.
    "engine.py": {"PAGE_SIZE", "mode"},
    "schema.py": {"table", "column"},
}


def made_sql(source: str) -> list[tuple[int, str]]:
    """Line and source of every expression that is put into a text of SQL."""
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.JoinedStr(values=parts) if _is_sql(parts):
                found += [
                    (node.lineno, ast.unparse(part.value))
                    for part in parts
                    if isinstance(part, ast.FormattedValue)
                ]
            case ast.BinOp(op=ast.Add() | ast.Mod(), left=left, right=right):
                if _is_sql([left]) or _is_sql([right]):
                    found.append((node.lineno, ast.unparse(node)))
            case ast.Call(
                func=ast.Attribute(value=text, attr="format" | "join" | "replace")
            ):
                if _is_sql([text]):
                    found.append((node.lineno, ast.unparse(node)))
    return found


def _is_sql(parts: list[ast.expr]) -> bool:
    texts = [p.value for p in parts if isinstance(p, ast.Constant)]
    return any(isinstance(text, str) and SQL.search(text) for text in texts)


@pytest.mark.parametrize(
    "path", SOURCES, ids=[str(path.relative_to(ROOT)) for path in SOURCES]
)
def test_no_value_is_put_into_a_text_of_sql(path):
    made = made_sql(path.read_text("utf-8"))
    allowed = ALLOWED.get(path.name, set()) if "storage" in path.parts else set()
    assert [(line, text) for line, text in made if text not in allowed] == []


def test_names_of_columns_are_checked(tmp_path):
    """What stands in a text of SQL cannot come from outside."""
    with EventStore(tmp_path / "a.db") as store, store.begin() as transaction:
        transaction.ensure_run(RunRecord(run_id="a"))
        for name in ("label = 'x' --", "no_such", 'label" = 1 --'):
            with pytest.raises(TypeError, match="no such column"):
                transaction.append("a", [], **{name: "x"})
            with pytest.raises(TypeError, match="no such column"):
                transaction.update_run("a", **{name: "x"})


@pytest.mark.parametrize(
    "source",
    [
        "execute(f'SELECT * FROM runs WHERE label = {label!r}')",
        "execute('SELECT * FROM runs WHERE label = ' + label)",
        "execute('DELETE FROM runs WHERE run_id = %s' % run_id)",
        "execute('SELECT {} FROM runs'.format(column))",
        "text(f'ORDER {x} WHERE {y}')",
    ],
)
def test_made_sql_is_seen(source):
    assert made_sql(source) != []


HOSTILE = [
    "'; DROP TABLE runs; --",
    '" OR 1=1 --',
    "%",
    "_",
    "\\",
    "a'b\"c`d",
    "?",
    ":x",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_values_are_only_values(text, tmp_path):
    with EventStore(tmp_path / "a.db") as store:
        with store.begin() as transaction:
            transaction.ensure_run(RunRecord(run_id=text, label=text, model=text))
            transaction.ensure_run(RunRecord(run_id="other", label="xyz"))
        assert store.run(text).label == text
        assert [run.run_id for run in store.runs(label=text)] == [text]
        assert [run.run_id for run in store.runs(text=text)] == [text]
        assert store.find_run(text).run_id == text
        store.update_run(text, label=text + text)
        delete_runs(store, [text])
        assert [run.run_id for run in store.runs()] == ["other"]
