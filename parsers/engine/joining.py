"""Lines that belong together: cut lists, partial lines of log shippers, JSON objects."""

from __future__ import annotations

import json
import re

from parsers.engine.envelope import Record, peel

LIMIT = 2_000_000
"""Characters joined at most."""
MAX_JSON = 400
"""Lines of one object at most."""
MAX_DETAILS = 40
"""Lines below an error that are joined to it at most."""
_JSON_PAIR = re.compile(r'"[^"]{1,80}": (?:"(?:[^"\\]|\\.){0,5000}"|-?[\d.]{1,20})')
_REASONS = "linear layer. Reasons:"
"""End of the first line of an error (vLLM `model_executor/kernels/linear/__init__.py`)."""
_NCCL = "NCCL error in: "
_NCCL_LAST = "Last error:"
"""Before the reason, in a line of its own (torch `c10d/NCCLUtils.hpp`)."""
_ABORTED = " line in file:"
"""Before the file, in a line of its own (compute-runtime `shared/source/helpers/
debug_helpers.cpp abortUnrecoverable`)."""
_REFUSED = "validation error"
"""In the first line of what pydantic refuses, before the field and the reason."""
_RAISED = "Error: "
"""In the first line of an error, before the orders to the user below it."""
_DETAILS = {
    _REASONS: re.compile(r"\s{0,8}\w{1,100}Kernel\w{0,40}:? \S.{0,2000}"),
    _NCCL: re.compile(rf"nccl\w{{1,40}}: .{{1,500}}|{_NCCL_LAST}\s*"),
    _ABORTED: re.compile(r"[^\s;]{1,400}\.(?:cpp|h|hpp|inl)"),
    _REFUSED: re.compile(
        r"[A-Za-z_][\w.]{0,80}|  (?!Value error, |Assertion failed, )\S.{0,600}"
    ),
}
"""Text in the first line of an error to the lines below that are part of it."""
_ORDERS = re.compile(
    r"\s{0,8}(?:[-*] )?(?:[Pp]lease|You (?:can|may|must|should|need)|Try|Set|Use|Install|Upgrade|"
    r"Make sure|Consider|Either|If you|Hint|To (?:fix|resolve|use|avoid|disable|enable|run)|"
    r"pip install)\b.{1,600}|\s{0,8}"
)
"""What an error orders on a line below its own, and blank lines between."""
_ITEM = re.compile(r"\s{0,8}(?:\d{1,2}[.)]|[-*]) \S.{1,600}")
"""Of a list below a line that ends with a colon."""
_LIST_PIECE = re.compile(r"[\s\d(),.\[\]-]{1,100000}")
_PARTIAL, _LIST = "partial", "list"
"""What a held record waits for besides the lines of an error: the rest of its line, or of
the list that it begins."""


class Joiner:
    """Keeps a record while its continuation may follow."""

    def __init__(self) -> None:
        self._held: Record | None = None
        self._waits_for = ""
        """`_PARTIAL`, `_LIST`, or the text that shows an error of several lines."""
        self._pieces: list[str] = []
        """What followed the held record so far."""
        self._size = 0
        """Characters of those."""
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
            and _ABORTED not in record.message
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
        if self._held is not None:
            if self._goes_on(self._held, record):
                self._pieces.append(record.message)
                self._size += len(record.message)
                if self._waits_for == _PARTIAL:
                    is_whole = not record.partial
                else:
                    is_whole = self._waits_for == _LIST and "]" in record.message
                if not is_whole and self._size < LIMIT:
                    return []
                # What was a part of a line may begin a list or an error.
                ((record, line),) = self._take_held()
                record.partial = False
            else:
                out += self._take_held()
        self._waits_for = _open_part(record)
        if self._waits_for:
            self._held, self._line = record, line
        else:
            out.append((record, line))
        return out

    def _goes_on(self, held: Record, record: Record) -> bool:
        """Whether a line is part of the held record."""
        kind = self._waits_for
        if kind == _PARTIAL:
            return True
        if kind == _LIST:
            has_head = record.stamp is not None or record.level is not None
            return not has_head and _LIST_PIECE.fullmatch(record.message) is not None
        is_same = (record.process, record.pid) == (held.process, held.pid)
        if not is_same or len(self._pieces) >= MAX_DETAILS:
            return False
        text = record.message.rstrip()
        above = self._pieces[-1] if self._pieces else held.message
        if kind == _RAISED:
            # One call of the logger prints them, or none does.
            heads = [(own.level, own.file, own.stamp) for own in (held, record)]
            is_listed = (
                above.rstrip().endswith(":") or _ITEM.fullmatch(above) is not None
            )
            is_part = _ORDERS.fullmatch(text) or (is_listed and _ITEM.fullmatch(text))
            return heads[0] == heads[1] and bool(is_part)
        is_reason = above.rstrip().endswith(_NCCL_LAST) and bool(text)
        return is_reason or _DETAILS[kind].fullmatch(text) is not None

    def _take_held(self) -> list[tuple[Record, int]]:
        """The held record with what followed it."""
        held, pieces = self._held, self._pieces
        self._held, self._pieces, self._size = None, [], 0
        if held is None:
            return []
        if self._waits_for in (_PARTIAL, _LIST):
            held.message = "".join([held.message, *pieces])
            return [(held, self._line)]
        for text in filter(None, map(str.strip, pieces)):
            head = held.message.rstrip()
            held.message = f"{head}{'' if head.endswith((':', '.')) else ';'} {text}"
        return [(held, self._line)]

    def take_error(self) -> list[tuple[Record, int]]:
        """The error whose further lines may follow, if one waits for them."""
        is_error = self._waits_for not in (_PARTIAL, _LIST)
        return self._take_held() if is_error else []

    def close(self) -> list[tuple[Record, int]]:
        """The record that still waits for its continuation."""
        out = self._take_held()
        if self._json:
            out += [(record, self._line) for record in _cut_json(self._json)]
            self._json = []
        return out

    def _collect_json(self, record: Record) -> list[Record] | None:
        """Records of an object printed over several lines; None until it ends."""
        self._json.append(record.message)
        text = record.message.strip()
        is_full = len(self._json) >= MAX_JSON or sum(map(len, self._json)) >= LIMIT
        if len(self._json) == 1 or (text != "}" and not is_full):
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


def _open_part(record: Record) -> str:
    """What must follow a record, as `Joiner` names it; empty where nothing must."""
    message = record.message
    if record.partial:
        return _PARTIAL
    if "[type=" not in message:
        kind = next((text for text in (*_DETAILS, _RAISED) if text in message), None)
        if kind is not None:
            return kind
    start = message.rfind("[(")
    is_list = start >= 0 and "buckets" in message and message.find("]", start) < 0
    return _LIST if is_list else ""
