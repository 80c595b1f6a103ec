"""What the capture strategies cost on this machine, each as a ratio to `startup`.

    python benchmarks/runner.py [--rounds N] [--json FILE]
    python benchmarks/runner.py --cuda [--model llama-3.1-8b]

The first form runs the default CPU warm-up and serves a fixed workload with every
strategy, in turns, and shows the median over the rounds. The second form needs a CUDA
device: it captures the 67 sizes that vLLM captures by default (1, 2, 4, then 8 to 512
by 8), all at once as before a server is ready, and names the device.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
from pathlib import Path
from typing import Any

from warmup_insights.devices import open_device
from warmup_insights.model.events import (
    BenchmarkResult,
    Event,
    GraphCaptured,
    RunStarted,
    ServerReady,
)
from warmup_insights.rules.memory import CacheLayout
from warmup_insights.rules.model_shape import PRESETS
from warmup_insights.runner.session import Session
from warmup_insights.runner.settings import CAPTURE_STRATEGIES, RunSettings
from warmup_insights.runner.torch_engine import TorchEngine
from warmup_insights.runner.workload import WorkloadSettings
from warmup_insights.units import GIB, MIB

CUDA_SIZES = [1, 2, 4, *range(8, 513, 8)]


def run_once(strategy: str) -> dict[str, float]:
    """Seconds until ready, graphs, and the latencies of serving."""
    events: list[Event] = []
    device = open_device("cpu")
    work = WorkloadSettings(num_prompts=40, seed=1)
    session = Session(
        device, RunSettings(capture_strategy=strategy), events.append, work
    )
    outcome = session.run()
    device.close()
    assert outcome.status == "finished", outcome.error
    started = next(e for e in events if isinstance(e, RunStarted))
    ready = next(e for e in events if isinstance(e, ServerReady))
    values = next(e for e in events if isinstance(e, BenchmarkResult)).values
    return {
        "ready_s": ready.time - started.time,
        "graphs": sum(isinstance(e, GraphCaptured) for e in events),
        "duration_s": values["duration"],
        "mean_ttft_ms": values["mean_ttft_ms"],
        "mean_itl_ms": values["mean_itl_ms"],
        "p99_itl_ms": values["p99_itl_ms"],
    }


def compare_strategies(rounds: int) -> dict[str, dict[str, float]]:
    """Medians over the rounds; the strategies take turns within a round."""
    run_once("startup")  # imports and first touches are not part of any figure
    found: dict[str, list[dict[str, float]]] = {name: [] for name in CAPTURE_STRATEGIES}
    for number in range(rounds):
        shift = number % len(CAPTURE_STRATEGIES)
        for strategy in CAPTURE_STRATEGIES[shift:] + CAPTURE_STRATEGIES[:shift]:
            found[strategy].append(run_once(strategy))
    return {
        strategy: {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        for strategy, runs in found.items()
    }


def show(results: dict[str, dict[str, float]]) -> None:
    keys = list(results["startup"])
    print("".join(f"{name:>16}" for name in ["", *keys]))
    for strategy, values in results.items():
        print(f"{strategy:>16}" + "".join(f"{values[key]:>16.4g}" for key in keys))
    print("\nas a ratio to startup:")
    base = results["startup"]
    for strategy, values in results.items():
        ratios = (
            values[key] / base[key] if base[key] else float("nan") for key in keys
        )
        print(f"{strategy:>16}" + "".join(f"{ratio:>16.3f}" for ratio in ratios))


def capture_on_cuda(model: str) -> dict[str, Any]:
    """Seconds and memory of capturing all sizes, and the median of one."""
    device = open_device("cuda")
    engine = TorchEngine(device, PRESETS[model], block_size=16, dtype="bfloat16")
    engine.load_model()
    engine.allocate_kv_cache(CacheLayout(4096, 16))
    for size in sorted(CUDA_SIZES, reverse=True):
        engine.run_bucket("decode", (size, 1, size))
    before, started, single = device.memory().used_bytes, device.now(), []
    for size in sorted(CUDA_SIZES, reverse=True):
        began = device.now()
        engine.capture_bucket("decode", (size, 1, size))
        device.synchronize()
        single.append(device.now() - began)
    return {
        "device": device.name,
        "model": model,
        "sizes": len(CUDA_SIZES),
        "seconds": device.now() - started,
        "bytes": device.memory().used_bytes - before,
        "median_s": statistics.median(single),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--cuda", action="store_true")
    parser.add_argument("--model", default="llama-3.1-8b", choices=sorted(PRESETS))
    arguments = parser.parse_args()
    results: dict[str, Any]
    if arguments.cuda:
        results = capture_on_cuda(arguments.model)
        print(
            f"{results['sizes']} graphs of {results['model']} on {results['device']}: "
            f"{results['seconds']:.2f} s, {results['bytes'] / GIB:.2f} GiB "
            f"({results['bytes'] / results['sizes'] / MIB:.1f} MiB each), median "
            f"{results['median_s']:.3f} s"
        )
    else:
        print(f"Python {platform.python_version()}, {open_device('cpu').name}")
        results = compare_strategies(arguments.rounds)
        show(results)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
