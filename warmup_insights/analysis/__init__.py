"""From events to answers: pure functions, no files, no clock, no randomness."""

from __future__ import annotations
