"""Every list, range, limit and lookup that the engine itself (main) produced."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from warmup_insights.bucketing.generate import generate
from warmup_insights.bucketing.lookup import BucketTable
from warmup_insights.bucketing.settings import settings_from_mapping

REFERENCE = (
    Path(__file__).parents[2] / "../shared/reference/bucket_reference.json"
).resolve()


def _records():
    if not REFERENCE.exists():
        return [pytest.param(None, marks=pytest.mark.skip(reason="no reference file"))]
    document = json.loads(REFERENCE.read_text())
    return [
        pytest.param((record, document["bucket_file"]), id=record["case"])
        for record in document["records"]
    ]


def _settings(record, bucket_file, tmp_path):
    path = tmp_path / "buckets.txt"
    path.write_text(bucket_file)
    env = {
        name: value.replace("@FILE@", str(path))
        for name, value in record["env"].items()
    }
    return settings_from_mapping(record["inputs"], env, engine_version="main")


@pytest.mark.parametrize("case", _records())
def test_buckets_equal_the_engines(case, tmp_path):
    """Ranges, both lists and the fallback limit are equal to the last element."""
    record, bucket_file = case
    generated = generate(_settings(record, bucket_file, tmp_path))
    assert [list(bucket) for bucket in generated.prompt] == record["prompt_buckets"]
    assert [list(bucket) for bucket in generated.decode] == record["decode_buckets"]
    assert generated.fallback_max_ctx == record["fallback_max_ctx"]
    ranges = [
        [list(bounds.parameters), list(bounds.values)] for bounds in generated.ranges
    ]
    assert ranges == record["cfgs"].get("ranges", [])


@pytest.mark.parametrize("case", _records())
def test_lookups_equal_the_engines(case, tmp_path):
    """Lookups in order on one table, each miss adding its fallback bucket."""
    record, bucket_file = case
    settings = _settings(record, bucket_file, tmp_path)
    generated = generate(settings)
    table = BucketTable(settings, generated)
    for phase, shape, expected in record["lookups"]:
        assert list(table.lookup(phase, shape).bucket) == expected


@pytest.mark.parametrize("case", _records())
def test_features_equal_the_engines(case, tmp_path):
    """What follows from the environment is what the engine made of it."""
    record, bucket_file = case
    settings = _settings(record, bucket_file, tmp_path)
    effective = dict(record["effective"])
    effective.pop("defrag")
    assert effective == {
        "use_contiguous_pa": settings.use_contiguous_pa,
        "prefix_caching": settings.prefix_caching,
        "bucketing_strategy": settings.strategy,
        "merged_prefill": settings.merged_prefill,
    }
