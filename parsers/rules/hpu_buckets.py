"""Bucket configuration and lists that several HPU dialects share.

Source: vllm-hpu-extension and vllm-gaudi `extension/bucketing/` (linear, exponential,
padding_aware, common); vllm-fork `worker/hpu_model_runner.py`.
"""

from __future__ import annotations

import re

from parsers.base import (
    LineRule,
    Made,
    Sample,
    hpu_note,
    hpu_rule,
    line_rule,
    note_rule,
)
from parsers.engine.convert import CUT_WORD, ints_of, names_of, phase_of, text_of
from parsers.engine.signals import OmittedBucket
from warmup_insights.model.events import (
    BucketRangesConfigured,
    BucketsGenerated,
    BucketsOmitted,
    ConfigRecorded,
    Note,
)

_RANGE = re.compile(r"(\w{1,12}):\s?\[([\d,\s.-]{1,120})\]")


def _ranges(match: re.Match[str]) -> Made:
    names = names_of(match["parameters"])
    return BucketRangesConfigured(
        phase=phase_of(match["phase"]),
        ranges={
            name: ints_of(values) for name, values in _RANGE.findall(match["rest"])
        },
        parameters=["max" if name == "max_warmup" else name for name in names],
    )


def _bucketing_off(match: re.Match[str]) -> list[Made]:
    return [
        ConfigRecorded(settings={"use_bucketing": "False"}),
        Note(topic="buckets", text=text_of(match[0])),
    ]


def _overridden(match: re.Match[str]) -> list[Made]:
    return [
        ConfigRecorded(environment={match["key"]: match["value"]}),
        Note(topic="setting_ignored", text=text_of(match[0])),
    ]


def _setting(match: re.Match[str]) -> Made:
    key, value = match["key"], match["value"]
    defaults = [key] if match["default"] == value else []
    known = {} if value == CUT_WORD else {key: value}
    return ConfigRecorded(environment=known, defaults=defaults)


PHASE = r"(?P<phase>[A-Za-z_]{3,20}(?: decode)?)"

BUCKET_RULES: tuple[LineRule, ...] = (
    hpu_rule(
        "bucket_ranges",
        rf"{PHASE} bucket config \((?P<parameters>min[\w, ]{{1,60}})\) "
        r"(?P<rest>bs:.{1,400})",
        _ranges,
        Sample(
            "INFO 08-02 17:37:44 hpu_model_runner.py:493] Prompt bucket config (min, "
            "step, max_warmup) bs:[1, 32, 4], seq:[128, 128, 1024]",
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
    hpu_rule(
        "buckets_generated",
        rf"Generated (?P<count>\d{{1,7}}) {PHASE} buckets"
        r"(?: \[(?P<dimensions>[\w, ]{2,60})\])?:\s{1,40}(?P<buckets>\[.*)",
        BucketsGenerated,
        Sample(
            "INFO 08-02 17:37:44 hpu_model_runner.py:499] Generated 2 prompt buckets: "
            "[(1, 128), (1, 256)]",
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
            "[query, shared_blocks, unique_blocks]: [(8, 0, 0, 1), (8, 0, 8, 0), ..., "
            "(2048, 256, 2890, 1)]",
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
        hint="buckets",
    ),
    hpu_rule(
        "buckets_omitted",
        rf"Omitted (?:(?P<count>\d{{1,7}}) |(?=[^:]{{1,40}}: \[)){PHASE} buckets"
        r"(?: (?P<reason>due to .{1,200}))?:?(?: (?P<buckets>\[.*))?",
        BucketsOmitted,
        Sample(
            "INFO 09-24 17:31:39 habana_model_runner.py:590] Omitted 25 prompt "
            "buckets due to exceeded token budget (max_num_batched_tokens=4096)",
            {
                "count": 25,
                "phase": "prompt",
                "reason": "due to exceeded token budget (max_num_batched_tokens=4096)",
            },
        ),
        Sample(
            "DEBUG 09-24 17:31:39 habana_model_runner.py:590] Omitted prompt buckets: "
            "[(8, 640), (8, 768)]",
            {"phase": "prompt", "buckets": [(8, 640), (8, 768)]},
        ),
    ),
    hpu_rule(
        "bucket_omitted_condition",
        r"\s{0,8}\('(?:condition: )?(?P<condition>[^']{1,200})', '-> [^']{1,80}', "
        r"(?P<bucket>-?\d{1,12}(?:, -?\d{1,12}){1,4})\)",
        OmittedBucket,
        Sample(
            "DEBUG 03-16 17:31:39 [common.py:590] ('condition: bs * query <= "
            "max_num_batched_tokens', '-> bs, query, ctx: ', 16, 2048, 0)",
            {
                "condition": "bs * query <= max_num_batched_tokens",
                "bucket": (16, 2048, 0),
            },
        ),
    ),
    hpu_rule(
        "bucket_environment",
        r"(?P<key>VLLM_(?:PROMPT|DECODE)_(?:BS|SEQ|QUERY|CTX|BLOCK)_BUCKET_"
        r"(?:MIN|STEP|MAX|LIMIT|PAD_MAX|PAD_PERCENT))=(?P<value>-?\d{1,12}) \(default:"
        r"(?P<default>[\w-]{0,20})",
        _setting,
        Sample(
            "VLLM_DECODE_BS_BUCKET_STEP=32 (default:32)",
            {
                "environment": {"VLLM_DECODE_BS_BUCKET_STEP": "32"},
                "defaults": ["VLLM_DECODE_BS_BUCKET_STEP"],
            },
        ),
        Sample(
            "INFO 01-27 22:07:26 [linear.py:116] VLLM_DECODE_BS_BUCKET_STEP=4 "
            "(default:32)",
            {"environment": {"VLLM_DECODE_BS_BUCKET_STEP": "4"}, "defaults": []},
        ),
        hint="_BUCKET_",
    ),
    hpu_note(
        "bucket_setting_overwritten",
        r"Using Exponential Strategy - Your configuration .{1,200}|"
        r"VLLM_\w{1,60}(?:=\d{1,12})? is (?:higher|lower) than .{1,300}",
        "setting_ignored",
        "WARNING 07-09 07:43:17 [exponential.py:30] Using Exponential Strategy - Your "
        "configuration VLLM_DECODE_BS_BUCKET_MAX=64 will be overwritten!",
        "INFO 08-21 07:43:17 [linear.py:73] VLLM_DECODE_BLOCK_BUCKET_MAX=4096 is "
        "higher than max_blocks=128. Your configuration "
        "VLLM_DECODE_BLOCK_BUCKET_MAX=4096 will be overwritten to "
        "VLLM_DECODE_BLOCK_BUCKET_MAX=128",
        hint=("will be overwritten", " is higher than max_blocks"),
    ),
    hpu_rule(
        "bucket_strategy_overridden",
        r"Overriding bucketing strategy \w{1,60} with \w{1,60} due to "
        r"(?P<key>VLLM_EXPONENTIAL_BUCKETING)=(?P<value>\w{1,10})",
        _overridden,
        Sample(
            "WARNING 08-21 07:43:17 [common.py:140] Overriding bucketing strategy "
            "ExponentialBucketingStrategy with LinearBucketingStrategy due to "
            "VLLM_EXPONENTIAL_BUCKETING=false",
            {"environment": {"VLLM_EXPONENTIAL_BUCKETING": "false"}},
        ),
    ),
    hpu_note(
        "bucket_setting_old_name",
        r"VLLM_\w{1,60} not set, using VLLM_\w{1,60} value .{1,200}|"
        r"VLLM_EXPONENTIAL_BUCKETING is deprecated .{1,200}",
        "setting_renamed",
        "WARNING 02-04 23:09:47 [linear.py:120] VLLM_PROMPT_QUERY_BUCKET_MIN not set, "
        "using VLLM_PROMPT_SEQ_BUCKET_MIN value (5120) instead. This fallback "
        "behavior is deprecated and will be removed in v0.12.0.",
    ),
    hpu_note(
        "no_buckets",
        r"(?:No buckets could be captured|The current bucketing configuration|"
        r"Generated 0 \w{1,20} buckets).{1,400}",
        "no_buckets",
        "WARNING 10-01 07:43:17 [linear.py:300] No buckets could be captured with "
        "following config (min, step, max_warmup): bs:[1, 2, 4], seq:[1, 2, 4]",
        hint=(
            "No buckets could be captured",
            "cannot be used with specified",
            "Please adjust the bucketing configuration",
        ),
    ),
    note_rule(
        "merged_prefill",
        r"Merged prefill is enabled!.{0,200}|Merged prefill warmup is not implemented .{1,100}|"
        r"prompt (?:bs|seq|query|ctx) cfg: \[.{1,200}",
        "buckets",
        "INFO 07-03 07:43:17 [linear.py:300] prompt bs cfg: [1, 2, 4] -> [1, 1, 1]",
        hint=("Merged prefill is enabled", "Merged prefill warmup is not", "cfg: ["),
    ),
    line_rule(
        "merged_prefill_heading",
        r"Overriding prompt bucketing settings!",
        None,
        "INFO 07-03 07:43:17 [linear.py:300] Overriding prompt bucketing settings!",
    ),
    hpu_rule(
        "bucketing_off",
        r"Bucketing is (?:OFF\.|off - skipping.{0,60})",
        _bucketing_off,
        Sample(
            "INFO 11-20 07:31:58 [hpu_model_runner.py:1537] Bucketing is OFF.",
            {"settings": {"use_bucketing": "False"}},
        ),
    ),
    line_rule(
        "bucketing_on",
        r"Bucketing is ON\.",
        None,
        "INFO 11-20 07:31:58 [hpu_model_runner.py:1524] Bucketing is ON.",
    ),
)
