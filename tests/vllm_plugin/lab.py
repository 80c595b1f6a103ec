"""By hand: the real vLLM with vllm-gaudi, started in many ways, with and without the plugin.

    python -m tests.vllm_plugin.lab --python ENV/bin/python --model FOLDER [--stub FOLDER]

`ENV` has vLLM, vllm-gaudi and this project; `FOLDER` has the `config.json` of a small
model (its weights are made up). Each start is read three times: recorded by the plugin,
from its own log, and repeated without the plugin. What has to agree is in
`lab_checks.py`; the exit status is 1 when something did not. `--promises` compares what
`plan` and `buckets fit` predict from one start with the start that was predicted, see
`lab_promises.py`. `--result docs/lab.json` stores the results, from which
`docs/make_lab.py` writes the tables of the documentation.

Without a Gaudi, `--stub` names a folder with a stand-in for `habana_frameworks`. Then
memory, graphs and compilation are simulated, and the runs are recorded as synthetic.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from tests.vllm_plugin.lab_checks import Seen, checks_of, read_log, read_recorded

HERE = Path(__file__).parent
LIMITS = {
    "max_model_len": 1024,
    "max_num_seqs": 4,
    "max_num_batched_tokens": 1024,
    "num_gpu_blocks_override": 64,
    "gpu_memory_utilization": 0.02,
    "enable_prefix_caching": False,
    "async_scheduling": False,
}
ENVIRONMENT = {
    "PT_HPU_LAZY_MODE": "1",
    "VLLM_DEVELOPER_MODE": "1",  # otherwise the log does not name the buckets
    "VLLM_DEBUG": "fwd",  # otherwise it does not name the passes
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}
_HIDDEN = ("VLLM_", "WARMUP_INSIGHTS_", "PYTHONPATH", "PYTHONHOME")


@dataclass(frozen=True)
class Case:
    """One way to start."""

    environment: dict[str, str] = field(default_factory=dict)
    engine: dict[str, int] = field(default_factory=dict)
    bucket_file: str = ""
    """Text of the file of `VLLM_BUCKETING_FROM_FILE`."""
    freezes: bool = True
    """Whether the garbage collector leaves what was imported alone, so that a warm-up
    takes seconds instead of a minute."""
    fails: bool = False

    @property
    def batches(self):
        """Requests, in lists that are handed over at once.

        An engine core in a process of its own begins when the first request arrives,
        so what runs together depends on the clock: there it gets one at a time.
        """
        chosen = random.Random(1)
        requests = [
            (chosen.randrange(20, 700), chosen.randrange(2, 120)) for _ in range(24)
        ]
        if "VLLM_ENABLE_V1_MULTIPROCESSING" in self.environment:
            return [[request] for request in requests]
        return [requests]


NARROW = {
    "VLLM_BUCKETING_STRATEGY": "lin",
    "VLLM_PROMPT_QUERY_BUCKET_MIN": "128",
    "VLLM_PROMPT_QUERY_BUCKET_MAX": "384",
    "VLLM_PROMPT_CTX_BUCKET_MAX": "0",
    "VLLM_DECODE_BLOCK_BUCKET_MAX": "8",
}
BUCKET_FILE = """\
(1, 256, 0)
(1, 512, 0)
(1, 1024, 0)
(1, 256, [0, 2, 4])
(4, 1, [8, 16])
(2, 1, 8)
(1, 1, [2, 4, 8])
"""
CASES = {
    "exponential strategy": Case(),
    "collector not frozen": Case(freezes=False),
    "linear strategy, narrow ranges": Case(NARROW),
    "padding-aware strategy": Case(
        # The engine refuses this strategy together with slices of attention.
        {"VLLM_BUCKETING_STRATEGY": "pad", "VLLM_HPU_FSDPA_SLICE_ENABLED": "false"}
    ),
    "bucket file": Case(bucket_file=BUCKET_FILE),
    "contiguous attention, defragmenter": Case(
        {
            "VLLM_CONTIGUOUS_PA": "true",
            "VLLM_DEFRAG_THRESHOLD": "1",
            "VLLM_DEBUG": "defrag,fwd",  # otherwise the log does not name the moves
        }
    ),
    "up to 4 requests in a prefill batch": Case(
        {"VLLM_PROMPT_BS_BUCKET_MAX": "4"}, {"max_num_batched_tokens": 2048}
    ),
    "prompts in chunks, prefix caching": Case(
        {}, {"max_num_batched_tokens": 256, "enable_prefix_caching": True}
    ),
    "asynchronous scheduling": Case(NARROW, {"async_scheduling": True}),
    "warm-up skipped": Case({"VLLM_SKIP_WARMUP": "true"}),
    "out of memory at the 12th graph": Case({"HPU_SIM_OOM_AT_GRAPH": "12"}, fails=True),
    # Nothing is frozen in a process of its own: with few buckets it takes minutes less.
    "engine core in its own process": Case(
        {**NARROW, "VLLM_ENABLE_V1_MULTIPROCESSING": "1"}
    ),
    "two ranks": Case(
        {**NARROW, "VLLM_ENABLE_V1_MULTIPROCESSING": "1"}, {"tensor_parallel_size": 2}
    ),
}


def run_program(chosen, program, asked, case, log, *, records):
    """Run a program in the environment of the engine: its exit status."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(_HIDDEN)}
    environ = {**kept, **ENVIRONMENT, **case.environment}
    if chosen.stub:
        environ["PYTHONPATH"] = str(chosen.stub.resolve())
    if case.bucket_file:
        path = log.with_suffix(".buckets.txt")
        path.write_text(case.bucket_file, encoding="utf-8")
        environ["VLLM_BUCKETING_FROM_FILE"] = str(path)
    if records:
        environ["WARMUP_INSIGHTS_DB"] = str(log.with_suffix(".db"))
        environ["WARMUP_INSIGHTS_SYNTHETIC"] = "1" if chosen.stub else ""
    engine = {"model": str(chosen.model), **LIMITS, **case.engine}
    engine = {name: value for name, value in engine.items() if value is not None}
    asked = {"engine": engine, "freezes": case.freezes, **asked}
    with log.open("wb") as stream:
        done = subprocess.run(
            [chosen.python, program, json.dumps(asked)],
            env=environ, cwd=log.parent, stdout=stream, stderr=subprocess.STDOUT,
            check=False,
        )  # fmt: skip
    if bool(done.returncode) != case.fails:
        raise SystemExit(f"the engine ended with {done.returncode}: see {log}")
    return done.returncode


def run_engine(chosen, case, folder, *, records):
    """Start the engine and let it generate: its result; the log is in the folder."""
    log = folder / ("recorded.log" if records else "plain.log")
    result = log.with_suffix(".json")
    asked = {"batches": case.batches, "result": str(result)}
    status = run_program(
        chosen, HERE / "lab_engine.py", asked, case, log, records=records
    )
    if case.fails:
        result.write_text('{"tokens": []}', encoding="utf-8")
    seen = {**json.loads(result.read_text(encoding="utf-8")), "status": status}
    result.write_text(json.dumps(seen), encoding="utf-8")
    return seen


def compare_times(chosen, folder):
    """Warm-ups with the hooks off and on, in turns, in one process."""
    folder.mkdir(parents=True)
    log = folder / "alternate.log"
    asked = {"rounds": chosen.rounds, "result": str(log.with_suffix(".json"))}
    run_program(
        chosen,
        HERE / "lab_alternate.py",
        asked,
        CASES["exponential strategy"],
        log,
        records=True,
    )
    rows = json.loads(log.with_suffix(".json").read_text(encoding="utf-8"))
    for place, what in ((1, "clock"), (2, "processor")):
        off, on = ([row[place] for row in rows if row[0] == is_on] for is_on in (0, 1))
        pairs = sorted(watched / plain for plain, watched in zip(off, on, strict=True))
        print(
            f"{what}: {statistics.median(off):.3f} s with the hooks off, "
            f"{statistics.median(on):.3f} s on; median ratio of {len(pairs)} pairs "
            f"{statistics.median(pairs):.4f} ({pairs[0]:.4f} to {pairs[-1]:.4f})"
        )
    watched = [row for row in rows if row[0]]
    shares = [own / total for _, _, total, own, _ in watched]
    print(
        f"of it in the plugin: {1000 * statistics.median(r[3] for r in watched):.1f} ms, "
        f"{statistics.median(shares):.2%} (at most {max(shares):.2%}); and in its own "
        f"thread {1000 * statistics.median(r[4] for r in watched):.1f} ms"
    )


def examine(chosen, name, folder):
    """Title of each check of one case to its verdict."""
    case = CASES[name]
    if not chosen.again:
        folder.mkdir(parents=True)
        run_engine(chosen, case, folder, records=False)
        run_engine(chosen, case, folder, records=True)
    plain, watched = (
        {"status": 0, **json.loads((folder / file).read_text(encoding="utf-8"))}
        for file in ("plain.json", "recorded.json")
    )
    parsed = folder / "parsed.db"
    parsed.unlink(missing_ok=True)
    seen = Seen(
        log=read_log(folder / "recorded.log", parsed),
        recorded=read_recorded(folder / "recorded.db"),
        text=(folder / "recorded.log").read_text(encoding="utf-8", errors="replace"),
        watched=watched,
        plain=plain,
        skips="VLLM_SKIP_WARMUP" in case.environment,
        defragments="VLLM_DEFRAG_THRESHOLD" in case.environment,
        num_ranks=case.engine.get("tensor_parallel_size", 1),
        fails=case.fails,
    )
    return {title: check(seen) for title, check in checks_of(seen).items()}


def print_case(name, verdicts):
    print(name)
    for title, verdict in verdicts.items():
        print(f"  {'ok  ' if verdict.holds else 'FAIL'} {title}: {verdict.text}")
    sys.stdout.flush()


def versions_of(python):
    """Name and version of what the environment has."""
    names = ("vllm", "vllm_gaudi", "torch")
    program = (
        "import sys; from importlib.metadata import version; "
        "print(*map(version, sys.argv[1:]))"
    )
    done = subprocess.run(
        [python, "-c", program, *names], capture_output=True, text=True, check=True
    )
    return dict(zip(names, done.stdout.split(), strict=True))


def store(chosen, part, rows):
    """Put rows into the file of results, under the versions of the engine."""
    if not chosen.result:
        return
    results = []
    if chosen.result.exists():
        results = json.loads(chosen.result.read_text(encoding="utf-8"))
    found = {**versions_of(chosen.python), "simulated": bool(chosen.stub)}
    mine = next((r for r in results if r["engine"] == found), None)
    if mine is None:
        mine = {"engine": found}
        results.append(mine)
    mine["date"] = datetime.now(timezone.utc).date().isoformat()
    mine[part] = {**mine.get(part, {}), **rows}
    text = json.dumps(results, indent=1, ensure_ascii=False)
    chosen.result.write_text(text + "\n", encoding="utf-8")


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", type=Path, required=True, help="of the engine")
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--stub", type=Path, help="where there is no Gaudi")
    parser.add_argument("--keep", type=Path, help="a new folder for logs and databases")
    parser.add_argument(
        "--again", action="store_true", help="check what `--keep` kept, start nothing"
    )
    parser.add_argument("--result", type=Path, help="a file of results to add to")
    parser.add_argument("--promises", action="store_true", help="plan and fit instead")
    parser.add_argument(
        "--rounds", type=int, help="instead: time so many warm-ups without and with it"
    )
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    chosen = parser.parse_args()
    chosen.model = chosen.model.resolve()
    unknown = [name for name in chosen.cases if name not in CASES]
    if unknown and not chosen.promises:
        parser.error(f"no such case: {unknown[0]!r}; there are {', '.join(CASES)}")
    return chosen


def main():
    chosen = arguments()
    with tempfile.TemporaryDirectory() as made:
        folder = (chosen.keep or Path(made) / "lab").resolve()
        if chosen.rounds:
            compare_times(chosen, folder)
            return
        if chosen.promises:
            from tests.vllm_plugin.lab_promises import keep_promises

            raise SystemExit(not keep_promises(chosen, folder))
        has_failed = False
        for name in chosen.cases or CASES:
            verdicts = examine(chosen, name, folder / name.replace(" ", "_"))
            print_case(name, verdicts)
            rows = {title: asdict(verdict) for title, verdict in verdicts.items()}
            store(chosen, "starts", {name: rows})
            has_failed |= not all(verdict.holds for verdict in verdicts.values())
    raise SystemExit(has_failed)


if __name__ == "__main__":
    main()
