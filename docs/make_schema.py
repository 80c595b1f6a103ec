"""Writes docs/schema.md from a new database and from the classes of a summary.

`python docs/make_schema.py` rewrites the page; `--check` exits 1 when it is not current.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from warmup_insights.model import summary as model
from warmup_insights.storage.schema import NEWEST, metadata

PAGE = Path(__file__).with_name("schema.md")
HEAD = f"""\
# Schema: the database, and the JSON of a run

This page is made by `python docs/make_schema.py`; a test compares it with a new database
and with `warmup_insights/model/summary.py`.

The tables have version {NEWEST}, as in `alembic_version`, and are the same in SQLite and
PostgreSQL. Times in them are seconds since the epoch in UTC; JSON is kept as text.
[The JSON of a run](#the-json-of-a-run) is what `show RUN --json` prints. Everywhere sizes
are bytes, durations seconds, and what is unknown is null, never 0.
"""
JSON_HEAD = f"""\
## The JSON of a run

`warmup-insights show RUN --json` prints a [RunSummary](#runsummary); with `--buckets` it
has one more key, `bucket_rows`, a list of [BucketRow](#bucketrow). A run that `export` wrote
has both, the first under `summary`. `schema` is {model.SCHEMA}: keys are added, never renamed
or removed.

Every key is always there. A shape is a list of integers, as `[batch_size, query_len,
num_blocks]`. Times are ISO 8601 in UTC where they are text. A figure of several ranks is
that of the lowest rank that has it; counts of buckets are those of the rank with the fewest.
"""
_WORDS = {
    "str": "text",
    "int": "integer",
    "float": "number",
    "bool": "true or false",
    "None": "null",
    "Bucket": "shape",
    "Setting": "any",
    "Any": "any",
}


def page() -> str:
    """The text of the page."""
    engine = sa.create_engine("sqlite://")
    with engine.begin() as connection:
        metadata.create_all(connection)
        parts = [HEAD, *(_table(connection, table) for table in metadata.tables)]
    engine.dispose()
    parts += [JSON_HEAD, *_sections()]
    return "\n".join(parts)


def _table(connection: Connection, name: str) -> str:
    about = metadata.tables[name].info["doc"]
    lines = [f"## {name}", "", about, "", "| column | type | | |", "|---|---|---|---|"]
    lines += _columns(connection, name)
    indexes = list(_indexes(connection, name))
    if indexes:
        lines += ["", f"Indexes: {'; '.join(indexes)}."]
    return "\n".join(lines) + "\n"


def _columns(connection: Connection, table: str) -> Iterator[str]:
    query = sa.text('SELECT name, type, "notnull", pk FROM pragma_table_info(:table)')
    foreign = {
        row[0]: f"{row[1]}.{row[2]}"
        for row in connection.execute(
            sa.text(
                'SELECT "from", "table", "to" FROM pragma_foreign_key_list(:table)'
            ),
            {"table": table},
        )
    }
    for name, kind, is_required, key in connection.execute(query, {"table": table}):
        notes = ["key"] if key else ["required"] if is_required else []
        if name in foreign:
            notes.append(f"of {foreign[name]}")
        about = metadata.tables[table].c[name].doc or ""
        yield f"| `{name}` | {kind.lower()} | {', '.join(notes)} | {about} |"


def _indexes(connection: Connection, table: str) -> Iterator[str]:
    query = sa.text(
        "SELECT sql FROM sqlite_master WHERE type = 'index' AND tbl_name = :table "
        "AND sql IS NOT NULL ORDER BY name"
    )
    for (statement,) in connection.execute(query, {"table": table}):
        yield f"`{statement[statement.index('(') :]}`"


def _sections() -> Iterator[str]:
    """The classes of a summary: the whole first, then its sections in order."""
    body = ast.parse(inspect.getsource(model)).body
    classes = [node for node in body if isinstance(node, ast.ClassDef)]
    found = {node.name: node for node in classes if node.name != "Part"}
    for name in ("RunSummary", *(name for name in found if name != "RunSummary")):
        about = _plain(ast.get_docstring(found[name]) or "")
        lines = [f"### {name}", "", about, "", "| key | type | |", "|---|---|---|"]
        yield "\n".join([*lines, *_fields(found[name], set(found))]) + "\n"


def _fields(node: ast.ClassDef, classes: set[str]) -> Iterator[str]:
    for field, after in zip(node.body, [*node.body[1:], None], strict=True):
        if not isinstance(field, ast.AnnAssign):
            continue
        kind = _type_text(field.annotation, classes)
        match after:
            case ast.Expr(value=ast.Constant(value=str(text))):
                about = _plain(text)
            case _:
                raise SystemExit(
                    f"{node.name}: a field has no docstring: {field.lineno}"
                )
        yield f"| `{ast.unparse(field.target)}` | {kind} | {about} |"


def _plain(text: str) -> str:
    """A docstring in one line, in the words of JSON."""
    return re.sub(r"\bNone\b", "null", " ".join(text.split()))


def _type_text(node: ast.expr, classes: set[str]) -> str:
    """An annotation in words; a class is a link to its section."""
    match node:
        case ast.BinOp(left=left, right=right):
            return f"{_type_text(left, classes)} or {_type_text(right, classes)}"
        case ast.Subscript(value=ast.Name(id="list"), slice=item):
            return f"list of {_type_text(item, classes)}"
        case ast.Subscript(slice=ast.Tuple(elts=[_, ast.Name(id="Any" | "Setting")])):
            return "object"
        case ast.Subscript(value=ast.Name(id="dict"), slice=ast.Tuple(elts=[_, item])):
            return f"object of {_type_text(item, classes)}"
        case ast.Subscript(slice=ast.Tuple(elts=items)):
            return f"list of {len(items)} {_type_text(items[0], classes)}s"
    name = ast.unparse(node)
    return f"[{name}](#{name.lower()})" if name in classes else _WORDS[name]


def main() -> int:
    """Write the page, or compare it."""
    text = page()
    if "--check" in sys.argv[1:]:
        return int(not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
