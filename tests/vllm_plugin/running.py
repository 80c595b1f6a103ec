"""Runs the stand-in engine in a process of its own, with the plugin or without."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from warmup_insights.drainer import open_store
from warmup_insights.model.events import WarmupStep, kind_of

ROOT = Path(__file__).resolve().parents[2]
STANDIN = Path(__file__).with_name("standin")
VERSIONS = ("v0_10", "v0_13", "v0_26")


@dataclass
class Ran:
    """What a run of the stand-in left behind."""

    version: str
    exit_code: int
    stdout: str
    stderr: str
    database: Path

    @property
    def tokens(self):
        return self.said("TOKENS")

    def said(self, word):
        """The rest of the line that begins with a word."""
        lines = self.stdout.splitlines()
        return next(line[len(word) + 1 :] for line in lines if line.startswith(word))

    def runs(self):
        with open_store(self.database) as store:
            return store.runs()

    def events(self, *kinds, rank=None, run=0):
        """Events of a run, newest run first; of one rank if asked for."""
        with open_store(self.database) as store:
            run_id = store.runs()[run].run_id
            found = [
                e for e in store.events(run_id) if not kinds or kind_of(e) in kinds
            ]
        return [e for e in found if rank is None or e.rank == rank]

    def steps(self, phase=None, **more):
        """Executions of the warm-up, as they ended; of one phase if asked for."""
        found = executions(self.events("warmup_step", **more))
        return [step for step in found if phase in (None, step.phase)]

    def counts(self, rank=None):
        return Counter(kind_of(event) for event in self.events(rank=rank))


def executions(events):
    """The last step of each execution: one that began is replaced when it has ended."""
    steps = {}
    for event in events:
        if isinstance(event, WarmupStep):
            steps[event.rank, event.phase, event.bucket, event.time] = event
    return list(steps.values())


def environment(version, **more):
    """The environment in which the stand-in is vLLM; variables of ours only if given."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("VLLM_", "WARMUP_INSIGHTS_", "STANDIN_"))
    }
    paths = [STANDIN / version, STANDIN / "base", ROOT]
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        **more,
    }


def start_standin(version, folder, **more):
    """Start the stand-in engine, recorded; its process, and what it will leave."""
    database = Path(folder) / "runs.db"
    ours = {"WARMUP_INSIGHTS_DB": str(database), "WARMUP_INSIGHTS_SYNTHETIC": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "standin.drive"],
        env=environment(version, **{**ours, **more}),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return process, Ran(version, 0, "", "", database)


def run_standin(version, folder, *, records=True, drained=False, **more):
    """Start the stand-in engine, serve its steps, and wait for its end.

    If `drained`, a process of its own stores the events, and its messages are in stderr;
    else whoever reads them does.
    """
    database = Path(folder) / "runs.db"
    ours = {"WARMUP_INSIGHTS_DB": str(database), "WARMUP_INSIGHTS_SYNTHETIC": "1"}
    if not drained:
        ours["STANDIN_UNDRAINED"] = "1"
    done = subprocess.run(
        [sys.executable, "-m", "standin.drive"],
        env=environment(version, **{**(ours if records else {}), **more}),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    return Ran(version, done.returncode, done.stdout, done.stderr, database)
