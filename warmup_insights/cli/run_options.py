"""The options of `run`: those of its settings, and of the device, the log and the result."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from warmup_insights.cli.options import (
    Command,
    described,
    force_option,
    parsed_by,
    read_assignments,
    setting_options,
)
from warmup_insights.devices import DEVICE_CHOICES
from warmup_insights.errors import SettingError
from warmup_insights.runner.log_format import LOG_FORMATS
from warmup_insights.runner.settings import (
    CAPTURE_STRATEGIES,
    VARIABLES,
    RunSettings,
)
from warmup_insights.runner.workload import WorkloadSettings
from warmup_insights.units import parse_bytes

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


def run_options(command: Command) -> Command:
    """Add the options that `read_settings` and `read_workload` take, and those of files."""
    by_device = {
        name: {
            "default": None,
            "show_default": f"{getattr(RunSettings, name)} on cpu, else {value}",
        }
        for name, value in _ON_ACCELERATOR.items()
    }
    options = (
        click.option(
            "--device", type=click.Choice(DEVICE_CHOICES), default="cpu", show_default=True,
            help="What to run on. The simulated ones compute nothing and measure nothing.",
        ),
        click.option(
            "--memory", callback=parsed_by(parse_bytes), show_default="2GiB",
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
            **by_device,
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
    for option in reversed(options):
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
