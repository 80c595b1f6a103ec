"""From the lines of a log to the events of its runs, the same for every dialect."""

from __future__ import annotations
