"""What `plan` and `buckets fit` predict, held against the real engine; see `lab.py`.

One start is recorded with its traffic. Each further start has one setting changed: what
`plan` predicts for it from the first is compared with its own recording. Then the file
that `buckets fit` makes from the traffic is used for the same traffic.
"""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from tests.vllm_plugin import lab
from tests.vllm_plugin.lab_checks import read_recorded
from warmup_insights.model.events import BucketUsed, WarmupStep

COMPILE_MS = "3000"
"""What a simulated recipe takes: most of a warm-up, as on a device, so that the time of
a start depends little on what else this machine does."""
AT_ONCE = 3
"""Starts that run side by side: most of each is the simulated compiler, which sleeps."""
FIRST = "as it was"
FITTED = 16
"""Buckets at most in the fitted file: fewer than there are shapes."""
MEMORY_SHARE = 0.02
"""How far the memory of graphs may be off."""
BASE = lab.Case(
    {
        "HPU_SIM_COMPILE_MS": COMPILE_MS,
        "HPU_SIM_TOTAL_GB": "2",
        # Collections take the host's time, which depends on the load of this machine.
        "WARMUP_INSIGHTS_FREEZE_GC": "1",
    },
    {"num_gpu_blocks_override": None, "gpu_memory_utilization": 0.05},
)
PLANS = {
    FIRST: ((), {}, {}),
    "reserve 0.4": (
        ("--graph-reserved-mem", "0.4"),
        {"VLLM_GRAPH_RESERVED_MEM": "0.4"},
        {},
    ),
    "utilisation 0.1": (
        ("--gpu-memory-utilization", "0.1"),
        {},
        {"gpu_memory_utilization": 0.1},
    ),
    "linear strategy": (
        ("--set", "VLLM_BUCKETING_STRATEGY=lin"),
        {"VLLM_BUCKETING_STRATEGY": "lin"},
        {},
    ),
    "max_num_seqs 8": (("--max-num-seqs", "8"), {}, {"max_num_seqs": 8}),
    "max_model_len 768": (("--max-model-len", "768"), {}, {"max_model_len": 768}),
    "contiguous attention": (
        ("--set", "VLLM_CONTIGUOUS_PA=true"),
        {"VLLM_CONTIGUOUS_PA": "true"},
        {},
    ),
}
"""Name to the options of `plan`, the environment and the arguments of the engine."""


def command(*arguments):
    """What a command of this project prints as JSON."""
    done = subprocess.run(
        [sys.executable, "-m", "warmup_insights", *map(str, arguments), "--json"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def start(chosen, name, folder, case):
    """A recorded start, and its database."""
    place = folder / name.replace(" ", "_")
    place.mkdir(parents=True)
    lab.run_engine(chosen, case, place, records=True)
    return read_recorded(place / "recorded.db"), place / "recorded.db"


def planned(database, options):
    """What `plan` predicts."""
    found = command("plan", "latest", "--db", database, *options)["plans"][0]
    phases = found["phases"].values()
    time = found["time"]
    return {
        "buckets": sum(phase["generated"] for phase in phases),
        "blocks": found["num_kv_blocks"],
        "graphs": sum(phase["captured"] for phase in phases),
        "graph_bytes": sum(phase["graph_used_bytes"] for phase in phases),
        "warmup_s": time["warmup_s"],
        "warmup_range_s": time["warmup_range_s"],
    }


def observed(side):
    """The same of a start that was recorded."""
    summary = side.summary
    phases = [summary["buckets"][name] for name in ("prompt", "decode")]
    return {
        "buckets": sum(phase["generated"] for phase in phases),
        "blocks": summary["memory"]["num_kv_blocks"],
        "graphs": sum(len(phase["captured_buckets"] or ()) for phase in phases),
        "graph_bytes": sum(phase["graph_used_bytes"] for phase in phases),
        "warmup_s": summary["time"]["warmup_s"],
    }


def holds(prediction, truth):
    """Buckets, blocks and graphs equal; graph memory and time within their ranges."""
    low, high = prediction["warmup_range_s"]
    exact = ("buckets", "blocks", "graphs")
    off = abs(prediction["graph_bytes"] - truth["graph_bytes"])
    return (
        all(prediction[name] == truth[name] for name in exact)
        and off <= MEMORY_SHARE * truth["graph_bytes"]
        and low <= truth["warmup_s"] <= high
    )


def fit(chosen, database, folder):
    """The traffic of the first start on the file that was fitted to it."""
    path = folder / "fitted.txt"
    arguments = ("latest", "--db", database, "--max-buckets", FITTED)
    found = command("buckets", "fit", *arguments, "-o", path, "--force")["fit"]
    text = path.read_text(encoding="utf-8")
    side = start(chosen, "fitted", folder, replace(BASE, bucket_file=text))[0]
    predicted = {
        "buckets": found["usage"]["num_buckets"],
        "misses": 0,
        "padding_percent": round(100 * found["waste_ratio"], 3),
        "buckets_s": found["usage"]["warmup_s"],
    }
    phases = [side.summary["buckets"][name] for name in ("prompt", "decode")]
    misses = side.summary["misses"]
    truth = {
        "buckets": sum(phase["generated"] for phase in phases),
        "misses": sum(miss["count"] for miss in misses),
        "padding_percent": round(padding(side.of(BucketUsed)), 3),
        "buckets_s": sum(step.duration_s or 0.0 for step in side.of(WarmupStep)),
    }
    return predicted, truth


def padding(uses):
    """Percent of what ran while serving that no request needed; blocks count as one."""
    needed = executed = 0
    for use in uses:
        needed += use.count * work(use.phase, use.shape)
        executed += use.count * work(use.phase, use.bucket)
    return 100 * (executed - needed) / executed


def work(phase, shape):
    """Tokens of a shape with its blocks, those of each sequence of a prompt."""
    batch_size, query_len, num_blocks = shape
    if phase == "prompt":
        return batch_size * (query_len + num_blocks)
    return batch_size + num_blocks


def keep_promises(chosen, folder):
    """Run everything; True where each promise was kept."""
    names = chosen.cases or [*PLANS, "fit"]
    starts = {FIRST: BASE}
    for name in names:
        if name in PLANS:
            _, environment, engine = PLANS[name]
            starts[name] = replace(
                BASE,
                environment={**BASE.environment, **environment},
                engine={**BASE.engine, **engine},
            )
    with ThreadPoolExecutor(AT_ONCE) as pool:
        seen = {
            name: pool.submit(start, chosen, name, folder, case)
            for name, case in starts.items()
        }
    database = seen[FIRST].result()[1]
    results = []
    for name in names:
        if name == "fit":
            predicted, truth = fit(chosen, database, folder)
            exact = ("buckets", "misses", "padding_percent")
            is_kept = all(predicted[key] == truth[key] for key in exact)
        else:
            predicted = planned(database, PLANS[name][0])
            truth = observed(seen[name].result()[0])
            is_kept = holds(predicted, truth)
        results.append(is_kept)
        row = {"predicted": predicted, "observed": truth, "holds": is_kept}
        print(
            f"{'ok  ' if is_kept else 'FAIL'} {name}: {predicted} {truth}", flush=True
        )
        lab.store(chosen, "promises", {name: row})
    return all(results)
