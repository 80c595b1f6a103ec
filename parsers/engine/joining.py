"""Lines that belong together: cut lists, partial lines of log shippers, JSON objects."""

from __future__ import annotations

import json
import re

from parsers.engine.envelope import Record, peel

LIMIT = 2_000_000
"""Characters joined at most."""
_JSON_PAIR = re.compile(r'"[^"]{1,80}": (?:"(?:[^"\\]|\\.){0,5000}"|-?[\d.]{1,20})')
_REASONS = "linear layer. Reasons:"
"""End of the first line of an error (vLLM `model_executor/kernels/linear/__init__.py`)."""
_NCCL = "NCCL error in: "
_NCCL_LAST = "Last error:"
"""Before the reason, in a line of its own (torch `c10d/NCCLUtils.hpp`)."""
_REFUSED = "validation error"
"""In the first line of what pydantic refuses, before the field and the reason."""
_RAISED = "Error: "
"""In the first line of an error, before the orders to the user below it."""
_ORDER = (
    r"\s{0,8}(?:[-*] )?(?:[Pp]lease|You (?:can|may|must|should|need)|Try|Set|Use|Install|Upgrade|"
    r"Make sure|Consider|Either|If you|Hint|Pass|To (?:fix|resolve|use|avoid|disable|enable|run)|"
    r"pip install)\b.{1,600}"
)
_DETAILS = {
    _REASONS: re.compile(r"\s{0,8}\w{1,100}Kernel\w{0,40}:? \S.{0,2000}"),
    _NCCL: re.compile(rf"nccl\w{{1,40}}: .{{1,500}}|{_NCCL_LAST}\s*"),
    _REFUSED: re.compile(
        r"[A-Za-z_][\w.]{0,80}|  (?!Value error, |Assertion failed, )\S.{0,600}"
    ),
    _RAISED: re.compile(rf"{_ORDER}|\s{{0,8}}"),
}
"""Text in the first line of an error to the lines below that are part of it."""
_LIST_PIECE = re.compile(r"[\s\d(),.\[\]-]{1,100000}")


class Joiner:
    """Keeps a record while its continuation may follow."""

    def __init__(self) -> None:
        self._held: Record | None = None
        self._line = 0
        self._json: list[str] = []

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits for its continuation."""
        return self._held is None and not self._json

    def passes(self, record: Record) -> bool:
        """Whether a record stands for itself: nothing pends and it opens nothing."""
        return (
            self._held is None
            and not self._json
            and not record.partial
            and "[(" not in record.message
            and _REASONS not in record.message
            and _NCCL not in record.message
            and _REFUSED not in record.message
            and _RAISED not in record.message
            and (record.stamp is not None or record.message.strip() != "{")
        )

    def add(self, record: Record, line: int) -> list[tuple[Record, int]]:
        """The records that are complete now, with their line numbers."""
        out: list[tuple[Record, int]] = []
        is_opening = record.stamp is None and record.message.strip() == "{"
        if self._json or is_opening:
            self._line = self._line if self._json else line
            done = self._collect_json(record)
            if done is None:
                return []
            return [(item, self._line) for item in done]
        held = self._held
        if held is not None:
            if _continues(held, record) and len(held.message) < LIMIT:
                if _kind_of(held) is not None:
                    text, head = record.message.strip(), held.message.rstrip()
                    mark = "" if head.endswith((":", ".")) else ";"
                    held.message = f"{head}{mark} {text}" if text else held.message
                else:
                    held.message += record.message
                held.partial = record.partial
                if not _is_open(held):
                    self._held = None
                    out.append((held, self._line))
                return out
            self._held = None
            out.append((held, self._line))
        if _is_open(record):
            self._held, self._line = record, line
        else:
            out.append((record, line))
        return out

    def take_error(self) -> list[tuple[Record, int]]:
        """The error whose further lines may follow, if one waits for them."""
        held = self._held
        if held is None or _kind_of(held) is None:
            return []
        self._held = None
        return [(held, self._line)]

    def close(self) -> list[tuple[Record, int]]:
        """The record that still waits for its continuation."""
        held, self._held = self._held, None
        out = [] if held is None else [(held, self._line)]
        if self._json:
            out += [(record, self._line) for record in _cut_json(self._json)]
            self._json = []
        return out

    def _collect_json(self, record: Record) -> list[Record] | None:
        """Records of an object printed over several lines; None until it ends."""
        self._json.append(record.message)
        text = record.message.strip()
        if len(self._json) == 1 or (text != "}" and len(self._json) < 400):
            return None
        lines, self._json = self._json, []
        try:
            return peel(json.dumps(json.loads(" ".join(lines))))
        except (ValueError, RecursionError):
            return _cut_json(lines)


def _cut_json(lines: list[str]) -> list[Record]:
    """Records of an object that was cut: its whole `"key": value` lines."""
    pairs = [line.strip().rstrip(",") for line in lines[1:]]
    whole = [pair for pair in pairs if _JSON_PAIR.fullmatch(pair)]
    return peel("{" + ", ".join(whole) + "}") if whole else []


def _is_open(record: Record) -> bool:
    """Whether more of the message must follow."""
    if record.partial:
        return True
    message = record.message
    if _kind_of(record) is not None:
        return "[type=" not in message
    start = message.rfind("[(")
    return start >= 0 and "buckets" in message and message.find("]", start) < 0


def _kind_of(record: Record) -> str | None:
    """The text that shows an error of several lines, if a record is one."""
    return next((text for text in _DETAILS if text in record.message), None)


def _continues(held: Record, record: Record) -> bool:
    if held.partial:
        return True
    kind = _kind_of(held)
    if kind is not None:
        is_same = (record.process, record.pid) == (held.process, held.pid)
        text = record.message.rstrip()
        is_reason = held.message.endswith(_NCCL_LAST) and bool(text)
        return is_same and (is_reason or _DETAILS[kind].fullmatch(text) is not None)
    if record.stamp is not None or record.level is not None:
        return False
    return _LIST_PIECE.fullmatch(record.message) is not None
