"""The reference engine: a whole instrumented warm-up, small enough to read.

`session.Session` runs it; `warmup.Warmup.start` reads as the list of its steps. The rules
that the planner shares are in `warmup_insights.rules`.
"""

from __future__ import annotations
