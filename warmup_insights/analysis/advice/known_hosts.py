"""Errors of an engine that runs on the CPU: its memory and its nodes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from warmup_insights.analysis.advice.finding import Way
from warmup_insights.analysis.advice.known_texts import KnownError

ON_HOST = 0.9
"""Of the memory that is free on a host: what a KV cache there may take."""


def _ranks_on_nodes(match: re.Match[str]) -> Iterable[Way]:
    """vLLM `v1/executor/ompmultiprocessing.py`: a node for each worker, unless bound."""
    nodes = len(re.findall(r"\d+", match[1]))
    if nodes:
        yield Way(
            f"--tensor-parallel-size {nodes}",
            "the weights lie on fewer nodes",
            {"tensor_parallel_size": nodes},
        )
    yield Way(
        "VLLM_CPU_OMP_THREADS_BIND with the cores of each worker, such as 0-7|8-15",
        "workers on one node share its memory and bandwidth",
    )


def _cache_on_host(match: re.Match[str]) -> Iterable[Way]:
    """vLLM `v1/worker/cpu_worker.py determine_available_memory`: the size that was set, or
    the rest of a share of the memory, is not free on the node."""
    free, total, requested = (float(match[number]) for number in (1, 2, 3))
    if match[4] is None:
        fits = math.floor(ON_HOST * free)
        if fits >= 1:
            yield Way(
                f"VLLM_CPU_KVCACHE_SPACE={fits} (GiB; or --kv-cache-memory-bytes)",
                f"a cache of {fits} instead of {requested:g} GiB",
                {"VLLM_CPU_KVCACHE_SPACE": fits},
            )
    elif requested > free and total:
        share = (
            math.floor(100 * (float(match[4]) - requested + ON_HOST * free) / total)
            / 100
        )
        if share > 0:
            yield Way(
                f"--gpu-memory-utilization {share:g}, which is a share of the host's memory",
                "a smaller KV cache",
                {"gpu_memory_utilization": share},
            )
    else:
        yield Way(
            "a higher --gpu-memory-utilization, which is a share of the host's memory",
            "less of it for others; the process holds more than its share before the cache",
        )
    yield Way(
        "other processes on the host ended, or a larger limit of the container", "none"
    )


ROWS: tuple[KnownError, ...] = (
    KnownError(
        "host_limit",
        r"Available memory on node \d{1,5} \(([\d.]{1,12})/([\d.]{1,12}) GiB\) on kv cache "
        r"allocation is less than requested memory for kv "
        r"\((-?[\d.]{1,12})(?:/([\d.]{1,12}))? GiB\)",
        "The KV cache that was requested does not fit into the memory of the host",
        _cache_on_host,
    ),
    KnownError(
        "setting_refused",
        r"Not enough allowed NUMA nodes to bind threads of \d{1,6} local CPUWorkers\. Allowed "
        r"NUMA nodes are \[([\d, ]{0,200})\]",
        "There are fewer nodes of memory than workers on the CPU",
        _ranks_on_nodes,
    ),
)
