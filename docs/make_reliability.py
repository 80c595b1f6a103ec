"""Writes docs/reliability.md from the results of the checks in docs/reliability.json.

`python docs/make_reliability.py` writes the page again; `--check` exits 1 when it does
not agree with the results. `--run` does the checks first, all or those named after it;
`--quick` does few of each, for a look at whether they work.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from make_performance import json_values, machine, write_page

DOCS = Path(__file__).parent
ROOT = DOCS.parent
PAGE = DOCS / "reliability.md"
TEXT = DOCS / "reliability.md.in"
RESULTS = DOCS / "reliability.json"
QUICK = (
    "**Quick: so marked checks were done a few times only, to see that they work.**\n\n"
)
COLUMNS = ("what was done", "how often", "what came of it", "command")

Counts = dict[str, Any]


@dataclass(frozen=True)
class Check:
    """Something that is done often, and how its counts read.

    `{folder}` in the command is an empty folder; the page shows it without.
    """

    what: str
    command: tuple[str, ...]
    quick: tuple[str, ...] = ()
    """The same with less to do; empty when it is quick anyhow."""
    how_often: Callable[[Counts], str] = lambda counts: f"{counts['passed']} tests"
    outcome: Callable[[Counts], str] = lambda counts: _tests(counts)


def _tests(counts: Counts) -> str:
    skipped = f", {counts['skipped']} skipped" if counts["skipped"] else ""
    return f"{counts['failed'] or 'none'} failed{skipped}"


def _pytest(what: str, *places: str) -> Check:
    command = ("-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *places)
    return Check(what, command)


def _kills(counts: Counts) -> str:
    return (
        f"every database opened; of {counts['events acknowledged by flush']:,} events that "
        f"`flush()` had acknowledged {counts['acknowledged events lost'] or 'none'} missing; "
        f"{counts['runs with gaps or doubles'] or 'no'} runs with gaps or doubles; oldest "
        f"missing event {counts['oldest missing event at the kill, median ms']} ms old "
        f"(median), {counts['oldest missing event at the kill, largest ms']} ms (largest), "
        f"{counts['kills that lost events older than 250 ms'] or 'none'} older than 250 ms; "
        f"{counts['shown as failed']} shown as failed, "
        f"{counts['that say in which bucket they ended']} with their last bucket; "
        f"{counts['killed before the first event was stored'] or 'none'} had stored nothing"
    )


def _ingest_kills(counts: Counts) -> str:
    return (
        f"{counts['killed before their end']} were killed before their end, "
        f"{counts['killed with some files stored']} of them with some files stored; "
        f"{counts['databases damaged'] or 'no'} databases damaged, "
        f"{counts['files half-way'] or 'no'} files half-way, "
        f"{counts['processes left'] or 'no'} processes left behind; "
        f"{counts['completed by a rerun']} completed by the same command again"
    )


def _crowd(counts: Counts) -> str:
    said = "nothing said" if not counts["said"] else f"said {counts['said'][:80]!r}"
    waiting = counts["runs that wait in a file"]
    return (
        f"{counts['events dropped'] or 'no'} events dropped, "
        f"{counts['ranks with lost or doubled events'] or 'no'} ranks with lost or doubled "
        f"events, {len(counts['errors']) or 'no'} errors, {said}"
        f"{f', {waiting} runs stored by the next command' if waiting else ''}; meanwhile "
        f"{counts['reads meanwhile']} reads and {counts['ingests meanwhile']} ingests"
    )


def _outages(counts: Counts) -> str:
    return (
        f"{counts['events missing'] or 'no'} events missing, "
        f"{counts['recordings with gaps or doubles'] or 'no'} recordings with gaps or "
        f"doubles, {counts['programs that failed'] or 'no'} program failed, "
        f"{counts['spools left'] or 'no'} spools left behind"
    )


def _fuzz_often(counts: Counts) -> str:
    seconds = sum(hunt["seconds"] for hunt in counts.values())
    parts = [f"{hunt['executions']:,} {name}s" for name, hunt in counts.items()]
    return f"{seconds / 60:.0f} minutes: {' and '.join(parts)}"


def _fuzz(counts: Counts) -> str:
    parts = [
        f"{name}s: {len(hunt['faults']) or 'no'} findings, {hunt['coverage']:,} edges "
        f"reached, at most {hunt['peak_mb']} MiB"
        for name, hunt in counts.items()
    ]
    return "; ".join(parts)


CHECKS = {
    "kill-recording": Check(
        "`kill -9` of a recording process at a random moment",
        ("-m", "tests.recorder.killing", "200"),
        ("-m", "tests.recorder.killing", "5"),
        lambda counts: f"{counts['recordings killed']} kills, "
        f"{counts['events recorded']:,} events",
        _kills,
    ),
    "kill-ingest": Check(
        "`kill -9` of an ingest of a folder at a random moment, then the same again",
        ("-m", "tests.safety.ingest_killing", "100"),
        ("-m", "tests.safety.ingest_killing", "3"),
        lambda counts: f"{counts['ingests']} ingests",
        _ingest_kills,
    ),
    "crowd": Check(
        "many processes record into one SQLite file, while one reads as the dashboard does "
        "and one ingests",
        ("-m", "tests.storage.crowd", "{folder}/crowd.db", "16", "8", "5000"),
        ("-m", "tests.storage.crowd", "{folder}/crowd.db", "3", "2", "200"),
        lambda counts: f"{counts['processes']} processes, "
        f"{counts['events recorded']:,} events",
        _crowd,
    ),
    "outages": Check(
        "a PostgreSQL server that is stopped and started again while a program records, or "
        "comes back after its end",
        ("-m", "tests.storage.outages", "20"),
        ("-m", "tests.storage.outages", "2"),
        lambda counts: f"{counts['outages']} outages, {counts['events recorded']:,} events",
        _outages,
    ),
    "fuzz": Check(
        "parsers under Atheris, from the samples of all rules as seeds",
        ("-m", "tests.fuzz", "--seconds", "1800", "--json"),
        ("-m", "tests.fuzz", "--seconds", "10", "--json"),
        _fuzz_often,
        _fuzz,
    ),
    "findings": _pytest("what fuzzing once found, and seeds changed at random", "tests/fuzz"),
    "patterns": _pytest(
        "the structure of every regular expression bounds its retries",
        "tests/safety/test_patterns.py",
    ),
    "endings": _pytest(
        "fork, end of the program with a full queue, hanging disk, locked database",
        "tests/recorder/test_endings.py",
    ),
    "recorder": _pytest(
        "a recorder whose spool breaks, whose clock goes back, whose queue is full",
        "tests/recorder/test_recorder.py",
    ),
    "disk": _pytest(
        "disk full, folder read-only, database removed while recording",
        "tests/safety/test_full_disk.py",
        "tests/storage/test_spool.py",
        "tests/storage/test_drain.py",
    ),
    "damaged": _pytest("damaged, hostile and unpacking logs", "tests/parsers/test_damaged.py"),
    "uploads": _pytest(
        "uploads: sizes, counts, names, links, devices, forged requests",
        "tests/safety/test_uploads.py",
    ),
    "server": _pytest(
        "addresses, names and options of the dashboard's server",
        "tests/dashboard/test_command.py",
    ),
    "database": _pytest(
        "a hostile database", "tests/safety/test_hostile_database.py"
    ),
    "sql": _pytest("no value becomes a text of SQL", "tests/safety/test_sql.py"),
    "secrets": _pytest("secrets in logs and settings", "tests/safety/test_secrets.py"),
}  # fmt: skip


def page(results: dict[str, Any]) -> str:
    """The text of the page: the table, put into what was written by hand."""
    lines = [f"| {' | '.join(COLUMNS)} |", "|" + "---|" * len(COLUMNS)]
    for name, check in CHECKS.items():
        found = results.get(name)
        if found is None:
            continue
        counts = found["counts"]
        mark = "*quick* " if found["is_quick"] else ""
        cells = (check.what, mark + check.how_often(counts), check.outcome(counts))
        lines.append(f"| {' | '.join(cells)} | `python {found['command']}` |")
    machines = sorted({found["machine"] for found in results.values()})
    note = QUICK if any(found["is_quick"] for found in results.values()) else ""
    text = TEXT.read_text("utf-8")
    table = "\n".join(lines)
    values = {"table": table, "machine": "; ".join(machines), "note": note}
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def run(check: Check, *, is_quick: bool) -> dict[str, Any]:
    """Do a check and count. Raises SystemExit when it gave no counts."""
    command = check.quick if is_quick and check.quick else check.command
    print(" ".join(command), file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, *(part.replace("{folder}", folder) for part in command)],
            cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
    if "pytest" in command:
        counts = tests_of(done.stdout)
    else:
        counts = next(json_values(done.stdout), {})
    if not counts:
        raise SystemExit(f"{' '.join(command)} gave no counts:\n{done.stdout[-2000:]}")
    return {
        "command": " ".join(command).replace("{folder}/", "").replace(
            "-q -n 0 -p no:cacheprovider ", ""
        ),
        "is_quick": is_quick and bool(check.quick),
        "machine": machine(),
        "counts": counts,
    }  # fmt: skip


def tests_of(said: str) -> Counts:
    """How many tests passed, failed and were skipped; empty when none ran."""
    last = said.strip().splitlines()[-1] if said.strip() else ""
    found = {word: int(number) for number, word in re.findall(r"(\d+) ([a-z]+)", last)}
    if "passed" not in found and "failed" not in found:
        return {}
    wrong = found.get("failed", 0) + found.get("error", 0) + found.get("errors", 0)
    return {
        "passed": found.get("passed", 0),
        "failed": wrong,
        "skipped": found.get("skipped", 0),
    }


def main() -> int:
    """Write the page, or compare it."""
    return write_page(
        RESULTS, PAGE, page, list(CHECKS),
        lambda name, is_quick: run(CHECKS[name], is_quick=is_quick),
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
