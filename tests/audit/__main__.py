"""Which of an engine's statements are understood: `python -m tests.audit SOURCE_TREE`.

SOURCE_TREE holds `vllm/`, `vllm_gaudi/` or `tpu_inference/`. Prints what is not read as it
should be, then the totals; exits 1 when a figure comes back wrong.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tests.audit.judgements import Judgement, load, store
from tests.audit.reading import OUTCOMES, Reader, Reading
from tests.audit.rendering import head_of
from tests.audit.statements import Statement, package_of, statements_of

COVERAGE = Path(__file__).with_name("coverage.json")
MATTERS = re.compile(
    r"(?i)warm|captur|graph|compil|autotun|bucket|kv.?cache|memory|gib|took|seconds|"
    r"elapsed|profil|weight|oom|sleep|wake|ready|jit|precompil|padding|offload|defrag|"
    r"checkpoint|dynamo|inductor|prefetch"
)
"""Words of a statement that somebody should judge."""
ENGINES = {"vllm_gaudi": "vllm-gaudi", "tpu_inference": "tpu-inference", "vllm": "vllm"}


@dataclass
class Row:
    """A statement, how it is read, and whether it is wanted."""

    statement: Statement
    reading: Reading
    judgement: Judgement | None

    @property
    def rank(self) -> str:
        return self.judgement.rank if self.judgement else "?"

    @property
    def is_read(self) -> bool:
        """A figure wants an event; of a decision the text is enough."""
        enough = ("understood",) if self.rank == "A" else ("understood", "note")
        return self.reading.outcome in enough

    @property
    def differs(self) -> bool:
        """Whether it is read otherwise than when it was judged."""
        judged = self.judgement.reads if self.judgement else ""
        return self.is_read and bool(judged) and judged != self.reading.reads


def rows_of(tree: Path, since: Path | None = None) -> list[Row]:
    """Every statement of a tree, or those that an older tree lacks."""
    judgements, reader = load(), Reader(head_of(tree))
    old = {s.fingerprint for s in statements_of(since)} if since else set()
    found = []
    for statement in statements_of(tree):
        judgement = judgements.get(statement.fingerprint)
        if statement.fingerprint in old or (
            statement.call == "raise" and not judgement
        ):
            continue
        found.append(Row(statement, reader.read(statement), judgement))
    return found


def coverage(rows: list[Row], ranks: str) -> tuple[int, int]:
    """How many statements of these ranks are read, and how many there are."""
    wanted = [row for row in rows if row.rank in tuple(ranks)]
    return sum(row.is_read for row in wanted), len(wanted)


def wrong(rows: list[Row]) -> list[str]:
    """Figures that do not come back as they were rendered, and changed readings."""
    found = []
    for row in rows:
        place = f"{row.statement.module}:{row.statement.line}"
        if row.rank in ("A", "B", "C"):
            found += [f"{place}: {text}" for text in row.reading.wrong]
        if row.differs and row.judgement is not None:
            judged = row.judgement.reads
            found.append(f"{place}: reads {row.reading.reads!r}, judged {judged!r}")
    return found


def _version(tree: Path) -> str:
    info = tree / "PKG-INFO"
    found = info.exists() and re.search(r"(?m)^Version: (\S+)", info.read_text())
    return found[1] if found else tree.name.rpartition("-")[2]


def _listed(rows: list[Row], show: str, is_new: bool) -> Iterator[str]:
    """The statements to look at: wanted and not read, and new ones nobody judged."""
    for row in rows:
        wanted = row.rank in ("A", "B") and not row.is_read
        unjudged = is_new and row.rank == "?" and MATTERS.search(row.statement.wording)
        if row.reading.outcome in show.split(",") or wanted or unjudged:
            s = row.statement
            yield (f"{row.rank} {row.reading.outcome:10} {s.fingerprint} {s.module}:"
                   f"{s.line} {s.function} {s.level}\n    {row.reading.text[:400]!r}"
                   f"\n    {row.reading.rule} {row.reading.reads}")  # fmt: skip


def _new_rows(rows: list[Row]) -> Iterator[str]:
    """Rows for `judgements.tsv`, to be completed by whoever reads the statements."""
    for row in rows:
        if row.rank == "?" and MATTERS.search(row.statement.wording):
            s = row.statement
            where = f"{s.module.removesuffix('.py')}:{s.function}"
            yield "\t".join([s.fingerprint, "?", where, "", row.reading.reads])


def _accept(rows: list[Row]) -> None:
    """Take the readings of this tree as right: for after they were looked at."""
    judgements = load()
    for row in rows:
        if row.judgement is not None and row.is_read:
            key = row.statement.fingerprint
            judgements[key] = replace(judgements[key], reads=row.reading.reads)
    store(judgements.values())


def _keep(rows: list[Row], engine: str, version: str) -> None:
    """The figures of this tree, for `docs/make_dialects.py`."""
    known = json.loads(COVERAGE.read_text()) if COVERAGE.exists() else {}
    known[f"{engine} {version}"] = {
        "date": datetime.date.today().isoformat(), "statements": len(rows),
        "a": coverage(rows, "A"), "ab": coverage(rows, "AB"), "wrong": len(wrong(rows)),
    }  # fmt: skip
    COVERAGE.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.audit", description=__doc__)
    parser.add_argument("tree", type=Path, help="folder that holds the package")
    parser.add_argument("--since", type=Path, help="only what this older tree lacks")
    parser.add_argument("--engine", help="vllm-fork cannot be told from the folder")
    parser.add_argument("--version", help="without one: of PKG-INFO or the folder")
    parser.add_argument("--show", default="", metavar="OUTCOMES",
                        help=f"also list these: {','.join(OUTCOMES)}")  # fmt: skip
    parser.add_argument("--rows", action="store_true",
                        help="print rows for judgements.tsv of what nobody judged")  # fmt: skip
    parser.add_argument("--accept", action="store_true",
                        help="store the readings in judgements.tsv as right")  # fmt: skip
    parser.add_argument("--keep", action="store_true",
                        help="store the totals for docs/dialects.md")  # fmt: skip
    return parser


def main() -> int:
    """Run the command."""
    args = _parser().parse_args()
    rows = rows_of(args.tree, args.since)
    engine = args.engine or ENGINES[package_of(args.tree)]
    version = args.version or _version(args.tree)
    if args.accept:
        _accept(rows)
        rows = rows_of(args.tree, args.since)
    print(
        *(_new_rows(rows) if args.rows else _listed(rows, args.show, bool(args.since))),
        sep="\n",
    )
    found = wrong(rows)
    print(*found, sep="\n")
    outcomes = Counter(row.reading.outcome for row in rows)
    a, ab = coverage(rows, "A"), coverage(rows, "AB")
    print(f"{engine} {version}: {len(rows)} statements, "
          + ", ".join(f"{outcomes[name]} {name}" for name in OUTCOMES)
          + f"; rank A {a[0]}/{a[1]}, A and B {ab[0]}/{ab[1]}; {len(found)} wrong")  # fmt: skip
    if args.keep:
        _keep(rows, engine, version)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
