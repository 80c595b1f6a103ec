"""Files that are no logs of lines: JSON of profilers, spans and benchmarks, metric files."""

from __future__ import annotations
