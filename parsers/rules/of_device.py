"""Rules of lines that one engine or device alone prints: each match is evidence of it."""

from __future__ import annotations

from functools import partial

from parsers.base import line_rule, note_rule

hpu_rule = partial(line_rule, device="hpu")
hpu_note = partial(note_rule, device="hpu")
gaudi_rule = partial(line_rule, device="hpu", engine="vllm-gaudi")
gaudi_note = partial(note_rule, device="hpu", engine="vllm-gaudi")
fork_rule = partial(line_rule, device="hpu", engine="vllm-fork")
fork_note = partial(note_rule, device="hpu", engine="vllm-fork")
cuda_rule = partial(line_rule, device="cuda")
cuda_note = partial(note_rule, device="cuda")
tpu_rule = partial(line_rule, device="tpu")
tpu_note = partial(note_rule, device="tpu")
ascend_rule = partial(line_rule, device="ascend")
metal_rule = partial(line_rule, device="metal")
