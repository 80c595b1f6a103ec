"""The options of `buckets`: one configuration, from options, a file, or both."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args

import click
import msgspec

from warmup_insights.bucketing.base import STRATEGY_NAMES, Phase, StrategyName
from warmup_insights.bucketing.padding import (
    Assumption,
    LengthDistribution,
    assume_lengths,
    parse_lengths,
)
from warmup_insights.bucketing.settings import BucketingSettings, settings_from_mapping
from warmup_insights.bucketing.versions import MAIN, NEWEST_RELEASE, RELEASES
from warmup_insights.cli.options import (
    Command,
    all_of,
    described,
    read_assignments,
    setting_options,
)
from warmup_insights.errors import InputError, cannot_read

MAX_SETTINGS_BYTES = 16 * 1024 * 1024
_DEFAULT_BLOCK_SIZE = 128  # what vllm-gaudi uses where nothing else is set


@dataclass(frozen=True)
class Request:
    """The configuration of a command: limits, environment, and shapes to look up.

    `engine_version` is None where the newest release is meant, `strategy` where the
    environment chooses.
    """

    inputs: Mapping[str, Any]
    env: Mapping[str, str]
    lookups: tuple[tuple[Phase, list[Any]], ...] = ()
    engine_version: str | None = None
    strategy: StrategyName | None = None

    def settings(self) -> BucketingSettings:
        """The settings of the three-dimensional scheme."""
        settings = settings_from_mapping(
            self.inputs, self.env, engine_version=self.engine_version or NEWEST_RELEASE
        )
        return replace(settings, strategy=self.strategy or settings.strategy)


version_option = click.option(
    "--engine-version",
    metavar="VERSION",
    help=f"vllm-gaudi whose rules are used, as {RELEASES[-2]} or {MAIN}.  "
    f"[default: {NEWEST_RELEASE}, the newest release]",
)


def settings_options(command: Command) -> Command:
    """Add the options of one configuration; the command gets `request`."""

    @functools.wraps(command)
    def wrap(**values: Any) -> Any:
        limits = {name: values.pop(name) for name in described(BucketingSettings)}
        path, strategy = values.pop("settings_file"), values.pop("strategy")
        bucket_file, version = values.pop("bucket_file"), values.pop("engine_version")
        own = Request({}, os.environ) if path is None else read_settings_file(path)
        env = dict(own.env)
        env.update(read_assignments("--set", values.pop("assignments"), "NAME=VALUE"))
        if strategy is not None:
            for name in ("VLLM_BUCKETING_STRATEGY", "VLLM_EXPONENTIAL_BUCKETING"):
                env.pop(name, None)
        if bucket_file is not None:
            env["VLLM_BUCKETING_FROM_FILE"] = bucket_file
        inputs = {"block_size": _DEFAULT_BLOCK_SIZE, **own.inputs}
        if limits["num_kv_blocks"] is not None:
            inputs.pop("num_hpu_blocks", None)
        inputs |= {name: n for name, n in limits.items() if n is not None}
        request = Request(inputs, env, own.lookups, version, strategy)
        return command(request=request, **values)

    return _request_options(wrap)  # type: ignore[return-value]


_request_options = all_of(
    click.option(
        "--settings", "settings_file", type=click.Path(), metavar="FILE",
        help='JSON of {"inputs": {...}, "env": {...}, "lookups": [...]}; its env '
        "replaces the environment.",
    ),
    setting_options(
        BucketingSettings,
        block_size={"show_default": str(_DEFAULT_BLOCK_SIZE)},
        num_speculative_tokens={"default": None, "show_default": False},
    ),
    click.option(
        "--strategy", type=click.Choice(STRATEGY_NAMES),
        help="The strategy, whatever the variables are.",
    ),
    click.option(
        "--bucket-file", type=click.Path(), metavar="FILE",
        help="The same as --set VLLM_BUCKETING_FROM_FILE=...",
    ),
    version_option,
    click.option(
        "--set", "assignments", multiple=True, metavar="NAME=VALUE",
        help="A variable on top of the environment; may be repeated.",
    ),
)  # fmt: skip
length_options = all_of(
    click.option(
        "--lengths", "lengths_file", type=click.Path(), metavar="FILE",
        help="Request lengths in tokens, one a line, each with an optional count.",
    ),
    click.option(
        "--assume", "assumption", type=click.Choice(get_args(Assumption)),
        default="uniform", show_default=True,
        help="Lengths from 1 to max_model_len where no file is given.",
    ),
)  # fmt: skip


def read_length_options(
    lengths_file: str | None, assumption: Assumption, longest: int
) -> LengthDistribution:
    """The lengths of a file, else the assumed ones.

    Raises:
        InputError: the file cannot be read, or holds no length that the model takes.
    """
    if lengths_file is None:
        return assume_lengths(assumption, longest)
    try:
        with open(lengths_file, encoding="utf-8") as lines:
            found = parse_lengths(lines, lengths_file)
    except UnicodeDecodeError:
        raise InputError(f"{lengths_file} is no text in UTF-8; convert it") from None
    except OSError as error:
        raise cannot_read(lengths_file, error) from error
    if min(length for length, _ in found.weights) > longest:
        raise InputError(
            f"{lengths_file} holds no length up to max_model_len={longest}; give lengths "
            "that the model takes, or raise --max-model-len"
        )
    return found


def read_bounded(path: str, most: int) -> bytes:
    """The content of a file. Raises InputError if it cannot be read or is longer."""
    try:
        with open(path, "rb") as stream:
            content = stream.read(most + 1)
    except OSError as error:
        raise cannot_read(path, error) from error
    if len(content) > most:
        raise InputError(f"{path} is larger than {most} bytes; use a part of it")
    return content


class _LookupEntry(msgspec.Struct):
    phase: Phase
    shape: list[Any]


class _SettingsFile(msgspec.Struct):
    inputs: dict[str, Any]
    env: dict[str, str | int | bool | None] | None = None
    lookups: list[_LookupEntry] | None = None


def read_settings_file(path: str) -> Request:
    """A request from a JSON file.

    Raises:
        InputError: the file cannot be read, is too large, or has another shape.
    """
    content = read_bounded(path, MAX_SETTINGS_BYTES)
    try:
        read = msgspec.json.decode(content, type=_SettingsFile)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(
            f"{path} is not a settings file: {error}; write it as "
            '{"inputs": {"max_num_seqs": 16}, "env": {}, "lookups": []}'
        ) from None
    env = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in (read.env or {}).items()
        if value is not None
    }
    lookups = tuple((entry.phase, entry.shape) for entry in read.lookups or ())
    return Request(read.inputs, env, lookups)
