"""What differs between versions of the engine, by facts from its own source."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.version import Version

from tests.bucketing.helpers import make_settings
from warmup_insights.bucketing.generate import generate
from warmup_insights.bucketing.lookup import BucketTable
from warmup_insights.bucketing.settings import settings_from_mapping
from warmup_insights.bucketing.versions import (
    DIFFERENCES,
    MAIN,
    NEWEST_RELEASE,
    rules_of,
    version_of_run,
)
from warmup_insights.errors import InputError, SettingError

FACTS = json.loads(Path(__file__).with_name("engine_facts.json").read_text())


def _facts_by_version():
    for name, case in FACTS["cases"].items():
        facts = None
        for version in FACTS["versions"]:
            facts = case["facts"].get(version, facts)
            yield pytest.param(version, case, facts, id=f"{name}-{version}")


@pytest.mark.parametrize(("version", "case", "facts"), list(_facts_by_version()))
def test_counts_last_buckets_and_fallbacks_are_the_engines(version, case, facts):
    """Facts are None where the engine itself fails with these settings."""
    settings = settings_from_mapping(
        case["inputs"], case["env"], engine_version=version
    )
    if facts is None:
        with pytest.raises(SettingError):
            generate(settings)
        return
    generated = generate(settings)
    table = BucketTable(settings, generated)
    fallbacks = [
        table.lookup("prompt", (3, 5000, 200)).bucket,
        table.lookup("decode", (300, 9000)).bucket,
    ]
    last = [generated.prompt[-1], generated.decode[-1], *fallbacks]
    assert facts == [
        len(generated.prompt),
        len(generated.decode),
        *[list(bucket) for bucket in last],
    ]


@pytest.mark.parametrize(
    ("version", "parameters", "count"),
    [(None, (1, 8, 64, 10), 20), ("v0.26.0", (1, 8, 64, 10), 20), (MAIN, (1, 8, 30, 6), 16)],
)  # fmt: skip
def test_only_main_ends_decode_blocks_at_three_times_the_cache(
    version, parameters, count
):
    chosen = {} if version is None else {"engine_version": version}
    limits = {**FACTS["cases"]["small cache"]["inputs"], "max_num_batched_tokens": 1024}
    generated = generate(settings_from_mapping(limits, {}, **chosen))
    assert generated.ranges[5].parameters == parameters
    assert len(generated.decode) == count


@pytest.mark.parametrize("name", DIFFERENCES)
def test_histories_are_in_the_order_of_versions(name):
    versions = [version for version, _ in DIFFERENCES[name].history]
    tags = [Version(version) for version in versions if version != MAIN]
    assert tags == sorted(set(tags))
    assert MAIN not in versions[:-1]


@pytest.mark.parametrize(
    ("version", "same_as"),
    [
        ("0.26.0", "v0.26.0"), ("v0.13.0.post1", "v0.13.0"), ("0.26.0+g091bbad", "v0.26.0"),
        ("0.19.1.dev7", "v0.19.0"), ("0.20.0", "v0.20.0rc0"), ("0.17.1rc1", "v0.17.0rc1"),
        ("0.18.0rc0", "v0.17.0rc1"), ("v0.27.0rc0+local", "v0.26.0"),
    ],
)  # fmt: skip
def test_builds_and_pre_releases_have_the_rules_of_the_tag_below(version, same_as):
    assert rules_of(version) == rules_of(same_as)


@pytest.mark.parametrize("version", ["", "abc", "0.9.1", "0.28.0", "1.0", "master"])
def test_a_version_without_known_rules_is_refused_by_name(version):
    with pytest.raises(SettingError, match="vllm-gaudi"):
        make_settings(engine_version=version)
    is_newer = version in ("0.28.0", "1.0")
    assert version_of_run("vllm-gaudi", version) == (
        MAIN if is_newer else NEWEST_RELEASE
    )


def test_a_run_of_vllm_gaudi_has_its_own_rules_and_others_those_of_the_newest():
    assert version_of_run("vllm-gaudi", "0.19.0") == "v0.19.0"
    assert version_of_run("vllm-gaudi", None) == NEWEST_RELEASE
    assert version_of_run("reference", "0.11.2") == NEWEST_RELEASE


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        (("0.27.0rc0.post51", "0.27.1"), MAIN),  # a build after the newest tag
        (("0.26.0", "0.26.1"), "v0.26.0"),
        ((None, "0.27.1"), MAIN),
        (("0.1.dev1+g0123abc", "0.19.0"), "v0.19.0"),  # a source tree without tags
    ],
)
def test_the_first_version_that_is_known_counts(versions, expected):
    assert version_of_run("vllm-gaudi", *versions) == expected


def test_a_strategy_that_a_version_lacks_is_refused():
    settings = make_settings({"VLLM_BUCKETING_STRATEGY": "pad"})
    assert generate(settings).prompt
    old = make_settings(engine_version="v0.19.0")
    assert old.strategy == "exp"
    with pytest.raises(InputError, match="no padding-aware strategy"):
        generate(replace(settings, engine_version="v0.19.0"))


@pytest.mark.parametrize("version", ["v0.10.1", "v0.13.0", "v0.19.1"])
def test_a_strategy_by_a_later_name_ends_the_start(version):
    """`features.py` of these versions takes two names, and neither chooses anything."""
    with pytest.raises(SettingError, match="'lin' ends the start"):
        make_settings({"VLLM_BUCKETING_STRATEGY": "lin"}, engine_version=version)
    named = {"VLLM_BUCKETING_STRATEGY": "linear_bucketing"}
    settings = make_settings(named, engine_version=version)
    assert settings.strategy == "exp"
    assert "has no effect" in settings.notes[0]


def test_variables_that_a_version_does_not_read_are_named():
    named = "linear_bucketing"
    env = {"VLLM_BUCKETING_STRATEGY": named, "VLLM_PROMPT_CTX_BUCKET_MAX": "4"}
    notes = generate(make_settings(env, engine_version="v0.19.0")).notes
    assert [note.split("=")[0] for note in notes] == list(env)
    early = {"VLLM_BUCKETING_FROM_FILE": "missing", "VLLM_PROMPT_QUERY_BUCKET_MAX": "4"}
    notes = generate(make_settings(early, engine_version="v0.10.1")).notes
    assert [note.split("=")[0] for note in notes] == list(early)


def test_unified_attention_is_refused_only_where_it_exists():
    env = {"VLLM_UNIFIED_ATTN": "1"}
    with pytest.raises(SettingError, match="VLLM_UNIFIED_ATTN"):
        make_settings(env, engine_version="v0.16.0")
    assert make_settings(env).use_bucketing


@pytest.mark.long
@pytest.mark.parametrize("strategy", ["true", "false"])
def test_early_settings_that_would_fill_the_memory_are_refused(strategy):
    env = {"VLLM_EXPONENTIAL_BUCKETING": strategy}
    limits = {"block_size": 1, "max_model_len": 900_000, "num_hpu_blocks": 10**9}
    with pytest.raises(SettingError):
        generate(make_settings(env, engine_version="v0.10.1", **limits))


@pytest.mark.parametrize(
    "env",
    [
        {"VLLM_DECODE_BLOCK_BUCKET_MIN": "300", "VLLM_DECODE_BLOCK_BUCKET_MAX": "300"},
        {"VLLM_DECODE_BS_BUCKET_MIN": "16", "VLLM_DECODE_BLOCK_BUCKET_MIN": "2",
         "VLLM_DECODE_BLOCK_BUCKET_STEP": "2", "VLLM_DECODE_BLOCK_BUCKET_MAX": "8"},
    ],
)  # fmt: skip
def test_the_first_scheme_starts_without_decode_buckets(env):
    """`generate_decode_buckets` of v0.10 makes an empty list; later ones end the start."""
    env |= {"VLLM_EXPONENTIAL_BUCKETING": "false"}
    settings = make_settings(env, engine_version="v0.10.1")
    generated = generate(settings)
    assert generated.decode == ()
    assert any("No decode bucket is left" in note for note in generated.notes)
    found = BucketTable(settings, generated).lookup("decode", (3, 40))
    assert (found.bucket, found.outcome) == ((4, 1, 128), "fallback")
    with pytest.raises(SettingError):
        generate(make_settings(env, engine_version="v0.13.0"))
