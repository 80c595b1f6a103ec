"""Writes docs/lnav/vllm.json, a format of lnav, from the rules of the parsers.

`python docs/make_lnav.py` rewrites the file; `--check` exits 1 when it is not current.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from parsers import LineRule, all_rules

FILE = Path(__file__).with_name("lnav") / "vllm.json"
LEVELS = {
    "trace": "TRACE", "debug": "DEBUG", "info": "INFO", "warning": "WARN",
    "error": "ERROR", "critical": "CRITICAL|FATAL",
}  # fmt: skip
_LEVEL = r"(?<level>TRACE|DEBUG|INFO|WARNING|ERROR|CRITICAL|FATAL)"
LOGGER = (
    r"^(?:[\w.-]+ +\| ?)?"
    r"(?:\((?<process>[\w.-]+)(?: [\w=.-]+)*? pid=(?<pid>\d+)[^)]{0,80}\) ?)*"
    rf"{_LEVEL}\s+"
    r"(?<timestamp>(?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{1,6})?) +"
    r"\[?(?<file>[\w./-]+):(?<source_line>\d+)\] ?(?<body>.*)$"
)
SQL_NAME = re.compile(
    r"\(\?P<(action|after|before|default|first|full|index|instead|key|limit|"
    r"partition|query|unique|without)>"
)
"""Fields that cannot be names of columns; they get an underscore."""
TOKEN = re.compile(r"\\.|\[(?:\\.|[^\]])*\]|\{[\d,]+\}|.", re.DOTALL)
"""What a pattern consists of: escapes, classes, counts, single characters."""
SAMPLES = (
    ("INFO 07-16 20:02:46 [backends.py:1155] Dynamo bytecode transform time: 7.06 s", "info"),
    ("(EngineCore_DP0 pid=72) WARNING 07-16 10:02:11 [gpu_worker.py:415] low", "warning"),
    ("ERROR 06-04 01:18:37 engine.py:43] CUDA out of memory", "error"),
)  # fmt: skip


def content() -> dict[str, Any]:
    """The format: one pattern for lines of vLLM's logger, and a table for each rule."""
    return {
        "$schema": "https://lnav.org/schemas/format-v1.schema.json",
        "vllm_log": {
            "title": "vLLM and vllm-gaudi",
            "description": "The log of vLLM's start-up and serving, with a table of "
            "fields for each line that warmup-insights reads.",
            "regex": {"logger": {"pattern": LOGGER}},
            "timestamp-format": ["%m-%d %H:%M:%S", "%Y-%m-%d %H:%M:%S"],
            "level-field": "level",
            "level": LEVELS,
            "value": {
                "process": {"kind": "string", "identifier": True},
                "pid": {"kind": "integer", "foreign-key": True},
                "file": {"kind": "string", "identifier": True},
                "source_line": {"kind": "integer", "foreign-key": True},
            },
            "search-table": dict(_tables()),
            "sample": [{"line": line, "level": level} for line, level in SAMPLES],
        },
    }


def _tables() -> Iterator[tuple[str, dict[str, Any]]]:
    """A table for each rule; its rows are the lines of the rule."""
    for rule in all_rules():
        if _is_logged(rule):
            # lnav looks in the whole line; a message begins behind the file.
            start = "" if rule.anywhere else r"(?<=\] )"
            # The column `log_body` has the text.
            pattern = rule.pattern.replace("(?P<text>", "(?:")
            pattern = SQL_NAME.sub(r"(?P<\1_>", _with_texts(pattern))
            yield f"vllm_{rule.name}", {"pattern": f"{start}(?:{pattern})"}


def _with_texts(pattern: str) -> str:
    """A pattern whose groups of numbers with commas may be letters, too.

    lnav would read `1,234` as the number 1; what can be letters is text to it.
    """
    out: list[str] = []
    opened: list[int] = []
    for token in TOKEN.findall(pattern):
        if token == "(":
            opened.append(len(out))
        elif token == ")":
            start = opened.pop()
            is_named = out[start : start + 3] == ["(", "?", "P"]
            if is_named and _is_grouped("".join([*out[start:], ")"])):
                out.insert(out.index(">", start) + 1, "[a-z]+|")
        out.append(token)
    return "".join(out)


def _is_grouped(group: str) -> bool:
    """Whether a group is a number with commas, or a list of numbers."""
    fits = re.compile(group).fullmatch
    return not fits("ab") and any(map(fits, ("1,234", "1, 2", "1, 2, 3, 4, 5, 6")))


def _is_logged(rule: LineRule) -> bool:
    """Whether a sample of the rule is a line of vLLM's logger."""
    logger = re.compile(LOGGER.replace("(?<", "(?P<"))
    return any(logger.match(sample.line) for sample in rule.samples)


def main() -> int:
    """Write or compare; the exit code."""
    text = json.dumps(content(), indent=2) + "\n"
    if "--check" in sys.argv[1:]:
        return int(not FILE.is_file() or FILE.read_text(encoding="utf-8") != text)
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
