"""What a dialect is: a table of rules with samples.

A rule states which regular expression the message of a line must match, and which event or
signal comes of it. It is tried where the message holds a text that the expression requires.
Named groups carry the names of the event's fields; their converters are found by name, so a
rule rarely needs a function.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Union

from parsers.engine.convert import convert_groups, field_of, text_of
from parsers.engine.signals import Signal
from warmup_insights.model.events import Event, Note, PhaseMarked

Made = Union[Event, Signal, None]  # noqa: UP007 - an alias, read at run time on 3.10
Build = Callable[["re.Match[str]"], "Made | list[Made]"]


ONCE = "_logger.py"
"""Module that vLLM 0.8 to 0.11 states for what it logs once (`logger.py warning_once`)."""
NUMBER = r"-?[\d.]{1,16}"
"""A number with a decimal point, in a pattern."""
SECONDS = r"(?P<duration_s>[\d.]{1,16})"
"""How long something took, in a pattern."""
NO_LEVEL: None = None
"""The level of a line that no logger printed."""
SHORTEST = 6
"""Characters of a literal that a pattern requires; shorter ones are in too many lines."""


_TOKEN = re.compile(
    r"(?P<text>(?:[^\\.^$*+?{}\[\]|()]|\\\W){1,400}(?![*+?{]))"
    r"|(?P<other_group>\(\?(?!P<|:|<?[=!]))"
    r"|(?P<group>\((?:\?(?:P<\w{1,100}>|:|<?[=!]))?)|(?P<bar>\|)"
    r"|(?P<optional_end>\)(?:[*?]|\{[0,][\d,]{0,20}\}))|(?P<end>\))"
    r"|\[\^?\]?(?:\\.|[^\]\\]){0,400}\]|\{[\d,]{0,20}\}|\\?.",
    re.DOTALL,
)
"""A part of a pattern: text that stands for itself, the begin or end of a group, or a class,
count or sign that requires no text."""


def literals_of(pattern: str) -> frozenset[str]:
    """The longest texts of which every match of a pattern holds one; none where it requires
    none, or has a group of a kind that is not read here, such as `(?i:`."""
    outer: list[tuple[list[frozenset[str]], list[frozenset[str]], bool]] = []
    branches: list[frozenset[str]] = []
    needed: list[frozenset[str]] = []
    for token in _TOKEN.finditer(f"{pattern})"):
        kind = token.lastgroup
        if kind == "text":
            needed.append(frozenset([re.sub(r"\\(\W)", r"\1", token[0])]))
        elif kind == "group":
            outer.append((branches, needed, "!" in token[0]))
            branches, needed = [], []
        elif kind == "bar":
            branches.append(_longest(needed))
            needed = []
        elif kind in ("end", "optional_end"):
            branches.append(_longest(needed))
            found = frozenset().union(*branches) if all(branches) else frozenset()
            if not outer:
                return found
            branches, needed, is_negative = outer.pop()
            if kind == "end" and not is_negative:
                needed.append(found)
        elif kind == "other_group":
            break
    return frozenset()


def _longest(texts: list[frozenset[str]]) -> frozenset[str]:
    """Of sets of texts the one whose shortest is the longest."""
    lengths = [min(map(len, each), default=0) for each in texts]
    return texts[lengths.index(max(lengths))] if texts else frozenset()


@dataclass(frozen=True)
class Sample:
    """A line as the engine prints it, and the fields that must come of it."""

    line: str
    expected: Mapping[str, Any] = field(default_factory=dict)
    """Fields of what is made beside those that the rule fixes; without any a function makes
    nothing of the line."""


@dataclass(frozen=True)
class LineRule:
    """One wording of one line.

    Args:
        name: unique, shown in the report.
        pattern: matched at the start of the message, or anywhere with `anywhere`.
        makes: the class to make, or a function for what a pattern cannot say; None makes
            nothing (the line is known and ignored).
        fixed: fields of the class that are the same for every match.
        engine: engine that alone prints this, as evidence.
        device: device kind that alone prints this, as evidence.
    """

    name: str
    pattern: str
    makes: type[Event] | type[Signal] | Build | None = None
    fixed: Mapping[str, Any] = field(default_factory=dict)
    samples: tuple[Sample, ...] = ()
    anywhere: bool = False
    engine: str | None = None
    device: str | None = None
    levels: tuple[str | None, ...] = ()
    """Levels at which the line counts, `NO_LEVEL` for text no logger printed; empty for
    any."""
    files: tuple[str, ...] = ()
    """Modules that print it, by the names of their files; empty for any text. For
    wordings that others could print as well. A `*` in a name stands for any text."""
    not_files: tuple[str, ...] = ()
    """Modules of which the wording is something else, as in `files`."""
    startup_only: bool = False
    """True when the literal is too common to look for once the server is ready."""
    starts: int = 0
    """Place of a line that opens a start-up: 1 banner, 2 arguments, 3 engine."""
    hint: str | tuple[str, ...] = ()
    """Literals, one of which the line must hold: stated where those that the pattern requires
    are short or in many other lines, or where only some of its matches are such a line."""

    @cached_property
    def hints(self) -> tuple[str, ...]:
        """Literals, one of which a line must hold before the pattern is tried. Raises
        ValueError where none is stated and the pattern requires none."""
        if self.hint:
            return (self.hint,) if isinstance(self.hint, str) else self.hint
        found = literals_of(self.pattern)
        if min(map(len, found), default=0) < SHORTEST:
            raise ValueError(
                f"Rule {self.name} has a pattern that requires no text of {SHORTEST} "
                "characters; state a `hint`"
            )
        return tuple(sorted(found))

    @property
    def matters_while_serving(self) -> bool:
        """Whether a line of this rule is looked for after the server is ready."""
        return self.makes is not None and not self.startup_only

    def admits(self, level: str | None, file: str | None) -> bool:
        """Whether a line of this level, printed by this module, can be of the rule."""
        if self.levels and level not in self.levels:
            return False
        if not self.files and not self.not_files:
            return True
        name = module_of(file)
        if self.not_files and self._is_excluded(name):
            return False
        return not self.files or name == ONCE or self._is_included(name)

    @cached_property
    def _is_included(self) -> Callable[[str], bool]:
        return _any_name(self.files)

    @cached_property
    def _is_excluded(self) -> Callable[[str], bool]:
        return _any_name(self.not_files)

    @cached_property
    def regex(self) -> re.Pattern[str]:
        """The compiled pattern."""
        return re.compile(self.pattern)

    @cached_property
    def match(self) -> Callable[[str], re.Match[str] | None]:
        """Takes a message; gives the match in it, or None."""
        return self.regex.search if self.anywhere else self.regex.match

    def make(self, match: re.Match[str]) -> list[Made]:
        """What comes of a match. Raises ValueError when a value cannot be converted."""
        if self.makes is None:
            return []
        if not isinstance(self.makes, type):
            made = self.makes(match)
            return made if isinstance(made, list) else [made]
        fields = dict(self.fixed)
        texts = match.groups()
        for place, name, convert in self._groups:
            text = texts[place]
            if text is not None:
                fields[name] = convert(text)
        return [self.makes(**fields)]

    @cached_property
    def _groups(self) -> tuple[tuple[int, str, Callable[[str], Any]], ...]:
        """Of every named group its place, the field it fills and its converter."""
        places = self.regex.groupindex.items()
        return tuple((place - 1, *field_of(name)) for name, place in places)


def line_rule(
    name: str,
    pattern: str,
    makes: type[Event] | type[Signal] | Build | None = None,
    *samples: Sample | str,
    **more: Any,
) -> LineRule:
    """A rule with its samples; a line alone has no fields but those that are fixed."""
    kept = tuple(Sample(one) if isinstance(one, str) else one for one in samples)
    return LineRule(name, pattern, makes, samples=kept, **more)


def _phase_rule(
    edge: str,
    rule: str,
    pattern: str,
    name: str,
    *samples: Sample | str,
    **more: Any,
) -> LineRule:
    fixed = {"name": name, "edge": edge}
    return line_rule(rule, pattern, PhaseMarked, *samples, fixed=fixed, **more)


phase_start = partial(_phase_rule, "start")
"""A line at which a phase begins."""
phase_end = partial(_phase_rule, "end")
"""A line at which a phase ends; samples hold its figure, where it has one."""


def note_rule(
    rule: str,
    pattern: str,
    topic: str,
    *lines: str,
    values: dict[str, Any] | None = None,
    outcome: str | None = None,
    **more: Any,
) -> LineRule:
    """A line of which the text is kept, its figures (the named groups) and the
    `outcome` that it states. `values` are the figures of each of the sample `lines`."""
    stated = {} if outcome is None else {"outcome": outcome}

    def build(match: re.Match[str]) -> Made:
        groups = convert_groups(match.groupdict())
        # As they come back from the store, which has no tuples.
        figures = {k: list(v) if isinstance(v, tuple) else v for k, v in groups.items()}
        text = text_of(match[0])
        return Note(topic=topic, text=text, values={**figures, **stated})

    expected = {"topic": topic, "values": {**(values or {}), **stated}}
    samples = tuple(Sample(line, expected) for line in lines)
    return line_rule(rule, pattern, build, *samples, **more)


# What one engine or device alone prints: each match is evidence of it.
hpu_rule = partial(line_rule, device="hpu")
hpu_note = partial(note_rule, device="hpu")
gaudi_rule = partial(line_rule, device="hpu", engine="vllm-gaudi")
gaudi_note = partial(note_rule, device="hpu", engine="vllm-gaudi")
fork_rule = partial(line_rule, device="hpu", engine="vllm-fork")
fork_note = partial(note_rule, device="hpu", engine="vllm-fork")
cuda_rule = partial(line_rule, device="cuda")
cuda_note = partial(note_rule, device="cuda")
tpu_rule = partial(line_rule, device="tpu")
tpu_note = partial(note_rule, device="tpu")


def _any_name(names: tuple[str, ...]) -> Callable[[str], bool]:
    """Whether a name is one of these."""
    exact = frozenset(names)
    globs = [fnmatch.translate(name) for name in names if "*" in name]
    if not globs:
        return exact.__contains__
    match = re.compile("|".join(globs)).match
    return lambda name: name in exact or match(name) is not None


def module_of(file: str | None) -> str:
    """The name in `path/name.py:LINE`; empty without one."""
    return (file or "").rpartition(":")[0].rpartition("/")[2]


@dataclass(frozen=True)
class Dialect:
    """One log format of one engine and version range."""

    name: str
    title: str
    versions: str
    source: str
    """Where in the engine the lines come from."""
    rules: tuple[LineRule, ...]
    sample: str = ""
    """A typical piece of the format, for formats that are not lines of rules."""

    @property
    def sample_line(self) -> str:
        """A line to show: the typical piece of the format, else the sample of its first rule."""
        return self.sample or self.rules[0].samples[0].line
