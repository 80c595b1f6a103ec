"""The points of a sweep: grids, aliases, labels, what makes a sweep the same one."""

from __future__ import annotations

import pytest

from warmup_insights.analysis.sweep import make_experiment, setting_name, time_left_s
from warmup_insights.errors import SettingError


def experiment(grid=None, points=(), name=None, base=(), engine="reference"):
    return make_experiment(name, grid or {}, points, engine=engine, base=base)


def test_a_grid_is_every_combination_the_last_setting_fastest():
    made = experiment(
        {"gpu_memory_utilization": ["0.5", "0.9"], "prompt_ratio": ["0.3", "0.5"]}
    )
    assert [point.text for point in made.points] == [
        "gpu_memory_utilization=0.5 VLLM_GRAPH_PROMPT_RATIO=0.3",
        "gpu_memory_utilization=0.5 VLLM_GRAPH_PROMPT_RATIO=0.5",
        "gpu_memory_utilization=0.9 VLLM_GRAPH_PROMPT_RATIO=0.3",
        "gpu_memory_utilization=0.9 VLLM_GRAPH_PROMPT_RATIO=0.5",
    ]


def test_single_points_join_the_grid_once():
    made = experiment(
        {"max_num_seqs": ["8"]}, [{"max_num_seqs": "8"}, {"max_num_seqs": "9"}]
    )
    assert [point.text for point in made.points] == ["max_num_seqs=8", "max_num_seqs=9"]


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("--graph-reserved-mem", "VLLM_GRAPH_RESERVED_MEM"),
        ("bucketing_strategy", "VLLM_BUCKETING_STRATEGY"),
        ("VLLM_DECODE_BS_BUCKET_MAX", "VLLM_DECODE_BS_BUCKET_MAX"),
        ("max-num-seqs", "max_num_seqs"),
    ],
)
def test_settings_have_one_name(given, name):
    assert setting_name(given) == name


@pytest.mark.parametrize("name", ["", "9lives", "; rm -rf", "LD_PRELOAD", "a" * 99])
def test_what_is_no_setting_is_refused(name):
    with pytest.raises(SettingError, match="is no setting"):
        setting_name(name)


def test_the_same_command_is_the_same_sweep():
    """More values continue a sweep; another base or engine starts another one."""
    first = experiment({"max_num_seqs": ["8"]}, base=("--device", "cpu"))
    more = experiment({"max_num_seqs": ["8", "9"]}, base=("--device", "cpu"))
    other = experiment({"max_num_seqs": ["8"]}, base=("--device", "hpu"))
    real = experiment({"max_num_seqs": ["8"]}, base=("--device", "cpu"), engine="vllm")
    assert first.name == more.name
    assert len({first.name, other.name, real.name}) == 3
    assert len({first.note, other.note, real.note}) == 3
    assert first.label(first.points[0]) == f"{first.name}: max_num_seqs=8"


def test_an_empty_grid_is_refused():
    with pytest.raises(SettingError, match="nothing to sweep"):
        experiment()
    with pytest.raises(SettingError, match="max_num_seqs has no value"):
        experiment({"max_num_seqs": []})


def test_a_huge_grid_is_refused_before_it_is_made():
    values = [str(n) for n in range(1000)]
    with pytest.raises(SettingError, match="1000000000 combinations"):
        experiment(
            {"max_num_seqs": values, "block_size": values, "max_model_len": values}
        )


def test_time_left_is_the_mean_of_what_is_done():
    assert time_left_s([2.0, 4.0], 5) == 15.0
    assert time_left_s([], 5) is None
