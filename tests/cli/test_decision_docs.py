"""The pages about deciding name options and commands that exist."""

from __future__ import annotations

import re
import shlex

import click
import pytest

from tests.helpers import ROOT
from warmup_insights.cli import cli

PAGES = [
    ROOT / "docs" / f"{n}.md" for n in ("compare", "sweep", "plan", "advise", "check")
]


def command_lines(text):
    """Every `warmup-insights ...` of a page, with its continuation lines."""
    joined = re.sub(r"\\\n\s*", " ", text)
    found = re.findall(r"warmup-insights ([a-z][^\n`#|>]*)", joined)
    return [words for line in found if (words := shlex.split(line.split(";")[0]))]


def command_of(words):
    """The command of a line, down to a sub-command, and its remaining words."""
    command: click.Command = cli
    while isinstance(command, click.Group) and words:
        found = command.get_command(click.Context(command), words[0])
        if found is None:
            break
        command, words = found, words[1:]
    return command, words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_option_of_a_command_line_exists(page):
    lines = command_lines(page.read_text(encoding="utf-8"))
    assert lines
    for words in lines:
        command, rest = command_of(words)
        assert command is not cli, words
        if command.name in ("vllm", "sweep"):
            rest = rest[: rest.index("--")] if "--" in rest else rest
        known = {name for parameter in command.params for name in parameter.opts}
        known |= {name for p in command.params for name in p.secondary_opts}
        given = {w.partition("=")[0] for w in rest if re.match(r"--?[a-z]", w)}
        if command.name != "vllm":
            assert given <= known, (page.name, words)


def test_every_option_named_in_the_text_exists():
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    named = set(re.findall(r"`(--[a-z][a-z-]*)", text))
    known = {
        name
        for word in (
            "compare",
            "sweep",
            "plan",
            "advise",
            "check",
            "export",
            "run",
            "vllm",
        )
        for parameter in cli.get_command(click.Context(cli), word).params
        for name in parameter.opts
    }
    assert named
    assert named <= known
