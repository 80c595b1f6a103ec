"""Options of commands that choose one of many configurations."""

from __future__ import annotations

import click

from warmup_insights.analysis.pareto import GOALS, TOLERANCE
from warmup_insights.cli.options import Command


def goal_options(command: Command) -> Command:
    """Add what a configuration is chosen for, and which differences count."""
    command = click.option(
        "--tolerance", type=click.FloatRange(0, 100), default=100 * TOLERANCE,
        show_default=True, metavar="PERCENT",
        help="Differences of up to this much do not count.",
    )(command)  # fmt: skip
    return click.option(
        "--goal", type=click.Choice(list(GOALS)), default="balanced", show_default=True,
        help="What to choose a configuration for.",
    )(command)  # fmt: skip
