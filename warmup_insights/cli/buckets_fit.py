"""`buckets fit`: the bucket file that wastes least for given traffic."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from warmup_insights.cli.bucket_options import Request, settings_options
from warmup_insights.cli.options import db_option, json_option
from warmup_insights.errors import InputError, SettingError

if TYPE_CHECKING:
    from warmup_insights.analysis.plan_evidence import Evidence
    from warmup_insights.analysis.traffic import Traffic
    from warmup_insights.analysis.traffic_limits import Limits
    from warmup_insights.bucketing.settings import BucketingSettings

DEFAULT_BUCKETS = 64
MAX_LINE = 100_000
MAX_BENCHMARK_BYTES = 1 << 30


@click.command("fit")
@click.argument("run", required=False)
@click.option("--trace", metavar="FILE", help="JSONL of request lengths or of steps.")
@click.option(
    "--benchmark", metavar="FILE",
    help="Result of `vllm bench serve --save-result --save-detailed`.",
)  # fmt: skip
@click.option(
    "--max-buckets", type=click.IntRange(1), metavar="N",
    help=f"Most buckets. [default: {DEFAULT_BUCKETS}, if there is no other limit]",
)  # fmt: skip
@click.option(
    "--max-warmup", metavar="TIME", help="Most warm-up, such as 90s; needs RUN."
)
@click.option(
    "--max-graph-memory", metavar="SIZE", help="Most graph memory, as 8GiB; needs RUN."
)
@click.option(
    "--block-weight", type=click.IntRange(0), default=1, show_default=True,
    help="Tokens that a padded context block counts as.",
)  # fmt: skip
@click.option(
    "--query-step", type=click.IntRange(1), default=1, show_default=True,
    help="Query lengths are multiples of this.",
)  # fmt: skip
@click.option(
    "--cover-limits", is_flag=True,
    help="Give the largest legal prompt and decode a bucket, too.",
)  # fmt: skip
@click.option("-o", "--output-file", metavar="FILE", help="Write the bucket file.")
@click.option("--force", is_flag=True, help="Overwrite the output file.")
@settings_options
@db_option
@json_option
def fit_command(
    request: Request,
    run: str | None,
    trace: str | None,
    benchmark: str | None,
    max_buckets: int | None,
    max_warmup: str | None,
    max_graph_memory: str | None,
    block_weight: int,
    query_step: int,
    cover_limits: bool,
    output_file: str | None,
    force: bool,
    db: str,
    as_json: bool,
) -> None:
    """Find the buckets that waste least for given traffic, within a limit.

    The traffic is that of RUN while serving, or of --trace or --benchmark. Settings and
    costs of buckets are those of RUN where one is named.
    """
    from warmup_insights.analysis.traffic_report import fit_for_settings

    evidence = _evidence(db, run) if run is not None else None
    settings = _settings(request, evidence)
    traffic = _traffic(db, run, trace, benchmark, settings)
    limits = _limits(max_buckets, max_warmup, max_graph_memory, evidence)
    report = fit_for_settings(
        traffic,
        settings,
        limits,
        block_weight=block_weight,
        covers_limits=cover_limits,
        query_step=query_step,
    )
    if output_file is not None:
        from warmup_insights.cli.writing import write_result
        from warmup_insights.export.fits import bucket_file_text

        text = bucket_file_text(report, limit_text(limits))
        write_result(output_file, text, force=force)
        if output_file == "-":
            return
    if as_json:
        click.echo(json.dumps(report.as_dict(), indent=2))
        return
    from warmup_insights.cli.printing import print_notes, print_tables
    from warmup_insights.export.fits import bucket_tables, fit_table

    tables = [] if output_file is not None else bucket_tables(report)
    print_tables([*tables, fit_table(report)])
    print_notes(report.notes)


def _evidence(db: str, run: str) -> Evidence:
    from warmup_insights.analysis.plan_evidence import collect_evidence
    from warmup_insights.storage import EventStore

    with EventStore(db, read_only=True) as store:
        record = store.find_run(run)
        is_log = record.source_kind == "log"
        return collect_evidence(store.events(record.run_id), is_log=is_log)


def _settings(request: Request, evidence: Evidence | None) -> BucketingSettings:
    """The settings of the run, with those that were given here on top."""
    if evidence is None:
        return request.settings()
    from warmup_insights.analysis.plan_buckets import bucketing_inputs

    blocks = evidence.cache.num_blocks if evidence.cache is not None else None
    inputs, variables = bucketing_inputs(evidence, blocks) or ({}, {})
    context = click.get_current_context()
    given = {
        name: value
        for name, value in request.inputs.items()
        if name not in inputs
        or context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    changed = {
        name: value
        for name, value in request.env.items()
        if os.environ.get(name) != value
    }
    merged = replace(request, inputs={**inputs, **given}, env={**variables, **changed})
    return merged.settings()


def _traffic(
    db: str,
    run: str | None,
    trace: str | None,
    benchmark: str | None,
    settings: BucketingSettings,
) -> Traffic:
    from warmup_insights.analysis import traffic as shapes

    if trace is not None and benchmark is not None:
        raise click.UsageError("Choose one of --trace and --benchmark.")
    found: shapes.Traffic | shapes.Requests
    if trace is not None:
        found = shapes.parse_trace(_lines(trace), trace)
    elif benchmark is not None:
        found = shapes.parse_benchmark(_content(benchmark), benchmark)
    elif run is not None:
        found = _run_traffic(db, run)
    else:
        raise click.UsageError("Name a RUN, a --trace or a --benchmark.")
    if isinstance(found, shapes.Requests):
        return shapes.traffic_from_requests(found, settings)
    return found


def _run_traffic(db: str, run: str) -> Traffic:
    from warmup_insights.analysis.traffic import traffic_from_events
    from warmup_insights.storage import EventStore

    with EventStore(db, read_only=True) as store:
        record = store.find_run(run)
        kinds = ("bucket_used", "bucket_miss")
        name = record.label or record.run_id
        return traffic_from_events(store.events(record.run_id, kinds=kinds), name)


def _lines(path: str) -> Iterator[bytes]:
    try:
        with open(path, "rb") as stream:
            while line := stream.readline(MAX_LINE):
                yield line
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as stream:
            content = stream.read(MAX_BENCHMARK_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    if len(content) > MAX_BENCHMARK_BYTES:
        raise InputError(f"{path} is larger than 1 GiB; use a JSONL trace")
    return content


def _limits(
    max_buckets: int | None,
    max_warmup: str | None,
    max_graph_memory: str | None,
    evidence: Evidence | None,
) -> Limits:
    from warmup_insights.analysis.traffic_limits import Limits
    from warmup_insights.analysis.traffic_report import run_costs
    from warmup_insights.units import parse_bytes, parse_duration

    try:
        seconds = None if max_warmup is None else parse_duration(max_warmup)
        size = None if max_graph_memory is None else parse_bytes(max_graph_memory)
    except ValueError as error:
        raise SettingError(f"A limit cannot be read: {error}") from error
    if max_buckets is None and seconds is None and size is None:
        max_buckets = DEFAULT_BUCKETS
    costs: tuple[Any, Any] = (None, None) if evidence is None else run_costs(evidence)
    return Limits(max_buckets, seconds, size, *costs)


def limit_text(limits: Limits) -> str:
    """The limits in words."""
    from warmup_insights.units import format_bytes, format_duration

    parts = []
    if limits.max_buckets is not None:
        parts.append(f"{limits.max_buckets} buckets")
    if limits.max_warmup_s is not None:
        parts.append(f"{format_duration(limits.max_warmup_s)} of warm-up")
    if limits.max_graph_bytes is not None:
        parts.append(f"{format_bytes(limits.max_graph_bytes)} of graphs")
    return " and ".join(parts)
