"""Lines like earlier ones: what their head and their message came to is remembered.

Engines repeat themselves: all lines of a process at one place in the source share their
head but for the stamp, the ranks of a server print the same message, the same shape
misses its bucket all day. Both halves of a line are looked up before any pattern is
tried. What is remembered depends on nothing but the text, and it is bounded.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from parsers.base import LineRule, Made
from parsers.envelope import Record
from parsers.pending import PASSING, RankState
from warmup_insights.model.events import Event

MAX_HEADS = 4096
MAX_MESSAGES = 32_768
LONGEST = 240
"""Characters of a message that is worth remembering."""
STAMP = len("MM-DD HH:MM:SS")

TRIAL = 10_000
"""So many messages of a rule are remembered; then it shows whether any come again."""
PAUSE = 100_000
"""Messages of a rule that are not remembered after a trial in which few came again."""

# What a message may hold that other modules look into: a glued record, a count of
# folded lines, a list that goes on in the next line, colours and redrawn text, of which
# some cannot be printed.
_TROUBLE = (
    "INFO ", "WARNING ", "ERROR ", "DEBUG ", "CRITICAL ", "across cluster]", "[(", "^",
)  # fmt: skip


@dataclass(slots=True)
class KnownMessage:
    """What a rule made of a message; the same for every line that has it."""

    rule: LineRule
    made: list[Made]
    counter: Counter[str]
    """Where lines of this rule are counted: matched or ignored."""
    event: Event | None = field(init=False)
    """The only thing made, if it means nothing to what comes before and after it."""

    def __post_init__(self) -> None:
        is_passing = len(self.made) == 1 and type(self.made[0]) in PASSING
        self.event = self.made[0] if is_passing else None  # type: ignore[assignment]


@dataclass(slots=True)
class KnownHead:
    """What stands before a message, without the stamp."""

    level: str | None
    file: str | None
    rank: int | None
    state: RankState
    """What is pending for that rank in the run."""
    messages: dict[str, KnownMessage]
    """Messages of this level: a rule may want a level."""


@dataclass(slots=True)
class _Use:
    """Whether it pays to remember the messages of a rule."""

    made: int = 0
    """Messages that were new."""
    review_at: int = field(default_factory=lambda: TRIAL)
    lines_before: int = 0
    """Lines of the rule up to the last review."""
    pays: bool = True

    def review(self, lines: int) -> None:
        """End a trial, or a pause, after which there is a new trial."""
        if self.pays:
            again = lines - self.lines_before - TRIAL
            self.pays = again >= TRIAL // 4
        else:
            self.pays = True
        self.lines_before = lines
        self.review_at = self.made + (TRIAL if self.pays else PAUSE)


class Repeats:
    """Heads of the lines of one run, and messages of any run."""

    def __init__(self) -> None:
        self.heads: dict[str, KnownHead] = {}
        self._messages: dict[str | None, dict[str, KnownMessage]] = {}
        self._num_messages = 0
        self._uses: dict[str, _Use] = defaultdict(_Use)

    def forget_heads(self) -> None:
        """Another run began, or a process told its rank."""
        self.heads.clear()

    def message(self, record: Record) -> KnownMessage | None:
        """What the message of a record came to before."""
        messages = self._messages.get(record.level)
        return None if messages is None else messages.get(record.message)

    def add_message(self, level: str | None, text: str, known: KnownMessage) -> None:
        """Remember what a rule made of a message.

        Not of lines that may open a run, nor of lists, which can go on in other lines.
        """
        rule = known.rule
        use = self._uses[rule.name]
        use.made += 1
        if use.made >= use.review_at:
            use.review(known.counter[rule.name])
        if (
            not use.pays
            or len(text) > LONGEST
            or len(known.made) > 1
            or rule.starts
            or rule.files
            or "[(" in text
        ):
            return
        if self._num_messages >= MAX_MESSAGES:
            for messages in self._messages.values():
                messages.clear()
            self._num_messages = 0
        self._num_messages += 1
        self._messages.setdefault(level, {})[text] = known

    def add_head(
        self,
        line: str,
        record: Record,
        rank: int | None,
        state: RankState,
    ) -> None:
        """Remember the head of a line, if that and its message are all of the line."""
        end = line.find("] ") + 2
        cut = line.find(" [", 0, end)
        if (
            cut < STAMP
            or line[cut - STAMP : cut] != record.stamp
            or line[end:] != record.message
            or record.outer is not None
            or record.count != 1
        ):
            return
        if len(self.heads) >= MAX_HEADS:
            self.heads.clear()
        messages = self._messages.setdefault(record.level, {})
        key = line[: cut - STAMP] + line[cut:end]
        self.heads[key] = KnownHead(record.level, record.file, rank, state, messages)


def is_plain(message: str) -> bool:
    """Whether a message is one record and needs no cleaning."""
    if not message.isprintable():
        return False
    for text in _TROUBLE:  # a generator would take twice as long
        if text in message:
            return False
    return not message.endswith("\\n")
