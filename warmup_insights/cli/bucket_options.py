"""The options of `buckets`: one configuration, from options, a file, or both."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import click

from warmup_insights.bucketing import (
    BucketingSettings,
    LengthDistribution,
    assume_lengths,
    parse_lengths,
    settings_from_mapping,
)
from warmup_insights.bucketing.lengths import Assumption
from warmup_insights.errors import InputError, SettingError

Command = TypeVar("Command", bound=Callable[..., Any])

MAX_SETTINGS_BYTES = 16 * 1024 * 1024
_DEFAULT_BLOCK_SIZE = 128  # what vllm-gaudi uses where nothing else is asked for

_LIMITS = (
    ("max_num_seqs", "Most sequences of one step."),
    (
        "max_num_prefill_seqs",
        "Most sequences of one prefill; else as the engine sets it.",
    ),
    ("block_size", "Tokens of a KV cache block.  [default: 128]"),
    ("max_num_batched_tokens", "Most tokens of one step."),
    ("max_model_len", "Most tokens of a sequence."),
    ("num_kv_blocks", "Blocks of the KV cache."),
    ("num_speculative_tokens", "Tokens that speculative decoding proposes."),
)


@dataclass(frozen=True)
class Request:
    """What a command was asked: limits, environment, and shapes to look up."""

    inputs: Mapping[str, Any]
    env: Mapping[str, str]
    lookups: tuple[tuple[str, list[Any]], ...] = ()
    source: str = field(default="the options")

    def settings(self) -> BucketingSettings:
        """The settings of the three-dimensional scheme."""
        return settings_from_mapping(self.inputs, self.env)


def settings_options(command: Command) -> Command:
    """Add the options of one configuration; the command gets `request`."""

    def wrap(**values: Any) -> Any:
        limits = {name: values.pop(name) for name, _ in _LIMITS}
        values["request"] = _read_request(
            values.pop("settings_file"),
            {name: value for name, value in limits.items() if value is not None},
            values.pop("strategy"),
            values.pop("bucket_file"),
            values.pop("assignments"),
        )
        return command(**values)

    wrap.__name__, wrap.__doc__ = command.__name__, command.__doc__
    for option in reversed(_settings_options()):
        wrap = option(wrap)
    # Options that were put on the command itself are kept on the inner function.
    wrap.__click_params__ += getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    return wrap  # type: ignore[return-value]


def length_options(command: Command) -> Command:
    """Add `--lengths` and `--assume`; the command gets `lengths_file` and `assumption`."""
    file = click.option(
        "--lengths",
        "lengths_file",
        type=click.Path(),
        metavar="FILE",
        help="Request lengths in tokens, one a line, each with an optional count.",
    )
    assumption = click.option(
        "--assume",
        "assumption",
        type=click.Choice(["uniform", "log-uniform"]),
        default="uniform",
        show_default=True,
        help="Lengths from 1 to max_model_len where no file is given.",
    )
    return file(assumption(command))


def read_length_options(
    lengths_file: str | None, assumption: Assumption, longest: int
) -> LengthDistribution:
    """The lengths of a file, else the assumed ones.

    Raises:
        InputError: the file cannot be read or holds no lengths.
    """
    if lengths_file is None:
        return assume_lengths(assumption, longest)
    try:
        with open(lengths_file, encoding="utf-8") as lines:
            return parse_lengths(lines, lengths_file)
    except UnicodeDecodeError:
        raise InputError(f"{lengths_file} is not a text file in UTF-8.") from None
    except OSError as error:
        raise InputError(f"{lengths_file} cannot be read: {error.strerror}.") from error


def _settings_options() -> list[Callable[[Any], Any]]:
    options = [
        click.option(
            "--settings",
            "settings_file",
            type=click.Path(),
            metavar="FILE",
            help='JSON of {"inputs": {...}, "env": {...}, "lookups": [...]}; its env '
            "replaces the environment.",
        )
    ]
    options.extend(
        click.option(f"--{name.replace('_', '-')}", name, type=int, help=text)
        for name, text in _LIMITS
    )
    options.append(
        click.option(
            "--strategy",
            type=click.Choice(["exp", "lin", "pad"]),
            help="The same as --set VLLM_BUCKETING_STRATEGY=...",
        )
    )
    options.append(
        click.option(
            "--bucket-file",
            type=click.Path(),
            metavar="FILE",
            help="The same as --set VLLM_BUCKETING_FROM_FILE=...",
        )
    )
    options.append(
        click.option(
            "--set",
            "assignments",
            multiple=True,
            metavar="NAME=VALUE",
            help="A variable on top of the environment; may be repeated.",
        )
    )
    return options


def _read_request(
    settings_file: str | None,
    limits: dict[str, int],
    strategy: str | None,
    bucket_file: str | None,
    assignments: tuple[str, ...],
) -> Request:
    if settings_file is None:
        request = Request({}, dict(os.environ))
    else:
        request = read_settings_file(settings_file)
    env = dict(request.env)
    for assignment in assignments:
        name, separator, value = assignment.partition("=")
        if not name or not separator:
            raise SettingError(f"--set {assignment!r} is not NAME=VALUE.")
        env[name] = value
    if strategy is not None:
        env["VLLM_BUCKETING_STRATEGY"] = strategy
        env.pop("VLLM_EXPONENTIAL_BUCKETING", None)
    if bucket_file is not None:
        env["VLLM_BUCKETING_FROM_FILE"] = bucket_file
    inputs = dict(request.inputs)
    if "num_kv_blocks" in limits:
        inputs.pop("num_hpu_blocks", None)
    inputs.update(limits)
    inputs.setdefault("block_size", _DEFAULT_BLOCK_SIZE)
    return Request(inputs, env, request.lookups, request.source)


def read_settings_file(path: str) -> Request:
    """A request from a JSON file.

    Raises:
        InputError: the file cannot be read, is too large, or has another shape.
    """
    try:
        with open(path, "rb") as stream:
            content = stream.read(MAX_SETTINGS_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    if len(content) > MAX_SETTINGS_BYTES:
        raise InputError(f"{path} is larger than {MAX_SETTINGS_BYTES} bytes.")
    try:
        document = json.loads(content)
    except json.JSONDecodeError as error:
        raise InputError(f"{path}:{error.lineno}: not JSON: {error.msg}.") from None
    except (UnicodeDecodeError, RecursionError):
        raise InputError(f"{path} is not JSON.") from None
    if not isinstance(document, dict) or not isinstance(document.get("inputs"), dict):
        raise InputError(
            f'{path} has no "inputs" object, such as {{"max_num_seqs": 16}}.'
        )
    return Request(
        document["inputs"],
        _read_env(document.get("env") or {}, path),
        _read_lookups(document.get("lookups") or [], path),
        str(Path(path)),
    )


def _read_env(env: Any, path: str) -> dict[str, str]:
    if not isinstance(env, dict):
        raise InputError(f'{path}: "env" is not an object of names and values.')
    texts = {}
    for name, value in env.items():
        if value is None:
            continue
        if isinstance(value, bool):
            value = "true" if value else "false"
        if not isinstance(value, str | int):
            raise SettingError(f"{name}={value!r} in {path} is not a text or a number.")
        texts[name] = str(value)
    return texts


def _read_lookups(lookups: Any, path: str) -> tuple[tuple[str, list[Any]], ...]:
    if not isinstance(lookups, list):
        raise InputError(f'{path}: "lookups" is not a list.')
    read = []
    for number, lookup in enumerate(lookups, 1):
        phase = lookup.get("phase") if isinstance(lookup, dict) else None
        if phase not in ("prompt", "decode") or not isinstance(
            lookup.get("shape"), list
        ):
            raise InputError(
                f"{path}: lookup {number} is not "
                '{"phase": "prompt" or "decode", "shape": [...]}.'
            )
        read.append((phase, lookup["shape"]))
    return tuple(read)
