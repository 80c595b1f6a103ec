"""Looks for inputs that break a property: with Atheris, or with Hypothesis."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.fuzz import seeds
from tests.fuzz.findings import broken, keep, kept
from tests.fuzz.mutations import changed
from tests.fuzz.properties import LINE_BYTES

ROOT = Path(__file__).resolve().parents[2]
MAX_LENGTH = {"line": LINE_BYTES, "file": 32_768}
MEMORY_MB = 512
"""A process that takes more is a finding."""
INPUT_LIMIT_S = 10
# libFuzzer asks for the most memory that its process ever had, and Linux counts in what
# the process was forked from: a small shell, instead of whatever runs the tests.
_SMALL_PARENT = ("sh", "-c", '"$@"; exit $?', "sh")
_COVERAGE = re.compile(r"cov: (\d+) ft: (\d+)")
_EXECUTED = re.compile(r"stat::number_of_executed_units: (\d+)")
_PEAK = re.compile(r"stat::peak_rss_mb:\s+(\d+)")


@dataclass
class Hunt:
    """What was done for one target, and what was found."""

    target: str
    seconds: float = 0.0
    executions: int = 0
    coverage: int | None = None
    """Edges that were reached; None when nothing measures them."""
    peak_mb: int | None = None
    faults: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, object]:
        """As JSON."""
        return dict(vars(self))

    def __str__(self) -> str:
        reached = "" if self.coverage is None else f", {self.coverage:,} edges reached"
        text = f"{self.target}: {self.executions:,} inputs in {self.seconds:.0f} s{reached}"
        return "\n  ".join([f"{text}, {len(self.faults)} findings", *self.faults])

    def confirm(self, data: bytes, folder: Path) -> None:
        """Count an input as a finding if it breaks a property here, too."""
        fault = broken(self.target, data)
        if fault is not None and not any(
            known.endswith(fault) for known in self.faults
        ):
            path = keep(self.target, data, folder)
            self.faults.append(f"{path.name}: {fault}")


def hunt_guided(target: str, seconds: int, corpus: Path, folder: Path) -> Hunt:
    """Let Atheris look, in a process of its own; findings go to `folder`.

    Afterwards everything that it found worth keeping is tried again without its
    instruments, against the limit that holds without them.
    """
    own = corpus / target
    own.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(seeds.of(target)):
        (own / f"seed{number:04}").write_bytes(data)
    with tempfile.TemporaryDirectory() as place:
        begin = time.monotonic()
        said = _run_atheris(target, seconds, own, Path(place))
        hunt = _counted(target, said, time.monotonic() - begin)
        for path in [*kept(Path(place)), *sorted(own.iterdir())]:
            hunt.confirm(path.read_bytes(), folder)
    return hunt


def _run_atheris(target: str, seconds: int, corpus: Path, place: Path) -> str:
    words = place / "words"
    words.write_text("".join(f'"{_escaped(w)}"\n' for w in seeds.words()), "ascii")
    done = subprocess.run(
        [
            *_SMALL_PARENT, sys.executable, "-m", "tests.fuzz.guided", target, str(place), str(corpus),
            f"-dict={words}", f"-max_total_time={seconds}",
            f"-max_len={MAX_LENGTH[target]}", f"-rss_limit_mb={MEMORY_MB}",
            f"-timeout={INPUT_LIMIT_S}", "-print_final_stats=1",
            f"-artifact_prefix={place}/{target}-",
        ],
        cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False,
    )  # fmt: skip
    said = done.stderr.decode("utf-8", "replace")
    left = list(place.glob(f"{target}-*"))
    if done.returncode and not left:
        raise RuntimeError(f"Atheris ended with {done.returncode}:\n{said[-2000:]}")
    return said


def _counted(target: str, said: str, seconds: float) -> Hunt:
    executed, reached = _EXECUTED.findall(said), _COVERAGE.findall(said)
    peak = _PEAK.findall(said)
    hunt = Hunt(target, seconds)
    hunt.executions = int(executed[-1]) if executed else 0
    hunt.coverage = int(reached[-1][0]) if reached else None
    hunt.peak_mb = int(peak[-1]) if peak else None
    for line in said.splitlines():
        if line.startswith("SUMMARY: libFuzzer:"):
            hunt.faults.append(line)
    return hunt


def _escaped(word: bytes) -> str:
    """A word for libFuzzer's dictionary."""
    plain = [32 <= byte < 127 and byte not in b'"\\' for byte in word]
    return "".join(
        chr(byte) if is_plain else f"\\x{byte:02x}"
        for byte, is_plain in zip(word, plain, strict=True)
    )


def hunt_unguided(target: str, seconds: float, folder: Path) -> Hunt:
    """Let Hypothesis change the seeds at random until the time is over."""
    hunt = Hunt(target)
    last: list[bytes] = []

    @settings(
        max_examples=200,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.sampled_from(seeds.of(target)), st.integers(0, 2**31))
    def look(data: bytes, seed: int) -> None:
        hunt.executions += 1
        changes = changed(data, MAX_LENGTH[target], seed)
        fault = broken(target, changes)
        if fault is not None:
            last.append(changes)
            raise AssertionError(fault)

    begin = time.monotonic()
    while not hunt.faults and time.monotonic() - begin < seconds:
        try:
            look()
        except AssertionError:
            hunt.confirm(last[-1], folder)
    hunt.seconds = time.monotonic() - begin
    return hunt
