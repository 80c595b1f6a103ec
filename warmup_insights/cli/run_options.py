"""The options of `run`: names, defaults, and the engine variables they follow."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import click

from warmup_insights.devices import DEVICE_CHOICES
from warmup_insights.errors import SettingError
from warmup_insights.runner.log_format import LOG_FORMATS
from warmup_insights.runner.settings import CAPTURE_STRATEGIES, RunSettings
from warmup_insights.runner.workload import WorkloadSettings
from warmup_insights.units import parse_bytes

Command = TypeVar("Command", bound=Callable[..., Any])

_CPU_DEFAULTS: dict[str, Any] = {
    "model": "tiny",
    "dtype": "float32",
    "block_size": 32,
    "max_model_len": 512,
    "max_num_seqs": 8,
    "max_num_batched_tokens": 512,
}
_ACCELERATOR_DEFAULTS: dict[str, Any] = {
    "model": "llama-3.1-8b",
    "dtype": "bfloat16",
    "block_size": 128,
    "max_model_len": 4096,
    "max_num_seqs": 32,
    "max_num_batched_tokens": 4096,
}
_SETTINGS = {field.name for field in fields(RunSettings)} - {"environment"}
_READ_VARIABLES = re.compile(
    r"VLLM_(?:PROMPT|DECODE)_[A-Z]{2,8}_BUCKET_[A-Z_]{3,16}|VLLM_GRAPH_[A-Z_]{3,24}|"
    r"VLLM_BUCKETING_(?:STRATEGY|FROM_FILE)|VLLM_(?:EXPONENTIAL|ENABLE)_BUCKETING|"
    r"VLLM_CONTIGUOUS_PA|VLLM_PREFIX_CACHING|VLLM_MERGED_PREFILL|VLLM_SKIP_WARMUP|"
    r"VLLM_DEFRAG_(?:THRESHOLD|WITH_GRAPHS)|VLLM_FUSEDSDPA_SLIDE_THLD|"
    r"PT_HPU_SDPA_(?:BC_FACTOR|QKV_SLICE_MODE_FWD)"
)
"""Variables that a run depends on; no other one is kept with it."""


def _read_size(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> int | None:
    if value is None:
        return None
    try:
        return parse_bytes(value)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from error


def _share(name: str, variable: str | None, default: float, text: str) -> Any:
    return click.option(
        name, type=float, envvar=variable, default=default, show_default=True, help=text
    )


_OPTIONS = (
    click.option(
        "--device",
        type=click.Choice(DEVICE_CHOICES),
        default="cpu",
        show_default=True,
        help="What to run on. The simulated ones compute nothing and measure nothing.",
    ),
    click.option(
        "--memory",
        callback=_read_size,
        help="Budget of the cpu device. [default: 2GiB]",
    ),
    click.option(
        "--threads", type=int, help="Threads of the cpu device.  [default: 1]"
    ),
    click.option("--model", help="Shape preset, or folder with a config.json."),
    click.option("--dtype", help="float32, bfloat16 or float16."),
    click.option("--block-size", type=int, help="Tokens per KV block."),
    click.option("--max-model-len", type=int, help="Tokens per request at most."),
    click.option("--max-num-seqs", type=int, help="Requests per step at most."),
    click.option(
        "--max-num-batched-tokens", type=int, help="Prompt tokens per step at most."
    ),
    _share(
        "--gpu-memory-utilization",
        None,
        0.9,
        "Share of the memory that is free after the profiling run.",
    ),
    _share(
        "--graph-reserved-mem",
        "VLLM_GRAPH_RESERVED_MEM",
        0.1,
        "Share of usable memory that is kept for graphs [VLLM_GRAPH_RESERVED_MEM].",
    ),
    _share(
        "--graph-prompt-ratio",
        "VLLM_GRAPH_PROMPT_RATIO",
        0.3,
        "Share of graph memory for prompt graphs [VLLM_GRAPH_PROMPT_RATIO].",
    ),
    click.option(
        "--graph-prompt-strategy",
        envvar="VLLM_GRAPH_PROMPT_STRATEGY",
        default="min_tokens",
        show_default=True,
        help="Order of prompt graphs: min_tokens or max_bs [VLLM_GRAPH_PROMPT_STRATEGY].",
    ),
    click.option(
        "--graph-decode-strategy",
        envvar="VLLM_GRAPH_DECODE_STRATEGY",
        default="max_bs",
        show_default=True,
        help="Order of decode graphs: min_tokens or max_bs [VLLM_GRAPH_DECODE_STRATEGY].",
    ),
    click.option(
        "--capture-strategy",
        type=click.Choice(CAPTURE_STRATEGIES),
        default="startup",
        show_default=True,
        help="When graphs are captured: all before the server is ready; the largest and "
        "then one per step; only those needed; or none.",
    ),
    click.option(
        "--enforce-eager", is_flag=True, help="No graphs, no sampler warm-up."
    ),
    click.option(
        "--skip-warmup",
        is_flag=True,
        envvar="VLLM_SKIP_WARMUP",
        help="Be ready without any warm-up [VLLM_SKIP_WARMUP].",
    ),
    click.option(
        "--defrag/--no-defrag",
        default=True,
        show_default=True,
        help="Whether the KV cache is defragmented while serving.",
    ),
    click.option(
        "--defrag-threshold",
        type=int,
        envvar="VLLM_DEFRAG_THRESHOLD",
        default=32,
        show_default=True,
        help="Defragment when the highest block lies this far above the number of blocks "
        "in use [VLLM_DEFRAG_THRESHOLD].",
    ),
    click.option(
        "--defrag-with-graphs",
        is_flag=True,
        envvar="VLLM_DEFRAG_WITH_GRAPHS",
        help="Swap blocks through graphs [VLLM_DEFRAG_WITH_GRAPHS].",
    ),
    click.option(
        "--bucket-dimensions",
        type=click.Choice(["3", "2"]),
        default="3",
        show_default=True,
        help="Buckets of vllm-gaudi (3), or (batch, length) of the V0 engines (2).",
    ),
    click.option(
        "--set",
        "assignments",
        metavar="NAME=VALUE",
        multiple=True,
        help="A bucketing variable, as if it stood in the environment; may be repeated.",
    ),
    click.option(
        "--seed", type=int, default=0, show_default=True, help="Of the weights."
    ),
)


_SERVE_OPTIONS = (
    click.option("--serve", is_flag=True, help="Serve a workload after the warm-up."),
    click.option(
        "--num-prompts", type=int, default=50, show_default=True, help="Requests."
    ),
    click.option(
        "--request-rate",
        type=float,
        default=float("inf"),
        show_default=True,
        help="Requests per second (Poisson arrivals); inf sends all at once.",
    ),
    click.option(
        "--input-len",
        type=int,
        default=96,
        show_default=True,
        help="Median prompt length in tokens.",
    ),
    click.option(
        "--output-len",
        type=int,
        default=24,
        show_default=True,
        help="Median output length in tokens.",
    ),
    click.option(
        "--length-sigma",
        type=float,
        default=0.6,
        show_default=True,
        help="Spread of the lengths (log-normal); 0 for fixed lengths.",
    ),
    click.option(
        "--temperature",
        type=float,
        default=0.0,
        show_default=True,
        help="Of the sampling; 0 is greedy.",
    ),
    click.option(
        "--trace",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Requests from a JSONL file instead: objects with input_len, output_len, "
        "and optionally arrival_s and temperature.",
    ),
    click.option(
        "--save-result",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Write the result as JSON, with the keys of `vllm bench serve`.",
    ),
)


_LOG_OPTIONS = (
    click.option(
        "--log-format",
        type=click.Choice(list(LOG_FORMATS)),
        help="Print the run as that engine's log would tell it.",
    ),
    click.option(
        "--log-file",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Where the log goes; standard error without it.",
    ),
)


def log_options(command: Command) -> Command:
    """Add `--log-format` and `--log-file`."""
    for option in reversed(_LOG_OPTIONS):
        command = option(command)
    return command


def serve_options(command: Command) -> Command:
    """Add the options that `read_workload` takes."""
    for option in reversed(_SERVE_OPTIONS):
        command = option(command)
    return command


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
    return WorkloadSettings(
        num_prompts=options["num_prompts"],
        request_rate=options["request_rate"],
        input_len=options["input_len"],
        output_len=options["output_len"],
        sigma=options["length_sigma"],
        temperature=options["temperature"],
        seed=options["seed"],
        trace=options["trace"],
    )


def engine_options(command: Command) -> Command:
    """Add the options that `read_settings` takes."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def read_settings(options: Mapping[str, Any]) -> RunSettings:
    """Settings from the values of the options; missing ones depend on the device.

    Raises:
        SettingError: a value cannot be used.
    """
    values = {
        name: value
        for name, value in options.items()
        if value is not None and name in _SETTINGS
    }
    defaults = _CPU_DEFAULTS if options["device"] == "cpu" else _ACCELERATOR_DEFAULTS
    values["bucket_dimensions"] = int(values["bucket_dimensions"])
    environment = engine_environment(os.environ, options["assignments"])
    return RunSettings(environment=environment, **{**defaults, **values})


def engine_environment(
    environment: Mapping[str, str], assignments: tuple[str, ...]
) -> dict[str, str]:
    """The variables that a run reads, with those given on the command line over them.

    Raises:
        SettingError: an assignment is none, or names no engine variable.
    """
    found = {
        name: value
        for name, value in environment.items()
        if _READ_VARIABLES.fullmatch(name)
    }
    for assignment in assignments:
        name, separator, value = assignment.partition("=")
        if not separator or not _READ_VARIABLES.fullmatch(name):
            raise SettingError(
                f"--set {assignment!r} is not NAME=VALUE of a variable that a run reads, "
                "such as VLLM_PROMPT_BS_BUCKET_MAX=4"
            )
        found[name] = value
    return found
