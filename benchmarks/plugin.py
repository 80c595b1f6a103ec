"""What the vLLM plugin costs: per hooked call, and for a whole warm-up.

Run from the repository root: `python benchmarks/plugin.py`. Whole warm-ups are those of
the stand-in in `tests/vllm_plugin/standin` (no engine, no device: its forward passes
sleep, its garbage collections visit as many objects as in a real engine), with the
hooks off and on in turns. With `--command` a real engine's command is run in turns
instead; its line `init engine (...) took N s` is what is compared. The median of the
ratios within a round counts, and the quartiles say how much the machine was disturbed.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

from warmup_insights.recorder import Recorder
from warmup_insights.vllm_plugin import device, workers
from warmup_insights.vllm_plugin.hooks import Attachment, Hook
from warmup_insights.vllm_plugin.hpu import bridge
from warmup_insights.vllm_plugin.hpu import buckets as hpu_buckets
from warmup_insights.vllm_plugin.hpu import memory as hpu_memory
from warmup_insights.vllm_plugin.hpu import serving as hpu_serving
from warmup_insights.vllm_plugin.hpu import warmup as hpu_warmup
from warmup_insights.vllm_plugin.session import Session
from warmup_insights.vllm_plugin.settings import Settings
from warmup_insights.vllm_plugin.state import Pass

ROOT = Path(__file__).resolve().parents[1]
STANDIN = ROOT / "tests" / "vllm_plugin" / "standin"
CALLS = 20_000
BUCKETS = 50
RECIPES = 3
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
    "a worker's step that does not fail": ("execute_model", workers.step, (None,)),
    "a served step: execute_model": ("execute_model", hpu_serving.serve_step, (None,)),
    "a served step: find_decode_bucket": (
        "find_decode_bucket", hpu_buckets.find_decode_bucket, (3, 100),
    ),
    "a served step: _check_config": (
        "_check_config", hpu_serving.check_config, (4, 1, 128, None, False),
    ),
    "a bucket: one recorded step": (
        "_prepare_dummy_scenario", hpu_warmup.scenario, (None, (4, 1, 128)),
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


class NoSpool:
    """Counts what it gets and drops it."""

    count = 0

    def append(self, events):
        self.count += len(events)

    def close(self, last=()):
        pass

    def renew(self):
        pass


def cost_per_call():
    """Microseconds that watching adds to a call, by case."""
    costs = {}
    for title, (name, probe, arguments) in CASES.items():
        recorder = Recorder(NoSpool())
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
            engine="vllm", topic="t", module="m", owner="Engine", name=name, probe=probe,
            only_errors=probe is workers.step,
        )  # fmt: skip
        attachment = Attachment(hook, session, Engine)
        attachment.attach()
        watched = time_calls(getattr(engine, name), given)
        attachment.detach()
        recorder.close()
        costs[title] = (watched - plain) * 1e6
    return costs


class Warmup:
    """The calls that vllm-gaudi makes for a bucket in lazy mode, with nothing in them."""

    def __init__(self, publish):
        self.seen_configs = set()
        self.metadata = SimpleNamespace(is_prompt=False)
        self.publish = publish

    def __enter__(self):
        self.initial_device_memory = 1000
        return self

    def __exit__(self, exc_type, exc_val, exc_tb):
        self.final_device_memory = 2000

    def _use_graphs(self):
        return True

    def _check_config(
        self, batch_size, seq_len, num_blocks, attn_metadata, warmup_mode
    ):
        self.seen_configs.add(("decode", batch_size, seq_len, num_blocks))

    def _prepare_dummy_scenario(self, prompt_cfg, decode_cfg):
        self._check_config(*decode_cfg, self.metadata, True)
        self._use_graphs()
        for number in range(RECIPES):
            self.publish(None, [("duration", "1500"), ("recipe", f"graph_{number}")])

    def run(self, buckets):
        self.seen_configs.clear()
        started = time.thread_time()
        for bucket in buckets:
            with self:
                self._prepare_dummy_scenario(None, bucket)
        return time.thread_time() - started


WARMUP_PROBES = {
    "__enter__": hpu_memory.profiler_enter,
    "__exit__": hpu_memory.profiler_exit,
    "_use_graphs": hpu_warmup.use_graphs,
    "_check_config": hpu_serving.check_config,
    "_prepare_dummy_scenario": hpu_warmup.scenario,
}


def cost_of_warmup():
    """Milliseconds that the hooks and the bridge's events add to the engine's thread in
    one warm-up, and how many objects the collector visits more while it lasts.

    The least of 20 rounds each; waiting is no part of it.
    """
    buckets = [(1, 1, 8 * (number + 1)) for number in range(BUCKETS)]
    spool = NoSpool()
    recorder = Recorder(spool)
    session = session_for(recorder)
    watch = bridge._Watch(session)
    metric = SimpleNamespace(stats=lambda: [("TotalNumber", 7), ("TotalTime", 9000)])
    module = SimpleNamespace(metric_global=lambda name: metric)
    sys.modules[device._METRICS_MODULE] = module
    plain = min(Warmup(lambda *_: None).run(buckets) for _ in range(20))
    attachments = [
        Attachment(
            Hook(engine="vllm", topic="t", module="m", owner="W", name=name, probe=probe),
            session, Warmup,
        )
        for name, probe in WARMUP_PROBES.items()
    ]  # fmt: skip
    for attachment in attachments:
        attachment.attach()
    watched = []
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(20):
        places = {bucket: index for index, bucket in enumerate(buckets)}
        session.state.current = Pass("decode", None, BUCKETS, places)
        watched.append(Warmup(partial(watch.guarded, watch.compiled)).run(buckets))
    recorder.flush()
    gc.collect()
    more = len(gc.get_objects()) - before
    for attachment in attachments:
        attachment.detach()
    recorder.close()
    del sys.modules[device._METRICS_MODULE]
    return {
        "added_ms": (min(watched) - plain) * 1e3, "objects": more / 20,
        "events": spool.count // 20,
    }  # fmt: skip


def compare_standin(rounds, step_s):
    """Warm-ups of the stand-in with the hooks off and on, in turns."""
    paths = STANDIN / "v0_26", STANDIN / "base", ROOT
    with tempfile.TemporaryDirectory() as folder:
        env = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "STANDIN_STEP_S": str(step_s),
            "WARMUP_INSIGHTS_DB": str(Path(folder) / "runs.db"),
        }
        done = subprocess.run(
            [sys.executable, "-m", "standin.alternate", str(rounds)],
            env=env, cwd=folder, capture_output=True, text=True, check=True,
        )  # fmt: skip
    found = json.loads(done.stdout)
    return {
        what: ratios(*([pair[place] for pair in found[name]] for name in ("off", "on")))
        for place, what in enumerate(("clock", "processor"))
    }


def ratios(plain, watched):
    """Median seconds, and the median and quartiles of the ratio within each round."""
    pairs = [on / off for off, on in zip(plain, watched, strict=True)]
    low, middle, high = statistics.quantiles(pairs, n=4)
    return {
        "rounds": len(plain),
        "plain_s": statistics.median(plain),
        "watched_s": statistics.median(watched),
        "ratio": middle,
        "quartiles": [low, high],
    }


def run_engine(folder, records, command):
    """Seconds of initialisation that a real engine prints, and of the processor."""
    env = dict(os.environ)
    env.pop("WARMUP_INSIGHTS_DB", None)
    if records:
        env["WARMUP_INSIGHTS_DB"] = str(Path(folder) / "runs.db")
    before = children_cpu_s()
    done = subprocess.run(
        command, shell=True, env=env, capture_output=True, text=True, check=True
    )
    cpu_s = children_cpu_s() - before
    found = _INIT.search(done.stdout + done.stderr)
    if found is None:
        raise SystemExit("the command did not print `init engine (...) took N s`")
    return float(found[1]), cpu_s


def children_cpu_s():
    """Processor time of every child that has ended; the plugin's writer is none."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def compare_engine(rounds, command):
    """Starts of a real engine without and with the plugin, in turns."""
    seconds = {False: [], True: []}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            for records in (False, True):
                seconds[records].append(run_engine(folder, records, command))
    return {
        what: ratios(*([pair[place] for pair in seconds[on]] for on in (False, True)))
        for place, what in enumerate(("clock", "processor, whole command"))
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--step-s", type=float, default=0.02)
    parser.add_argument("--command", help="of a real engine, run in turn")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    result = {"added_us_per_call": cost_per_call(), "warmup": cost_of_warmup()}
    if chosen.command:
        result["engine"] = compare_engine(chosen.rounds, chosen.command)
    else:
        result["standin"] = compare_standin(chosen.rounds, chosen.step_s)
    if chosen.json:
        print(json.dumps(result, indent=2))
        return
    for title, cost in result["added_us_per_call"].items():
        print(f"{cost:8.2f} us added: {title}")
    found = result["warmup"]
    print(
        f"{found['added_ms']:8.2f} ms added: a warm-up of {BUCKETS} buckets with {RECIPES} "
        f"recipes each, {found['events']} events; {found['objects']:.1f} objects more for "
        "the collector"
    )
    for name in ("standin", "engine"):
        for what, found in result.get(name, {}).items():
            low, high = found["quartiles"]
            print(
                f"{name}, {what}: {found['plain_s']:.3f} s without, {found['watched_s']:.3f} s "
                f"with the plugin; ratio within a round {found['ratio']:.4f} (half of "
                f"the {found['rounds']} rounds between {low:.4f} and {high:.4f})"
            )


if __name__ == "__main__":
    main()
