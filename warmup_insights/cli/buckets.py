"""`buckets`: what would be warmed up, seen before an engine is started."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

import click

from warmup_insights.bucketing import (
    STRATEGIES,
    Bucket2D,
    BucketingSettings,
    BucketTable,
    GeneratedBuckets,
    LengthDistribution,
    PaddingReport,
    Phase,
    StrategyName,
    find_two_dim,
    format_bucket_file,
    generate,
    generate_two_dim,
    lint_bucket_lines,
    padding_of,
    report_padding,
    two_dim_settings,
    walk_decode,
)
from warmup_insights.bucketing.file import open_bucket_lines
from warmup_insights.bucketing.lengths import Assumption
from warmup_insights.cli import bucket_payloads as payloads
from warmup_insights.cli import bucket_tables as tables
from warmup_insights.cli.bucket_options import (
    Request,
    length_options,
    read_length_options,
    read_settings_file,
    settings_options,
)
from warmup_insights.cli.buckets_fit import fit_command
from warmup_insights.errors import InputError, SettingError

Scheme = Literal["3d", "2d"]

_json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print the result as JSON."
)
_scheme_option = click.option(
    "--scheme",
    type=click.Choice(get_args(Scheme)),
    default="3d",
    show_default=True,
    help="2d is (batch_size, seq_len) of V0, with its own ranges.",
)


@click.group()
def buckets() -> None:
    """Generate, look up, lint and compare buckets without an engine.

    The rules are those of vllm-gaudi. Limits come from options or --settings, overrides
    such as VLLM_PROMPT_BS_BUCKET_MAX from the environment, --settings or --set.
    """


buckets.add_command(fit_command)


@buckets.command("generate")
@settings_options
@length_options
@_scheme_option
@click.option("--dropped", "show_all", is_flag=True, help="List every dropped bucket.")
@click.option(
    "--output-file", type=click.Path(), metavar="FILE", help="Write a bucket file, too."
)
@click.option("--force", is_flag=True, help="Overwrite the output file.")
@_json_option
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
            raise InputError("--output-file needs buckets of --scheme 3d.")
        _generate_2d(request, as_json)
        return
    settings = request.settings()
    generated = generate(settings)
    table = BucketTable(settings, generated)
    lengths = read_length_options(lengths_file, assumption, settings.max_model_len)
    padding = report_padding(settings, table, lengths) if generated.prompt else None
    lookups = [table.lookup(_phase(phase), shape) for phase, shape in request.lookups]
    if output_file is not None:
        _write_file(output_file, generated, force)
    _say(generated.notes)
    if as_json:
        click.echo(json.dumps(payloads.generated_payload(generated, lookups, padding)))
        return
    _print_generated(generated, show_all)
    if padding is not None:
        tables.console().print(tables.padding_table(padding, lengths))
    for lookup in lookups:
        click.echo(f"{lookup.phase} {tuple(lookup.shape)} -> {tuple(lookup.bucket)}")


@buckets.command("lookup")
@click.argument("batch", type=click.IntRange(min=0))
@click.argument("query", type=click.IntRange(min=0))
@click.argument("context", type=click.IntRange(min=0))
@settings_options
@_scheme_option
@click.option(
    "--phase",
    type=click.Choice(["prompt", "decode"]),
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
    type=click.IntRange(min=0, max=1_000_000),
    default=0,
    metavar="N",
    help="Show the decode buckets of the next N tokens; needs --context-tokens.",
)
@_json_option
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
            "--walk needs --context-tokens: blocks do not tell the lengths."
        )
    settings = request.settings()
    table = BucketTable(settings, generate(settings))
    blocks = context
    if context_tokens:
        blocks = _blocks(settings, phase, batch, context)
    shape = (batch, blocks) if phase == "decode" else (batch, query, blocks)
    lookup = table.lookup(phase, shape)
    padding = padding_of(phase, lookup.shape, lookup.bucket, settings.block_size)
    grown = context + (query if phase == "prompt" else 0)
    walk = (
        walk_decode(table, [grown] * batch, settings.block_size, num_tokens)
        if num_tokens
        else []
    )
    if as_json:
        click.echo(json.dumps(payloads.lookup_payload(lookup, padding, walk)))
        return
    tables.console().print(tables.lookup_table(lookup, padding))
    click.echo(tables.lookup_text(lookup, padding))
    if walk:
        tables.console().print(tables.walk_table(walk))


@buckets.command("lint")
@click.argument("file", type=click.Path())
@click.option(
    "--settings",
    "settings_file",
    type=click.Path(),
    metavar="SETTINGS",
    help="Also report what an engine with these settings would drop.",
)
@_json_option
def lint_command(file: str, settings_file: str | None, as_json: bool) -> None:
    """Check every line of a bucket FILE; exit code 1 if an engine could not use it."""
    settings = None
    if settings_file is not None:
        settings = _without_file(read_settings_file(settings_file))
    parsed, problems = lint_bucket_lines(open_bucket_lines(file), file, settings)
    if as_json:
        payload = {
            "prompt_buckets": len(parsed.prompt),
            "decode_buckets": len(parsed.decode),
            "problems": [problem._asdict() for problem in problems],
        }
        click.echo(json.dumps(payload))
    else:
        if problems:
            tables.console().print(tables.problems_table(problems))
        click.echo(
            f"{file}: {len(parsed.prompt)} prompt and {len(parsed.decode)} decode buckets"
        )
    errors = [problem for problem in problems if problem.level == "error"]
    if errors:
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        raise InputError(f"{errors[0].message}{more}")


@buckets.command("compare")
@settings_options
@length_options
@_json_option
def compare_command(
    request: Request, lengths_file: str | None, assumption: Assumption, as_json: bool
) -> None:
    """Put the strategies side by side: counts, and padding for request lengths."""
    settings = request.settings()
    lengths = read_length_options(lengths_file, assumption, settings.max_model_len)
    rows = list(_compare(settings, lengths))
    if as_json:
        click.echo(json.dumps(_compare_payload(rows, lengths)))
        return
    tables.console().print(tables.compare_table(rows, lengths))
    for title, _, _, problem in rows:
        if problem:
            click.echo(f"{title}: {problem}")


_Row = tuple[str, GeneratedBuckets | None, PaddingReport | None, str]


def _compare(
    settings: BucketingSettings, lengths: LengthDistribution
) -> Iterable[_Row]:
    variants = {
        name: replace(settings, strategy=name, bucket_file=None)
        for name in get_args(StrategyName)
    }
    titles = {name: STRATEGIES[name].title for name in variants}
    if settings.bucket_file is not None:
        variants["file"], titles["file"] = settings, "file"
    for name, variant in variants.items():
        try:
            generated = generate(variant)
        except SettingError as error:
            yield titles[name], None, None, str(error)
            continue
        report = report_padding(variant, BucketTable(variant, generated), lengths)
        yield titles[name], generated, report, ""


def _compare_payload(rows: list[_Row], lengths: LengthDistribution) -> dict[str, Any]:
    strategies = [
        {
            "strategy": title,
            "prompt_buckets": None if generated is None else len(generated.prompt),
            "decode_buckets": None if generated is None else len(generated.decode),
            "dropped": None if generated is None else len(generated.dropped),
            "padding": None if report is None else payloads.padding_payload(report),
            "error": problem or None,
        }
        for title, generated, report, problem in rows
    ]
    return {
        "lengths": lengths.name,
        "is_assumed": lengths.is_assumed,
        "strategies": strategies,
    }


def _print_generated(generated: GeneratedBuckets, show_all: bool) -> None:
    out = tables.console()
    if generated.ranges:
        out.print(tables.ranges_table(generated))
    out.print(tables.buckets_table("prompt", generated.prompt))
    out.print(tables.buckets_table("decode", generated.decode))
    if generated.dropped:
        out.print(tables.dropped_table(generated.dropped, show_all=show_all))
    click.echo(
        f"{len(generated.prompt)} prompt + {len(generated.decode)} decode buckets, "
        f"{len(generated.dropped)} candidates dropped or replaced; no decode lookup "
        f"asks for more than {generated.fallback_max_ctx} blocks"
    )


def _generate_2d(request: Request, as_json: bool) -> None:
    settings = two_dim_settings(request.inputs, request.env)
    generated = generate_two_dim(settings)
    _say(generated.notes)
    if as_json:
        click.echo(json.dumps(payloads.generated_2d_payload(settings, generated)))
        return
    tables.console().print(tables.generated_2d_table(settings, generated))


def _lookup_2d(
    request: Request, phase: Phase, shape: tuple[int, int, int], as_json: bool
) -> None:
    settings = two_dim_settings(request.inputs, request.env)
    generated = generate_two_dim(settings)
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
        click.echo(json.dumps(payload))
        return
    state = "warmed up" if is_warmed else "not warmed up"
    click.echo(f"{phase} {tuple(wanted)} -> {tuple(bucket)} ({state})")


def _blocks(settings: BucketingSettings, phase: Phase, batch: int, tokens: int) -> int:
    if phase == "prompt":
        return -(-tokens // settings.block_size)
    return batch * -(-(tokens + 1) // settings.block_size)


def _write_file(path: str, generated: GeneratedBuckets, force: bool) -> None:
    # The engine multiplies for speculative decoding after reading, so seeds are written.
    text = format_bucket_file(generated.prompt, generated.seed_decode)
    target = Path(path)
    if target.exists() and not force:
        raise InputError(f"{path} exists; use --force to overwrite it.")
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}.") from error
    click.echo(f"Wrote {path}.", err=True)


def _without_file(request: Request) -> BucketingSettings:
    env = {
        name: value
        for name, value in request.env.items()
        if name != "VLLM_BUCKETING_FROM_FILE"
    }
    return replace(request, env=env).settings()


def _phase(phase: str) -> Phase:
    return "prompt" if phase == "prompt" else "decode"


def _say(notes: Iterable[str]) -> None:
    for note in notes:
        click.echo(f"Note: {note}", err=True)
