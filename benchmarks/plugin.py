"""What the vLLM plugin costs: per hooked call, and for a whole warm-up.

Run from the repository root: `python benchmarks/plugin.py`. Whole warm-ups are those of
the stand-in in `tests/vllm_plugin/standin` (no engine, no device: its forward passes
sleep), with and without the plugin in turn. With `--command` a real engine's command is
run in turn instead; its line `init engine (...) took N s` is what is compared. The
fastest of the rounds counts, because everything else on the machine only adds time.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

from warmup_insights.recorder import NULL_RECORDER, Recorder
from warmup_insights.vllm_plugin import hpu_buckets, hpu_scenarios, hpu_serving
from warmup_insights.vllm_plugin.hooks import Hook
from warmup_insights.vllm_plugin.session import Session
from warmup_insights.vllm_plugin.settings import Settings
from warmup_insights.vllm_plugin.state import Pass
from warmup_insights.vllm_plugin.wrapping import Attachment

ROOT = Path(__file__).resolve().parents[1]
STANDIN = ROOT / "tests" / "vllm_plugin" / "standin"
CALLS = 20_000
ENGINE_OBJECTS = 700_000
"""What the collector finds in a process with vLLM and torch, counted there."""
_INIT = re.compile(r"init engine \(.*?\) took ([\d.]+) s")


class Engine:
    """Calls as cheap as they can be, so that the time is ours."""

    def __init__(self):
        self.seen_configs = set()
        self.decode_buckets = [(4, 1, 128)]
        self.metadata = SimpleNamespace(is_prompt=False)

    def nothing(self):
        return None

    def _check_config(
        self, batch_size, seq_len, num_blocks, attn_metadata, warmup_mode
    ):
        self.seen_configs.add(("decode", batch_size, seq_len, num_blocks))

    def find_decode_bucket(self, batch_size, num_blocks, seed_buckets=False):
        return self.decode_buckets[0]

    def execute_model(self, scheduler_output, warmup_mode=False):
        return None

    def _prepare_dummy_scenario(self, prompt_cfg, decode_cfg):
        return None


def quiet(session, call):
    yield


CASES = {
    "a probe that does nothing": ("nothing", quiet, ()),
    "a served step: execute_model": ("execute_model", hpu_serving.serve_step, (None,)),
    "a served step: find_decode_bucket": (
        "find_decode_bucket", hpu_buckets.find_decode_bucket, (3, 100),
    ),
    "a served step: _check_config": (
        "_check_config", hpu_serving.check_config, (4, 1, 128, None, False),
    ),
    "a bucket: one recorded step": (
        "_prepare_dummy_scenario", hpu_scenarios.scenario, (None, (4, 1, 128)),
    ),
}  # fmt: skip


def session_for(recorder):
    session = Session(
        Settings(database="x", run_id="r", is_first=False), lambda _: recorder
    )
    session.rank = 0
    return session


def time_calls(function, arguments):
    """Seconds of one call: the fastest of five rounds."""
    rounds = []
    for _ in range(5):
        started = time.perf_counter()
        for _ in range(CALLS):
            function(*arguments)
        rounds.append((time.perf_counter() - started) / CALLS)
    return min(rounds)


def cost_per_call():
    """Microseconds that watching adds to a call, by case."""
    costs = {}
    for title, (name, probe, arguments) in CASES.items():
        recorder = Recorder(lambda batch: None) if "bucket:" in title else NULL_RECORDER
        session = session_for(recorder)
        if "bucket:" in title:
            session.state.current = Pass("decode", None, 1, {(4, 1, 128): 1})
        engine = Engine()
        given = tuple(
            engine.metadata if index == 3 and name == "_check_config" else value
            for index, value in enumerate(arguments)
        )
        plain = time_calls(getattr(engine, name), given)
        hook = Hook(
            engine="vllm", topic="t", module="m", owner="Engine", name=name, probe=probe
        )
        attachment = Attachment(hook, session, Engine)
        attachment.attach()
        watched = time_calls(getattr(engine, name), given)
        attachment.detach()
        recorder.close()
        costs[title] = (watched - plain) * 1e6
    return costs


def run_standin(folder, *, records, step_s):
    """Seconds of the stand-in's warm-up, and of the processor in it."""
    paths = STANDIN / "v0_26", STANDIN / "base", ROOT
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "STANDIN_STEP_S": str(step_s),
        "STANDIN_STEPS": "[]",
        "STANDIN_BALLAST": str(ENGINE_OBJECTS),
    }
    env.pop("WARMUP_INSIGHTS_DB", None)
    if records:
        env["WARMUP_INSIGHTS_DB"] = str(Path(folder) / "runs.db")
    output = subprocess.run(
        [sys.executable, "-m", "standin.drive"],
        env=env, cwd=folder, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    found = re.search(r"WARMUP_S ([\d.]+) ([\d.]+)", output)
    return float(found[1]), float(found[2])


def run_engine(folder, *, records, command):
    """Seconds that a real engine says its initialisation took; twice."""
    env = dict(os.environ)
    env.pop("WARMUP_INSIGHTS_DB", None)
    if records:
        env["WARMUP_INSIGHTS_DB"] = str(Path(folder) / "runs.db")
    done = subprocess.run(
        command, shell=True, env=env, capture_output=True, text=True, check=True
    )
    found = _INIT.search(done.stdout + done.stderr)
    if found is None:
        raise SystemExit("the command did not print `init engine (...) took N s`")
    return float(found[1]), float(found[1])


def compare(rounds, measure, **options):
    """Fastest and median seconds without and with the plugin, taken in turn."""
    seconds = {False: [], True: []}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            for records in (False, True):
                seconds[records].append(measure(folder, records=records, **options))
    plain, watched = ([pair[0] for pair in seconds[r]] for r in (False, True))
    plain_cpu, watched_cpu = ([pair[1] for pair in seconds[r]] for r in (False, True))
    return {
        "rounds": rounds,
        "plain_s": min(plain),
        "watched_s": min(watched),
        "ratio": min(watched) / min(plain),
        "ratio_of_medians": statistics.median(watched) / statistics.median(plain),
        "cpu_ratio": min(watched_cpu) / min(plain_cpu),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--step-s", type=float, default=0.05)
    parser.add_argument("--command", help="of a real engine, run in turn")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    result = {"added_us_per_call": cost_per_call()}
    if chosen.command:
        result["engine"] = compare(chosen.rounds, run_engine, command=chosen.command)
    else:
        result["standin"] = compare(chosen.rounds, run_standin, step_s=chosen.step_s)
    if chosen.json:
        print(json.dumps(result, indent=2))
        return
    for title, cost in result["added_us_per_call"].items():
        print(f"{cost:8.2f} us added: {title}")
    for name in ("standin", "engine"):
        if name in result:
            found = result[name]
            print(
                f"{name}: {found['plain_s']:.3f} s without, {found['watched_s']:.3f} s "
                f"with the plugin, ratio {found['ratio']:.4f} (of medians "
                f"{found['ratio_of_medians']:.4f}, of processor time "
                f"{found['cpu_ratio']:.4f}), {found['rounds']} rounds in turn"
            )


if __name__ == "__main__":
    main()
