"""Figures of pages and reports, made from frames."""

from __future__ import annotations
