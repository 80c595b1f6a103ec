"""What Alembic runs: the migrations, on the connection that the store gives it."""

from __future__ import annotations

from alembic import context

from warmup_insights.storage.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
    render_as_batch=True,
)
context.run_migrations()
