"""Help is quick, true, and there without the extras."""

from __future__ import annotations

import json
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from warmup_insights.cli import COMMANDS, cli

EXTRAS = (
    "torch",
    "safetensors",
    "streamlit",
    "plotly",
    "psycopg",
    "vllm",
    "ray",
    "fsspec",
)

LOADED_BY_HELP = """
import json, sys
before = set(sys.modules)
from warmup_insights.cli import main
sys.argv = ["warmup-insights", "--help"]
try:
    main()
except SystemExit as stop:
    assert stop.code == 0, stop.code
tops = {name.partition(".")[0] for name in set(sys.modules) - before}
print(json.dumps(sorted(tops - set(sys.stdlib_module_names))))
"""

HELP_WITHOUT = """
import json, sys
for name in json.loads(sys.argv[1]):
    sys.modules[name] = None  # importing it raises ImportError
import warmup_insights
from click.testing import CliRunner
from warmup_insights.cli import cli
results = {
    name: CliRunner().invoke(cli, [name, "--help"]) for name in cli.list_commands(None)
}
print(json.dumps({n: repr(r.exception) for n, r in results.items() if r.exit_code}))
"""


def run_python(program: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def commands(
    group: click.Group = cli, path: tuple[str, ...] = ()
) -> list[tuple[tuple[str, ...], click.Command]]:
    """Every command and sub-command with its path."""
    context = click.Context(group)
    found = []
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        found.append(((*path, name), command))
        if isinstance(command, click.Group):
            found += commands(command, (*path, name))
    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_listed_help_is_first_line_of_docstring(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert COMMANDS[name][2] == (command.help or "").splitlines()[0]
    assert command.name == name


def test_every_command_and_option_has_help() -> None:
    silent = [
        " ".join((*path, getattr(parameter, "name", "")))
        for path, command in commands()
        for parameter in [command, *command.params]
        if not isinstance(parameter, click.Argument) and not parameter.help
    ]
    assert silent == []


def test_help_loads_click_alone() -> None:
    """Listing the commands imports none of them, and no library but click."""
    *_, last = run_python(LOADED_BY_HELP).splitlines()
    assert set(json.loads(last)) <= {"click", "warmup_insights"}


def test_help_needs_no_extra() -> None:
    """`import warmup_insights` and every `--help` work with the core alone."""
    assert json.loads(run_python(HELP_WITHOUT, json.dumps(EXTRAS))) == {}


def test_unknown_command_is_a_usage_error() -> None:
    result = CliRunner().invoke(cli, ["ingset"])
    assert result.exit_code == 2
    assert "No such command 'ingset'" in result.output
