"""The tabs of the run page; each module has TITLE, has_content and show."""

from __future__ import annotations

from dashboard.run_tabs import (
    advice,
    benchmarks,
    buckets,
    captures,
    config,
    cuda_graphs,
    failure,
    graph_memory,
    missed,
    overview,
    sampler,
    source,
    timeline,
)

TABS = (
    failure, overview, advice, timeline, buckets, graph_memory, captures, sampler, missed, cuda_graphs,
    benchmarks, config, source,
)  # fmt: skip
