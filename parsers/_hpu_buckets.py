"""Bucket configuration, lists and warm-up steps that several HPU dialects share.

Source: vllm-hpu-extension and vllm-gaudi `extension/bucketing/` (linear, exponential,
padding_aware, common) and `hpu_model_runner.py` (`log_warmup`,
`log_graph_warmup_summary`); vllm-fork `worker/hpu_model_runner.py`.
"""

from __future__ import annotations

import re

from parsers._hpu_memory import SIZE
from parsers.base import LineRule, Made, Sample
from parsers.convert import buckets_of, ints_of, phase_of
from parsers.signals import OmittedBucket, StepLine
from warmup_insights.events import (
    Bucket,
    BucketMiss,
    BucketRangesConfigured,
    BucketsGenerated,
    BucketsOmitted,
    CaptureSummary,
    ConfigRecorded,
    Note,
    WarmupFinished,
)  # fmt: skip
from warmup_insights.units import GIB, MIB, parse_bytes

_RANGE = re.compile(r"(\w{1,12}):\s?\[([\d,\s.-]{1,120})\]")


def _ranges(match: re.Match[str]) -> Made:
    names = [name.strip() for name in match["parameters"].split(",")]
    return BucketRangesConfigured(
        phase=phase_of(match["phase"]),
        ranges={
            name: ints_of(values) for name, values in _RANGE.findall(match["rest"])
        },
        parameters=["max" if name == "max_warmup" else name for name in names],
    )


def _generated(match: re.Match[str]) -> Made:
    names = match["dimensions"]
    return BucketsGenerated(
        phase=phase_of(match["phase"]),
        count=int(match["count"]),
        buckets=buckets_of(match["buckets"]),
        dimensions=[name.strip() for name in names.split(",")] if names else [],
    )


def _step(match: re.Match[str]) -> Made:
    shape = [int(match["batch_size"])]
    query, blocks = match["query_len"], match["num_blocks"]
    shape += [int(number) for number in (query, blocks) if number is not None]
    word = match["phase"]
    mode: str | None
    if word.lower().startswith("graph/"):
        mode = "graph"
    else:
        # Two dimensions: vllm-fork V0, whose plain pass runs without graphs.
        mode = "eager" if len(shape) == 2 else None
    bucket: Bucket | None = tuple(shape)
    return StepLine(
        phase=phase_of(word), mode=mode, index=int(match["index"]),
        total=int(match["total"]), bucket=bucket,
        free_bytes=_free(match["free"]),
    )  # fmt: skip


def _free(text: str | None) -> int | None:
    """Free memory of a step line; None when the line was cut in the middle of it."""
    if text is None or not text.strip().endswith("B"):
        return None
    return parse_bytes(text)


def _unified_step(match: re.Match[str]) -> Made:
    causal = 1 if match["causal"] == "causal" else 0
    return StepLine(
        phase="unified", mode=None, index=int(match["index"]),
        total=int(match["total"]),
        bucket=(int(match["query"]), int(match["shared"]), int(match["unique"]), causal),
        free_bytes=_free(match["free"]),
    )  # fmt: skip


def _multimodal_step(match: re.Match[str]) -> Made:
    return StepLine(
        phase="multimodal", mode="graph", index=int(match["index"]),
        total=int(match["total"]),
        bucket=tuple(ints_of(match["shape"])),
        free_bytes=_free(match["free"]),
    )  # fmt: skip


def _summary(match: re.Match[str]) -> Made:
    used, listed = match["used"], match["buckets"]
    return CaptureSummary(
        phase=phase_of(match["phase"]),
        captured_reported=int(match["captured"]),
        percent_reported=float(match["percent"]) if match["percent"] else None,
        used_bytes=parse_bytes(used) if used else None,
        buckets=buckets_of(listed) if listed else None,
    )


def _omitted_bucket(match: re.Match[str]) -> Made:
    numbers = tuple(int(number) for number in match["shape"].split(","))
    return OmittedBucket(condition=match["condition"].strip(), bucket=numbers)


def _ignored(
    name: str, hint: str | tuple[str, ...], pattern: str, line: str
) -> LineRule:
    return LineRule(name, hint, pattern, samples=(Sample(line),))


def _setting(match: re.Match[str]) -> Made:
    return ConfigRecorded(environment={match["key"]: match["value"]})


_PHASE = r"(?P<phase>[A-Za-z_]{3,20}(?: decode)?)"
_STEP_HEAD = (
    r"\[Warmup\]\[(?P<phase>{phase})\]\[(?P<index>\d{{1,6}})/(?P<total>\d{{1,6}})\] "
)
_FREE = r"(?: free_mem:(?P<free>-?[\d.]{0,20} ?[KMGT]?i?B?))?"

BUCKET_RULES: tuple[LineRule, ...] = (
    LineRule(
        "bucket_ranges",
        "bucket config (min",
        rf"{_PHASE} bucket config \((?P<parameters>min[\w, ]{{1,60}})\) "
        r"(?P<rest>bs:.{1,400})",
        build=_ranges,
        device="hpu",
        samples=(
            Sample(
                "INFO 08-02 17:37:44 hpu_model_runner.py:493] Prompt bucket config "
                "(min, step, max_warmup) bs:[1, 32, 4], seq:[128, 128, 1024]",
                {
                    "phase": "prompt",
                    "ranges": {"bs": [1, 32, 4], "seq": [128, 128, 1024]},
                    "parameters": ["min", "step", "max"],
                },
            ),
            Sample(
                "INFO 11-20 07:32:03 [exponential.py:105] Decode bucket config (min, "
                "step, max_warmup, limit) bs:[1, 2, 4, 3], block:[1, 4, 32, 6]",
                {
                    "phase": "decode",
                    "parameters": ["min", "step", "max", "limit"],
                    "ranges": {"bs": [1, 2, 4, 3], "block": [1, 4, 32, 6]},
                },
            ),
            Sample(
                "INFO 02-10 07:32:03 [padding_aware.py:80] Prompt bucket config (min, "
                "step, max_warmup, pad_max, pad_percent) bs:[1, 2, 16, 16, 25], "
                "query:[128, 128, 2048, 512, 25], blocks:[0, 1, 15, 8, 25]",
                {"parameters": ["min", "step", "max", "pad_max", "pad_percent"]},
            ),
        ),
    ),
    LineRule(
        "buckets_generated",
        "buckets",
        rf"Generated (?P<count>\d{{1,7}}) {_PHASE} buckets"
        r"(?: \[(?P<dimensions>[\w, ]{2,60})\])?:\s{1,40}(?P<buckets>\[.*)",
        build=_generated,
        device="hpu",
        samples=(
            Sample(
                "INFO 08-02 17:37:44 hpu_model_runner.py:499] Generated 2 prompt "
                "buckets: [(1, 128), (1, 256)]",
                {"phase": "prompt", "count": 2, "buckets": [(1, 128), (1, 256)]},
            ),
            Sample(
                "INFO 07-07 19:15:36 [common.py:85] Generated 2 decode buckets [bs, "
                "query, num_blocks]: [(1, 1, 128), (1, 1, 256)]",
                {
                    "phase": "decode",
                    "buckets": [(1, 1, 128), (1, 1, 256)],
                    "dimensions": ["bs", "query", "num_blocks"],
                },
            ),
            Sample(
                "INFO 10-17 07:15:36 hpu_model_runner.py:85] Generated 31 prompt buckets "
                "[bs, seq]:                 [(1, 128), (1, 256), (1, 3",
                {"count": 31, "buckets": [(1, 128), (1, 256)]},
            ),
            Sample(
                "INFO 09-23 12:32:43 [common.py:100] Generated 375 unified buckets "
                "[query, shared_blocks, unique_blocks]: [(8, 0, 0, 1), (8, 0, 8, 0), "
                "..., (2048, 256, 2890, 1)]",
                {
                    "phase": "unified",
                    "count": 375,
                    "buckets": [(8, 0, 0, 1), (8, 0, 8, 0), (2048, 256, 2890, 1)],
                },
            ),
            Sample(
                "INFO 03-01 12:32:43 [common.py:100] Generated 12 spec decode buckets "
                "[bs, query, num_blocks]: [(1, 2, 8), (2, 2, 8)]",
                {"phase": "spec_decode", "count": 12},
            ),
        ),
    ),
    LineRule(
        "buckets_omitted",
        "Omitted ",
        rf"Omitted (?P<count>\d{{1,7}}) {_PHASE} buckets(?: (?P<reason>due to .{{1,200}}))?:?",
        BucketsOmitted,
        device="hpu",
        samples=(
            Sample(
                "INFO 09-24 17:31:39 habana_model_runner.py:590] Omitted 25 prompt "
                "buckets due to exceeded token budget (max_num_batched_tokens=4096)",
                {
                    "count": 25,
                    "phase": "prompt",
                    "reason": "due to exceeded token budget "
                    "(max_num_batched_tokens=4096)",
                },
            ),
        ),
    ),
    LineRule(
        "buckets_omitted_list",
        "Omitted ",
        rf"Omitted {_PHASE} buckets: (?P<buckets>\[.*)",
        BucketsOmitted,
        device="hpu",
        samples=(
            Sample(
                "DEBUG 09-24 17:31:39 habana_model_runner.py:590] Omitted prompt "
                "buckets: [(8, 640), (8, 768)]",
                {"phase": "prompt", "buckets": [(8, 640), (8, 768)]},
            ),
        ),
    ),
    LineRule(
        "bucket_omitted_condition",
        "'condition: ",
        r"\s{0,8}\('condition: (?P<condition>[^']{1,200})', '-> [^']{1,80}', "
        r"(?P<shape>-?\d{1,12}(?:, -?\d{1,12}){1,4})\)",
        build=_omitted_bucket,
        device="hpu",
        samples=(
            Sample(
                "DEBUG 03-16 17:31:39 [common.py:590] ('condition: bs * query <= "
                "max_num_batched_tokens', '-> bs, query, ctx: ', 16, 2048, 0)",
                {
                    "condition": "bs * query <= max_num_batched_tokens",
                    "bucket": (16, 2048, 0),
                },
            ),
        ),
    ),
    LineRule(
        "warmup_step",
        "[Warmup][",
        _STEP_HEAD.format(phase=r"(?:Graph/)?[A-Za-z]{5,8}")
        + r"batch_size:(?P<batch_size>\d{1,9}) (?:query_len|seq_len|num_blocks)"
        r":(?P<query_len>\d{1,9})"
        r"(?: (?:num_blocks|num_ctx_blocks):(?P<num_blocks>\d{1,9}))?" + _FREE,
        build=_step,
        device="hpu",
        samples=(
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
    ),
    LineRule(
        "warmup_step_unified",
        "[Warmup][Unified",
        _STEP_HEAD.format(phase="Unified CFG")
        + r"query_len:(?P<query>\d{1,9}) shared_blocks:(?P<shared>\d{1,9}) "
        r"unique_blocks:(?P<unique>\d{1,9}) \((?P<causal>(?:non )?causal)\)" + _FREE,
        build=_unified_step,
        device="hpu",
        engine="vllm-gaudi",
        samples=(
            Sample(
                "(EngineCore_DP0 pid=805) INFO 09-23 12:32:50 [hpu_model_runner.py:3320] "
                "[Warmup][Unified CFG][2/375] query_len:2048 shared_blocks:256 "
                "unique_blocks:2890 (causal) free_mem:11.16 GiB",
                {"phase": "unified", "bucket": (2048, 256, 2890, 1), "index": 2},
            ),
        ),
    ),
    LineRule(
        "warmup_step_multimodal",
        "[Warmup][Graph/Multimodal",
        _STEP_HEAD.format(phase=r"Graph/Multimodal(?:\(\w{1,30}\))?")
        + r"batch_size:(?P<batch_size>\d{1,9}) (?P<shape>[\w:() ]{1,100}?)"
        + _FREE
        + r"\s*$",
        build=_multimodal_step,
        device="hpu",
        samples=(
            Sample(
                "INFO 07-27 23:22:27 hpu_model_runner.py:5098] [Warmup][Graph/Multimodal"
                "(vision_chunk)][1/3] batch_size:1 seq_len:0 resolution:864X480 "
                "free_mem:15.26 GiB",
                {"phase": "multimodal", "bucket": (0, 864, 480), "total": 3},
            ),
            Sample(
                "INFO 07-27 23:22:27 hpu_model_runner.py:5098] [Warmup][Graph/Multimodal]"
                "[1/7] batch_size:1 seq_len:1024 num_patches:1600 free_mem:15.26 GiB",
                {"phase": "multimodal", "bucket": (1024, 1600)},
            ),
        ),
    ),
    LineRule(
        "capture_summary",
        "captured:",
        r"(?:Graph/)?(?P<phase>Prompt|Decode|Multimodal|prompt|decode) "
        r"captured:(?P<captured>\d{1,7})(?: \((?P<percent>[\d.]{1,8})%\))?"
        rf"(?: used_mem:(?P<used>{SIZE}))?(?: buckets:(?P<buckets>\[.*))?",
        build=_summary,
        device="hpu",
        samples=(
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
    ),
    LineRule(
        "warmup_finished",
        "Warmup finished in",
        r"Warmup finished in (?P<duration_s>[\d.]{1,12}) secs, "
        rf"allocated (?P<allocated_bytes>{SIZE}) of device memory",
        WarmupFinished,
        device="hpu",
        samples=(
            Sample(
                "INFO 08-02 17:38:43 hpu_model_runner.py:1206] Warmup finished in 49 "
                "secs, allocated 14.19 GiB of device memory",
                {"duration_s": 49.0, "allocated_bytes": round(14.19 * GIB)},
            ),
        ),
    ),
    LineRule(
        "warmup_skipped",
        ("Skipping warmup", "Forcing warmup off"),
        r"Skipping warmup\.\.\.|HPU warmup is currently not supported in V1\. "
        r"Forcing warmup off",
        WarmupFinished,
        fixed={"skipped": True},
        device="hpu",
        samples=(
            Sample(
                "INFO 11-20 07:44:14 [hpu_model_runner.py:6142] Skipping warmup...",
                {"skipped": True},
            ),
        ),
    ),
    LineRule(
        "bucket_miss_configuration",
        "was not warmed-up",
        r"Configuration: (?:rank )?\((?:\d{1,5}, )?'?(?P<phase>[a-z_]{6,16})'?, "
        r"(?P<shape>\d{1,12}(?:, \d{1,12}){0,3})\) was not warmed-up!",
        BucketMiss,
        device="hpu",
        samples=(
            Sample(
                "WARNING 04-28 07:43:17 [hpu_model_runner.py:1013] Configuration: "
                "('prompt', 16, 896) was not warmed-up!",
                {"phase": "prompt", "shape": (16, 896)},
            ),
            Sample(
                "WARNING 04-28 07:43:17 hpu_model_runner.py:1013] Configuration: "
                "(prompt, 1, 36864) was not warmed-up!",
                {"phase": "prompt", "shape": (1, 36864)},
            ),
            Sample(
                "WARNING 07-24 07:43:17 [hpu_model_runner.py:1013] Configuration: rank "
                "(0, decode, 4, 1, 128) was not warmed-up!",
                {"phase": "decode", "shape": (4, 1, 128)},
            ),
            Sample(
                "Configuration: ('decode', 4, 128) was not warmed-up!",
                {"phase": "decode", "shape": (4, 128)},
            ),
        ),
    ),
    LineRule(
        "bucket_miss_unified",
        "was not warmed-up",
        r"Configuration: \(query, shared_blocks, unique_blocks\) "
        r"\((?P<shape>\d{1,12}, \d{1,12}, \d{1,12})\), \((?:not )?causal\) "
        r"was not warmed-up!",
        BucketMiss,
        fixed={"phase": "unified"},
        device="hpu",
        engine="vllm-gaudi",
        samples=(
            Sample(
                "WARNING 10-01 07:43:17 [hpu_model_runner.py:1013] Configuration: "
                "(query, shared_blocks, unique_blocks) (8, 0, 4), (causal) was not "
                "warmed-up!",
                {"phase": "unified", "shape": (8, 0, 4)},
            ),
        ),
    ),
    LineRule(
        "bucket_miss_fallback",
        ("was not prepared", "was not previously warmed up"),
        r"(?P<phase>Prompt|Decode|Unified) bucket for "
        r"(?P<shape>\([\d, ]{3,60}\)) ?was not (?:prepared|previously warmed up)"
        r"(?:\. Adding new bucket: (?P<fallback>\([\d, ]{3,60}\)))?",
        BucketMiss,
        device="hpu",
        samples=(
            Sample(
                "WARNING 08-21 07:43:17 [common.py:300] Prompt bucket for (1, 2108, 0) "
                "was not prepared. Adding new bucket: (1, 3200, 0)",
                {"phase": "prompt", "shape": (1, 2108, 0), "fallback": (1, 3200, 0)},
            ),
            Sample(
                "WARNING 07-01 07:43:17 [common.py:300] Prompt bucket for (1, 2108, 0)"
                "was not previously warmed up",
                {"phase": "prompt", "shape": (1, 2108, 0), "fallback": None},
            ),
        ),
    ),
    LineRule(
        "bucket_fallback_capped",
        "exceeds max prepared decode bucket ctx",
        r"(?P<text>Fallback ctx \d{1,12} exceeds max prepared decode bucket ctx "
        r"\d{1,12}, capping)",
        Note,
        fixed={"topic": "capped"},
        device="hpu",
        samples=(
            Sample(
                "WARNING 08-21 07:43:17 [common.py:300] Fallback ctx 4026 exceeds max "
                "prepared decode bucket ctx 3721, capping.",
                {
                    "topic": "capped",
                    "text": "Fallback ctx 4026 exceeds max prepared decode bucket ctx "
                    "3721, capping",
                },
            ),
        ),
    ),
    LineRule(
        "bucket_not_found",
        ("Couldn't find a bucket", "No bucket found for"),
        r"(?P<text>Couldn't find a bucket for value: .{1,200}|No bucket found for: .{1,80})",
        Note,
        fixed={"topic": "no_bucket"},
        device="hpu",
        samples=(
            Sample(
                "WARNING 08-21 07:43:17 [common.py:300] No bucket found for: (8, 0, 4)",
                {"topic": "no_bucket"},
            ),
        ),
    ),
    LineRule(
        "bucket_environment",
        "_BUCKET_",
        r"(?P<key>VLLM_(?:PROMPT|DECODE)_(?:BS|SEQ|QUERY|CTX|BLOCK)_BUCKET_"
        r"(?:MIN|STEP|MAX|LIMIT|PAD_MAX|PAD_PERCENT))=(?P<value>-?\d{1,12}) \(default:",
        build=_setting,
        device="hpu",
        samples=(
            Sample(
                "VLLM_DECODE_BS_BUCKET_STEP=32 (default:32)",
                {"environment": {"VLLM_DECODE_BS_BUCKET_STEP": "32"}},
            ),
        ),
    ),
    LineRule(
        "bucket_setting_overwritten",
        ("will be overwritten", "Overriding bucketing strategy", "is deprecated"),
        r"(?P<text>Using Exponential Strategy - Your configuration .{1,200}|"
        r"VLLM_\w{1,60} is higher than .{1,300}|VLLM_\w{1,60} is lower than .{1,300}|"
        r"VLLM_\w{1,60} not set, using .{1,300}|VLLM_EXPONENTIAL_BUCKETING is .{1,300}|"
        r"Overriding bucketing strategy .{1,200})",
        Note,
        fixed={"topic": "setting_ignored"},
        device="hpu",
        samples=(
            Sample(
                "WARNING 07-09 07:43:17 [exponential.py:30] Using Exponential Strategy - "
                "Your configuration VLLM_DECODE_BS_BUCKET_MAX=64 will be overwritten!",
                {"topic": "setting_ignored"},
            ),
        ),
    ),
    LineRule(
        "no_buckets",
        (
            "No buckets could be captured",
            "cannot be used with specified",
            "Please adjust the bucketing configuration",
        ),
        r"(?P<text>(?:No buckets could be captured|The current bucketing configuration|"
        r"Generated 0 \w{1,20} buckets).{1,400})",
        Note,
        fixed={"topic": "no_buckets"},
        device="hpu",
        samples=(
            Sample(
                "WARNING 10-01 07:43:17 [linear.py:300] No buckets could be captured with "
                "following config (min, step, max_warmup): bs:[1, 2, 4], seq:[1, 2, 4]",
                {"topic": "no_buckets"},
            ),
        ),
    ),
    _ignored(
        "merged_prefill",
        ("Merged prefill is enabled", "Overriding prompt bucketing", "cfg: ["),
        r"Merged prefill is enabled!|Overriding prompt bucketing settings!|"
        r"prompt (?:bs|seq|query|ctx) cfg: \[.{1,200}",
        "INFO 07-03 07:43:17 [linear.py:300] prompt bs cfg: [1, 2, 4] -> [1, 1, 1]",
    ),
    _ignored(
        "bucketing_switch",
        ("Bucketing is O", "Bucketing is off"),
        r"Bucketing is (?:ON|OFF)\.|Bucketing is off - skipping",
        "INFO 11-20 07:31:58 [hpu_model_runner.py:1522] Bucketing is ON.",
    ),
)
