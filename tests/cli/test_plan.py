"""`plan` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.analysis.builders import SEED_LOG, start_up
from tests.cli.decisions import invoke, simulated_run, store_run
from warmup_insights.errors import InputError, SettingError
from warmup_insights.model.events import BucketUsed


@pytest.fixture(scope="module")
def db(tmp_path_factory):
    path = tmp_path_factory.mktemp("plan") / "runs.db"
    simulated_run(path, "aaa111", "base")
    simulated_run(path, "ddd444", "three", bucket_dimensions=3)
    store_run(path, "ccc333", start_up(), label="poor")
    assert invoke("ingest", SEED_LOG, "--db", path, "--label", "seed").exit_code == 0
    return path


def plan_json(*arguments):
    result = invoke("plan", *arguments, "--json")
    assert result.exit_code == 0, result.exception
    return json.loads(result.stdout)


def test_the_log_of_the_documentation_under_other_settings(db):
    """What a prompt ratio of 0.5, and a reserve of 0.2 or 0.6 would give."""
    ratio = plan_json("seed", "--db", db, "--graph-prompt-ratio", "0.5")["plans"][0]
    assert ratio["phases"]["prompt"]["captured"] == 15
    assert ratio["self_check"] is True
    plans = plan_json("seed", "--db", db, "--graph-reserved-mem", "0.2,0.6")["plans"]
    assert [plan["num_kv_blocks"] for plan in plans] == [2026, 1013]
    assert [plan["phases"]["prompt"]["captured"] for plan in plans] == [10, 18]


def test_one_plan_is_printed_with_its_confidence(db):
    text = invoke("plan", "seed", "--db", db, "--graph-reserved-mem", "0.6").stdout
    assert "1,013 (1,012 to 1,013)" in text
    assert "(4, 384), (2, 768), (2, 896)" in text
    assert "the same replay gives the graphs that the run captured" in text
    assert "A KV block is taken to be 16 MiB" in text


def test_several_values_are_combined(db):
    command = ("base", "--db", db, "--gpu-memory-utilization", "0.5,0.7",
               "--graph-reserved-mem", "0.1,0.4")  # fmt: skip
    assert len(plan_json(*command)["plans"]) == 4
    table = invoke("plan", *command).stdout
    assert table.count(" fits") == 4


def test_without_settings_it_recommends(db):
    answer = plan_json("base", "--db", db)["recommendation"]
    both = answer["both"]
    assert both["settings"]["VLLM_GRAPH_RESERVED_MEM"] == 0.62
    assert both["settings"]["gpu_memory_utilization"] == 0.94
    assert both["captured_percent"] == 100.0
    text = invoke("plan", "base", "--db", db, "--margin", "4GiB").stdout
    assert "Margin required: 4 GiB" in text
    assert "The run is synthetic" in text


def test_the_order_of_capture_can_be_listed(db):
    text = invoke("plan", "base", "--db", db, "--order").stdout
    rows = text.split("Order of capture")[1].splitlines()[2:65]
    assert rows[0].split()[:2] == ["1", "prompt"]
    assert len([row for row in rows if "measured" in row]) == 63


def test_graphs_that_are_used_can_be_wanted_alone(db):
    from warmup_insights.storage import EventStore

    with EventStore(db) as store, store.begin() as transaction:
        transaction.append(
            "aaa111", [BucketUsed(phase="prompt", shape=(1, 100), bucket=(1, 128))]
        )
    used = plan_json("base", "--db", db, "--wanted", "used")["recommendation"]
    everything = plan_json("base", "--db", db)["recommendation"]
    reserves = [
        answer["both"]["settings"]["VLLM_GRAPH_RESERVED_MEM"]
        for answer in (used, everything)
    ]
    assert reserves[0] < 0.1 < reserves[1]


@pytest.mark.parametrize(
    ("arguments", "kind", "sentence"),
    [
        (
            ["poor", "--graph-prompt-ratio", "0.5"],
            InputError,
            "what its prompt graphs took",
        ),
        (
            ["no-such-run", "--set", "X"],
            SettingError,
            "--set 'X' cannot be used; write NAME=VALUE",
        ),
        (
            ["no-such-run", "--set", "VLLM_BUCKETING_STRATEGY=quadratic"],
            SettingError,
            "'quadratic' is unknown; use exp, lin or pad",
        ),
        (
            ["no-such-run", "--set", "VLLM_PROMPT_BS_BUCKET_MAX=many"],
            SettingError,
            "VLLM_PROMPT_BS_BUCKET_MAX='many'",
        ),
        (
            ["no-such-run", "--set", "VLLM_GRAPH_RESERVED_MEM=0.2"],
            SettingError,
            "VLLM_GRAPH_RESERVED_MEM; use --graph-reserved-mem instead",
        ),
        (
            ["no-such-run", "--set", "VLLM_SKIP_WARMUP=true"],
            SettingError,
            "No bucket follows from VLLM_SKIP_WARMUP; leave it out",
        ),
        (
            ["base", "--set", "VLLM_BUCKETING_STRATEGY=lin"],
            InputError,
            "two dimensions",
        ),
        (["base", "--margin", "900GiB"], SettingError, "choose a smaller one"),
        (["base", "--margin", "-1GiB"], SettingError, "choose 0 or more"),
        (["seed", "--wanted", "used"], InputError, "used no bucket while serving"),
        (
            ["base", "--graph-prompt-ratio", ",".join(["0.5"] * 1001)],
            SettingError,
            "1001",
        ),
    ],
)
def test_wrong_input_is_one_sentence(db, arguments, kind, sentence):
    error = invoke("plan", "--db", db, *arguments).exception
    assert isinstance(error, kind)
    assert sentence in str(error)


def test_a_margin_that_is_no_size_is_a_usage_error(db):
    assert invoke("plan", "base", "--db", db, "--margin", "much").exit_code == 2


@pytest.mark.parametrize("share", ["2", "x", "-0.1", "nan", ""])
def test_what_is_no_share_is_a_usage_error(db, share):
    result = invoke("plan", "base", "--db", db, "--graph-reserved-mem", share)
    assert result.exit_code == 2


def test_of_a_run_without_graph_costs_the_cache_is_planned(db):
    log = SEED_LOG.parents[1] / "vllm" / "made_v1_2026_tp2.log"
    plans = plan_json(log)["plans"]
    assert {plan["rule"] for plan in plans} == {"memory only"}
    table = invoke("plan", log).stdout
    assert "as in the run" in table
    assert isinstance(
        invoke("plan", log, "--graph-prompt-ratio", "0.5").exception, InputError
    )


@pytest.mark.parametrize("number", ["nan", "inf"])
def test_a_tolerance_is_a_number(db, number):
    assert invoke("plan", "base", "--db", db, "--tolerance", number).exit_code == 2


@pytest.mark.parametrize("size", ["0", "-1GiB", "2GiB"])
def test_a_device_holds_its_kv_cache(size):
    log = SEED_LOG.parents[1] / "vllm" / "made_v1_2026_tp2.log"
    error = invoke("plan", log, "--device-memory", size).exception
    assert isinstance(error, SettingError)
    assert "does not hold the KV cache" in str(error)


def test_a_limit_is_no_larger_than_any_engine_could_have(db):
    number = "9" * 20
    error = invoke("plan", "seed", "--db", db, "--max-num-seqs", number).exception
    assert isinstance(error, SettingError | InputError)


@pytest.mark.parametrize("option", ["--margin", "--device-memory"])
def test_a_size_has_a_unit(option):
    log = SEED_LOG.parents[1] / "vllm" / "made_v1_2026_tp2.log"
    found = invoke("plan", log, option, "80")
    assert found.exit_code == 2
    assert "80GiB" in found.stderr


def test_a_reserve_changes_nothing_where_the_engine_has_none():
    log = SEED_LOG.parents[1] / "vllm" / "made_v1_2026_tp2.log"
    text = invoke("plan", log, "--graph-reserved-mem", "0.2").stdout
    assert "VLLM_GRAPH_RESERVED_MEM changes nothing here" in text


def test_another_block_size_is_planned_beside_the_run_without_graphs(db):
    made = plan_json("three", "--db", db, "--block-size", 256)["plans"]
    own, other = made
    assert (own["is_own"], other["is_own"]) == (True, False)
    assert own["settings"]["block_size"] == 128
    assert 2 * other["num_kv_blocks"] in range(
        own["num_kv_blocks"] - 1, own["num_kv_blocks"] + 1
    )
    assert set(other["buckets"]) == {"prompt", "decode"}
    assert other["graph_memory_bytes"] is None
    text = invoke("plan", "three", "--db", db, "--block-size", 256).output
    assert "prompt buckets" in text
    assert "reserve" not in text.splitlines()[1]  # only settings that differ
    refused = invoke(
        "plan", "three", "--db", db, "--block-size", 256, "--graph-prompt-ratio", 0.5
    )
    assert refused.exit_code == 2
    assert "unknown" in refused.output


def test_more_tokens_of_a_step_change_buckets(db):
    few, many = (
        plan_json("three", "--db", db, "--max-num-batched-tokens", tokens)["plans"][0]
        for tokens in (1024, 8192)
    )
    assert few["phases"]["prompt"]["generated"] < many["phases"]["prompt"]["generated"]


def test_on_a_gpu_the_number_of_requests_is_planned_and_buckets_are_refused():
    log = Path(__file__).parents[1] / "vllm_plugin" / "h200" / "runner_v2.log"
    done = invoke("plan", log, "--max-num-seqs", "128", "--json")
    own, planned = json.loads(done.stdout)["plans"]
    assert own["settings"]["max_num_seqs"] == 64
    assert planned["settings"]["max_num_seqs"] == 128
    assert planned["kv_cache_tokens"] is None
    for refused in (
        ["--set", "VLLM_BUCKETING_STRATEGY=lin"],
        ["--engine-version", "main"],
    ):
        done = invoke("plan", log, *refused)
        assert done.exit_code == 1
        assert "vLLM on cuda, which warms up no buckets" in str(done.exception)
