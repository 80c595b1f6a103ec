"""The command line: one module per command, imported only when its command is used; signals
that end a command end it as Ctrl-C does."""

from __future__ import annotations

import errno
import importlib
import inspect
import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import click

from warmup_insights.errors import SettingError, WarmupInsightsError
from warmup_insights.version import __version__

# Name of the command, of its module and of the function in it, and the first line of its
# help, which stands here so that `--help` imports none of the modules.
COMMANDS = {
    "demo": "Explain warm-ups in five steps, then open the dashboard.",
    "ingest": "Read logs into the database.",
    "vllm": "Run any vLLM command and record its warm-up.",
    "runs": "List the stored runs, newest first.",
    "show": "Show one run: time, memory, buckets, misses.",
    "dashboard": "Open the dashboard in a browser.",
    "dialects": "List the log formats that can be read.",
    "run": "Run the reference warm-up on a device, and record it.",
    "compare": "Compare runs: settings that differ, figures, phases, memory, buckets, misses.",
    "sweep": "Run a grid of memory settings, and mark the ones that no other beats.",
    "plan": "Predict what other memory settings would give, from one finished run.",
    "advise": "Find what to change about a run, with the numbers behind it.",
    "check": "Check a run against limits; exit code 1 when one does not hold.",
    "export": "Write runs for other tools: JSON, CSV, Parquet, traces, metrics, spans.",
    "report": "Write runs as one HTML file that opens anywhere.",
    "doctor": "Check on this machine that what is read of a device is right.",
    "buckets": "Generate, look up, lint and compare buckets without an engine.",
    "prune": "Remove old runs, or the runs named, and give their space back.",
}

_OF_MODES = "check its mode and that of its folders"
_OF_PATHS = {
    errno.EACCES: _OF_MODES, errno.EPERM: _OF_MODES, errno.ENAMETOOLONG: "use a shorter one",
}  # fmt: skip
"""Errors of a path that any command may get to what helps."""
CLOSED_PIPE = 141
"""Exit code where the pipe of the output is closed, as of a program that SIGPIPE ends."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name; its docstring follows the line of the table."""
        if cmd_name in COMMANDS and cmd_name not in self.commands:
            module = importlib.import_module(f"{__name__}.{cmd_name}")
            command: click.Command = getattr(module, cmd_name)
            details = inspect.cleandoc(command.help or "")
            command.help = f"{COMMANDS[cmd_name]}\n\n{details}"
            self.commands[cmd_name] = command
        return self.commands.get(cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a closed pipe ends it without a word."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # What is left in the buffer would be written once more at the exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(CLOSED_PIPE)

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """List the commands with their one line of help, importing nothing."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "--version", prog_name="warmup-insights")
def cli() -> None:
    """See what vLLM warm-up did: buckets, graph memory, captures and time."""


def main() -> None:
    """Run the command line; a known error is one sentence on stderr and exit code 1, or 2
    where a setting cannot be used.

    `NO_COLOR` switches colours off (no-color.org); what the encoding of the output lacks,
    such as the bars, is `?`.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() != "utf-8":
            stream.reconfigure(errors="replace")
    color = False if os.environ.get("NO_COLOR") else None
    try:
        cli(standalone_mode=True, color=color)
    except WarmupInsightsError as error:
        _fail(str(error), 2 if isinstance(error, SettingError) else 1)
    except OSError as error:
        if error.filename is not None and error.errno in _OF_PATHS:
            _fail(f"{error.filename}: {error.strerror}; {_OF_PATHS[error.errno]}")
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        # What is left in the buffer would be written once more at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _fail(f"Nothing more can be written: {error.strerror}")


def _fail(text: str, code: int = 1) -> NoReturn:
    from warmup_insights.cli.printing import printable

    click.echo(f"Error: {printable(text)}", err=True)
    sys.exit(code)


@contextmanager
def endings_as_interrupts() -> Iterator[None]:
    """SIGTERM and SIGHUP end the work as Ctrl-C does, so that its end is recorded and no
    process outlives it; what is ignored, as SIGHUP is with `nohup`, stays so."""
    from warmup_insights.drainer import ENDINGS  # help loads no library of the store

    before = {
        number: signal.getsignal(number)
        for number in ENDINGS
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    for number in before:
        signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, _: object) -> None:
    raise KeyboardInterrupt(signal.Signals(number).name)
