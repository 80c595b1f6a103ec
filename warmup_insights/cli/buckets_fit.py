"""`buckets fit`: the bucket file that wastes least for given traffic."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import click
from click.core import ParameterSource

from warmup_insights.analysis.fit import traffic as shapes
from warmup_insights.analysis.fit.cost import Limits
from warmup_insights.analysis.fit.report import fit_for_settings, run_costs
from warmup_insights.analysis.plan.regenerate import bucketing_inputs, rules_version
from warmup_insights.analysis.summary import Folded
from warmup_insights.bucketing.base import WITHOUT_BUCKETS
from warmup_insights.bucketing.settings import BucketingSettings
from warmup_insights.bucketing.versions import rules_name
from warmup_insights.cli.bucket_options import Request, read_bounded, settings_options
from warmup_insights.cli.loading import load_runs
from warmup_insights.cli.options import (
    IntegerRange,
    db_option,
    force_option,
    json_option,
    parsed_by,
)
from warmup_insights.cli.printing import (
    print_json,
    print_notes,
    print_tables,
    write_result,
)
from warmup_insights.errors import InputError, cannot_read
from warmup_insights.export.buckets import bucket_file_text, bucket_tables, fit_table
from warmup_insights.units import (
    parse_duration,
    parse_size,
)

DEFAULT_BUCKETS = 64
MAX_LINE = 100_000
MAX_OPTION = 1_000_000
MAX_BENCHMARK_BYTES = 1 << 30


@click.command("fit", short_help="Find the buckets that waste least for traffic.")
@click.argument("run", required=False)
@click.option("--trace", metavar="FILE", help="JSONL of request lengths or of steps.")
@click.option(
    "--benchmark", metavar="FILE",
    help="Result of `vllm bench serve --save-result --save-detailed`.",
)  # fmt: skip
@click.option(
    "--max-buckets", type=IntegerRange(1), metavar="N",
    help=f"Most buckets. [default: {DEFAULT_BUCKETS}, if there is no other limit]",
)  # fmt: skip
@click.option(
    "--max-warmup",
    metavar="TIME",
    callback=parsed_by(parse_duration),
    help="Most warm-up, such as 90s; needs RUN.",
)
@click.option(
    "--max-graph-memory",
    metavar="SIZE",
    callback=parsed_by(parse_size),
    help="Most graph memory, as 8GiB; needs RUN.",
)
@click.option(
    "--block-weight", type=IntegerRange(0, MAX_OPTION), default=1, show_default=True,
    help="Tokens that a padded context block counts as.",
)  # fmt: skip
@click.option(
    "--query-step", type=IntegerRange(1, MAX_OPTION), default=1, show_default=True,
    help="Query lengths are multiples of this.",
)  # fmt: skip
@click.option(
    "--cover-limits", is_flag=True,
    help="Give the largest legal prompt and decode a bucket, too.",
)  # fmt: skip
@click.option("-o", "--output-file", metavar="FILE", help="Write the bucket file.")
@force_option
@settings_options
@db_option
@json_option
def fit_command(
    request: Request,
    run: str | None,
    trace: str | None,
    benchmark: str | None,
    max_buckets: int | None,
    max_warmup: float | None,
    max_graph_memory: int | None,
    block_weight: int,
    query_step: int,
    cover_limits: bool,
    output_file: str | None,
    force: bool,
    db: str,
    as_json: bool,
) -> None:
    """Find the buckets that waste least for given traffic, within a limit.

    The traffic is that of RUN while serving, or of --trace or --benchmark. Settings,
    engine version and costs of buckets are those of RUN where one is named.
    """
    loaded = load_runs(db, [run])[0] if run is not None else None
    settings = _settings(request, loaded)
    if settings.rules.early:
        raise InputError(
            f"Version {settings.engine_version} of vllm-gaudi reads no bucket file; name "
            "a later one with --engine-version"
        )
    traffic = _traffic(loaded, trace, benchmark, settings)
    limits = _limits(max_buckets, max_warmup, max_graph_memory, loaded)
    report = fit_for_settings(
        traffic,
        settings,
        limits,
        block_weight=block_weight,
        covers_limits=cover_limits,
        query_step=query_step,
    )
    if output_file is not None:
        text = bucket_file_text(report, str(limits))
        write_result(output_file, text, force=force)
        if output_file == "-":
            return
    if as_json:
        print_json({**report.as_dict(), "engine_version": settings.engine_version})
        return
    tables = [] if output_file is not None else bucket_tables(report)
    print_tables([*tables, fit_table(report)])
    print_notes(report.notes)
    click.echo(f"Bucketing rules of {rules_name(settings.engine_version)}")


def _settings(request: Request, run: Folded | None) -> BucketingSettings:
    """The settings of the run, with those that were given here on top."""
    if run is None:
        return request.settings()
    device = run.summary.device.kind
    if device in WITHOUT_BUCKETS and run.summary.buckets is None:
        raise InputError(
            f"Run {run.summary.run_id} on {device} has no buckets to fit; name a run of "
            "vllm-gaudi"
        )
    inputs, variables = bucketing_inputs(run.summary)
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
    merged = replace(
        request,
        inputs={**inputs, **given},
        env={**variables, **changed},
        engine_version=request.engine_version or rules_version(run.summary),
    )
    return merged.settings()


def _traffic(
    run: Folded | None,
    trace: str | None,
    benchmark: str | None,
    settings: BucketingSettings,
) -> shapes.Traffic:
    if trace is not None and benchmark is not None:
        raise click.UsageError("Choose one of --trace and --benchmark")
    found: shapes.Traffic | shapes.Requests
    if trace is not None:
        found = shapes.parse_trace(_lines(trace), trace)
    elif benchmark is not None:
        found = shapes.parse_benchmark(
            read_bounded(benchmark, MAX_BENCHMARK_BYTES), benchmark
        )
    elif run is not None:
        name = run.summary.label or run.summary.run_id
        found = shapes.traffic_of_run(run.summary, name)
    else:
        raise click.UsageError("Name a RUN, a --trace or a --benchmark")
    if isinstance(found, shapes.Requests):
        return shapes.traffic_from_requests(found, settings)
    return found


def _lines(path: str) -> Iterator[bytes]:
    try:
        with open(path, "rb") as stream:
            while line := stream.readline(MAX_LINE):
                yield line
    except OSError as error:
        raise cannot_read(path, error) from error


def _limits(
    max_buckets: int | None,
    max_warmup: float | None,
    max_graph_memory: int | None,
    run: Folded | None,
) -> Limits:
    if max_buckets is None and max_warmup is None and max_graph_memory is None:
        max_buckets = DEFAULT_BUCKETS
    costs: tuple[Any, Any] = (None, None)
    if run is not None:
        costs = run_costs(run.summary, run.rows)
    return Limits(max_buckets, max_warmup, max_graph_memory, *costs)
