"""Memory lines that several HPU dialects print identically.

Source: vllm-fork and vllm-gaudi `hpu_worker.py` (`determine_available_memory`,
`initialize_from_config`) and `HabanaMemoryProfiler.get_summary_string`; the text of
sizes is `format_bytes` in `extension/profiler.py`: four significant digits.
"""

from __future__ import annotations

import re

from parsers.base import LineRule, Made, Sample, fork_rule, hpu_rule, line_rule
from parsers.engine.convert import convert_groups
from warmup_insights.model.events import (
    KVCacheAllocated,
    MemoryBudgetSet,
    MemoryMeasured,
)
from warmup_insights.units import GIB, MIB

SIZE = r"-?[\d.]{1,20} ?[KMGT]?i?B"
TOOK = (
    # The words of 1.16 about the KV cache stand before what is used.
    rf"(?P<delta_bytes>{SIZE})(?: of device memory)? "
    r"\((?:[\d.]{1,8}% of total memory, gpu_memory_utilization: [\d.]{1,12}, )?"
    rf"(?P<used_bytes>{SIZE})/\(?(?P<total_bytes>{SIZE}) used\)"
    rf"(?: and (?P<host_delta_bytes>{SIZE}) of host memory "
    rf"\((?P<host_used_bytes>{SIZE})/(?P<host_total_bytes>{SIZE}) used\))?"
)
_STAGES = {
    "Wrapping in HPUGraph": "wrap_graphs",
    "Loading drafter model weights": "drafter_weights",
    "Preparing model with INC": "quantization",
    "Compiling": "compile",
    "Compilation": "compile",
    "Moving model to HPU": "move_to_device",
    "Model profiling run": "profile_run",
    "Initializing cache engine": "kv_cache",
    "Discarding KV cache for sleep mode": "sleep",
    "Moving model to CPU for sleep mode": "sleep",
    "Waking up model, moving it back to HPU": "wake",
    "Waking up KV cache, reinitializing it": "wake",
    "Stashing model runner": "stash",
}
_V0_STAGES = {
    "Pre-loading model weights": "preload_weights",
    "Loading model weights": "weights",
    "Wrapping in HPU Graph": "wrap_graphs",
    "init_cache_engine": "init_cache_engine",
}
_STAGE_WORDS, _V0_WORDS = (
    "|".join(map(re.escape, sorted(words, key=len, reverse=True)))
    for words in (_STAGES, _V0_STAGES)
)


def _usable_blocks(match: re.Match[str]) -> Made:
    """The first slot after the usable blocks is their number times their size.

    Since vllm-gaudi 0.19 the slots are those of the kernel, and the layers of a hybrid model
    may have blocks of several times its size: the longest layer has all of them and one of
    the kernel (`hpu_model_runner.py initialize_kv_cache`). In 0.14 block 0 is the padding.
    """
    block, slot = int(match["pad_block"] or 0), int(match["pad_slot"] or 0)
    count, allocated = int(match["num_blocks"]), int(match["allocated"] or 0)
    size = slot // block if block > 0 and slot > 0 and slot % block == 0 else None
    if size is None and slot < 0 and allocated % (count + 1) == 0:
        size = allocated // (count + 1)
    is_of_kernel = bool(match["across"]) and allocated != (block + 1) * (size or 0)
    return KVCacheAllocated(num_blocks=count, block_size=None if is_of_kernel else size)


def _measured(match: re.Match[str]) -> Made:
    fields = convert_groups(
        {k: v for k, v in match.groupdict().items() if k != "words"}
    )
    used, total = fields.get("used_bytes"), fields.get("total_bytes")
    if used is not None and total is not None:
        fields["free_bytes"] = total - used
    words = match["words"]
    return MemoryMeasured(stage=_V0_STAGES.get(words) or _STAGES[words], **fields)


_HPU_BUDGET = (
    rf"Free device memory: (?P<free_bytes>{SIZE}), (?P<usable_bytes>{SIZE}) usable "
    r"\(gpu_memory_utilization=(?P<gpu_memory_utilization>[\d.]{1,12})\), "
    rf"(?P<graph_reserved_bytes>{SIZE}) reserved for HPUGraphs "
    r"\(VLLM_GRAPH_RESERVED_MEM=(?P<graph_reserved_fraction>[\d.]{1,12})\), "
)

MEMORY_RULES: tuple[LineRule, ...] = (
    fork_rule(
        "hpu_memory_took_v0",
        rf"(?P<words>{_V0_WORDS})(?: on [\w:]{{1,20}})? took(?: in total)? {TOOK}",
        _measured,
        Sample(
            "INFO 08-02 17:37:52 habana_model_runner.py:430] Pre-loading model "
            "weights on hpu:0 took 14.97 GiB of device memory (14.97 GiB/94.62 GiB "
            "used) and 2.95 GiB of host memory (475.2 GiB/1007 GiB used)",
            {
                "stage": "preload_weights",
                "delta_bytes": round(14.97 * GIB),
                "total_bytes": round(94.62 * GIB),
            },
        ),
        Sample(
            "INFO 08-02 17:37:52 habana_model_runner.py:442] Loading model weights "
            "took in total 14.97 GiB of device memory (14.97 GiB/94.62 GiB used) and "
            "2.95 GiB of host memory (475.2 GiB/1007 GiB used)",
            {"stage": "weights", "delta_bytes": round(14.97 * GIB)},
        ),
        Sample(
            "INFO 05-21 17:37:52 habana_model_runner.py:191] Loading model weights "
            "took 13.5 GiB (14.25 GiB/94.62 GiB used)",
            {
                "stage": "weights",
                "delta_bytes": round(13.5 * GIB),
                "used_bytes": round(14.25 * GIB),
                "total_bytes": round(94.62 * GIB),
            },
        ),
        Sample(
            "INFO 05-21 17:37:53 habana_executor.py:83] init_cache_engine took 50.5 "
            "GiB (53.37% of total memory, gpu_memory_utilization: 0.8, 64.75 "
            "GiB/94.62 GiB used)",
            {
                "stage": "init_cache_engine",
                "delta_bytes": round(50.5 * GIB),
                "used_bytes": round(64.75 * GIB),
            },
        ),
        hint=(
            "of device memory",
            "Loading model weights took",
            "init_cache_engine took",
        ),
    ),
    hpu_rule(
        "hpu_memory_took",
        rf"(?P<words>{_STAGE_WORDS}) took {TOOK}",
        _measured,
        Sample(
            "INFO 08-02 17:37:54 hpu_worker.py:134] Model profiling run took 504 MiB "
            "of device memory (15.46 GiB/94.62 GiB used) and 180.9 MiB of host memory "
            "(475.4 GiB/1007 GiB used)",
            {"stage": "profile_run", "delta_bytes": 504 * MIB},
        ),
        Sample(
            "INFO 08-02 17:37:54 hpu_worker.py:190] Initializing cache engine took "
            "23.73 GiB of device memory (39.2 GiB/94.62 GiB used) and -1.238 MiB of "
            "host memory (475.4 GiB/1007 GiB used)",
            {"stage": "kv_cache", "host_delta_bytes": round(-1.238 * MIB)},
        ),
        hint="of device memory",
    ),
    line_rule(
        "hpu_memory_took_gb",
        rf"(?P<words>{_STAGE_WORDS}) took (?P<delta_gib>-?\d{{1,6}}\.\d{{4}}) GB\s*$",
        _measured,
        Sample(
            "INFO 11-20 07:32:00 [hpu_model_runner.py:4852] Wrapping in HPUGraph took "
            "0.1000 GB",
            {"stage": "wrap_graphs", "delta_bytes": round(0.1 * GIB)},
        ),
        hint=" took ",
    ),
    fork_rule(
        "hpu_memory_budget",
        _HPU_BUDGET + rf"(?P<kv_cache_bytes>{SIZE}) reserved for KV cache\s*$",
        MemoryBudgetSet,
        Sample(
            "INFO 08-02 17:37:54 hpu_worker.py:158] Free device memory: 79.16 GiB, "
            "39.58 GiB usable (gpu_memory_utilization=0.5), 15.83 GiB reserved for "
            "HPUGraphs (VLLM_GRAPH_RESERVED_MEM=0.4), 23.75 GiB reserved for KV cache",
            {
                "free_bytes": round(79.16 * GIB),
                "usable_bytes": round(39.58 * GIB),
                "graph_reserved_bytes": round(15.83 * GIB),
                "kv_cache_bytes": round(23.75 * GIB),
                "gpu_memory_utilization": 0.5,
                "graph_reserved_fraction": 0.4,
            },
        ),
    ),
    hpu_rule(
        "hpu_memory_budget_dummy_block",
        _HPU_BUDGET + rf"(?P<padding_bytes>{SIZE}) reserved for KV cache dummy block,? "
        rf"(?P<kv_cache_bytes>{SIZE}) reserved for usable KV cache",
        MemoryBudgetSet,
        Sample(
            "INFO 11-20 07:32:02 [hpu_worker.py:432] Free device memory: 79.16 GiB, "
            "71.24 GiB usable (gpu_memory_utilization=0.9), 7.124 GiB reserved for "
            "HPUGraphs (VLLM_GRAPH_RESERVED_MEM=0.1), 64 KiB reserved for KV cache "
            "dummy block 64.12 GiB reserved for usable KV cache",
            {"kv_cache_bytes": round(64.12 * GIB), "padding_bytes": 64 * 1024},
        ),
    ),
    hpu_rule(
        "hpu_blocks_upstream",
        r"# hpu blocks: (?P<num_blocks>[\d,]{1,16}), "
        r"# CPU blocks: (?P<num_host_blocks>[\d,]{1,16})",
        KVCacheAllocated,
        Sample(
            "INFO 06-04 01:18:37 [executor_base.py:113] # hpu blocks: 6399, # CPU "
            "blocks: 256",
            {"num_blocks": 6399, "num_host_blocks": 256},
        ),
    ),
    fork_rule(
        "hpu_blocks",
        r"# HPU blocks: (?P<num_blocks>[\d,]{1,16}), "
        r"# CPU blocks: (?P<num_host_blocks>[\d,]{1,16})",
        KVCacheAllocated,
        Sample(
            "INFO 08-02 17:37:54 hpu_executor.py:85] # HPU blocks: 1519, # CPU "
            "blocks: 0",
            {"num_blocks": 1519, "num_host_blocks": 0},
        ),
    ),
    hpu_rule(
        "hpu_usable_blocks",
        r"Usable num_blocks: (?P<num_blocks>\d{1,12}), actual allocated num_blocks"
        r"(?: ?(?P<across>\(max across layers\))?: (?P<allocated>\d{1,16}) "
        r"\(_PAD_BLOCK_ID=(?P<pad_block>\d{1,12}), _PAD_SLOT_ID=(?P<pad_slot>-?\d{1,16})\))?",
        _usable_blocks,
        Sample(
            "INFO 11-20 07:32:03 [hpu_worker.py:546] Usable num_blocks: 4107, actual "
            "allocated num_blocks: 4108 (_PAD_BLOCK_ID=4107, _PAD_SLOT_ID=525696)",
            {"num_blocks": 4107, "block_size": 128},
        ),
        Sample(
            "INFO 11-20 07:32:03 [hpu_worker.py:546] Usable num_blocks: 64, actual "
            "allocated num_blocks (max across layers): 8320 (_PAD_BLOCK_ID=64, "
            "_PAD_SLOT_ID=8192)",
            {"num_blocks": 64, "block_size": 128},
        ),
        Sample(
            "INFO 08-21 07:32:03 [hpu_worker.py:546] Usable num_blocks: 550, actual "
            "allocated num_blocks (max across layers): 633728 (_PAD_BLOCK_ID=550, "
            "_PAD_SLOT_ID=70400)",
            {"num_blocks": 550, "block_size": None},
        ),
        Sample(
            "INFO 01-21 07:32:03 [hpu_worker.py:297] Usable num_blocks: 1332, actual "
            "allocated num_blocks: 170624 (_PAD_BLOCK_ID=0, _PAD_SLOT_ID=-1)",
            {"num_blocks": 1332, "block_size": 128},
        ),
    ),
)
