"""Which statements carry a fact that whoever watches a warm-up wants.

`judgements.tsv` has a row for each wording that was read by a person: its fingerprint (the
wording itself is the engine's and is not stored), the rank, where it was last seen, the
fact, and what the rules make of it, with `#2` for the second number of the line. Ranks:
A a figure, readiness or the cause of a failure; B a decision or a skipped stage; C
background; `-` nothing of this.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from pathlib import Path

TABLE = Path(__file__).with_name("judgements.tsv")


@dataclass(frozen=True)
class Judgement:
    """What was found about one wording."""

    fingerprint: str
    rank: str
    where: str
    fact: str
    reads: str


def load(path: Path = TABLE) -> dict[str, Judgement]:
    """The judgements by fingerprint."""
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = (Judgement(*line.split("\t")) for line in lines)
    return {row.fingerprint: row for row in rows}


def store(rows: Iterable[Judgement], path: Path = TABLE) -> None:
    """Write the judgements, by place and fingerprint."""
    ordered = sorted(rows, key=lambda row: (row.where, row.fingerprint))
    text = "".join("\t".join(astuple(row)) + "\n" for row in ordered)
    path.write_text(text, encoding="utf-8")
