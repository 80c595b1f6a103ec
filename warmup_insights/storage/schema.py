"""The tables of the store, as they are in the newest version.

JSON is kept as text, so that SQLite and PostgreSQL store the same bytes. Times are
seconds since the epoch in UTC, sizes bytes, durations seconds; unknown is null.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    func,
)
from sqlalchemy.engine import Connection, Engine

from warmup_insights.errors import StoreError

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
    }
)

version_table = Table(
    "alembic_version",
    metadata,
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
    info={"doc": "The version of the schema; the first versions used Alembic."},
)

store_info = Table(
    "store_info",
    metadata,
    Column("name", Text, primary_key=True, doc="`needs_version`, or a spool"),
    Column("value", Text, nullable=False, doc="of a spool: bytes that are stored"),
    info={"doc": "Facts about the database itself."},
)

sources = Table(
    "sources",
    metadata,
    Column("source_id", Text, primary_key=True),
    Column("name", Text, nullable=False, doc="file name, never used as a path"),
    Column("digest", Text, nullable=False, unique=True, doc="hash of all bytes"),
    Column("head_digest", Text, nullable=False, index=True, doc="of the first bytes"),
    Column("size_bytes", BigInteger, nullable=False),
    Column("lines", BigInteger, nullable=False),
    Column("dialects", Text, nullable=False, doc="JSON list"),
    Column("report", Text, nullable=False, doc="JSON, the parse report"),
    Column("timezone", Text, doc="in which timestamps were read"),
    Column("ingested_at", Float, nullable=False),
    info={"doc": "Logs that were read."},
)

source_lines = Table(
    "source_lines",
    metadata,
    Column(
        "source_id",
        Text,
        ForeignKey("sources.source_id", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("line", BigInteger, primary_key=True, autoincrement=False, doc="from 1"),
    Column("rule", Text, doc="that matched; null for an unknown relevant line"),
    Column("text", Text, nullable=False),
    info={"doc": "Lines of a log that state something or look relevant, as evidence."},
    sqlite_with_rowid=False,
)

runs = Table(
    "runs",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("label", Text, index=True, doc="given by the user"),
    Column("notes", Text, doc="given by the user"),
    Column(
        "source_id",
        Text,
        ForeignKey("sources.source_id", ondelete="CASCADE"),
        index=True,
        doc="null for a recorder",
    ),
    Column("source_kind", Text, nullable=False, doc="`log` or `recorder`"),
    Column("source_name", Text),
    Column("ordinal", Integer, nullable=False, doc="start-up in its source, from 0"),
    Column("engine", Text),
    Column("version", Text),
    Column("model", Text),
    Column(
        "device_kind",
        Text,
        doc="`hpu`, `cuda`, `rocm`, `xpu`, `tpu`, `cpu` or `simulated`",
    ),
    Column("device_name", Text),
    Column(
        "status",
        Text,
        nullable=False,
        doc="`finished`, `running`, `failed`, `skipped` or `unknown`",
    ),
    Column("started_at", Float),
    Column("created_at", Float, nullable=False),
    Column("updated_at", Float, nullable=False),
    Column("heartbeat_at", Float, doc="last sign of life of the recorder"),
    Column("synthetic", Boolean, nullable=False, doc="simulated or made up"),
    Column("num_events", BigInteger, nullable=False, doc="also the next `seq`"),
    Column("process", Text, doc="that records: host, process id, start; null for logs"),
    info={"doc": "One start of one engine each."},
)
Index(
    "ix_runs_newest", func.coalesce(runs.c.started_at, runs.c.created_at), runs.c.run_id
)


def _run_key() -> Column[str]:
    return Column(
        "run_id",
        Text,
        ForeignKey("runs.run_id", ondelete="CASCADE"),
        primary_key=True,
    )


events = Table(
    "events",
    metadata,
    _run_key(),
    Column("seq", BigInteger, primary_key=True, autoincrement=False, doc="from 0"),
    Column("kind", Text, nullable=False, doc="tag of the event class"),
    Column("rank", BigInteger),
    Column("time", Float),
    Column("line", BigInteger, doc="in the log, from 1; null from a recorder"),
    Column("phase", Text),
    Column("mode", Text),
    Column("batch_size", BigInteger, doc="of buckets with two or three dimensions"),
    Column("query_len", BigInteger, doc="second dimension; the only one if one"),
    Column("num_blocks", BigInteger, doc="third dimension"),
    Column("duration_s", Float),
    Column("memory_bytes", BigInteger, doc="what it took, where one number states it"),
    Column("payload", Text, nullable=False, doc="the whole event as JSON"),
    info={"doc": "Everything that happened in a run, in order."},
    sqlite_with_rowid=False,
)

run_summaries = Table(
    "run_summaries",
    metadata,
    _run_key(),
    Column("schema", Integer, nullable=False, doc="version of the summary"),
    Column("summary", Text, nullable=False, doc="JSON"),
    Column("num_events", BigInteger, nullable=False, doc="that it was made from"),
    Column("status", Text),
    Column("started_at", Float),
    Column("ready_s", Float, doc="from start to ready"),
    Column("warmup_s", Float),
    Column("captured_percent", Float, doc="captured of generated, all phases"),
    Column("num_kv_blocks", BigInteger),
    Column("missed", BigInteger, doc="shapes that no bucket covered"),
    Column("fold", Integer, doc="version of the fold that made it"),
    Column("wall_s", Float, doc="from start to ready, or to the last event"),
    Column("doubtful", Text, doc="which of these columns have contradictory evidence"),
    Column("start", Text, doc="kind of start: what came from earlier starts"),
    info={"doc": "The summary of each run, refreshed when the run changes."},
)

bucket_summaries = Table(
    "bucket_summaries",
    metadata,
    _run_key(),
    Column("phase", Text, primary_key=True),
    Column("bucket", Text, primary_key=True, doc="dimensions joined by `x`"),
    Column("d0", BigInteger),
    Column("d1", BigInteger),
    Column("d2", BigInteger),
    Column("d3", BigInteger),
    Column("generated", Integer),
    Column("warmed", Integer),
    Column("captured", Integer),
    Column("skipped", Integer),
    Column("missed", Integer),
    Column("duration_s", Float),
    Column("memory_bytes", BigInteger),
    Column("executed", Text, doc="JSON list, the shape that really ran"),
    Column("state", Text),
    Column("gc_s", Float, doc="of the steps, in the garbage collector"),
    Column("compiled", Integer, doc="recipes or graphs compiled in the steps"),
    Column("resolution_s", Float, doc="how far off `duration_s` may be, from a bar"),
    Column("compile_s", Float, doc="what compiling them took"),
    Column("run", Text, doc="JSON, the run without a capture"),
    Column("capture", Text, doc="JSON, the capture of its graph"),
    info={"doc": "What became of each bucket of a run."},
    sqlite_with_rowid=False,
)


NEEDS_VERSION = "0.1.0"
"""The first version of warmup-insights that can read the newest schema."""
_UPGRADE_LOCK = 0x77617270
"""Number of the advisory lock that keeps two upgrades of one PostgreSQL apart."""


FIRST = "0001"
"""The schema of the first version, which no step leads to."""
MIGRATIONS = [
    ("0002", "runs", "process TEXT"),
    # Summaries of an older fold are made anew from the events when a run is read.
    ("0003", "run_summaries", "fold INTEGER"),
    ("0003", "run_summaries", "wall_s FLOAT"),
    ("0003", "run_summaries", "doubtful TEXT"),
    ("0003", "bucket_summaries", "gc_s FLOAT"),
    ("0003", "bucket_summaries", "compiled INTEGER"),
    ("0003", "bucket_summaries", "resolution_s FLOAT"),
    ("0003", "bucket_summaries", "compile_s FLOAT"),
    ("0003", "bucket_summaries", "run TEXT"),
    ("0003", "bucket_summaries", "capture TEXT"),
    ("0004", "run_summaries", "start TEXT"),
]
"""The columns that were added since: version of the schema, table, name and type."""
VERSIONS = [FIRST, *dict.fromkeys(number for number, _, _ in MIGRATIONS)]
NEWEST = VERSIONS[-1]


def is_current(engine: Engine, where: str) -> bool:
    """True when the database has the newest schema; it is only read.

    Raises StoreError for a database of another program or of a newer version.
    """
    with engine.connect() as connection:
        return stored_version(connection, where) == NEWEST


def prepare_schema(engine: Engine, where: str) -> None:
    """Create or upgrade the tables where needed; StoreError if that cannot be.

    A database that is up to date is only read, so opening never waits for a writer.
    """
    if is_current(engine, where):
        return
    with engine.connect() as plain:
        connection = plain.execution_options(sqlite_begin="IMMEDIATE")
        with connection.begin():
            if connection.dialect.name == "postgresql":
                lock = sa.func.pg_advisory_xact_lock(_UPGRADE_LOCK)
                connection.execute(sa.select(lock))
            version = stored_version(connection, where)
            if version is None:
                metadata.create_all(connection)
            else:
                for number, table, column in MIGRATIONS:
                    if number > version:
                        added = f"ALTER TABLE {table} ADD COLUMN {column}"
                        connection.execute(sa.text(added))
            _write_version(connection)


def _write_version(connection: Connection) -> None:
    connection.execute(version_table.delete())
    connection.execute(version_table.insert().values(version_num=NEWEST))
    connection.execute(store_info.delete().where(store_info.c.name == "needs_version"))
    connection.execute(
        store_info.insert().values(name="needs_version", value=NEEDS_VERSION)
    )


def stored_version(connection: Connection, where: str) -> str | None:
    """The schema version in the database; None when it is empty.

    Raises StoreError for a database of another program or of a newer version.
    """
    refuse_programs(connection, where)
    tables = set(sa.inspect(connection).get_table_names())
    if store_info.name not in tables:
        is_sqlite = connection.dialect.name == "sqlite"
        if tables if is_sqlite else tables & set(metadata.tables):
            raise StoreError(
                f"{where} is a database of another program; choose another one with --db"
            )
        return None
    query = sa.text("SELECT version_num FROM alembic_version")
    version = str(connection.execute(query).scalar_one())[:20]
    if version not in VERSIONS:
        stored = sa.text("SELECT value FROM store_info WHERE name = 'needs_version'")
        needed = str(connection.execute(stored).scalar() or "unknown")[:20]
        raise StoreError(
            f"The database {where} has schema {version} of a newer version; install "
            f"it with pip install 'warmup-insights>={needed}'"
        )
    return version


_PROGRAMS = """
SELECT type, name FROM sqlite_master
WHERE type = 'trigger' OR (type = 'view' AND lower(name) IN :ours)
    OR (type = 'table' AND lower(name) IN :ours AND sql LIKE 'create virtual%')
UNION ALL
SELECT 'generated column', master.name || '.' || info.name
FROM sqlite_master AS master, pragma_table_xinfo(master.name) AS info
WHERE master.type = 'table' AND lower(master.name) IN :ours
    AND master.sql NOT LIKE 'create virtual%' AND info.hidden <> 0
LIMIT 1
"""
_QUERY = sa.text(_PROGRAMS).bindparams(sa.bindparam("ours", expanding=True))


def refuse_programs(connection: Connection, where: str) -> None:
    """Raise StoreError when a SQLite database would run something of its own.

    A trigger runs when a row is written, a view or a generated column when one is read,
    and either can run without an end. What this program makes holds none, so nothing is
    lost by refusing them. They cannot call unsafe functions: `trusted_schema` is off.
    """
    if connection.dialect.name != "sqlite":
        return
    found = connection.execute(_QUERY, {"ours": list(metadata.tables)}).first()
    if found is not None:
        raise StoreError(
            f"{where} holds a {found[0]} ({str(found[1])[:80]!r}) that this program did "
            "not make and will not run; take the tables over into a new database, or "
            "choose another file with --db"
        )
