"""The log formats that can be read, a module each."""

from __future__ import annotations
