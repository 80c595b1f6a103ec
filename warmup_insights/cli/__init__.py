"""The command line: one file per command, loaded only when it is asked for."""

from __future__ import annotations

import importlib
import sys

import click

from warmup_insights.errors import WarmupInsightsError
from warmup_insights.version import __version__

# name -> (module, attribute, one line of help). The help is repeated here so that
# `--help` imports none of the commands; a test compares it with their docstrings.
COMMANDS: dict[str, tuple[str, str, str]] = {
    "demo": (
        "warmup_insights.cli.demo",
        "demo",
        "Read the sample logs, run a warm-up, open the dashboard.",
    ),
    "ingest": (
        "warmup_insights.cli.ingest",
        "ingest",
        "Read logs into the database.",
    ),
    "vllm": (
        "warmup_insights.cli.vllm",
        "vllm",
        "Run any vLLM command and record its warm-up.",
    ),
    "runs": (
        "warmup_insights.cli.runs",
        "runs",
        "List the stored runs, newest first.",
    ),
    "show": (
        "warmup_insights.cli.show",
        "show",
        "Show one run: time, memory, buckets, misses.",
    ),
    "dashboard": (
        "warmup_insights.cli.dashboard",
        "dashboard",
        "Open the dashboard in a browser.",
    ),
    "dialects": (
        "warmup_insights.cli.dialects",
        "dialects",
        "List the log formats that can be read.",
    ),
    "run": (
        "warmup_insights.cli.run",
        "run",
        "Run the reference warm-up on a device, and record it.",
    ),
    "compare": (
        "warmup_insights.cli.compare",
        "compare",
        "Compare runs: settings that differ, figures, phases, memory, buckets, misses.",
    ),
    "sweep": (
        "warmup_insights.cli.sweep",
        "sweep",
        "Run a grid of memory settings, and mark the ones that no other beats.",
    ),
    "plan": (
        "warmup_insights.cli.plan",
        "plan",
        "Predict what other memory settings would give, from one finished run.",
    ),
    "advise": (
        "warmup_insights.cli.advise",
        "advise",
        "Say what to change about a run, with the numbers behind it.",
    ),
    "check": (
        "warmup_insights.cli.check",
        "check",
        "Check a run against limits; exit code 1 when one does not hold.",
    ),
    "export": (
        "warmup_insights.cli.export",
        "export",
        "Write one run as JSON, CSV or Markdown.",
    ),
    "buckets": (
        "warmup_insights.cli.buckets",
        "buckets",
        "Generate, look up, lint and compare buckets without an engine.",
    ),
    "prune": (
        "warmup_insights.cli.prune",
        "prune",
        "Remove old runs, or the runs named, and give their space back.",
    ),
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported now."""
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        command = getattr(importlib.import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{module}.{attribute} is not a click command")
        return command

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """List the commands with their one line of help, importing nothing."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][2]) for name in COMMANDS])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "--version", prog_name="warmup-insights")
def cli() -> None:
    """See what vLLM warm-up did: buckets, graph memory, captures and time."""


def main() -> None:
    """Run the command line; a known error is one sentence on stderr and exit code 1."""
    try:
        cli(standalone_mode=True)
    except WarmupInsightsError as error:
        from warmup_insights.cli.console import printable

        click.echo(f"Error: {printable(str(error))}", err=True)
        sys.exit(1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
