"""Runs, their sources, events and summaries."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables of the first version."""
    _create_store_info()
    _create_sources()
    _create_runs()
    _create_events()
    _create_summaries()


def _create_store_info() -> None:
    op.create_table(
        "store_info",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_store_info"),
    )


def _create_sources() -> None:
    op.create_table(
        "sources",
        sa.Column("source_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("head_digest", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("lines", sa.BigInteger(), nullable=False),
        sa.Column("dialects", sa.Text(), nullable=False),
        sa.Column("report", sa.Text(), nullable=False),
        sa.Column("timezone", sa.Text()),
        sa.Column("ingested_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("source_id", name="pk_sources"),
        sa.UniqueConstraint("digest", name="uq_sources_digest"),
    )
    op.create_index("ix_sources_head_digest", "sources", ["head_digest"])
    op.create_table(
        "source_lines",
        sa.Column("source_id", sa.Text(), nullable=False),
        sa.Column("line", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("rule", sa.Text()),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["source_id"],
            ["sources.source_id"],
            name="fk_source_lines_source_id",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("source_id", "line", name="pk_source_lines"),
        sqlite_with_rowid=False,
    )


def _create_runs() -> None:
    op.create_table(
        "runs",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("label", sa.Text()),
        sa.Column("notes", sa.Text()),
        sa.Column("source_id", sa.Text()),
        sa.Column("source_kind", sa.Text(), nullable=False),
        sa.Column("source_name", sa.Text()),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("engine", sa.Text()),
        sa.Column("version", sa.Text()),
        sa.Column("model", sa.Text()),
        sa.Column("device_kind", sa.Text()),
        sa.Column("device_name", sa.Text()),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("started_at", sa.Float()),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("updated_at", sa.Float(), nullable=False),
        sa.Column("heartbeat_at", sa.Float()),
        sa.Column("synthetic", sa.Boolean(), nullable=False),
        sa.Column("num_events", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["source_id"],
            ["sources.source_id"],
            name="fk_runs_source_id",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("run_id", name="pk_runs"),
    )
    op.create_index("ix_runs_label", "runs", ["label"])
    op.create_index("ix_runs_source_id", "runs", ["source_id"])
    op.create_index(
        "ix_runs_newest",
        "runs",
        [sa.text("coalesce(started_at, created_at)"), "run_id"],
    )


def _of_run(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["run_id"], ["runs.run_id"], name=f"fk_{table}_run_id", ondelete="CASCADE"
    )


def _create_events() -> None:
    op.create_table(
        "events",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("rank", sa.BigInteger()),
        sa.Column("time", sa.Float()),
        sa.Column("line", sa.BigInteger()),
        sa.Column("phase", sa.Text()),
        sa.Column("mode", sa.Text()),
        sa.Column("batch_size", sa.BigInteger()),
        sa.Column("query_len", sa.BigInteger()),
        sa.Column("num_blocks", sa.BigInteger()),
        sa.Column("duration_s", sa.Float()),
        sa.Column("memory_bytes", sa.BigInteger()),
        sa.Column("payload", sa.Text(), nullable=False),
        _of_run("events"),
        sa.PrimaryKeyConstraint("run_id", "seq", name="pk_events"),
        sqlite_with_rowid=False,
    )


def _create_summaries() -> None:
    op.create_table(
        "run_summaries",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("schema", sa.Integer(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("num_events", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.Text()),
        sa.Column("started_at", sa.Float()),
        sa.Column("ready_s", sa.Float()),
        sa.Column("warmup_s", sa.Float()),
        sa.Column("captured_percent", sa.Float()),
        sa.Column("num_kv_blocks", sa.BigInteger()),
        sa.Column("missed", sa.BigInteger()),
        _of_run("run_summaries"),
        sa.PrimaryKeyConstraint("run_id", name="pk_run_summaries"),
    )
    op.create_table(
        "bucket_summaries",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("bucket", sa.Text(), nullable=False),
        sa.Column("d0", sa.BigInteger()),
        sa.Column("d1", sa.BigInteger()),
        sa.Column("d2", sa.BigInteger()),
        sa.Column("d3", sa.BigInteger()),
        sa.Column("generated", sa.Integer()),
        sa.Column("warmed", sa.Integer()),
        sa.Column("captured", sa.Integer()),
        sa.Column("skipped", sa.Integer()),
        sa.Column("missed", sa.Integer()),
        sa.Column("duration_s", sa.Float()),
        sa.Column("memory_bytes", sa.BigInteger()),
        sa.Column("executed", sa.Text()),
        sa.Column("state", sa.Text()),
        _of_run("bucket_summaries"),
        sa.PrimaryKeyConstraint(
            "run_id", "phase", "bucket", name="pk_bucket_summaries"
        ),
        sqlite_with_rowid=False,
    )
