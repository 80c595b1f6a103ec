"""The reference engine: a whole instrumented warm-up, small enough to read.

`session.Session` runs it; `warmup.Warmup.start` reads as the list of its steps;
`capture` and `memory` are the pure rules that the planner shares.
"""

from __future__ import annotations
