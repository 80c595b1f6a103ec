"""What engines do with buckets, graphs and memory, as pure functions.

The reference engine runs these rules and the planner replays them.
"""

from __future__ import annotations

from collections.abc import Mapping

VARIABLES = {
    "graph_reserved_mem": "VLLM_GRAPH_RESERVED_MEM",
    "graph_prompt_ratio": "VLLM_GRAPH_PROMPT_RATIO",
    "graph_prompt_strategy": "VLLM_GRAPH_PROMPT_STRATEGY",
    "graph_decode_strategy": "VLLM_GRAPH_DECODE_STRATEGY",
    "defrag_threshold": "VLLM_DEFRAG_THRESHOLD",
    "defrag_with_graphs": "VLLM_DEFRAG_WITH_GRAPHS",
    "skip_warmup": "VLLM_SKIP_WARMUP",
}
"""Settings of the engines to the environment variables that they follow."""


def is_bucketing_off(config: Mapping[str, object]) -> bool:
    """Whether the engine makes no buckets: its warm-up returns at once (vllm-gaudi
    `hpu_model_runner.py warmup_model`), and every new shape compiles."""
    return str(config.get("use_bucketing")) == "False"
