"""The vLLM HPU plugin of June 2025, before it became vllm-gaudi.

Its own loggers had no handler: warnings come out bare, on stderr, glued to bars.
Source: vllm-hpu `vllm_hpu/worker/hpu_model_runner.py` and vllm-hpu-extension.
"""

from __future__ import annotations

import re

from parsers.base import Dialect, LineRule, Made, Sample, hpu_rule, line_rule
from parsers.engine.signals import ConfigLine
from parsers.rules.hpu_buckets import BUCKET_RULES
from parsers.rules.hpu_memory import MEMORY_RULES
from parsers.rules.hpu_misses import MISS_RULES
from parsers.rules.hpu_warmup import WARMUP_RULES
from warmup_insights.model.events import ConfigRecorded, Note

_GENERATION = re.compile(r"\+(gaudi\d?)(?!\w)")


def _detected(match: re.Match[str]) -> Made:
    """What the extension found; the generation of the device is one of its flags."""
    generation = _GENERATION.search(match["value"])
    return ConfigRecorded(
        settings={f"detected_{match['kind']}": match["value"]},
        device_name=generation[1] if generation else None,
    )


_RULES: tuple[LineRule, ...] = (
    hpu_rule(
        "detected_flags",
        r"Detected (?P<kind>flags|capabilities): \[(?P<value>(?:[-+]\w{1,60} ?){0,100})\]",
        _detected,
        Sample(
            "Detected flags: [-compile_one_hot -cpu +fsdpa -gaudi2 +gaudi3]",
            {
                "settings": {
                    "detected_flags": "-compile_one_hot -cpu +fsdpa -gaudi2 +gaudi3"
                },
                "device_name": "gaudi3",
            },
        ),
        Sample(
            "Detected capabilities: [-cpu +gaudi -gaudi2 -gaudi3 -index_reduce]",
            {"device_name": "gaudi"},
        ),
        Sample("Detected capabilities: [+index_copy]", {"device_name": None}),
        hint=("Detected flags: [", "Detected capabilities: ["),
    ),
    hpu_rule(
        "bridge_value",
        r" (?P<key>PT_HPU_\w{1,80}) = ?(?P<value>[^\n]{0,200})$",
        ConfigLine,
        Sample(
            " PT_HPU_RECIPE_CACHE_CONFIG = ,false,1024",
            {"key": "PT_HPU_RECIPE_CACHE_CONFIG", "value": ",false,1024"},
        ),
    ),
    line_rule(
        "bridge_host",
        r"(?P<key>Num CPU Cores|CPU RAM)\s{0,12}: (?P<value>[^\n]{1,60})$",
        ConfigLine,
        Sample("CPU RAM       : 1007 GB", {"key": "CPU RAM", "value": "1007 GB"}),
    ),
    hpu_rule(
        "bridge_box",
        r"={3,60} (?:HABANA|HPU) PT BRIDGE CONFIGURATION",
        None,
        "============================= HPU PT BRIDGE CONFIGURATION ON RANK = 0 "
        "============= ",
    ),
    hpu_rule(
        "experimental_variables",
        r"Following (?P<text>environment variables are considered experimental: .{1,400})",
        Note,
        "WARNING 06-05 10:00:00 [runtime.py:30] Following environment variables are "
        "considered experimental: VLLM_X, VLLM_Y",
        fixed={"topic": "experimental"},
    ),
)

DIALECT = Dialect(
    name="vllm-hpu-plugin",
    title="vLLM HPU plugin of June 2025",
    versions="2025-06",
    source="vllm_hpu/worker/hpu_model_runner.py; vllm-hpu-extension",
    rules=(*_RULES, *BUCKET_RULES, *WARMUP_RULES, *MISS_RULES, *MEMORY_RULES),
)
