"""`doctor`: whether what this product reads is right on this machine."""

from __future__ import annotations

import json
import os
import platform
import statistics
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path

import click

from warmup_insights.cli.options import db_option, force_option
from warmup_insights.cli.printing import print_tables, refuse_existing, write_result
from warmup_insights.devices import DEVICE_CHOICES
from warmup_insights.devices.checks import (
    NOT_APPLICABLE,
    OK,
    WRONG,
    Check,
    checks_of,
    judged,
    present_device,
    tried,
)
from warmup_insights.export.tables import make_table
from warmup_insights.model.events import Note, WarmupStep
from warmup_insights.model.run import RunRecord
from warmup_insights.recorder import Recorder
from warmup_insights.secrets import mask_text
from warmup_insights.storage.location import database_path
from warmup_insights.storage.spool import Spool
from warmup_insights.version import __version__
from warmup_insights.vllm_plugin import check as hook_check
from warmup_insights.vllm_plugin import facts
from warmup_insights.vllm_plugin.table import hooks_for

FILE = "warmup-insights-doctor.json"
EVENTS = 5_000
SLOW_S = 100e-6
"""A call that takes longer than this is seen in a warm-up."""
PACKAGES = (
    "warmup-insights", "torch", "vllm", "vllm-gaudi", "vllm-hpu-extension",
    "habana-torch-plugin",
)  # fmt: skip
DRIVERS = {"habanalabs": "Gaudi", "nvidia": "NVIDIA"}
"""Kernel module to whose driver it is."""


@click.command()
@click.option(
    "--device",
    type=click.Choice(DEVICE_CHOICES),
    help="Device to look at.  [default: the one this environment is made for]",
)
@click.option(
    "-o", "--output-file", default=FILE, show_default=True, metavar="FILE",
    help="JSON of everything that was found.",
)  # fmt: skip
@force_option
@db_option
@click.pass_context
def doctor(
    ctx: click.Context, device: str | None, output_file: str, force: bool, db: str
) -> None:
    """Memory, graphs, out-of-memory, clock, recorder and database folder are tried out.

    Exit code 1 when a check is wrong. The file has what to attach to an issue, secrets masked.
    """
    refuse_existing(output_file, force=force)
    choice = device or present_device()
    checks = [
        tried("versions", check_versions),
        tried("hooks", check_hooks),
        *checks_of(choice),
        tried("recorder", check_recorder),
        tried("database folder", lambda: check_folder(db)),
    ]
    rows = [(c.name, c.result, mask_text(c.figure), c.advice) for c in checks]
    header = ("check", "result", "figure", "what to do")
    print_tables([make_table(f"Checks on {choice}", header, rows)])
    write_result(output_file, _as_json(choice, checks), force=force)
    ctx.exit(any(check.result == WRONG for check in checks))


def check_versions() -> Check:
    """What is installed, and the driver."""
    found = {name: facts.version_of_package(name) for name in PACKAGES}
    for module, owner in DRIVERS.items():
        path = Path("/sys/module", module, "version")
        if path.is_file():
            found[f"{owner} driver"] = path.read_text(encoding="utf-8").strip()
    known = {name: version for name, version in found.items() if version}
    known["Python"] = platform.python_version()
    figure = ", ".join(f"{name} {version}" for name, version in known.items())
    return Check(
        "versions", OK, figure, values={**known, "system": platform.platform()}
    )


def check_hooks() -> Check:
    """Which hooks of the plugin would attach to the engine that is installed."""
    engine = facts.engine()
    if engine.version is None:
        return Check("hooks", NOT_APPLICABLE, "no vLLM is installed")
    found = hook_check.check(hooks_for(engine.name))
    attached = sum(each.status == hook_check.ATTACHES for each in found)
    missing = [each.target for each in found if each.status == hook_check.MISSING]
    return judged(
        "hooks",
        not missing,
        f"{attached} attach to {engine.name}, {len(missing)} are missing",
        "`warmup-insights vllm --check` names them",
        {"engine": engine.name, "attached": attached, "missing": missing},
    )


def check_recorder() -> Check:
    """What one event costs the thread that it happens in."""
    durations = []
    with tempfile.TemporaryDirectory() as folder:
        spool = Spool(Path(folder, "doctor.db"), RunRecord(run_id="doctor"))
        with Recorder(spool) as recorder:
            for number in range(EVENTS):
                event = WarmupStep(phase="prompt", bucket=(1, 128, number))
                started = time.perf_counter()
                recorder.record(event)
                durations.append(time.perf_counter() - started)
        dropped = recorder.dropped
    median = statistics.median(durations)
    return judged(
        "recorder",
        not dropped and median <= SLOW_S,
        f"{1e6 * median:.2f} µs per event, {dropped} of {EVENTS} dropped",
        "Recording would slow the engine down here; attach the file",
        {"event_s": median, "dropped": dropped, "events": EVENTS},
    )


def check_folder(db: str) -> Check:
    """A spool can be written where the database is."""
    path = database_path(db)
    folder = (Path.cwd() if path is None else path.parent).resolve()
    spool = Spool(
        folder / f"doctor-{os.getpid()}.db",
        RunRecord(run_id="doctor", status="running"),
    )
    spool.append([Note(topic="doctor", text="a check of this folder")])
    assert spool.path is not None, "it has just been written"
    used = spool.path.parent.resolve()
    spool.path.unlink()
    is_right = used == folder
    return judged(
        "database folder",
        is_right,
        f"{folder} can be written" if is_right else f"{folder} cannot be written",
        f"Choose another --db; until then events wait in {used}",
        {"folder": str(folder), "written_in": str(used)},
    )


def _as_json(choice: str, checks: list[Check]) -> str:
    found = {
        "schema": 1,
        "made_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "version": __version__,
        "device": choice,
        "checks": [vars(check) for check in checks],
        "environment": facts.environment(os.environ),
    }
    return mask_text(json.dumps(found, indent=1)) + "\n"
