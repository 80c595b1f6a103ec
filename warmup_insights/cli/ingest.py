"""`ingest`: read logs into the database; the progress on stderr."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from warmup_insights import storage
from warmup_insights.cli import endings_as_interrupts
from warmup_insights.cli.options import (
    IntegerRange,
    db_option,
    json_option,
    label_of,
    parsed_by,
)
from warmup_insights.cli.printing import print_json, print_notes, print_tables
from warmup_insights.errors import InputError, WarmupInsightsError
from warmup_insights.export.tables import make_table, plain
from warmup_insights.ingest.find import RemoteFile, find_files, find_remote
from warmup_insights.ingest.outcome import YEARS, Options, Outcome, Watcher, file_size
from warmup_insights.units import format_bytes, format_count, parse_duration

if TYPE_CHECKING:
    from rich.console import Console

    from warmup_insights.storage import EventStore


MIN_BYTES = 4 << 20
"""Less is read before a bar could be looked at."""
LINE_EVERY_S = 10.0
MOST_ANSWERED = 3
"""Starts about which the first sentence is printed."""
MOST_EXPLAINED = 5
"""Files without a start-up that are named with the reason; of more their number is."""


@contextmanager
def watch(
    sizes: Sequence[int], console: Console | None = None
) -> Iterator[IngestWatcher]:
    """Show how far the reading of files of these sizes is, then what was skipped, or how far
    it came before Ctrl-C or another signal that ends it."""
    watcher = IngestWatcher(len(sizes), sum(sizes))
    try:
        with ExitStack() as stack:
            if sum(sizes) >= MIN_BYTES:
                from rich.console import Console

                console = console or Console(stderr=True)
                if console.is_terminal:
                    watcher = BarWatcher(len(sizes), sum(sizes), console)
                    stack.enter_context(watcher.bar)
            yield watcher
    except KeyboardInterrupt:
        click.echo(
            f"Stopped: {watcher.num_done:,} of {watcher.num_files:,} files are done and "
            "nothing is half-way; the same command goes on from here",
            err=True,
        )
        sys.exit(1)
    if watcher.num_unchanged and watcher.num_files > 1:
        click.echo(
            f"{watcher.num_unchanged:,} of {watcher.num_files:,} files were stored already",
            err=True,
        )


class IngestWatcher(Watcher):
    """Counts files and bytes; prints a line now and then, when it takes long."""

    def __init__(
        self, num_files: int, total_bytes: int, every_s: float = LINE_EVERY_S
    ) -> None:
        self.num_files = num_files
        self.total_bytes = total_bytes
        self.num_done = 0
        self.num_unchanged = 0
        self.read_bytes = 0
        self._every_s = every_s
        self._next_at = time.monotonic() + every_s

    def read(self, count: int) -> None:
        """Count bytes that were read."""
        self.read_bytes += count
        self._show()

    def done(self, outcome: Outcome) -> None:
        """Count a file that is done."""
        self.num_done += 1
        self.num_unchanged += outcome.state == "unchanged"
        self._show()

    def again(self, path: str, problem: str) -> None:
        """Print that a file is tried again."""
        click.echo(f"Trying {path} again: {problem}", err=True)

    def _show(self) -> None:
        if time.monotonic() < self._next_at:
            return
        self._next_at = time.monotonic() + self._every_s
        click.echo(
            f"Read {format_bytes(self.read_bytes)} of {format_bytes(self.total_bytes)}, "
            f"{format_count(self.num_done)} of {format_count(self.num_files)} files done",
            err=True,
        )


class BarWatcher(IngestWatcher):
    """A bar over all bytes, with the number of files that are done."""

    def __init__(self, num_files: int, total_bytes: int, console: Console) -> None:
        from rich import progress

        super().__init__(num_files, total_bytes)
        self.bar = progress.Progress(
            progress.TextColumn("{task.description}"), progress.BarColumn(),
            progress.DownloadColumn(), progress.TransferSpeedColumn(),
            progress.TimeRemainingColumn(), console=console, transient=True,
        )  # fmt: skip
        self._task = self.bar.add_task("", total=total_bytes)
        self._show()

    def _show(self) -> None:
        self.bar.update(
            self._task,
            completed=self.read_bytes,
            description=f"{self.num_done:,} of {self.num_files:,} files",
        )


MAX_UNKNOWN_SHOWN = 10


@click.command()
@click.argument("paths", nargs=-1, metavar="PATH...")
@db_option
@click.option(
    "--label",
    callback=parsed_by(label_of),
    help="Name for the runs that are found.",
)
@click.option(
    "--year",
    type=IntegerRange(*YEARS),
    help="Year of the first stamp, where the log holds no full date.",
)
@click.option(
    "--timezone",
    metavar="ZONE",
    help="Time zone of the stamps, such as Europe/Berlin or +02:00. "
    "Without it they are read as UTC and marked as unknown.",
)
@click.option(
    "--jobs",
    type=IntegerRange(1, 1024),
    metavar="N",
    help="Processes that read. Without it as many as pay: one for a few small files, "
    "at most one for each core.",
)
@click.option(
    "--ray",
    metavar="ADDRESS",
    help="Read on a Ray cluster, such as auto or host:6379, into a PostgreSQL database. "
    "PATH may be an address of fsspec then, such as s3://bucket/logs.",
)
@click.option(
    "--run",
    metavar="RUN",
    help="Run that metric files of the Gaudi bridge and output of collect_env belong to. "
    "Without it the run of a log in the same folder, read with them, that they fit.",
)
@click.option(
    "--follow", is_flag=True, help="Go on reading while the file or the pipe grows."
)
@click.option(
    "--until-ready",
    is_flag=True,
    help="With --follow: end with 0 when the server is ready, with 1 when it failed.",
)
@click.option(
    "--timeout",
    metavar="TIME",
    callback=parsed_by(parse_duration),
    help="With --until-ready: end with 1 after so long, such as 30m; without it when the "
    "file has not grown for an hour.",
)
@click.option(
    "--json-lines",
    is_flag=True,
    help="With --follow: a line of JSON on stdout for each change (docs/python.md).",
)
@click.option(
    "--pod", "pods", multiple=True, metavar="FILE",
    help="`kubectl get pod,event -o json`: what came before the first line; joined to the "
    "runs by pod and container. A container of vLLM with trouble and without a log is a "
    "run of its own, so PATH may be left out. May be repeated.",
)  # fmt: skip
@click.option(
    "--strict", is_flag=True, help="Exit with 1 when a relevant line is unknown."
)
@click.option(
    "--synthetic", is_flag=True, help="Mark the runs as made up, wherever they appear."
)
@json_option
@endings_as_interrupts()
def ingest(
    paths: tuple[str, ...],
    db: str,
    label: str | None,
    year: int | None,
    timezone: str | None,
    jobs: int | None,
    ray: str | None,
    run: str | None,
    follow: bool,
    until_ready: bool,
    timeout: float | None,
    json_lines: bool,
    pods: tuple[str, ...],
    strict: bool,
    synthetic: bool,
    as_json: bool,
) -> None:
    """PATH is a log, a folder, an archive (.zip, .tar, .tar.gz, .tar.zst), a pattern such
    as 'logs/*.log.gz', or - for stdin.

    Compressed logs (.gz, .zst) are read as they are. The same bytes twice add
    nothing; a file that has grown is continued. A command that was broken off goes on
    where it stopped when it is given again.
    """
    options = Options(
        year=year, timezone=timezone, label=label, synthetic=synthetic,
        is_growing=follow,
    )  # fmt: skip
    if (until_ready and not follow) or (timeout is not None and not until_ready):
        raise click.UsageError(
            "--until-ready needs --follow, and --timeout needs --until-ready"
        )
    if json_lines and (not follow or as_json):
        raise click.UsageError("--json-lines needs --follow, and goes without --json")
    if not paths and not pods:
        raise click.UsageError("Missing argument 'PATH...'")
    options.zone  # noqa: B018 - raises on an unknown zone before anything is read
    if ray is not None and (follow or jobs is not None):
        raise click.UsageError("--ray goes with neither --follow nor --jobs")
    files, unread = _found(paths, find_files if ray is None else find_remote)
    if unread and (follow or not files):
        raise WarmupInsightsError(unread[0].error or "Nothing could be read")
    _refuse_missing(files, may_come=bool(ray or follow or pods))
    outcomes = [] if ray is None else _ingest_on_ray(db, files, options, ray)
    with storage.EventStore(db) as store:
        if follow:
            # The help of this command loads no parser.
            from warmup_insights.cli.following import follow as follow_log

            outcome = follow_log(
                store, files, options, until_ready=until_ready, timeout_s=timeout,
                json_lines=json_lines,
            )  # fmt: skip
            outcomes = [outcome]
        elif ray is None:
            outcomes = _ingest_here(store, files, options, jobs, run)
        outcomes += unread
        outcomes += _joined(store, outcomes, pods)
        is_for_people = not (as_json or json_lines)
        answers = _answers(store, outcomes) if is_for_people else []
    if as_json:
        print_json({"files": [outcome.as_dict() for outcome in outcomes]})
    elif is_for_people:
        _print_outcomes(outcomes, label, answers)
    _exit(outcomes, strict)


def _found(
    paths: tuple[str, ...], find: Callable[[list[str]], Iterable[Any]]
) -> tuple[list[Any], list[Outcome]]:
    """The files that paths stand for, and a failure for each where some or all cannot be
    read."""
    files: list[Any] = []
    unread = []
    for path in paths:
        try:
            files += find([path])  # what comes before an error stays
        except InputError as problem:
            unread.append(Outcome(path, state="failed", error=str(problem)))
    return files, unread


def _refuse_missing(files: Sequence[str], *, may_come: bool) -> None:
    """Where no file is there, no database is made for them either."""
    if not (may_come or "-" in files or any(map(os.path.exists, files))):
        # The help of this command loads no parser.
        from parsers.source import open_path

        open_path(Path(files[0])).close()  # raises what is wrong with it


def _joined(
    store: EventStore, outcomes: list[Outcome], paths: tuple[str, ...]
) -> list[Outcome]:
    """Add what the paths of logs and the descriptions of pods state to the runs; what came
    of pods without a log."""
    from warmup_insights.ingest.pods import join_pods, place_of, read_pods

    pods = read_pods(paths) if paths else []
    if pods or any(place_of(outcome.path) for outcome in outcomes):
        return join_pods(store, outcomes, pods)
    return []


def _ingest_here(
    store: EventStore,
    files: list[str],
    options: Options,
    jobs: int | None,
    run: str | None,
) -> list[Outcome]:
    # The help of this command loads no parser.
    from warmup_insights.ingest.beside import is_beside, join_beside
    from warmup_insights.ingest.bundles import unpacked
    from warmup_insights.ingest.many import choose_jobs, ingest_files

    with unpacked(files) as logs:
        beside = {log.path for log in logs if log.path and is_beside(log.path)}
        paths = [log.path for log in logs if log.path and log.path not in beside]
        jobs = choose_jobs(paths) if jobs is None else jobs
        with watch([*map(file_size, paths)]) as watcher:
            outcomes = ingest_files(store, paths, options, jobs=jobs, watcher=watcher)
        run_id = store.find_run(run).run_id if run is not None else None
        done = dict(zip(paths, outcomes, strict=True)) | {
            path: join_beside(store, path, options, run_id, outcomes)
            for path in sorted(beside)
        }
    return [log.outcome(done) for log in logs]


def _ingest_on_ray(
    db: str, files: list[RemoteFile], options: Options, address: str
) -> list[Outcome]:
    from warmup_insights.ingest.cluster import ingest_on_ray

    with watch([file.size_bytes for file in files]) as watcher:
        return ingest_on_ray(db, files, options, address=address, watcher=watcher)


def _print_outcomes(
    outcomes: Sequence[Outcome], label: str | None, answers: Sequence[str]
) -> None:
    """A table of the files, then what was not understood in those that were read now or in
    the only one, then the runs that were stored before and have another label now, then the
    answers about few starts."""
    header = ("file", "state", "runs", "lines", "events", "unknown", "dialects")
    rows = [
        (
            outcome.path, outcome.state, " ".join(outcome.run_ids) or "-",
            *(format_count(outcome.report.get(n)) for n in ("lines", "events", "unknown")),
            ", ".join(outcome.report.get("dialects", [])) or "-",
        )
        for outcome in outcomes
    ]  # fmt: skip
    print_tables([make_table("", header, rows, right=[3, 4, 5])])
    empty = [outcome for outcome in outcomes if outcome.state == "nothing"]
    if len(empty) > MOST_EXPLAINED:
        print_notes(
            [f"{len(empty):,} files hold no start-up; ingest one alone to see why"]
        )
    for outcome in outcomes:
        if len(empty) > MOST_EXPLAINED and outcome in empty:
            continue
        print_notes(outcome.report.get("problems", []))
        if outcome.state != "unchanged" or len(outcomes) == 1:
            _print_lines(outcome)
    stored = [o for o in outcomes if o.state == "unchanged" and o.run_ids]
    if label is not None and stored:
        ids = dict.fromkeys(run_id for each in stored for run_id in each.run_ids)
        print_notes([f"{', '.join(ids)} was stored already; its label is {label} now"])
    for answer in answers:
        click.echo(plain(answer))


def _print_lines(outcome: Outcome) -> None:
    """The first lines of a file that were not understood or could not be read."""
    unknown = outcome.report.get("unknown_lines", [])
    if unknown:
        click.echo(f"{plain(outcome.path)}: {outcome.unknown_note}; the first:")
    for line, text in unknown[:MAX_UNKNOWN_SHOWN]:
        click.echo(f"  {line}: {plain(text)}")
    for line, rule, text in outcome.report.get("failed_lines", []):
        click.echo(f"  {line}: not readable ({rule}): {plain(text)}")


def _answers(store: EventStore, outcomes: Sequence[Outcome]) -> list[str]:
    """What became of each start that was found, where they are few."""
    from warmup_insights.analysis.sentences import start_sentences
    from warmup_insights.runs import current

    ids = dict.fromkeys(run_id for outcome in outcomes for run_id in outcome.run_ids)
    if len(ids) > MOST_ANSWERED:
        return []
    summaries = [current(store, store.run(run_id)).summary for run_id in ids]
    return [f"{each.run_id}: {start_sentences(each)[0]}" for each in summaries]


def _exit(outcomes: list[Outcome], strict: bool) -> None:
    failed = [o for o in outcomes if o.error is not None]
    if failed and len(failed) == len(outcomes):
        raise WarmupInsightsError(failed[0].error or "Nothing could be read")
    for outcome in failed:
        click.echo(f"Error: {outcome.error}", err=True)
    has_run = any(outcome.run_ids for outcome in outcomes)
    if (
        not has_run
        or failed
        or (strict and any(o.report.get("unknown") for o in outcomes))
    ):
        sys.exit(1)
