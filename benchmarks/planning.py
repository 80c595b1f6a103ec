"""Plans against truth: what `plan` predicts, and what a run with those settings does.

    python benchmarks/planning.py [--device cpu] [--runs 12] [--seed 0]

One run with generous settings is planned from; then each random configuration is both
planned and run, in a process of its own. Prints one line per configuration and the
shares and errors at the end.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from warmup_insights.analysis.plan.planning import Plan, Planner, PlanSettings
from warmup_insights.analysis.summary import Folded
from warmup_insights.runs import current
from warmup_insights.storage import EventStore


def main() -> None:
    options = read_options()
    draw = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        db = Path(folder) / "planning.db"
        base = {"--gpu-memory-utilization": 0.9, "--graph-reserved-mem": 0.4}
        known = run_once(db, options, "base", base)
        planner = Planner(known.summary, known.rows)
        rows = [compare(db, options, planner, draw, n) for n in range(options.runs)]
    report(options, rows)


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--memory", default="512MiB", help="budget of the cpu device")
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def run_once(
    db: Path, options: argparse.Namespace, label: str, values: dict[str, float]
) -> Folded:
    command = [sys.executable, "-m", "warmup_insights", "run", "--quiet"]
    command += ["--db", str(db), "--label", label, "--device", options.device]
    if options.device == "cpu":
        command += ["--memory", options.memory]
    for name, value in values.items():
        command += [name, str(value)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        sys.exit(done.stderr)
    with EventStore(db) as store:
        return current(store, store.find_run(label))


def compare(
    db: Path,
    options: argparse.Namespace,
    planner: Planner,
    draw: random.Random,
    number: int,
) -> dict[str, float | bool]:
    utilization = round(draw.uniform(0.4, 0.95), 3)
    reserve = round(draw.uniform(0.02, 0.7), 3)
    ratio = round(draw.uniform(0.1, 0.9), 2)
    plan = planner.plan(
        PlanSettings(
            gpu_memory_utilization=utilization,
            graph_reserved_mem=reserve,
            graph_prompt_ratio=ratio,
        )
    )
    truth = run_once(
        db,
        options,
        f"truth-{number}",
        {
            "--gpu-memory-utilization": utilization,
            "--graph-reserved-mem": reserve,
            "--graph-prompt-ratio": ratio,
        },
    )
    row = judge(plan, truth)
    print(f"{utilization:5.3f} {reserve:5.3f} {ratio:4.2f}  {row}", flush=True)
    return row


def judge(plan: Plan, truth: Folded) -> dict[str, float | bool]:
    summary = truth.summary
    blocks = summary.memory_or_none.num_kv_blocks or 0
    seconds = summary.time.warmup_s or 0.0
    wanted = {
        (phase, bucket)
        for phase, part in (summary.buckets or {}).items()
        for bucket in part.captured_buckets or ()
    }
    planned = {(graph.phase, graph.bucket) for graph in plan.order}
    union = wanted | planned
    return {
        "sets_equal": planned == wanted,
        "graphs": len(wanted),
        "agreement": len(planned & wanted) / len(union) if union else 1.0,
        "blocks": blocks or 0,
        "blocks_error": abs(plan.num_kv_blocks / blocks - 1) if blocks else 1.0,
        "warmup_s": seconds,
        "time_error": abs((plan.time.warmup_s or 0.0) / seconds - 1)
        if seconds
        else 1.0,
    }


def report(options: argparse.Namespace, rows: list[dict[str, float | bool]]) -> None:
    def column(name: str) -> list[float]:
        return [float(row[name]) for row in rows]

    equal = sum(column("sets_equal"))
    print(f"device {options.device}, {len(rows)} configurations, seed {options.seed}")
    print(f"captured sets equal: {equal:.0f} of {len(rows)}")
    print(f"graphs agreed on, mean: {100 * statistics.mean(column('agreement')):.1f} %")
    for name, title in (("blocks_error", "KV blocks"), ("time_error", "warm-up time")):
        errors = column(name)
        print(
            f"error in {title}: median {100 * statistics.median(errors):.2f} %, "
            f"largest {100 * max(errors):.2f} %"
        )


if __name__ == "__main__":
    main()
