"""The range parameters that each strategy derives, computed by hand."""

from __future__ import annotations

import pytest

from tests.bucketing.helpers import make_settings
from warmup_insights.bucketing.generate import STRATEGIES, generate
from warmup_insights.bucketing.settings import BucketingSettings, SlidingWindow

MERGED = {"VLLM_MERGED_PREFILL": "true"}
CONTIGUOUS = {"VLLM_CONTIGUOUS_PA": "true"}
ODD = {
    "max_model_len": 4100,
    "max_num_batched_tokens": 2050,
    "max_num_seqs": 15,
    "max_num_prefill_seqs": 5,
}


def parameters(strategy, phase, env=None, **inputs):
    settings = make_settings(env, **{"max_num_prefill_seqs": 4, **inputs})
    derive = getattr(STRATEGIES[strategy], phase)
    return derive(settings)[:3]


@pytest.mark.parametrize(
    ("strategy", "env", "inputs", "expected"),
    [
        ("lin", {}, {}, [(1, 1, 4), (128, 128, 2048), (0, 1, 31)]),
        ("lin", {}, ODD, [(1, 1, 5), (128, 128, 2050), (0, 1, 31)]),
        ("lin", MERGED, {}, [(1, 1, 1), (128, 512, 2048), (0, 4, 124)]),
        (
            "pad",
            {},
            {},
            [(1, 1, 4, 1, 25), (128, 128, 2048, 512, 25), (0, 2, 31, 16, 25)],
        ),
        (
            "pad",
            {},
            ODD,
            [(1, 1, 5, 2, 25), (128, 128, 2050, 513, 25), (0, 2, 32, 17, 25)],
        ),
        (
            "pad",
            MERGED,
            {},
            [(1, 1, 1, 1, 25), (128, 512, 2048, 512, 25), (0, 4, 124, 16, 25)],
        ),
        ("exp", {}, {}, [(1, 2, 4, 3), (128, 128, 2048, 11), (0, 1, 31, 6)]),
        ("exp", {}, ODD, [(1, 2, 5, 4), (128, 128, 2050, 12), (0, 1, 31, 6)]),
        ("exp", MERGED, {}, [(1, 1, 1, 1), (128, 512, 2048, 11), (0, 4, 124, 6)]),
        # A query length of 1 leaves one block more for the context.
        (
            "exp",
            {"VLLM_PROMPT_QUERY_BUCKET_MIN": "1"},
            ODD,
            [(1, 2, 5, 4), (1, 128, 2050, 12), (0, 1, 32, 6)],
        ),
        (
            "exp",
            {"VLLM_PROMPT_QUERY_BUCKET_MIN": "2"},
            ODD,
            [(1, 2, 5, 4), (128, 128, 2050, 12), (0, 1, 31, 6)],
        ),
        # From 8192 on, a whole token budget is kept free.
        (
            "exp",
            {},
            {"max_model_len": 8191},
            [(1, 2, 4, 3), (128, 128, 2048, 11), (0, 1, 62, 7)],
        ),
        (
            "exp",
            {},
            {"max_model_len": 8192},
            [(1, 2, 4, 3), (128, 128, 2048, 11), (0, 1, 48, 7)],
        ),
        (
            "exp",
            {},
            {"max_model_len": 128},
            [(1, 2, 4, 3), (128, 128, 2048, 11), (0, 1, 1, 2)],
        ),
    ],
)
def test_prompt_parameters(strategy, env, inputs, expected):
    assert list(parameters(strategy, "prompt", env, **inputs)) == expected


@pytest.mark.parametrize(
    ("strategy", "env", "inputs", "expected"),
    [
        ("lin", {}, {}, [(1, 32, 16), (1, 1, 1), (1, 128, 512)]),
        ("lin", {}, ODD, [(1, 32, 15), (1, 1, 1), (1, 128, 480)]),
        ("lin", {}, {"max_model_len": 256}, [(1, 32, 16), (1, 1, 1), (1, 128, 128)]),
        ("lin", CONTIGUOUS, {}, [(1, 32, 16), (1, 1, 1), (1, 128, 1000)]),
        (
            "pad",
            {},
            {},
            [(1, 2, 16, 4, 25), (1, 1, 1, 1, 0), (128, 128, 512, 128, 25)],
        ),
        (
            "pad",
            {},
            ODD,
            [(1, 2, 15, 4, 25), (1, 1, 1, 1, 0), (128, 128, 481, 121, 25)],
        ),
        (
            "pad",
            {},
            {"max_model_len": 256},
            [(1, 2, 16, 4, 25), (1, 1, 1, 1, 0), (128, 128, 128, 32, 25)],
        ),
        (
            "pad",
            CONTIGUOUS,
            {},
            [(1, 2, 16, 4, 25), (1, 1, 1, 1, 0), (128, 128, 1000, 250, 25)],
        ),
        ("exp", {}, {}, [(1, 2, 16, 5), (1, 1, 1, 1), (1, 16, 512, 10)]),
        # 33 blocks for each of 15 sequences; log2 of 495 is below 9.
        ("exp", {}, ODD, [(1, 2, 15, 5), (1, 1, 1, 1), (1, 15, 495, 10)]),
        (
            "exp",
            CONTIGUOUS,
            {"num_hpu_blocks": 100},
            [(1, 2, 16, 5), (1, 1, 1, 1), (1, 16, 100, 8)],
        ),
        (
            "exp",
            {},
            {"num_hpu_blocks": 100},
            [(1, 2, 16, 5), (1, 1, 1, 1), (1, 16, 512, 12)],
        ),
    ],
)
def test_decode_parameters(strategy, env, inputs, expected):
    assert list(parameters(strategy, "decode", env, **inputs)) == expected


@pytest.mark.parametrize("strategy", ["lin", "pad"])
def test_overrides_replace_one_parameter_each(strategy):
    """A different value for each variable, and each one in its own place."""
    names = STRATEGIES[strategy].parameter_names
    dimensions = {
        "prompt": ("BS", "QUERY", "CTX"),
        "decode": ("BS", None, "BLOCK"),
    }
    env, expected = {}, {"prompt": [], "decode": []}
    value = 1
    for phase, places in dimensions.items():
        for dimension in places:
            if dimension is None:
                continue
            row = []
            for name in names:
                env[f"VLLM_{phase}_{dimension}_BUCKET_{name}".upper()] = str(value)
                row.append(value)
                value += 1
            expected[phase].append(tuple(row))
    prompt = parameters(strategy, "prompt", env)
    decode = parameters(strategy, "decode", env)
    assert list(prompt) == expected["prompt"]
    assert [decode[0], decode[2]] == expected["decode"]


@pytest.mark.parametrize("strategy", ["lin", "pad"])
def test_bounds_that_fit_the_cache_are_not_noted(strategy):
    env = {
        **CONTIGUOUS,
        "VLLM_BUCKETING_STRATEGY": strategy,
        "VLLM_DECODE_BLOCK_BUCKET_MIN": "1000",
        "VLLM_DECODE_BLOCK_BUCKET_STEP": "1000",
        "VLLM_DECODE_BLOCK_BUCKET_MAX": "1000",
    }
    generated = generate(make_settings(env))
    assert generated.notes == ()
    assert generated.ranges[5].parameters[0] == 1000


def test_a_minimum_that_is_moved_stays_above_zero():
    """100 blocks of cache and a step of 128: the minimum becomes 1, not -28."""
    for strategy in ("lin", "pad"):
        env = {
            **CONTIGUOUS,
            "VLLM_BUCKETING_STRATEGY": strategy,
            "VLLM_DECODE_BLOCK_BUCKET_MIN": "128",
        }
        generated = generate(make_settings(env, num_hpu_blocks=100))
        assert generated.ranges[5].parameters[:3] == (1, 128, 100)


def test_settings_default_to_what_an_unset_environment_gives():
    plain = BucketingSettings(
        max_num_seqs=16,
        max_num_prefill_seqs=1,
        block_size=128,
        max_num_batched_tokens=2048,
        max_model_len=4096,
        num_kv_blocks=1000,
    )
    assert plain == make_settings()
    assert generate(plain) == generate(make_settings())


def test_sliding_windows_default_to_1024_and_8192():
    on = {"PT_HPU_SDPA_QKV_SLICE_MODE_FWD": "true"}
    assert make_settings(on).sliding_window == SlidingWindow(1024, 8192)
    assert make_settings({"PT_HPU_SDPA_BC_FACTOR": "512"}).sliding_window is None
    sized = make_settings({**on, "VLLM_FUSEDSDPA_SLIDE_THLD": "0"}).sliding_window
    assert sized == SlidingWindow(1024, 0)


@pytest.mark.parametrize(("most", "longest"), [("255", 192), ("256", 255), ("1", 192)])
def test_a_longest_context_must_be_below_the_context_maximum(most, longest):
    """A query of 128 tokens of 32768 leaves 255 blocks: 255 is not below 255."""
    settings = make_settings(
        {"VLLM_PROMPT_CTX_BUCKET_MAX": most},
        max_model_len=32768,
        max_num_batched_tokens=8192,
    )
    contexts = {
        bucket.num_blocks
        for bucket in generate(settings).prompt
        if bucket.query_len == 128
    }
    assert max(contexts) == longest


def test_the_last_allowed_longest_context_stays_for_later_queries():
    """Query 256 leaves 254 blocks, below 255, and the following ones leave less."""
    settings = make_settings(
        {"VLLM_PROMPT_CTX_BUCKET_MAX": "255"},
        max_model_len=32768,
        max_num_batched_tokens=8192,
    )
    longest = {
        bucket.query_len: bucket.num_blocks for bucket in generate(settings).prompt
    }
    assert (longest[128], longest[256], longest[512]) == (192, 254, 252)
