"""`buckets fit`: traffic in, bucket file out."""

from __future__ import annotations

import json

import pytest

from tests.analysis.builders import simulate
from tests.cli.decisions import invoke, store_run
from warmup_insights.bucketing.file import read_bucket_file
from warmup_insights.errors import InputError, SettingError
from warmup_insights.model.events import (
    BucketMiss,
    BucketUsed,
    ConfigRecorded,
    RunStarted,
)

LIMITS = (
    "--max-num-seqs=8", "--max-num-batched-tokens=1024", "--max-model-len=2048",
    "--num-kv-blocks=500",
)  # fmt: skip
SETTINGS = {
    "model": "llama-3.2-1b", "dtype": "bfloat16", "block_size": 64,
    "max_model_len": 1024, "max_num_seqs": 8, "max_num_batched_tokens": 1024,
}  # fmt: skip


@pytest.fixture(autouse=True)
def _no_engine_variables(monkeypatch):
    import os

    for name in list(os.environ):
        if name.startswith(("VLLM_", "PT_HPU_")):
            monkeypatch.delenv(name)


@pytest.fixture(scope="module")
def db(tmp_path_factory):
    path = tmp_path_factory.mktemp("fit") / "runs.db"
    _, events = simulate(SETTINGS)
    steps = [
        BucketUsed(phase="prompt", shape=(1, 17 * n, 0), bucket=(1, 1024, 0))
        for n in range(1, 20)
    ]
    steps += [
        BucketUsed(phase="decode", shape=(n, 1, 5 * n), bucket=(8, 1, 128), count=n)
        for n in range(1, 9)
    ]
    steps.append(BucketMiss(phase="decode", shape=(8, 1, 200)))
    store_run(path, "served", [*events, *steps], label="served", synthetic=True)
    store_run(path, "quiet", list(events), label="quiet", synthetic=True)
    return path


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "trace.jsonl"
    path.write_text(
        "".join(
            json.dumps({"input_len": 10 + 7 * n, "output_len": 5 + n % 40}) + "\n"
            for n in range(120)
        )
    )
    return path


def test_the_traffic_of_a_run(db):
    answer = json.loads(
        invoke(
            "buckets", "fit", "served", "--db", db, "--max-buckets", 9, "--json"
        ).stdout
    )
    fit = answer["fit"]
    assert (answer["num_prompt_steps"], answer["num_decode_steps"]) == (19, 37)
    assert fit["usage"]["num_buckets"] == 9
    assert fit["usage"]["warmup_s"] > 0
    assert max(b[2] for b in fit["buckets"]["decode"]) == 200
    names = [strategy["name"] for strategy in answer["strategies"]]
    assert names == ["exponential", "linear", "padding-aware"]


def test_a_limit_on_time_and_on_graph_memory(db):
    command = ("buckets", "fit", "served", "--db", db, "--json")
    fit = json.loads(invoke(*command, "--max-warmup", "3s").stdout)["fit"]
    assert fit["usage"]["warmup_s"] <= 3
    fit = json.loads(invoke(*command, "--max-graph-memory", "1GiB").stdout)["fit"]
    assert fit["usage"]["graph_bytes"] <= 2**30


def test_a_trace_and_a_file_with_its_purpose(trace, tmp_path):
    path = tmp_path / "buckets.txt"
    result = invoke(
        "buckets", "fit", "--trace", trace, *LIMITS, "--max-buckets", 12, "-o", path
    )
    assert result.exit_code == 0, result.exception
    text = path.read_text()
    assert f"# Buckets for the traffic of {trace}: 120 prompt" in text
    assert "# Limit: 12 buckets." in text
    assert "# The exponential strategy has" in text
    file = read_bucket_file(path)
    assert len(file.prompt) + len(file.decode) == 12
    lint = invoke("buckets", "lint", path)
    assert lint.exit_code == 0
    again = invoke("buckets", "fit", "--trace", trace, *LIMITS, "-o", path)
    assert isinstance(again.exception, InputError)


def test_the_version_whose_rules_are_used_is_named(trace, db):
    command = ("buckets", "fit", "--trace", trace, *LIMITS, "--max-buckets", 12)
    assert json.loads(invoke(*command, "--json").stdout)["engine_version"] == "v0.26.0"
    older = invoke(*command, "--engine-version", "0.19.0").stdout
    assert older.endswith("Bucketing rules of vllm-gaudi v0.19.0\n")
    of_run = invoke("buckets", "fit", "served", "--db", db)
    assert "vllm-gaudi v0.26.0 (newest release)" in of_run.stdout
    early = invoke(*command, "--engine-version", "0.10.1")
    assert isinstance(early.exception, InputError)


def test_without_buckets_there_is_nothing_to_fit(trace):
    command = ("buckets", "fit", "--trace", trace, *LIMITS)
    off = invoke(*command, "--set", "VLLM_ENABLE_BUCKETING=0")
    assert "no bucket file is read" in str(off.exception)
    one = invoke(*command, "--max-buckets", 1)
    assert "within 1 bucket;" in str(one.exception)


def test_the_table_compares_strategies(trace):
    text = invoke(
        "buckets", "fit", "--trace", trace, *LIMITS, "--max-buckets", 12
    ).stdout
    assert "this fit" in text
    assert "padding-aware" in text
    assert "up to 8 sequences at any time" in text


def test_a_saved_benchmark(tmp_path):
    path = tmp_path / "result.json"
    path.write_text(
        json.dumps({"input_lens": [40, 90, 500], "output_lens": [9, 20, 3]})
    )
    result = invoke(
        "buckets", "fit", "--benchmark", path, *LIMITS, "--max-buckets", 6, "--json"
    )
    buckets = json.loads(result.stdout)["fit"]["buckets"]["prompt"]
    assert buckets == [[1, 40, 0], [1, 90, 0], [1, 500, 0]]


def test_limits_and_steps_are_kept(trace):
    command = ("buckets", "fit", "--trace", trace, *LIMITS, "--json")
    result = invoke(
        *command, "--query-step", 128, "--cover-limits", "--max-buckets", 10
    )
    buckets = json.loads(result.stdout)["fit"]["buckets"]
    assert all(bucket[1] % 128 == 0 for bucket in buckets["prompt"])
    assert buckets["prompt"][-1] == [1, 1024, 0]
    assert buckets["decode"][-1] == [8, 1, 128]


def test_settings_of_the_run_can_be_overridden(db, trace):
    """The block size of the run is 64; the default of the option is 128."""
    command = ("buckets", "fit", "quiet", "--db", db, "--trace", trace, "--json")
    small = json.loads(invoke(*command, "--max-buckets", 9).stdout)
    large = json.loads(invoke(*command, "--max-buckets", 9, "--block-size", 128).stdout)
    blocks = [answer["fit"]["buckets"]["decode"][-1][2] for answer in (small, large)]
    assert blocks[0] > blocks[1]


def test_what_a_run_printed_as_defaults_is_no_setting_of_it(tmp_path, trace):
    """The linear strategy prints ranges that follow from the limits; `plan` leaves them out too."""
    _, events = simulate(SETTINGS)
    printed = ConfigRecorded(
        environment={"VLLM_DECODE_BLOCK_BUCKET_MAX": "16"},
        defaults=["VLLM_DECODE_BLOCK_BUCKET_MAX"],
    )
    found = []
    for name, more in (("silent", []), ("printed", [printed])):
        path = tmp_path / f"{name}.db"
        store_run(path, name, [*events, *more], label=name, synthetic=True)
        command = ("buckets", "fit", name, "--db", path, "--trace", trace, "--json")
        found.append(
            json.loads(invoke(*command, "--max-buckets", 9).stdout)["strategies"]
        )
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("arguments", "kind", "sentence"),
    [
        (["quiet"], InputError, "met no shape while serving"),
        (["--trace", "nothing.jsonl", *LIMITS], InputError, "cannot be read"),
        (["--benchmark", "nothing.json", *LIMITS], InputError, "cannot be read"),
        (["served", "--max-buckets", 1], InputError, "raise the limit"),
        (["served", "--max-warmup", "soon"], SystemExit, "2"),
        (["--trace", "TRACE", *LIMITS, "--max-warmup", "3s"], InputError, "needs a run"),
        (["--trace", "TRACE", *LIMITS[:3], "--num-kv-blocks=500", "--max-model-len=64"],
         InputError, "more than max_model_len=64"),
        (["--trace", "TRACE"], SettingError, "max_num_seqs is missing"),
    ],
)  # fmt: skip
def test_wrong_input_is_one_sentence(db, trace, arguments, kind, sentence):
    named = [str(trace) if word == "TRACE" else word for word in arguments]
    error = invoke("buckets", "fit", "--db", db, *named).exception
    assert isinstance(error, kind), error
    assert sentence in str(error)


@pytest.mark.parametrize("device", ["cuda", "rocm", "tpu"])
def test_a_run_on_a_device_without_buckets_is_refused(tmp_path, device):
    path = tmp_path / "runs.db"
    started = RunStarted(engine="vllm", device_kind=device)
    store_run(path, "aaa111", [started], label="other")
    error = invoke("buckets", "fit", "other", "--db", path).exception
    assert isinstance(error, InputError)
    assert f"aaa111 on {device} has no buckets" in str(error)


def test_bad_lines_of_a_trace_are_named(tmp_path):
    path = tmp_path / "bad.jsonl"
    path.write_text('{"input_len": 5, "output_len": 3}\n{"input_len": "x"}\n')
    error = invoke("buckets", "fit", "--trace", path, *LIMITS).exception
    assert isinstance(error, InputError)
    assert "bad.jsonl, line 2" in str(error)


def test_traffic_has_to_be_named(trace):
    assert invoke("buckets", "fit", *LIMITS).exit_code == 2
    both = ("--trace", trace, "--benchmark", trace)
    assert invoke("buckets", "fit", *LIMITS, *both).exit_code == 2


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("[" * 200_000, "recursion"),
        (
            '{"phase": "decode", "shape": [8, 100000000], "count": 999999999}',
            "too many",
        ),
    ],
)
def test_a_trace_that_cannot_be_weighed_is_one_sentence(tmp_path, line, sentence):
    path = tmp_path / "trace.jsonl"
    path.write_text(line + "\n")
    error = invoke(
        "buckets", "fit", *LIMITS, "--trace", path, "--block-weight", 1000000
    ).exception
    assert isinstance(error, InputError)
    assert sentence in str(error)


@pytest.mark.parametrize("option", ["--block-weight", "--query-step"])
def test_a_number_without_end_is_a_usage_error(trace, option):
    result = invoke("buckets", "fit", *LIMITS, "--trace", trace, option, "9" * 20)
    assert result.exit_code == 2
