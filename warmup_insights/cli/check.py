"""`check`: a gate for pipelines."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal

import click

from warmup_insights import storage
from warmup_insights.analysis.check import (
    SHORT_NAMES,
    CheckResult,
    Limit,
    check_run,
    parse_limit,
)
from warmup_insights.cli.loading import is_log, load_runs
from warmup_insights.cli.options import (
    Command,
    all_of,
    db_option,
    force_option,
    json_option,
    read_assignments,
)
from warmup_insights.cli.printing import print_json, print_tables, write_result
from warmup_insights.drainer import open_store
from warmup_insights.errors import InputError
from warmup_insights.export.findings import (
    check_markdown,
    check_table,
    end_sentence,
    github_annotations,
    junit_text,
)
from warmup_insights.export.runs import is_run_json, read_run_json
from warmup_insights.export.tables import plain
from warmup_insights.model.figures import BY_NAME, Figure
from warmup_insights.model.summary import RunSummary
from warmup_insights.runs import current


def _limit_option(name: str, figure: Figure) -> Callable[[Command], Command]:
    """`--max-...` for what should be low, `--min-...` for what should be high."""
    side = "min" if figure.better == "higher" else "max"
    return click.option(
        f"--{side}-{name}",
        metavar="LIMIT",
        multiple=True,
        help=f"{figure.title[0].upper()}{figure.title[1:]}.",
    )


@click.command()
@click.argument("run", default="latest")
@click.option(
    "--baseline", metavar="RUN|FILE",
    help="What +10% is relative to: a run, a label (its latest run), a log, or an exported "
    "file.",
)  # fmt: skip
@all_of(*(_limit_option(name, BY_NAME[figure]) for name, figure in SHORT_NAMES.items()))
@click.option(
    "--max", "highest", multiple=True, metavar="FIGURE=LIMIT",
    help="Any figure of `compare --json`, phase:NAME or bench_KEY; may be repeated.",
)  # fmt: skip
@click.option(
    "--min", "lowest", multiple=True, metavar="FIGURE=LIMIT",
    help="The same, as a lower limit.",
)  # fmt: skip
@click.option("--junit", metavar="FILE", help="Write JUnit XML, too; - is stdout.")
@click.option("--markdown", metavar="FILE", help="Write Markdown, too; - is stdout.")
@force_option
@db_option
@json_option
def check(
    run: str,
    baseline: str | None,
    highest: tuple[str, ...],
    lowest: tuple[str, ...],
    junit: str | None,
    markdown: str | None,
    force: bool,
    db: str,
    as_json: bool,
    **options: Any,
) -> None:
    """RUN is a run id, its first 4 characters or more, a label, `latest` (the last to
    start), or a log.

    A LIMIT is a value
    (600s, 12GiB, 100) or, with a sign, relative to the baseline (+10%, -5%, +30s); before
    it may stand the kind of start that it is for (--max-ready cold:600s --max-ready
    warm:90s). A limit on a figure that is unknown does not hold.
    """
    if [as_json, junit == "-", markdown == "-"].count(True) > 1:
        raise click.UsageError(
            "Only one of --json, --junit - and --markdown - can be standard output"
        )
    limits = _limits(options, highest, lowest)
    summary, base = _load(db, run, baseline)
    result = check_run(summary, limits, base)
    if junit is not None:
        write_result(junit, junit_text(result), force=force)
    if markdown is not None:
        write_result(markdown, check_markdown(result), force=force)
    if as_json:
        print_json(result.as_dict())
    elif "-" not in (junit, markdown):
        _print(result)
    if os.environ.get("GITHUB_ACTIONS") == "true":
        _report_to_github(result)
    if not result.passed:
        sys.exit(1)


def _report_to_github(result: CheckResult) -> None:
    """Annotations on standard error, and the table in the summary of the job."""
    for line in github_annotations(result):
        click.echo(line, err=True)
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        with suppress(OSError), open(summary, "a", encoding="utf-8") as stream:
            stream.write(check_markdown(result) + "\n")


def _limits(
    options: dict[str, tuple[str, ...]],
    highest: tuple[str, ...],
    lowest: tuple[str, ...],
) -> list[Limit]:
    limits = []
    for key, texts in options.items():
        side, _, name = key.replace("_", "-").partition("-")
        kind: Literal["max", "min"] = "max" if side == "max" else "min"
        limits += [parse_limit(name, kind, text) for text in texts]
    given: tuple[tuple[Literal["max", "min"], tuple[str, ...]], ...] = (
        ("max", highest), ("min", lowest),
    )  # fmt: skip
    for side, texts in given:
        like = "FIGURE=LIMIT, such as wall_s=+10%"
        for name, value in read_assignments(f"--{side}", texts, like):
            limits.append(parse_limit(name, side, value))
    return limits


def _load(
    db: str, run: str, baseline: str | None
) -> tuple[RunSummary, RunSummary | None]:
    summary = load_runs(db, [run])[0].summary
    if baseline is None:
        return summary, None
    if is_run_json(baseline):
        return summary, read_run_json(baseline)[0]
    if is_log(baseline):
        return summary, load_runs(db, [baseline])[0].summary
    with open_store(db) as store:
        return summary, find_baseline(store, baseline, except_run=summary.run_id)


def find_baseline(
    store: storage.EventStore, text: str, *, except_run: str
) -> RunSummary:
    """The summary that a user means: the latest run of a label, or a run.

    Raises:
        InputError: the run is its own baseline.
        StoreError: there is no such run.
    """
    labelled = [r for r in store.runs(label=text, limit=2) if r.run_id != except_run]
    record = labelled[0] if labelled else store.find_run(text)
    if record.run_id == except_run:
        raise InputError(
            f"{text[:60]!r} is the run itself; name another run as its baseline"
        )
    return current(store, record).summary


def _print(result: CheckResult) -> None:
    print_tables([check_table(result)])
    click.echo(result.verdict)
    if result.serving_end:
        click.echo(plain(end_sentence(result)))
