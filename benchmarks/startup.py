"""How long `warmup-insights --help` takes, as a ratio to a Python that imports click.

    python benchmarks/startup.py [--runs 20] [--json FILE]

Both are whole processes, started in turns; processor time is counted, so that other work
on the machine matters little. The target is at most twice.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = [sys.executable, "-c", "import click"]
COMMANDS = {
    "warmup-insights --help": [sys.executable, "-m", "warmup_insights", "--help"],
    "warmup-insights ingest --help": [
        sys.executable, "-m", "warmup_insights", "ingest", "--help",
    ],
    "warmup-insights --version": [sys.executable, "-m", "warmup_insights", "--version"],
    "python -c pass": [sys.executable, "-c", "pass"],
}  # fmt: skip


def cpu_s(command: list[str]) -> float:
    """Processor seconds of one process, user and system."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(runs: int) -> dict[str, dict[str, float]]:
    """Median milliseconds and median ratio to the reference, by command."""
    for command in (REFERENCE, *COMMANDS.values()):
        cpu_s(command)  # byte code and file cache
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    ratios: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(runs):
        reference = cpu_s(REFERENCE)
        for name, command in COMMANDS.items():
            times[name].append(cpu_s(command) * 1000)
            ratios[name].append(times[name][-1] / 1000 / reference)
    return {
        name: {
            "ms": round(statistics.median(times[name]), 1),
            "times_reference": round(statistics.median(ratios[name]), 2),
        }
        for name in COMMANDS
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print(f"Python {platform.python_version()}, {os.cpu_count()} CPUs")
    found = measure(options.runs)
    for name, figures in found.items():
        print(
            f"{name:<32}{figures['ms']:>7.1f} ms, "
            f"{figures['times_reference']:.2f} times `import click`"
        )
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
