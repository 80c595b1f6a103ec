"""What pages and reports show of runs: frames and figures made from them, by subject."""

from __future__ import annotations
