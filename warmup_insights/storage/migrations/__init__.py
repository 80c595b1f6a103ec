"""Forward steps from every older schema to the newest, run by Alembic."""

from __future__ import annotations
