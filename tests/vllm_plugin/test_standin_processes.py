"""Several processes: the engine in its own, one worker per rank, spawned or forked."""

from __future__ import annotations

import pytest

from tests.vllm_plugin.running import executions, run_standin
from warmup_insights.storage.store import EventStore

pytestmark = pytest.mark.long


@pytest.fixture(scope="module", params=["spawn", "fork"])
def two_ranks(request, tmp_path_factory):
    return run_standin(
        "v0_26",
        tmp_path_factory.mktemp(request.param),
        VLLM_ENABLE_V1_MULTIPROCESSING="1",
        VLLM_WORKER_MULTIPROC_METHOD=request.param,
        STANDIN_TP="2",
    )


def test_all_processes_write_one_run(two_ranks):
    assert two_ranks.exit_code == 0
    (run,) = two_ranks.runs()
    assert run.status == "finished"
    assert run.model == "standin/tiny"


def test_both_ranks_record_the_whole_warmup(two_ranks):
    for kind in ("warmup_step", "sampler_step", "buckets_generated", "bucket_miss"):
        first, second = (two_ranks.counts(rank=rank)[kind] for rank in (0, 1))
        assert first == second > 0, kind
    steps = two_ranks.steps()
    assert {step.rank for step in steps} == {0, 1}
    assert {s.bucket for s in steps if s.rank == 0} == {
        s.bucket for s in steps if s.rank == 1
    }


def test_what_happens_once_is_recorded_once(two_ranks):
    counts = two_ranks.counts()
    for kind in ("run_started", "run_finished", "server_ready", "engine_initialized"):
        assert counts[kind] == 1, kind
    (started,) = two_ranks.events("run_started")
    assert started.time == min(event.time for event in two_ranks.events())


def test_nothing_is_lost_to_a_file_beside_the_database(two_ranks):
    assert list(two_ranks.database.parent.glob("*.jsonl")) == []
    notes = [note.topic for note in two_ranks.events("note")]
    assert [topic for topic in notes if not topic.startswith("bridge_")] == []


def test_the_configuration_names_every_variable_that_matters(two_ranks):
    (config,) = [e for e in two_ranks.events("config_recorded") if e.environment]
    assert config.environment["VLLM_ENABLE_V1_MULTIPROCESSING"] == "1"
    assert config.environment["WARMUP_INSIGHTS_SYNTHETIC"] == "1"
    assert "PYTHONPATH" not in config.environment


def test_ranks_of_later_engines_follow_those_of_earlier_ones():
    from tests.vllm_plugin.standin_config import config_of
    from warmup_insights.vllm_plugin.facts import rank_of

    assert rank_of(config_of(world_size=4, data_parallel_rank=2), 1) == 9
    assert rank_of(config_of(world_size=1, data_parallel_rank=0), 0) == 0
    assert rank_of(config_of(world_size=1, data_parallel_rank=0), None) is None


@pytest.mark.postgres
def test_two_ranks_write_into_postgres(postgres_url, tmp_path):
    ran = run_standin(
        "v0_26",
        tmp_path,
        drained=True,
        WARMUP_INSIGHTS_DB=postgres_url,
        VLLM_ENABLE_V1_MULTIPROCESSING="1",
        STANDIN_TP="2",
    )
    assert ran.exit_code == 0
    assert list(tmp_path.iterdir()) == []
    with EventStore(postgres_url) as store:
        (run,) = store.runs()
        steps = executions(store.events(run.run_id))
    assert run.status == "finished"
    assert sorted({step.rank for step in steps}) == [0, 1]
    assert len(steps) == 62
