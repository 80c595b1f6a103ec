"""Results as files: one module per format, each from plain values to text."""

from __future__ import annotations
