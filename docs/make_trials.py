"""Tries advice on the reference engine: a start, what its advice changes, the next start.

`python docs/make_trials.py` runs every trial of the list below as a user would, with
`run` and `advise` in processes of their own, and writes `docs/trials.json`; the table in
docs/advise.md is made of it by `python docs/make_decisions.py`. Names of trials limit it to
those. A simulated start takes the same virtual time each time. On a CPU other programs disturb
each start, so a trial of seconds is several pairs of starts, one without and one with the change,
each with its own prediction: the medians count, and how far the observations lie apart.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal

from warmup_insights.units import format_duration

PAIRS = 5
RESULTS = Path(__file__).with_name("trials.json")
MAIN = "from warmup_insights.cli import main; main()"
OPTIONS = {
    "gpu_memory_utilization": "--gpu-memory-utilization",
    "VLLM_GRAPH_RESERVED_MEM": "--graph-reserved-mem",
}
"""Settings that `run` takes as an option; the others are variables."""
What = Literal["seconds", "blocks", "misses", "start"]


@dataclass(frozen=True)
class Trial:
    """A start of the reference engine, and the rule whose advice is followed.

    `what` is compared: seconds of warm-up, KV blocks, shapes missed while serving, or
    whether it starts at all. `instead` are the arguments that follow an advice
    that names no setting of the engine.
    """

    name: str
    rule: str
    what: What
    arguments: tuple[str, ...]
    instead: tuple[str, ...] = ()
    fits_file: bool = False


@dataclass(frozen=True)
class Result:
    """What was predicted and what came of it; seconds, blocks, shapes or 0 and 1."""

    name: str
    rule: str
    what: What
    is_simulated: bool
    change: str
    before: float
    low: float
    high: float
    observed: float
    observed_low: float
    observed_high: float
    """The middle half of the pairs: what lies below and above are a quarter each."""


def _sets(**values: object) -> tuple[str, ...]:
    pairs = ((f"VLLM_{name}", value) for name, value in values.items())
    return tuple(part for n, v in pairs for part in ("--set", f"{n}={v}"))


_GAUDI = ("--device", "simulated:gaudi3", "--model", "llama-3.1-8b")
_FORK = (
    "--device", "simulated:gaudi2", "--model", "llama-3-8b", "--bucket-dimensions", "2",
    "--max-model-len", "2048", "--max-num-seqs", "4", "--max-num-batched-tokens", "8192",
    "--gpu-memory-utilization", "0.5", "--graph-reserved-mem", "0.4",
    "--graph-prompt-ratio", "0.3",
)  # fmt: skip
_LINEAR = (
    *_GAUDI, "--max-model-len", "8192", "--max-num-seqs", "64",
    "--max-num-batched-tokens", "8192",
    *_sets(BUCKETING_STRATEGY="lin", PROMPT_QUERY_BUCKET_STEP=2048,
           PROMPT_CTX_BUCKET_MAX=0),
)  # fmt: skip
_FEW_BLOCKS = (
    "--gpu-memory-utilization", "0.25",
    *_sets(CONTIGUOUS_PA="true", DECODE_BLOCK_BUCKET_STEP=128),
)  # fmt: skip
_CPU_LINEAR = (
    "--memory", "256MiB", "--max-num-seqs", "32", "--graph-reserved-mem", "0.01",
    *_sets(BUCKETING_STRATEGY="lin", DECODE_BS_BUCKET_STEP=2,
           DECODE_BLOCK_BUCKET_STEP=64, DECODE_BLOCK_BUCKET_MAX=512,
           PROMPT_QUERY_BUCKET_STEP=256, PROMPT_CTX_BUCKET_MAX=0),
)  # fmt: skip
_SHORT = _sets(
    BUCKETING_STRATEGY="lin",
    PROMPT_QUERY_BUCKET_MAX=64,
    PROMPT_QUERY_BUCKET_STEP=32,
    PROMPT_CTX_BUCKET_MAX=0,
    DECODE_BLOCK_BUCKET_MAX=64,
)
TRIALS = (
    Trial("batch step", "decode_buckets", "seconds",
          (*_LINEAR, *_sets(DECODE_BS_BUCKET_STEP=4, DECODE_BLOCK_BUCKET_STEP=512,
                            DECODE_BLOCK_BUCKET_MAX=1024))),
    Trial("batch step", "decode_buckets", "seconds", _CPU_LINEAR),
    Trial("near twins", "decode_buckets", "seconds",
          (*_LINEAR, *_FEW_BLOCKS, *_sets(DECODE_BS_BUCKET_STEP=16))),
    Trial("batch step and near twins", "decode_buckets", "seconds",
          (*_LINEAR, *_FEW_BLOCKS, *_sets(DECODE_BS_BUCKET_STEP=4))),
    Trial("bucket file of `buckets fit`", "unused_buckets", "seconds",
          ("--memory", "128MiB", "--serve"), fits_file=True),
    Trial("bucket file of `buckets fit`", "unused_buckets", "seconds",
          (*_GAUDI, "--serve"), fits_file=True),
    Trial("lazy capture", "captures_unused", "seconds",
          ("--memory", "128MiB", "--serve", "--graph-reserved-mem", "0.5"), instead=("--capture-strategy", "lazy")),
    Trial("lazy capture", "captures_unused", "seconds",
          (*_GAUDI, "--serve"), instead=("--capture-strategy", "lazy")),
    Trial("utilisation and reserve", "memory_plan", "blocks",
          (*_LINEAR, "--max-model-len", "32768", "--max-num-seqs", "256",
           *_sets(DECODE_BS_BUCKET_STEP=64, DECODE_BLOCK_BUCKET_STEP=8192,
                  DECODE_BLOCK_BUCKET_MAX=8192, PROMPT_QUERY_BUCKET_STEP=8192,
                  PROMPT_QUERY_BUCKET_MAX=8192),
           "--graph-reserved-mem", "0.5", "--gpu-memory-utilization", "0.8")),
    Trial("graphs that did not fit", "memory_plan", "blocks", _FORK),
    Trial("ranges too short", "missed_shapes", "misses",
          ("--memory", "128MiB", "--serve", *_SHORT)),
    Trial("no room for the KV cache", "no_room_for_cache", "start",
          (*_GAUDI, "--gpu-memory-utilization", "0.0001")),
    Trial("out of memory", "out_of_memory", "start",
          (*_GAUDI, "--gpu-memory-utilization", "1", "--graph-reserved-mem", "0")),
)  # fmt: skip


class Failed(Exception):
    """A trial whose start or whose advice was not as it must be."""


def call(*arguments: str, may_fail: bool = False) -> Any:
    """What a command prints with --json."""
    done = subprocess.run(
        [sys.executable, "-c", MAIN, *arguments, "--json"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode and not may_fail:
        raise Failed(f"{' '.join(arguments)}: {done.stderr.strip()[-400:]}")
    return json.loads(done.stdout)


def is_repeated(trial: Trial) -> bool:
    """Whether its starts take another time each time."""
    return trial.what == "seconds" and "--device" not in trial.arguments


def start(db: Path, trial: Trial, *more: str) -> dict[str, Any]:
    """The summary of one start."""
    arguments = ("run", "--quiet", "--db", str(db), *trial.arguments, *more)
    summary: dict[str, Any] = call(*arguments, may_fail=True)["summary"]
    return summary


def figure(what: What, summary: Mapping[str, Any]) -> float:
    """What is compared, of one start."""
    if what == "seconds":
        return float(summary["time"]["warmup_s"])
    if what == "blocks":
        return float(summary["memory"]["num_kv_blocks"])
    if what == "misses":
        return float(len(summary["misses"]))
    return float(summary["status"] == "finished")


def followed(trial: Trial, finding: Mapping[str, Any], folder: Path) -> Iterator[str]:
    """The arguments that an advice adds."""
    if trial.fits_file:
        path = str(folder / "buckets.txt")
        database = str(folder / "before.db")
        call("buckets", "fit", "latest", "--db", database, "-o", path, "--force")
        yield from ("--set", f"VLLM_BUCKETING_FROM_FILE={path}")
        return
    yield from trial.instead
    for name, value in {} if trial.instead else finding["changes"].items():
        known = OPTIONS.get(name)
        yield from (known, str(value)) if known else ("--set", f"{name}={value}")


def predicted(trial: Trial, finding: Mapping[str, Any]) -> tuple[float, float]:
    """The least and the most that an advice promises of what is compared."""
    if trial.what == "seconds":
        low, high = finding["gain_s"]
        return low, high
    if trial.what == "blocks":
        blocks = finding["numbers"]["planned_kv_blocks"]
        is_about = finding["effect"].startswith("about ")
        return (0.99 * blocks, 1.01 * blocks) if is_about else (blocks, blocks)
    return (0, 0) if trial.what == "misses" else (1, 1)


@dataclass(frozen=True)
class Pair:
    """A start, and one that followed its advice."""

    change: str
    before: float
    low: float
    high: float
    observed: float


def paired(trial: Trial, folder: Path) -> Pair:
    """Start, follow the advice, start again."""
    before, after = folder / "before.db", folder / "after.db"
    first = start(before, trial)
    found = call("advise", first["run_id"], "--db", str(before))["findings"]
    finding = next((each for each in found if each["rule"] == trial.rule), None)
    if finding is None:
        raise Failed(f"{trial.name}: {[each['rule'] for each in found]}")
    second = start(after, trial, *followed(trial, finding, folder))
    own, following = figure(trial.what, first), figure(trial.what, second)
    low, high = predicted(trial, finding)
    change = "`buckets fit`" if trial.fits_file else finding["suggestion"]
    if trial.instead:
        change = " ".join(trial.instead)
    observed = own - following if trial.what == "seconds" else following
    return Pair(change, own, low, high, observed)


def tried(trial: Trial) -> Result:
    """One pair of starts, or the medians of several where time is real."""
    pairs = []
    for _ in range(PAIRS if is_repeated(trial) else 1):
        with tempfile.TemporaryDirectory() as folder:
            pairs.append(paired(trial, Path(folder)))
    seen = sorted(pair.observed for pair in pairs)
    return Result(
        trial.name, trial.rule, trial.what, "--device" in trial.arguments, pairs[0].change,
        median(pair.before for pair in pairs), median(pair.low for pair in pairs),
        median(pair.high for pair in pairs), median(seen), seen[len(seen) // 4],
        seen[-1 - len(seen) // 4],
    )  # fmt: skip


def main() -> int:
    """Run the trials and write each result; 1 where one could not be tried."""
    wanted, failing = sys.argv[1:], 0
    for trial in TRIALS:
        if wanted and trial.name not in wanted:
            continue
        try:
            result = tried(trial)
        except Failed as error:
            failing = 1
            sys.stderr.write(f"{error}\n")
            continue
        sys.stderr.write(f"{result}\n")
        store(result)
    return failing


def store(result: Result) -> None:
    """Put a result into the file, in the place of an older one."""
    old = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else []
    known = {(each["name"], each["is_simulated"]): each for each in old}
    known[result.name, result.is_simulated] = asdict(result)
    order = [(trial.name, "--device" in trial.arguments) for trial in TRIALS]
    kept = [known[key] for key in order if key in known]
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def rows() -> Iterator[tuple[str, ...]]:
    """The rows of the table in docs/advise.md."""
    for each in json.loads(RESULTS.read_text(encoding="utf-8")):
        result = Result(**each)
        where = "simulated" if result.is_simulated else "CPU"
        texts = (_text(result, v) for v in (result.low, result.high, result.observed))
        low, high, observed = texts
        promised = low if low == high else f"{low} to {high}"
        if result.observed_low < result.observed_high:
            least, most = (
                format_duration(s) for s in (result.observed_low, result.observed_high)
            )
            observed += f" ({least} to {most})"
        yield (result.name, f"`{result.rule}`", where, f"`{result.change.strip('`')}`",
               _text(result, result.before, is_state=True), promised, observed)  # fmt: skip


def _text(result: Result, value: float, *, is_state: bool = False) -> str:
    if result.what == "seconds":
        return format_duration(value) + ("" if is_state else " less")
    if result.what == "start":
        return "starts" if value else "fails"
    return f"{value:,.0f} {'KV blocks' if result.what == 'blocks' else 'shapes missed'}"


if __name__ == "__main__":
    sys.exit(main())
