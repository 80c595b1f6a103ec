"""One word for one thing, no things that act like people, one form of messages."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted(
    path
    for package in ("warmup_insights", "parsers", "dashboard")
    for path in (ROOT / package).rglob("*.py")
)
ACTING = (
    "says", "said", "tells", "told", "hears", "heard", "speaks", "spoke", "spoken",
    "knows", "asks", "asked", "talks", "listens", "believes", "thinks", "wants",
    "remembers", "forgets", "remember", "forget", "nobody", "somebody", "whoever",
    "silent",
)  # fmt: skip
"""Words for people, and for what only they do."""
ERRORS = {
    "WarmupInsightsError", "InputError", "SettingError", "StoreError", "StoreBusyError",
    "DeviceError", "UnsteadyError", "NoRunError",
}  # fmt: skip


SHORT = {"stamp", "stamps", "collector"}
"""Words that may be part of a name: short for those of the table."""


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    """Every module of the product by its path."""
    return {
        str(path.relative_to(ROOT)): ast.parse(path.read_text(encoding="utf-8"))
        for path in SOURCES
    }


@cache
def replaced() -> list[str]:
    """The last column of the table of words."""
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    table = page.partition("| word | meaning | not |\n|---|---|---|\n")[2]
    cells = [
        row.strip("|").split("|")[2] for row in table.split("\n\n")[0].splitlines()
    ]
    return [word.strip() for cell in cells for word in cell.split(",") if word.strip()]


def wrong_words(text: str) -> list[str]:
    """What no first line of a docstring and no message may hold."""
    if wrong_pattern().search(text) is None:
        return []
    text = re.sub(
        r"`[^`]*`|(?:garbage|OpenTelemetry) collectors?", "", text, flags=re.IGNORECASE
    )
    return wrong_pattern().findall(text)


@cache
def wrong_pattern() -> re.Pattern[str]:
    """Every word that is not to be used."""
    words = "|".join(map(re.escape, (*ACTING, *replaced())))
    return re.compile(rf"\b(?:{words})\b", re.IGNORECASE)


def comments_of(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of every comment."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def documentation_of(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and text of every docstring, those of attributes too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and (text := text_of(node.value)) is not None:
            yield node.lineno, text


def text_of(node: ast.expr) -> str | None:
    """A string as it is written; what is filled in later is {}."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        parts = [getattr(part, "value", None) for part in node.values]
        return "".join(part if isinstance(part, str) else "{}" for part in parts)
    return None


NAMES = {
    ast.ClassDef: "name", ast.FunctionDef: "name", ast.AsyncFunctionDef: "name",
    ast.arg: "arg", ast.Name: "id", ast.Attribute: "attr",
}  # fmt: skip
"""What gives or has a name, and its field."""


@cache
def nodes(tree: ast.AST) -> list[ast.AST]:
    """What has a name or is called in a module."""
    return [node for node in ast.walk(tree) if isinstance(node, (*NAMES, ast.Call))]


def messages(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of every message of an error of this project."""
    for node in nodes(tree):
        if isinstance(node, ast.Call) and node.args:
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            text = text_of(node.args[0]) if name in ERRORS else None
            if text is not None:
                yield node.lineno, text


def faults_of_form(message: str) -> list[str]:
    """How a message differs from: capital, no full stop, remedy after a semicolon."""
    found = []
    # A name, such as a setting or a file, stays as the user wrote it.
    if re.match(r"[a-z]+(?![\w=/-])", message):
        found.append("begins with a small letter")
    if message.endswith("."):
        found.append("ends with a full stop")
    # One that is put together of other messages has the remedy of these.
    if ";" not in message and re.sub(r"\{\}", "", message):
        found.append("has no remedy after a semicolon")
    return found


def wrong_in(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """Line, text and word of what is wrong in a module."""
    for node in nodes(tree):
        name = getattr(node, NAMES.get(type(node), ""), "")
        parts = re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", name)
        words = (word.lower() for word in wrong_words(parts))
        yield from ((node.lineno, name, word) for word in words if word not in SHORT)
    for line, text in (*messages(tree), *documentation_of(tree)):
        yield from ((line, text, word) for word in wrong_words(text))


def test_docstrings_messages_and_names_have_plain_words(trees):
    found = [(path, *row) for path, tree in trees.items() for row in wrong_in(tree)]
    assert found == []


def test_comments_have_plain_words():
    found = [
        (path.name, line, text)
        for path in SOURCES
        for line, text in comments_of(path.read_text(encoding="utf-8"))
        if wrong_words(text)
    ]
    assert found == []


def test_messages_have_one_form(trees):
    found = [
        (path, line, text, faults_of_form(text))
        for path, tree in trees.items()
        for line, text in messages(tree)
    ]
    assert [row for row in found if row[3]] == []


BARE = re.compile(r"(?<![+\d.])(?:(?<![+-])\d[\d.]*|(?<!\+)\{\})%(?!\w)|\.\d%$")
"""A percentage without a space; one with a sign is a limit as a user writes it."""


def test_a_percentage_has_a_space(trees):
    """Lines of engines are theirs, and hover texts of charts have variables."""
    found = [
        (path, node.lineno, text)
        for path, tree in trees.items()
        if not path.startswith("parsers") and not path.endswith("log_format.py")
        for node in ast.walk(tree)
        if isinstance(node, (ast.Constant, ast.JoinedStr))
        and (text := text_of(node)) is not None
        and BARE.search(text)
    ]
    assert found == []


@pytest.mark.parametrize("name", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_pages_that_everybody_reads_have_plain_words(name):
    page = (ROOT / name).read_text(encoding="utf-8").partition("## Words")[0]
    prose = re.sub(r"```.*?```|^    .*?$", "", page, flags=re.DOTALL | re.MULTILINE)
    found = [(line, wrong_words(line)) for line in prose.splitlines()]
    assert [row for row in found if row[1]] == []


def test_the_checks_find_what_they_are_for():
    assert {"collector", "timestamp"} - set(replaced()) == {"timestamp"}
    assert wrong_words("The log tells it, and a collector's stamp.") == [
        "tells", "collector", "stamp",
    ]  # fmt: skip
    assert wrong_words("The garbage collector; `stamp` is a name.") == []
    assert faults_of_form("{} cannot be read: {}; check the path") == []
    assert faults_of_form("max_num_seqs={} is too small; use 1") == []
    assert len(faults_of_form("cannot read {}.")) == 3
    assert all(BARE.search(text) for text in ("97% of", "({}%)", "12.5%.", ".0%"))
    assert not any(BARE.search(text) for text in ("97 % of", "+10%", "-5%", "%{x}"))
