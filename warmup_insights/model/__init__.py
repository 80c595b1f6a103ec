"""What a run is: its events, its record and its summary, as types."""

from __future__ import annotations
