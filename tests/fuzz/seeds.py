"""Where fuzzing begins: the samples of the rules, and the logs of the project."""

from __future__ import annotations

from pathlib import Path

from parsers import DIALECTS, all_rules
from parsers.engine.dispatch import BARE, RELEVANT

ROOT = Path(__file__).resolve().parents[2]
FILE_LIMIT = 24_000
WRAPPINGS = (
    "(Worker_TP1 pid=3) ", "(RayWorkerWrapper pid=263, ip=10.0.16.95) ", "# ", "│ ",
    "2026-05-01 23:13:17.078 | ", "app-1  | ", "2026-05-01T21:13:17.07Z stdout P ",
    "авг 18 14:15:02 host a[1]: ", "\x1b[32m", "^[[1;36m", "[rank3]: ",
)  # fmt: skip
_WORDS = (
    " [repeated 3x across cluster]", "^M", "\\n", '{"message": "', '"log": "', '"time": "',
    '"levelname": "', '{"cells":', '"outputs":', '"text":', '[{"ph": "X", "ts": 1.0',
    "INFO 07-07 19:15:38 [a.py:1] ", "WARNING 02-29 23:59:59 [a.py:1] ", "\x1f\x8b",
    "\x28\xb5\x2f\xfd", "\xff\xfe", "99999999999999999999", "nan", "1e999", "-0", "[(",
)  # fmt: skip


def lines() -> list[bytes]:
    """A line for every sample, some in the prefixes of collectors."""
    texts = [sample.line for rule in all_rules() for sample in rule.samples]
    texts += [dialect.sample_line for dialect in DIALECTS]
    texts += [wrap + text for wrap, text in zip(WRAPPINGS * 20, texts, strict=False)]
    return [text.encode() for text in texts]


def files() -> list[bytes]:
    """The small sample logs, and one of all samples."""
    found = [
        path.read_bytes()
        for path in sorted((ROOT / "sample_logs").rglob("*"))
        if path.is_file() and path.suffix != ".md"
    ]
    found = [data for data in found if len(data) <= FILE_LIMIT]
    return [*found, b"\n".join(lines())[:FILE_LIMIT]]


def words() -> list[bytes]:
    """Literals worth putting somewhere: those of the rules first."""
    hints = [hint for rule in all_rules() for hint in rule.hints]
    texts = dict.fromkeys([*hints, *RELEVANT, *BARE, *WRAPPINGS, *_WORDS])
    return [text.encode("utf-8", "surrogateescape") for text in texts]


def of(target: str) -> list[bytes]:
    """The seeds of a target."""
    return files() if target == "file" else lines()
