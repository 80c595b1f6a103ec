"""Stand-in."""

from __future__ import annotations
