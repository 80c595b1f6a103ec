"""JSON files of `vllm bench startup` and its sweep, with the keys of their source."""

from __future__ import annotations

import json

import pytest

from tests.helpers import read, summary_of
from warmup_insights.model.events import BenchmarkResult


def measured(cold, warm):
    """A result as vLLM `benchmarks/startup.py` `_metric_to_json` makes it."""
    found = {}
    for key, times in (
        ("cold_startup", cold),
        ("cold_compilation", [time / 4 for time in cold]),
        ("warm_startup", warm),
    ):
        found[f"avg_{key}_time"] = sum(times) / len(times)
        found[f"{key}_times"] = times
        found[f"{key}_percentiles"] = {"50": times[0], "99": times[-1]}
    return found


def results_in(found) -> list[BenchmarkResult]:
    runs, report = read(json.dumps(found, indent=4), "startup.json")
    assert not report.problems
    (events,) = runs.values()
    return [event for event in events if isinstance(event, BenchmarkResult)]


def test_a_result_keeps_its_figures():
    (result,) = results_in(measured([61.5, 63.5], [20.25, 21.75]))
    assert result.values["avg_cold_startup_time"] == 62.5
    assert result.values["avg_warm_startup_time"] == 21.0
    assert result.values["cold_startup_times"] == [61.5, 63.5]
    assert result.values["cold_startup_percentiles"] == {"50": 61.5, "99": 63.5}


def test_a_sweep_has_a_result_for_each_run():
    both = [measured([61.5], [20.0]), measured([44.5], [19.0])]
    found = results_in([{**each, "run_number": n} for n, each in enumerate(both)])
    assert [each.values["avg_cold_startup_time"] for each in found] == [61.5, 44.5]
    assert [each.values["run_number"] for each in found] == [0, 1]


def test_the_table_of_a_sweep_has_a_result_for_each_row():
    pandas = pytest.importorskip("pandas")
    both = [
        {**measured([61.5, 62.5], [20.0]), "run_number": 0, "model": "a,b"},
        {**measured([44.5], [19.0]), "run_number": 1, "max_model_len": 4096},
    ]
    text = pandas.DataFrame.from_records(both).to_csv()
    runs, report = read(text.encode(), "summary.csv")
    assert not report.problems
    (events,) = runs.values()
    found = [e.values for e in events if isinstance(e, BenchmarkResult)]
    assert [each["avg_cold_startup_time"] for each in found] == [62.0, 44.5]
    assert found[0]["cold_startup_times"] == [61.5, 62.5]
    assert found[0]["cold_startup_percentiles"] == {"50": 61.5, "99": 62.5}
    assert found[0]["model"] == "a,b"
    assert "max_model_len" not in found[0]
    assert found[1]["max_model_len"] == 4096


def test_a_damaged_table_is_read_as_far_as_it_goes():
    text = ",avg_cold_startup_time,cold_startup_times\n0,61.5,[61.5\n1,,\n2"
    runs, _ = read(text.encode(), "summary.csv")
    found = [e.values for e in runs[0] if isinstance(e, BenchmarkResult)]
    assert found == [{"avg_cold_startup_time": 61.5, "cold_startup_times": "[61.5"}]


@pytest.mark.parametrize(
    "text", ["[]", "{}", '{"avg_cold_startup_time": ', '[{"a": 1}]']
)
def test_other_json_is_no_result(text):
    runs, _ = read(text, "startup.json")
    assert not any(isinstance(e, BenchmarkResult) for run in runs.values() for e in run)


def test_the_summary_has_the_benchmark():
    text = json.dumps(measured([61.5], [20.0]))
    runs, _ = read(text, "startup.json")
    (events,) = runs.values()
    (found,) = summary_of(events)["benchmarks"]
    assert found["avg_cold_startup_time"] == 61.5
