"""Buckets used while serving: every pass that runs, with the shape that it needed."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest

from tests.vllm_plugin.running import VERSIONS, run_standin

pytestmark = pytest.mark.long

FORWARD = re.compile(r"\[fwd\] \('(\w+)', (\d+), (\d+), (\d+)\)")


def used_of(ran):
    return {
        (e.phase, e.shape, e.executed or e.bucket): e.count
        for e in ran.events("bucket_used")
    }


def run_steps(version, folder, *steps, **more):
    return run_standin(version, folder, STANDIN_STEPS=json.dumps(steps), **more)


@pytest.mark.parametrize("version", VERSIONS)
def test_all_prefills_of_a_step_are_counted(version, tmp_path):
    """The engine forms all of them before the first one runs."""
    ran = run_steps(version, tmp_path, [[100, 0], [300, 0], [1, 3]])
    prompts = {key: n for key, n in used_of(ran).items() if key[0] == "prompt"}
    assert prompts == {
        ("prompt", (1, 100, 0), (1, 128, 0)): 1,
        ("prompt", (1, 300, 0), (1, 384 if version == "v0_10" else 512, 0)): 1,
    }


def test_passes_of_one_bucket_keep_their_own_shapes(tmp_path):
    ran = run_steps("v0_26", tmp_path, [[100, 0], [120, 0], [100, 0]])
    assert used_of(ran) == {
        ("prompt", (1, 100, 0), (1, 128, 0)): 2,
        ("prompt", (1, 120, 0), (1, 128, 0)): 1,
    }


def test_lookups_that_only_try_a_batch_are_no_use(tmp_path):
    """Two requests of 900 tokens do not fit into one batch: looked up, never run."""
    ran = run_steps(
        "v0_26",
        tmp_path,
        [[900, 0], [900, 0]],
        [[60, 0], [90, 0]],
        STANDIN_PREFILLS="2",
    )
    assert used_of(ran) == {
        ("prompt", (1, 900, 0), (1, 1024, 0)): 2,
        ("prompt", (2, 90, 0), (2, 128, 0)): 1,
    }


def test_a_decode_needs_its_requests_and_not_the_padded_batch(tmp_path):
    """The engine looks the blocks up again for the batch that it has padded."""
    ran = run_steps("v0_26", tmp_path, [[1, 4], [1, 4], [1, 4]])
    assert used_of(ran) == {("decode", (3, 1, 12), (4, 1, 16)): 1}


def test_every_pass_of_the_log_is_counted(tmp_path):
    """A step runs prompts and decodes, with context and without, hit or miss."""
    steps = [
        [[100, 0], [300, 2], [200, 0], [1, 3], [1, 9]],
        [[700, 5], [1, 1]],
        [[5000, 3], [4000, 1]],
        [[1, 10]] * 5,
    ]
    ran = run_steps("v0_26", tmp_path, *steps)
    served = ran.stdout.split("Warmup finished")[1]
    passes = Counter(
        (phase, tuple(map(int, numbers))) for phase, *numbers in FORWARD.findall(served)
    )
    counted = Counter()
    for (phase, _, ran_as), count in used_of(ran).items():
        counted[phase, ran_as] += count
    assert counted == passes
    assert passes.total() == 9


def test_a_pass_in_another_shape_than_its_bucket_is_counted_with_both(tmp_path):
    """With contiguous attention at least the blocks up to the last used one run."""
    ran = run_steps("v0_26", tmp_path, [[1, 50]], VLLM_CONTIGUOUS_PA="true")
    (used,) = ran.events("bucket_used")
    assert (used.shape, used.bucket, used.executed) == (
        (1, 1, 32),
        (1, 1, 32),
        (1, 1, 50),
    )
