"""How long it takes to fit buckets to traffic, and what the fit wastes.

    python benchmarks/traffic.py [--requests 1000000] [--buckets 256] [--json FILE]

Request lengths are log-normal and made here; one line says so. The time is given in
seconds and as a ratio to a plain count of the same lengths (`collections.Counter`), taken
in the same run, so that it can be compared between machines.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from pathlib import Path

import numpy as np

from warmup_insights.analysis.fit.cost import Limits
from warmup_insights.analysis.fit.report import fit_for_settings
from warmup_insights.analysis.fit.traffic import Requests, traffic_from_requests
from warmup_insights.bucketing.settings import settings_from_mapping

LIMITS = {
    "max_num_seqs": 128,
    "block_size": 128,
    "max_num_batched_tokens": 8192,
    "max_model_len": 32768,
    "num_kv_blocks": 5000,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--buckets", type=int, default=256)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    draw = np.random.default_rng(options.seed)
    inputs = np.clip(draw.lognormal(6.5, 1.0, options.requests), 1, 30_000).astype(int)
    outputs = np.clip(draw.lognormal(5.0, 0.8, options.requests), 1, 2_000).astype(int)
    print(
        f"{options.requests:,} made-up requests, log-normal lengths, seed {options.seed}"
    )

    began = time.process_time()
    Counter(inputs.tolist())
    Counter(outputs.tolist())
    plain = time.process_time() - began

    settings = settings_from_mapping(LIMITS, {})
    began = time.process_time()
    traffic = traffic_from_requests(Requests("made up", inputs, outputs), settings)
    steps = time.process_time() - began
    report = fit_for_settings(traffic, settings, Limits(max_buckets=options.buckets))
    total = time.process_time() - began
    fit = report.fit

    print(f"steps: {traffic.prompt.total:,} prompts, {traffic.decode.total:,} decodes")
    print(f"distinct shapes: {report.num_shapes:,}")
    print(f"lengths to steps: {steps:.2f} s of CPU")
    print(
        f"steps to buckets, with three strategies beside: {total - steps:.2f} s of CPU"
    )
    print(f"in all {total:.2f} s, {total / plain:.1f} times counting the lengths")
    print(
        f"{fit.usage.num_buckets} buckets waste {100 * (fit.waste_ratio or 0):.2f} %,"
    )
    print(f"  the best set could execute at most {fit.gap_percent:.2f} % less")
    for result in report.strategies:
        waste = 100 * (result.waste_ratio or 0)
        print(f"{result.name}: {result.num_buckets} buckets waste {waste:.2f} %")
    if options.json:
        found = {
            "requests": options.requests, "shapes": report.num_shapes,
            "buckets": fit.usage.num_buckets, "steps_s": round(steps, 2),
            "total_s": round(total, 2), "times_counting": round(total / plain, 1),
            "gap_percent": round(fit.gap_percent, 2),
        }  # fmt: skip
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
