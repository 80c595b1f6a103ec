"""Shapes at run time that no bucket covers, as several HPU dialects print them.

Source: vllm-gaudi `extension/bucketing/common.py` and `hpu_model_runner.py`; vllm-fork
`hpu_model_runner.py`.
"""

from __future__ import annotations

from parsers.base import LineRule, Sample, gaudi_rule, hpu_note, hpu_rule
from warmup_insights.model.events import BucketMiss

_NUMBER = r"(?:np\.u?int\d{1,2}\(\d{1,12}\)|\d{1,12})"
"""Blocks come from numpy arrays at times, and numpy 2 prints the type of a number."""
_SHAPE = rf"{_NUMBER}(?:, ?{_NUMBER}){{0,5}}"

MISS_RULES: tuple[LineRule, ...] = (
    hpu_rule(
        "bucket_miss_configuration",
        r"Configuration: (?:rank )?\((?:\d{1,5}, )?'?(?P<phase>[a-z_]{6,16})'?, "
        rf"(?P<shape>{_SHAPE})\) was not warmed-up!",
        BucketMiss,
        Sample(
            "WARNING 04-28 07:43:17 [hpu_model_runner.py:1013] Configuration: "
            "('prompt', 16, 896) was not warmed-up!",
            {"phase": "prompt", "shape": (16, 896)},
        ),
        Sample(
            "WARNING 04-28 07:43:17 hpu_model_runner.py:1013] Configuration: (prompt, "
            "1, 36864) was not warmed-up!",
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
    gaudi_rule(
        "bucket_miss_unified",
        # Three sizes; before them causal, shared and unique part, each a letter or a dash,
        # and behind them the number of logits (`hpu_model_runner.py _check_unified_config`).
        r"Configuration: \((?:query, shared_blocks, unique_blocks\) \(|'[c-][s-][u-]', )"
        r"(?P<shape>\d{1,12}, \d{1,12}, \d{1,12})"
        r"(?:\), \((?:not )?causal|, \d{1,12})\) was not warmed-up!",
        BucketMiss,
        Sample(
            "WARNING 10-01 07:43:17 [hpu_model_runner.py:1013] Configuration: (query, "
            "shared_blocks, unique_blocks) (8, 0, 4), (causal) was not warmed-up!",
            {"shape": (8, 0, 4)},
        ),
        Sample(
            "WARNING 10-01 07:43:17 [hpu_model_runner.py:2560] Configuration: ('c-u', "
            "2048, 0, 290, 16) was not warmed-up!",
            {"shape": (2048, 0, 290)},
        ),
        fixed={"phase": "unified"},
    ),
    hpu_rule(
        "bucket_miss_fallback",
        r"(?P<phase>Prompt|Decode|Unified) bucket for "
        rf"(?P<shape>\({_SHAPE}\)) ?was not (?:prepared|previously warmed up)"
        rf"(?:\. Adding new bucket: (?P<fallback>\({_SHAPE}\)))?",
        BucketMiss,
        Sample(
            "WARNING 08-21 07:43:17 [common.py:300] Prompt bucket for (1, 2108, 0) "
            "was not prepared. Adding new bucket: (1, 3200, 0)",
            {"phase": "prompt", "shape": (1, 2108, 0), "fallback": (1, 3200, 0)},
        ),
        Sample(
            "WARNING 07-01 07:43:17 [common.py:300] Prompt bucket for (1, 2108, 0)was "
            "not previously warmed up",
            {"phase": "prompt", "shape": (1, 2108, 0), "fallback": None},
        ),
        Sample(
            "WARNING 11-22 07:43:17 [common.py:288] Prompt bucket for (1, 480, "
            "np.int32(0)) was not prepared. Adding new bucket: (1, 512, np.int32(0))",
            {"phase": "prompt", "shape": (1, 480, 0), "fallback": (1, 512, 0)},
        ),
    ),
    hpu_note(
        "bucket_fallback_capped",
        r"Fallback ctx (?P<num_blocks>\d{1,12}) exceeds max prepared decode bucket ctx "
        r"(?P<max_blocks>\d{1,12}), capping",
        "capped",
        "WARNING 08-21 07:43:17 [common.py:300] Fallback ctx 4026 exceeds max "
        "prepared decode bucket ctx 3721, capping.",
        values={"num_blocks": 4026, "max_blocks": 3721},
    ),
    hpu_note(
        "bucket_not_found",
        r"Couldn't find a bucket for value: .{1,200}|"
        rf"No bucket found for: (?P<shape>\({_SHAPE}\))",
        "no_bucket",
        "WARNING 08-21 07:43:17 [common.py:300] No bucket found for: (8, 0, 4)",
        values={"shape": [8, 0, 4]},
    ),
)
