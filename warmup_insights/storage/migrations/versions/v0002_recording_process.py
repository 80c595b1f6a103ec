"""Runs know which process records them, so that a killed one is noticed at once."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add `runs.process`."""
    op.add_column("runs", sa.Column("process", sa.Text()))
