"""`warmup-insights run`: the reference warm-up, instrumented; its progress on stderr."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click
from msgspec import to_builtins
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from warmup_insights.cli import endings_as_interrupts
from warmup_insights.cli.options import (
    all_of,
    db_option,
    described,
    force_option,
    json_option,
    label_of,
    parsed_by,
    read_assignments,
    setting_options,
)
from warmup_insights.cli.printing import open_result, print_json, refuse_existing
from warmup_insights.cli.show import print_summary
from warmup_insights.devices import DEVICE_CHOICES, open_device
from warmup_insights.devices.base import Device
from warmup_insights.drainer import open_store, recording
from warmup_insights.errors import SettingError
from warmup_insights.model.events import (
    AnyEvent,
    DefragStep,
    GraphCaptured,
    Note,
    PhaseMarked,
    SamplerStep,
    WarmupStep,
)
from warmup_insights.model.phases import phase_words
from warmup_insights.model.run import RunRecord, new_run_id
from warmup_insights.rules import VARIABLES
from warmup_insights.runner.log_format import LOG_FORMATS, LogWriter, result_block
from warmup_insights.runner.session import Outcome, Session
from warmup_insights.runner.settings import CAPTURE_STRATEGIES, RunSettings
from warmup_insights.runner.workload import WorkloadSettings
from warmup_insights.runs import current
from warmup_insights.storage.location import shown_location
from warmup_insights.storage.store import EventStore
from warmup_insights.units import format_duration, parse_size

_ON_ACCELERATOR: dict[str, Any] = {
    "model": "llama-3.1-8b",
    "dtype": "bfloat16",
    "block_size": 128,
    "max_model_len": 4096,
    "max_num_seqs": 32,
    "max_num_batched_tokens": 4096,
}
"""Defaults where the device is not the CPU, whose defaults are those of RunSettings."""
_FILE = click.Path(path_type=Path, dir_okay=False)
_READ_VARIABLES = re.compile(
    r"VLLM_(?:PROMPT|DECODE)_[A-Z]{2,8}_BUCKET_[A-Z_]{3,16}|VLLM_GRAPH_[A-Z_]{3,24}|"
    r"VLLM_BUCKETING_(?:STRATEGY|FROM_FILE)|VLLM_(?:EXPONENTIAL|ENABLE)_BUCKETING|"
    r"VLLM_CONTIGUOUS_PA|VLLM_PREFIX_CACHING|VLLM_MERGED_PREFILL|VLLM_SKIP_WARMUP|"
    r"VLLM_DEFRAG_(?:THRESHOLD|WITH_GRAPHS)|VLLM_FUSEDSDPA_SLIDE_THLD|"
    r"PT_HPU_SDPA_(?:BC_FACTOR|QKV_SLICE_MODE_FWD)"
)
"""Variables that a run depends on; no other one is kept with it."""


_BY_DEVICE: dict[str, Any] = {
    name: {
        "default": None,
        "show_default": f"{getattr(RunSettings, name)} on cpu, else {value}",
    }
    for name, value in _ON_ACCELERATOR.items()
}
run_options = all_of(
    click.option(
        "--device", type=click.Choice(DEVICE_CHOICES), default="cpu", show_default=True,
        help="What to run on. The simulated ones compute nothing and measure nothing.",
    ),
    click.option(
        "--memory", callback=parsed_by(parse_size), show_default="2GiB",
        help="Budget of the cpu device.",
    ),
    click.option(
        "--threads", type=int, show_default="1", help="Threads of the cpu device."
    ),
    setting_options(
        RunSettings,
        VARIABLES,
        capture_strategy={"type": click.Choice(CAPTURE_STRATEGIES)},
        bucket_dimensions={"type": click.Choice([3, 2])},
        **_BY_DEVICE,
    ),
    click.option(
        "--set", "assignments", metavar="NAME=VALUE", multiple=True,
        help="A bucketing variable, as if it stood in the environment; may be repeated.",
    ),
    click.option("--serve", is_flag=True, help="Serve a workload after the warm-up."),
    setting_options(
        WorkloadSettings,
        sigma={"flag": "--length-sigma"},
        trace={"type": _FILE},
    ),
    click.option(
        "--save-result", type=_FILE,
        help="Write the result as JSON, with the keys of `vllm bench serve`.",
    ),
    click.option(
        "--log-format", type=click.Choice(list(LOG_FORMATS)),
        help="Print the run as a log of that engine.",
    ),
    click.option(
        "--log-file", type=_FILE, help="Where the log goes; standard error without it.",
    ),
    force_option,
)  # fmt: skip
"""What `read_settings` and `read_workload` take, and the options of files."""


def read_workload(options: Mapping[str, Any]) -> WorkloadSettings | None:
    """The workload to serve; None without `--serve`.

    Raises:
        SettingError: a value cannot be used, or an option needs `--serve`.
    """
    if not options["serve"]:
        for name in ("trace", "save_result"):
            if options[name] is not None:
                flag = f"--{name.replace('_', '-')}"
                raise SettingError(f"{flag} does nothing without --serve; add it")
        return None
    values = {name: options[name] for name in described(WorkloadSettings)}
    return WorkloadSettings(seed=options["seed"], **values)


def read_settings(options: Mapping[str, Any]) -> RunSettings:
    """Settings from the values of the options; missing ones depend on the device.

    Raises:
        SettingError: a value cannot be used.
    """
    values = {} if options["device"] == "cpu" else dict(_ON_ACCELERATOR)
    given = {name: options[name] for name in described(RunSettings)}
    values |= {name: value for name, value in given.items() if value is not None}
    environment = engine_environment(os.environ, options["assignments"])
    return RunSettings(environment=environment, **values)


def engine_environment(
    environment: Mapping[str, str], assignments: tuple[str, ...]
) -> dict[str, str]:
    """The variables that a run reads, with those given on the command line over them.

    Raises:
        SettingError: an assignment is none, or names no engine variable.
    """
    like = (
        "NAME=VALUE of a variable that a run reads, such as VLLM_PROMPT_BS_BUCKET_MAX=4"
    )
    given = dict(read_assignments("--set", assignments, like))
    for name in given:
        if not _READ_VARIABLES.fullmatch(name):
            raise SettingError(f"--set {name[:60]!r} cannot be used; write {like}")
    read = {n: text for n, text in environment.items() if _READ_VARIABLES.fullmatch(n)}
    return read | given


_SHOWN_TOPICS = ("bucketing", "graph_memory", "graph_capture_off")
"""Topics of the notes that are shown at once."""


class RunProgress(ExitStack):
    """Shows the events of a run while it goes on; use it as a context manager."""

    def __init__(self, console: Console, *, is_quiet: bool = False) -> None:
        super().__init__()
        self._console = console
        self._is_quiet = is_quiet
        self._is_live = console.is_terminal and not is_quiet
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._bar = self._bars.add_task("", total=None)
        if self._is_live:
            self.enter_context(self._bars)

    def take(self, event: AnyEvent) -> None:
        """Show an event."""
        if isinstance(event, PhaseMarked):
            words = phase_words(event.name)
            if event.edge == "start":
                self._bars.reset(self._bar, description=words, total=None)
            else:
                self._print(f"{words:<34} {format_duration(event.duration_s)}")
        elif isinstance(event, (WarmupStep, GraphCaptured)) and event.index:
            self._bars.update(self._bar, completed=event.index, total=event.total)
        elif isinstance(event, (SamplerStep, DefragStep)):
            self._bars.advance(self._bar)
        elif isinstance(event, Note) and event.topic in _SHOWN_TOPICS:
            self._print(event.text)

    def _print(self, text: str) -> None:
        if not self._is_quiet:
            self._console.print(text, highlight=False, markup=False, soft_wrap=True)


Taker = Callable[[AnyEvent], None]


@click.command()
@run_options
@click.option("--label", callback=parsed_by(label_of), help="A name for the run.")
@click.option("--quiet", is_flag=True, help="Print nothing on stderr.")
@db_option
@json_option
def run(db: str, as_json: bool, label: str | None, quiet: bool, **options: Any) -> None:
    """Events that were recorded stay in the database when a run fails."""
    run_id = new_run_id()
    console = Console(stderr=True)
    is_quiet = quiet or (bool(options["log_format"]) and options["log_file"] is None)
    if options["save_result"] is not None:
        refuse_existing(options["save_result"], force=options["force"])
    with ExitStack() as stack:
        log = stack.enter_context(_open_log(options))
        progress = stack.enter_context(RunProgress(console, is_quiet=is_quiet))
        outcome = record_run(options, db, run_id, label, (progress.take, *log))
    with open_store(db) as store:
        summary = current(store, store.run(run_id)).summary
    benchmarks = summary.benchmarks
    if options["save_result"] is not None and benchmarks:
        with open_result(options["save_result"], force=options["force"]) as stream:
            stream.write(json.dumps(benchmarks[-1], indent=2) + "\n")
    if as_json:
        print_json({"run_id": run_id, "summary": to_builtins(summary)})
    else:
        print_summary(summary)
        if benchmarks:
            click.echo(result_block(benchmarks[-1]))
        click.echo(f"run {run_id} {outcome.status}, stored in {shown_location(db)}")
    if outcome.error is not None:
        click.echo(f"Error: {outcome.error}", err=True)
        sys.exit(1)


def record_run(
    options: Mapping[str, Any],
    db: str,
    run_id: str,
    label: str | None,
    takers: Sequence[Taker] = (),
) -> Outcome:
    """Run, and store every event in the database; each taker gets the events too."""
    settings, workload = read_settings(options), read_workload(options)
    device = open_device(
        options["device"],
        memory_bytes=options["memory"],
        num_threads=options["threads"],
    )
    try:
        taking: list[Taker] = []

        def emit(event: AnyEvent) -> None:
            for take in taking:
                take(event)

        session = Session(device, settings, emit, workload)
        EventStore(db).close()  # a database that cannot be used ends it here
        with recording(db, _record(device, run_id, label)) as recorder:
            taking += (recorder.record, *takers)
            with endings_as_interrupts():
                return session.run()
    finally:
        device.close()


def _record(device: Device, run_id: str, label: str | None) -> RunRecord:
    return RunRecord(
        run_id=run_id,
        source_name="warmup-insights run",
        label=label,
        engine="reference",
        device_kind=device.kind,
        device_name=device.name,
        started_at=device.now(),
        synthetic=device.is_synthetic,
    )


@contextmanager
def _open_log(options: Mapping[str, Any]) -> Iterator[tuple[Taker, ...]]:
    """The writer of a log as a taker of events; none without a format."""
    name, path = options["log_format"], options["log_file"]
    if name is None:
        if path is not None:
            raise SettingError("--log-file does nothing without --log-format; add it")
        yield ()
    elif path is None:
        yield (LogWriter(LOG_FORMATS[name], sys.stderr).take,)
    else:
        with open_result(path, force=options["force"]) as stream:
            yield (LogWriter(LOG_FORMATS[name], stream).take,)
