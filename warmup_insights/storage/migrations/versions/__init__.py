"""One module per schema version."""

from __future__ import annotations
