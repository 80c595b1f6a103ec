"""Rules of lines, by the engine's part that prints them; dialects are made of them."""

from __future__ import annotations
