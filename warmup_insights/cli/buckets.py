"""`buckets`: what would be warmed up, seen before an engine is started, and the bucket file
that wastes least for given traffic."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

import click
from click.core import ParameterSource

from warmup_insights.analysis.fit import traffic as shapes
from warmup_insights.analysis.fit.cost import Limits
from warmup_insights.analysis.fit.report import fit_for_settings, run_costs
from warmup_insights.analysis.plan.regenerate import (
    bucketing_inputs,
    bucketing_settings,
)
from warmup_insights.analysis.sentences import count_of
from warmup_insights.analysis.summary import Folded
from warmup_insights.bucketing.base import STRATEGY_NAMES, WITHOUT_BUCKETS, Phase
from warmup_insights.bucketing.file import generated_file, open_bucket_lines
from warmup_insights.bucketing.generate import generate
from warmup_insights.bucketing.lint import lint_bucket_lines
from warmup_insights.bucketing.lookup import (
    BucketTable,
    look_up_step,
    walk_decode,
    why_never_run,
)
from warmup_insights.bucketing.padding import (
    Assumption,
    padding_of,
    report_padding,
    try_settings,
)
from warmup_insights.bucketing.settings import BucketingSettings
from warmup_insights.bucketing.two_dim import (
    Bucket2D,
    GeneratedBuckets2D,
    TwoDimSettings,
    find_two_dim,
    generate_two_dim,
    two_dim_settings,
)
from warmup_insights.bucketing.versions import rules_name
from warmup_insights.cli.bucket_options import (
    Request,
    length_options,
    read_bounded,
    read_length_options,
    read_settings_file,
    settings_options,
    version_option,
)
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
from warmup_insights.export.buckets import (
    bucket_file_text,
    bucket_tables,
    compare_payload,
    compare_table,
    fit_table,
    generated_2d_payload,
    generated_2d_table,
    generated_payload,
    generated_tables,
    lookup_payload,
    lookup_table,
    padding_table,
    problems_table,
    walk_table,
)
from warmup_insights.export.tables import TextTable
from warmup_insights.units import parse_duration, parse_size

Scheme = Literal["3d", "2d"]

_scheme_option = click.option(
    "--scheme",
    type=click.Choice(get_args(Scheme)),
    default="3d",
    show_default=True,
    help="2d is (batch_size, seq_len) of vllm-fork 1.17, with its own ranges.",
)


@click.group()
def buckets() -> None:
    """The rules are those of vllm-gaudi.

    Limits come from options or --settings, overrides such as VLLM_PROMPT_BS_BUCKET_MAX
    from the environment, --settings or --set.
    """


@buckets.command("generate", short_help="List the buckets an engine would warm up.")
@settings_options
@length_options
@_scheme_option
@click.option("--dropped", "show_all", is_flag=True, help="List every dropped bucket.")
@click.option(
    "--output-file", type=click.Path(), metavar="FILE", help="Write a bucket file, too."
)
@force_option
@json_option
def generate_command(
    request: Request,
    lengths_file: str | None,
    assumption: Assumption,
    scheme: Scheme,
    show_all: bool,
    output_file: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """List the buckets that an engine would warm up, and why not the others."""
    if scheme == "2d":
        if output_file is not None:
            raise InputError(
                "--output-file does nothing with --scheme 2d; leave it out"
            )
        _generate_2d(request, as_json)
        return
    settings = request.settings()
    generated = generate(settings)
    table = BucketTable(settings, generated)
    lengths = read_length_options(lengths_file, assumption, settings.max_model_len)
    padding = report_padding(settings, table, lengths) if generated.prompt else None
    lookups = [look_up_step(settings, table, *each) for each in request.lookups]
    if output_file is not None:
        write_result(output_file, generated_file(generated), force=force)
        if output_file == "-":
            return
    print_notes(generated.notes, err=True)
    shown = generated_tables(generated, show_all=show_all)
    if padding is not None:
        shown.append(padding_table(padding, lengths))
    payload = generated_payload(generated, lookups, padding)
    lines = [
        f"{lookup.phase} {tuple(lookup.shape)} -> {tuple(lookup.bucket)}"
        for lookup in lookups
    ]
    _print(as_json, settings, payload, shown, lines)


@buckets.command("lookup", short_help="Find the bucket that a step runs in.")
@click.argument("batch", type=IntegerRange(min=1))
@click.argument("query", type=IntegerRange(min=1))
@click.argument("context", type=IntegerRange(min=0))
@settings_options
@_scheme_option
@click.option(
    "--phase",
    type=click.Choice(get_args(Phase)),
    help="Without it, QUERY 1 with a context is decode, all else is a prompt.",
)
@click.option(
    "--context-tokens",
    is_flag=True,
    help="CONTEXT counts tokens of each sequence, not blocks.",
)
@click.option(
    "--walk",
    "num_tokens",
    type=IntegerRange(min=0, max=1_000_000),
    default=0,
    metavar="N",
    help="Show the decode buckets of the next N tokens; needs --context-tokens.",
)
@json_option
def lookup_command(
    batch: int,
    query: int,
    context: int,
    request: Request,
    scheme: Scheme,
    phase: Phase | None,
    context_tokens: bool,
    num_tokens: int,
    as_json: bool,
) -> None:
    """Find the bucket that BATCH sequences of QUERY tokens with CONTEXT run in.

    CONTEXT counts KV cache blocks: of each sequence in a prompt, of the whole batch in
    decode. In --scheme 2d it is the length of each sequence in decode, in tokens.
    """
    phase = phase or ("decode" if query == 1 and context else "prompt")
    if scheme == "2d":
        _lookup_2d(request, phase, (batch, query, context), as_json)
        return
    if num_tokens and not context_tokens:
        raise InputError(
            "--walk needs --context-tokens; lengths do not follow from blocks"
        )
    settings = request.settings()
    table = BucketTable(settings, generate(settings))
    blocks = context
    if context_tokens:
        blocks = _blocks(settings, phase, batch, context)
    shape = (batch, blocks) if phase == "decode" else (batch, query, blocks)
    lookup = look_up_step(settings, table, phase, shape)
    never = why_never_run(settings, phase, shape)
    padding = padding_of(phase, lookup.shape, lookup.bucket, settings.block_size)
    grown = context + (query if phase == "prompt" else 0)
    walk = (
        walk_decode(table, [grown] * batch, settings.block_size, num_tokens)
        if num_tokens
        else []
    )
    shown = [lookup_table(lookup, padding)]
    if walk:
        shown.append(walk_table(walk))
    drafts = table.with_drafts(shape) if phase == "decode" else None
    payload = {**lookup_payload(lookup, padding, walk), "never_run": never}
    payload["with_drafts"] = drafts
    lines = [] if never is None else [f"No step has this shape: {never}"]
    if drafts is not None:
        count = count_of(settings.num_speculative_tokens, "proposed token")
        lines.append(f"With {count} for each sequence it runs in {tuple(drafts)}")
    _print(as_json, settings, payload, shown, lines)


@buckets.command("lint", short_help="Check every line of a bucket file.")
@click.argument("file", type=click.Path())
@click.option(
    "--settings",
    "settings_file",
    type=click.Path(),
    metavar="SETTINGS",
    help="Also report what an engine with these settings would drop.",
)
@version_option
@json_option
def lint_command(
    file: str, settings_file: str | None, engine_version: str | None, as_json: bool
) -> None:
    """Check every line of a bucket FILE; exit code 1 if an engine leaves lines out or refuses it."""
    settings = None
    if settings_file is not None:
        request = read_settings_file(settings_file)
        env = {**request.env}
        env.pop("VLLM_BUCKETING_FROM_FILE", None)  # FILE is looked at in its place
        settings = replace(request, env=env, engine_version=engine_version).settings()
    elif engine_version is not None:
        raise InputError(
            "--engine-version needs --settings; without them no rule depends on a version"
        )
    parsed, problems = lint_bucket_lines(open_bucket_lines(file), file, settings)
    payload = {
        "prompt_buckets": len(parsed.prompt),
        "decode_buckets": len(parsed.decode),
        "problems": [problem._asdict() for problem in problems],
    }
    counts = f"{len(parsed.prompt)} prompt and {len(parsed.decode)} decode buckets"
    shown = [problems_table(problems)] if problems else []
    _print(as_json, settings, payload, shown, [f"{file}: {counts}"])
    errors = [problem for problem in problems if problem.level == "error"]
    if errors:
        count = count_of(len(errors), "error")
        raise InputError(
            f"An engine leaves lines of this bucket file out, or refuses it: {count}; correct "
            "what is listed"
        )


@buckets.command("compare", short_help="Put the strategies side by side.")
@settings_options
@length_options
@json_option
def compare_command(
    request: Request, lengths_file: str | None, assumption: Assumption, as_json: bool
) -> None:
    """Put the strategies side by side: counts, and padding for request lengths."""
    settings = request.settings()
    if not settings.use_bucketing:
        raise InputError(
            "With VLLM_ENABLE_BUCKETING off every shape runs as it is, whatever the "
            "strategy; unset it to compare them"
        )
    lengths = read_length_options(lengths_file, assumption, settings.max_model_len)
    variants = [
        replace(settings, strategy=name, bucket_file=None) for name in STRATEGY_NAMES
    ]
    if settings.bucket_file is not None:
        variants.append(settings)
    trials = [try_settings(variant, lengths) for variant in variants]
    payload = compare_payload(trials, lengths)
    _print(as_json, settings, payload, [compare_table(trials, lengths)])


def _print(
    as_json: bool,
    settings: BucketingSettings | None,
    payload: dict[str, Any],
    shown: Sequence[TextTable],
    lines: Sequence[str] = (),
) -> None:
    """The payload, or tables, lines, and the rules that were used, if any were."""
    version = None if settings is None else settings.engine_version
    if as_json:
        print_json({"engine_version": version, **payload})
        return
    print_tables(shown)
    for line in lines:
        click.echo(line)
    if version is not None:
        click.echo(f"Bucketing rules of {rules_name(version)}")


def _two_dim(request: Request) -> tuple[TwoDimSettings, GeneratedBuckets2D]:
    """The settings of the older scheme, and the buckets that they generate."""
    if request.engine_version is not None:
        raise InputError(
            "--engine-version does nothing with --scheme 2d; leave one of them out"
        )
    inputs = dict(request.inputs)
    budget = inputs.pop("max_num_batched_tokens", None)
    if budget is not None:
        note = f"max_num_batched_tokens={budget} has no effect: no bucket is dropped for it."
        print_notes((note,), err=True)
    settings = two_dim_settings(inputs, request.env)
    return settings, generate_two_dim(settings)


def _generate_2d(request: Request, as_json: bool) -> None:
    settings, generated = _two_dim(request)
    print_notes(generated.notes, err=True)
    if as_json:
        print_json(generated_2d_payload(settings, generated))
    else:
        print_tables([generated_2d_table(generated)])


def _lookup_2d(
    request: Request, phase: Phase, shape: tuple[int, int, int], as_json: bool
) -> None:
    settings, generated = _two_dim(request)
    batch, query, context = shape
    wanted = Bucket2D(batch, query if phase == "prompt" else context)
    bucket = find_two_dim(settings, phase, *wanted)
    warmed = generated.prompt if phase == "prompt" else generated.decode
    is_warmed = bucket in warmed
    if as_json:
        payload = {
            "phase": phase,
            "shape": list(wanted),
            "bucket": list(bucket),
            "outcome": "found" if is_warmed else "unprepared",
        }
        print_json(payload)
        return
    state = "warmed up" if is_warmed else "not warmed up"
    click.echo(f"{phase} {tuple(wanted)} -> {tuple(bucket)} ({state})")


def _blocks(settings: BucketingSettings, phase: Phase, batch: int, tokens: int) -> int:
    if phase == "prompt":
        return -(-tokens // settings.block_size)
    return batch * -(-(tokens + 1) // settings.block_size)


DEFAULT_BUCKETS = 64
MAX_LINE = 100_000
MAX_OPTION = 1_000_000
MAX_BENCHMARK_BYTES = 1 << 30


@buckets.command("fit", short_help="Find the buckets that waste least for traffic.")
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
    settings = _fit_settings(request, loaded)
    if not settings.use_bucketing:
        raise InputError(
            "With VLLM_ENABLE_BUCKETING off every shape runs as it is and no bucket file is "
            "read; unset it to fit buckets"
        )
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


def _fit_settings(request: Request, run: Folded | None) -> BucketingSettings:
    """The settings of the run, with those that were given here on top."""
    if run is None:
        return request.settings()
    device = run.summary.device.kind
    if device in WITHOUT_BUCKETS and run.summary.buckets is None:
        raise InputError(
            f"Run {run.summary.run_id} on {device} has no buckets to fit; name a run of "
            "vllm-gaudi"
        )
    stated, _ = bucketing_inputs(run.summary)
    context = click.get_current_context()
    given = {
        name: value
        for name, value in request.inputs.items()
        if name not in stated
        or context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    changed = {
        name: value
        for name, value in request.env.items()
        if os.environ.get(name) != value
    }
    settings = bucketing_settings(
        run.summary,
        limits=given,
        variables=changed,
        engine_version=request.engine_version,
    )
    return replace(settings, strategy=request.strategy or settings.strategy)


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
