"""Warm-up steps and their end, as several HPU dialects print them.

Source: `hpu_model_runner.py` of vllm-fork and vllm-gaudi (`log_warmup`,
`log_graph_warmup_summary`).
"""

from __future__ import annotations

import re
from functools import lru_cache

from parsers.base import LineRule, Made, Sample, fork_rule, gaudi_rule, hpu_rule
from parsers.engine.convert import phase_of
from parsers.engine.signals import MixedPrompt, StepLine
from parsers.rules.hpu_memory import SIZE
from warmup_insights.model.events import Bucket, CaptureSummary, WarmupFinished
from warmup_insights.units import GIB, MIB, parse_bytes


def _step(match: re.Match[str]) -> Made:
    word, index, total, batch, length, blocks, images, free = match.groups()
    bucket: Bucket | None
    mode = "graph" if word.startswith(("Graph/", "graph/")) else None
    if match["free"] is None:
        bucket = None  # the line was cut, maybe within one of the numbers
    elif blocks is not None:
        bucket = (int(batch), int(length), int(blocks))
    elif images is not None:
        # Multimodal prompts of vllm-fork V0: the third dimension counts images or
        # patches.
        bucket, mode = (int(batch), int(length), int(images)), mode or "eager"
    else:
        # Two dimensions: vllm-fork V0, whose plain pass runs without graphs.
        bucket, mode = (int(batch), int(length)), mode or "eager"
    # vllm-fork 1.22 and vllm-gaudi 0.10 write phases in small letters, and capture all.
    may_skip = not word.endswith(("/prompt", "/decode"))
    return StepLine(
        phase_of(word), mode, int(index), int(total), bucket, _free(free),
        may_skip=may_skip,
    )  # fmt: skip


@lru_cache(maxsize=4096)
def _free(text: str | None) -> int | None:
    """Free memory of a step line; None when the line was cut in the middle of it."""
    if text is None or not text.strip().endswith("B"):
        return None
    return parse_bytes(text)


def _mixed_step(match: re.Match[str]) -> Made:
    """One batch of prompts and decodes (vllm-fork `warmup_scenario_mix`): each prompt bucket,
    whose line runs nothing, with all decode buckets."""
    batch, length, blocks = match["batch_size"], match["query_len"], match["num_blocks"]
    bucket = (int(batch), int(length), int(blocks))
    if match["phase"] == "Graph/mix/prompt":
        return MixedPrompt(bucket)
    index = int(match["index"])
    return StepLine("mixed", "graph", index, None, bucket, _free(match["free"]))


def _unified_step(match: re.Match[str]) -> Made:
    causal = 1 if match["causal"] == "causal" else 0
    return StepLine(
        phase="unified", mode=None, index=int(match["index"]),
        total=int(match["total"]),
        bucket=(int(match["query"]), int(match["shared"]), int(match["unique"]), causal),
        free_bytes=_free(match["free"]),
    )  # fmt: skip


def _multimodal_step(match: re.Match[str]) -> Made:
    """Width, height and count of the items; until vllm-gaudi 0.13 and of the fork what its
    list of buckets has: patches, or a batch. The length is the longest of prompts, or 0.

    vllm-gaudi (`warmup_multimodal_graphs`) names the modality and logs what ran; its word
    for it does not depend on whether the bridge captures graphs.
    """
    is_over = match["modality"] is not None
    batch, first, second = match["batch_size"], match["first"], match["second"]
    bucket = (int(first),) if second is None else (int(first), int(second), int(batch))
    mode = "graph" if match["phase"] == "Graph/Multimodal" else "eager"
    return StepLine(
        phase="multimodal", mode=None if is_over else mode, index=int(match["index"]),
        total=int(match["total"]), bucket=bucket, free_bytes=_free(match["free"]),
        is_over=is_over, modality=match["modality"],
    )  # fmt: skip


_STEP_HEAD = (
    r"\[Warmup\]\[(?P<phase>{phase})\]\[(?P<index>\d{{1,6}})/(?P<total>\d{{1,6}})\] "
)
_FREE = r"(?: free_mem:(?P<free>-?[\d.]{0,20} ?[KMGT]?i?B?))?"

WARMUP_RULES: tuple[LineRule, ...] = (
    hpu_rule(
        "warmup_step",
        _STEP_HEAD.format(phase=r"(?:Graph/)?[A-Za-z]{5,8}")
        + r"batch_size:(?P<batch_size>\d{1,9}) (?:query_len|seq_len|num_blocks)"
        r":(?P<query_len>\d{1,9})"
        r"(?: (?:num_blocks|num_ctx_blocks):(?P<num_blocks>\d{1,9}))?"
        r"(?: (?:img_args|num_patches):(?P<images>\d{1,9}))?" + _FREE,
        _step,
        Sample(
            "INFO 08-01 22:26:47 hpu_model_runner.py:1066] [Warmup][Prompt][1/24] "
            "batch_size:4 seq_len:1024 free_mem:79.16 GiB",
            {
                "phase": "prompt",
                "mode": "eager",
                "index": 1,
                "total": 24,
                "bucket": (4, 1024),
                "free_bytes": round(79.16 * GIB),
            },
        ),
        Sample(
            "INFO 08-02 17:38:41 hpu_model_runner.py:1066] [Warmup][Graph/Decode]"
            "[48/48] batch_size:1 seq_len:2048 free_mem:47.35 GiB",
            {"phase": "decode", "mode": "graph", "bucket": (1, 2048)},
        ),
        Sample(
            "INFO 05-02 17:38:41 hpu_model_runner.py:1066] [Warmup][Prompt][1/3] "
            "batch_size:1 seq_len:128 img_args:2 free_mem:1.0 GiB",
            {"bucket": (1, 128, 2), "free_bytes": GIB, "mode": "eager"},
        ),
        Sample(
            "INFO 06-02 17:38:41 hpu_model_runner.py:2495] [Warmup][Graph/Prompt][1/3] "
            "batch_size:1 seq_len:512 num_patches:13 free_mem:7.0 GiB",
            {"bucket": (1, 512, 13), "free_bytes": 7 * GIB, "mode": "graph"},
        ),
        Sample(
            "INFO 05-02 17:38:41 hpu_model_runner.py:1066] [Warmup][Decode][3/48] "
            "batch_size:224 num_blocks:384 free_mem:47.35 GiB",
            {"phase": "decode", "bucket": (224, 384)},
        ),
        Sample(
            "INFO 07-07 19:15:38 [hpu_model_runner.py:2679] [Warmup][Graph/prompt]"
            "[1/36] batch_size:4 query_len:1792 num_blocks:0 free_mem:21.06 GiB",
            {"phase": "prompt", "mode": "graph", "bucket": (4, 1792, 0)},
        ),
        Sample(
            "[Warmup][Prompt][1/35] batch_size:1 query_len:1024 num_blocks:7 "
            "free_mem:95.5 GiB",
            {"phase": "prompt", "mode": None, "bucket": (1, 1024, 7)},
        ),
    ),
    fork_rule(
        "warmup_step_mixed",
        _STEP_HEAD.format(phase="Graph/mix/(?:prompt|decode)")
        + r"batch_size:(?P<batch_size>\d{1,9}) query_len:(?P<query_len>\d{1,9}) "
        r"num_blocks:(?P<num_blocks>\d{1,9})" + _FREE,
        _mixed_step,
        Sample(
            "INFO 01-26 14:30:11 [hpu_model_runner.py:3943] [Warmup][Graph/mix/prompt]"
            "[1/352] batch_size:1 query_len:8192 num_blocks:960 free_mem:7.476 GiB",
            {"bucket": (1, 8192, 960)},
        ),
        Sample(
            "INFO 01-26 14:30:11 [hpu_model_runner.py:3943] [Warmup][Graph/mix/decode]"
            "[2/112] batch_size:16 query_len:1 num_blocks:8599 free_mem:7.476 GiB",
            {
                "phase": "mixed",
                "mode": "graph",
                "index": 2,
                "total": None,
                "bucket": (16, 1, 8599),
            },
        ),
        hint="[Warmup][Graph/mix/",
    ),
    gaudi_rule(
        "warmup_step_unified",
        _STEP_HEAD.format(phase="Unified CFG")
        + r"query_len:(?P<query>\d{1,9}) shared_blocks:(?P<shared>\d{1,9}) "
        r"unique_blocks:(?P<unique>\d{1,9}) \((?P<causal>(?:non )?causal)\)" + _FREE,
        _unified_step,
        Sample(
            "(EngineCore_DP0 pid=805) INFO 09-23 12:32:50 [hpu_model_runner.py:3320] "
            "[Warmup][Unified CFG][2/375] query_len:2048 shared_blocks:256 "
            "unique_blocks:2890 (causal) free_mem:11.16 GiB",
            {"phase": "unified", "bucket": (2048, 256, 2890, 1), "index": 2},
        ),
    ),
    hpu_rule(
        "warmup_step_multimodal",
        _STEP_HEAD.format(phase=r"(?:Graph/)?Multimodal(?:\((?P<modality>\w{1,30})\))?")
        + r"batch_size:(?P<batch_size>\d{1,9}) seq_len:\d{1,9} "
        r"(?:img_args|num_patches|resolution):(?P<first>\d{1,9})(?:X(?P<second>\d{1,9}))?"
        + _FREE
        + r"\s*$",
        _multimodal_step,
        Sample(
            "INFO 07-27 23:22:27 hpu_model_runner.py:5098] "
            "[Warmup][Graph/Multimodal(vision_chunk)][1/3] batch_size:1 seq_len:0 "
            "resolution:864X480 free_mem:15.26 GiB",
            {
                "phase": "multimodal",
                "bucket": (864, 480, 1),
                "is_over": True,
                "modality": "vision_chunk",
            },
        ),
        Sample(
            "INFO 07-27 23:22:27 hpu_model_runner.py:5098] [Warmup][Graph/Multimodal]"
            "[1/7] batch_size:1 seq_len:1024 num_patches:1600 free_mem:15.26 GiB",
            {"bucket": (1600,), "is_over": False, "mode": "graph"},
        ),
        Sample(
            "INFO 05-12 11:02:07 hpu_model_runner.py:2600] [Warmup][Multimodal][2/7] "
            "batch_size:1 seq_len:2048 num_patches:6400 free_mem:15.26 GiB",
            {"bucket": (6400,), "is_over": False, "mode": "eager"},
        ),
        hint=("[Warmup][Graph/Multimodal", "[Warmup][Multimodal"),
    ),
    hpu_rule(
        "capture_summary",
        r"(?:Graph/)?(?P<phase>Prompt|Decode|Multimodal|prompt|decode) "
        r"captured:(?P<captured_reported>\d{1,7})(?: \((?P<percent_reported>[\d.]{1,8})%\))?"
        rf"(?: used_mem:(?P<used_bytes>{SIZE}))?(?: buckets:(?P<buckets>\[(?:[^.\]]|\.(?!\.))*\]))?",
        CaptureSummary,
        Sample(
            "INFO 08-02 17:38:43 hpu_model_runner.py:1128] Graph/Prompt captured:2 "
            "(62.5%) used_mem:14.03 GiB buckets:[(1, 128), (1, 256)]",
            {
                "phase": "prompt",
                "captured_reported": 2,
                "percent_reported": 62.5,
                "used_bytes": round(14.03 * GIB),
                "buckets": [(1, 128), (1, 256)],
            },
        ),
        Sample(
            "INFO 08-02 17:38:43 hpu_model_runner.py:1128] Graph/Decode captured:36 "
            "(75.0%) used_mem:160 MiB buckets:[(1, 128), (1, 25",
            {"phase": "decode", "captured_reported": 36, "buckets": None},
        ),
        Sample(
            "INFO 11-20 07:32:46 [hpu_model_runner.py:5174] Graph/Decode captured:13 "
            "used_mem:104 MiB",
            {
                "phase": "decode",
                "captured_reported": 13,
                "used_bytes": 104 * MIB,
                "buckets": None,
            },
        ),
        Sample(
            "INFO 07-07 07:32:46 [hpu_model_runner.py:5174] Prompt captured:24 "
            "(100.0%) used_mem:67.72 MiB",
            {"phase": "prompt", "percent_reported": 100.0},
        ),
    ),
    hpu_rule(
        "warmup_finished",
        r"Warmup finished in (?P<duration_s>[\d.]{1,12}) secs, "
        rf"allocated (?P<allocated_bytes>{SIZE}) of device memory",
        WarmupFinished,
        Sample(
            "INFO 08-02 17:38:43 hpu_model_runner.py:1206] Warmup finished in 49 "
            "secs, allocated 14.19 GiB of device memory",
            {"duration_s": 49.0, "allocated_bytes": round(14.19 * GIB)},
        ),
    ),
    hpu_rule(
        "warmup_skipped",
        r"Skipping warmup\.\.\.|HPU warmup is currently not supported in V1\. "
        r"Forcing warmup off",
        WarmupFinished,
        "INFO 11-20 07:44:14 [hpu_model_runner.py:6142] Skipping warmup...",
        fixed={"skipped": True},
    ),
)
