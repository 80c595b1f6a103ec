"""What engines do with buckets, graphs and memory, as pure functions.

The reference engine runs these rules and the planner replays them.
"""

from __future__ import annotations
