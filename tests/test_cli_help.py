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
sys.argv = ["warmup-insights", *sys.argv[1:]]
try:
    main()
except SystemExit as stop:
    assert stop.code == 0, stop.code
print(json.dumps(sorted(set(sys.modules) - before)))
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
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def loaded_by(*arguments: str) -> set[str]:
    """The modules that the command line loads for these arguments."""
    *_, last = run_python(LOADED_BY_HELP, *arguments).splitlines()
    return set(json.loads(last))


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
def test_listed_help_is_followed_by_the_docstring(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    first, rest = (command.help or "").split("\n\n", 1)
    assert first == COMMANDS[name]
    assert rest.strip()
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
    tops = {name.partition(".")[0] for name in loaded_by("--help")}
    assert tops - sys.stdlib_module_names <= {"click", "warmup_insights"}


def test_help_of_ingest_loads_neither_parsers_nor_analysis() -> None:
    loaded = loaded_by("ingest", "--help")
    assert "warmup_insights.cli.ingest" in loaded
    assert "parsers" not in loaded
    assert "warmup_insights.analysis" not in loaded


def test_a_log_is_shown_without_the_rules_of_advice_and_numpy(root) -> None:
    log = root / "sample_logs" / "vllm-gaudi" / "made_tp2_defrag.log"
    loaded = loaded_by("show", str(log))
    assert loaded.isdisjoint({"numpy", "warmup_insights.analysis.advice"})


def test_help_needs_no_extra() -> None:
    """`import warmup_insights` and every `--help` work with the core alone."""
    assert json.loads(run_python(HELP_WITHOUT, json.dumps(EXTRAS))) == {}


def test_unknown_command_is_a_usage_error() -> None:
    result = CliRunner().invoke(cli, ["ingset"])
    assert result.exit_code == 2
    assert "No such command 'ingset'" in result.output
