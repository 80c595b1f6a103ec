"""Runs small programs that record, in processes of their own."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[2]
HEADER = """
import os, sys, threading, time
from warmup_insights.model.events import *
from warmup_insights.recorder import Recorder
from warmup_insights.model.run import RunRecord
from warmup_insights.storage.spool import Spool

def step(number, **fields):
    return WarmupStep(phase="prompt", index=number, **fields)

path = sys.argv[1]
"""


def run_program(text, *arguments, timeout=600):
    """Run a program; its exit status, output and errors."""
    return subprocess.run(
        [sys.executable, "-c", HEADER + textwrap.dedent(text), *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def start_program(text, *arguments):
    """Start a program whose output can be read while it runs."""
    return subprocess.Popen(
        [sys.executable, "-c", HEADER + textwrap.dedent(text), *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
