"""`python -m warmup_insights` is the command line."""

from __future__ import annotations

from warmup_insights.cli import main

main()
