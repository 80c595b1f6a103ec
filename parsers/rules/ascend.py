"""vLLM on Ascend: what vllm-ascend words in a way of its own.

Source: vllm-ascend `worker/worker.py` and `worker/model_runner_v1.py`.
"""

from __future__ import annotations

from parsers.base import NUMBER, LineRule, Sample, phase_end
from parsers.rules.of_device import ascend_rule
from parsers.rules.vllm_memory import GRAPHS_TOOK, ON_STARTUP, SUGGESTED
from warmup_insights.model.events import MemoryBudgetSet
from warmup_insights.units import GIB

ASCEND_RULES: tuple[LineRule, ...] = (
    ascend_rule(
        "ascend_model_class",
        "new model class vllm_ascend",
        # vLLM `model_executor/models/registry.py`, of a model that a plugin replaces.
        r"Model architecture \w{1,100} is already registered, and will be overwritten by "
        r"the new model class vllm_ascend[./]",
        None,
        "WARNING 06-30 09:36:09 [registry.py:401] Model architecture DeepSeekMTPModel "
        "is already registered, and will be overwritten by the new model class "
        "vllm_ascend.models.deepseek_mtp:CustomDeepSeekMTP.",
    ),
    ascend_rule(
        "ascend_memory_on_startup",
        "GiB for NPU graph memory",
        rf"{ON_STARTUP}Actual usage: (?P<weights_gib>{NUMBER}) GiB for weights, "
        rf"(?P<activation_gib>{NUMBER}) GiB for peak activation, "
        rf"(?P<non_torch_gib>{NUMBER}) GiB for non-torch memory, "
        rf"{GRAPHS_TOOK} GiB for NPU graph memory"
        rf"(?:\. Replace gpu_memory_utilization with {SUGGESTED}"
        rf"\. Current KV cache memory: (?P<kv_cache_gib>{NUMBER}) GiB)?",
        MemoryBudgetSet,
        Sample(
            "(EngineCore pid=20) INFO 08-20 10:00:56 [worker.py:793] Free memory on "
            "device (60.50/61.25 GiB) on startup. Desired GPU memory utilization is "
            "(0.9, 55.13 GiB). Actual usage: 15.27 GiB for weights, 1.50 GiB for peak "
            "activation, 0.25 GiB for non-torch memory, 0.50 GiB for NPU graph "
            "memory. Replace gpu_memory_utilization with "
            "`--kv-cache-memory=40265318400` (37.50 GiB) to fit into requested "
            "memory, or `--kv-cache-memory=45902462976` (42.75 GiB) to fully utilize "
            "NPU free memory. Current KV cache memory: 37.75 GiB. After warmup: torch "
            "reserved memory 54.00 GiB, torch allocated memory 53.25 GiB.",
            {
                "free_bytes": round(60.5 * GIB),
                "total_bytes": round(61.25 * GIB),
                "usable_bytes": round(55.13 * GIB),
                "gpu_memory_utilization": 0.9,
                "weights_bytes": round(15.27 * GIB),
                "activation_bytes": round(1.5 * GIB),
                "non_torch_bytes": round(0.25 * GIB),
                "graph_bytes": round(0.5 * GIB),
                "suggested_kv_cache_bytes": 40265318400,
                "suggested_full_kv_cache_bytes": 45902462976,
                "kv_cache_bytes": round(37.75 * GIB),
            },
        ),
    ),
    ascend_rule(
        "ascend_kv_cache_budget",
        "Available memory: ",
        r"Available memory: (?P<kv_cache_bytes>\d{1,18}), total memory: (?P<total_bytes>\d{1,18})$",
        MemoryBudgetSet,
        Sample(
            "(Worker_TP1 pid=20) INFO 08-20 10:00:40 [worker_v1.py:235] Available "
            "memory: 11857880064, total memory: 65452113920",
            {"kv_cache_bytes": 11857880064, "total_bytes": 65452113920},
        ),
    ),
    ascend_rule(
        "ascend_graph_sizes",
        ("ACL graph batch sizes", "batch sizes for ACL graph", "enabled on NPU"),
        r"(?:Calculated maximum supported|(?:Adjusted|No adjustment needed for) ACL|"
        r"\w{1,30} compilation enabled on NPU\.)",
        None,
        "(EngineCore_1 pid=20) INFO 08-20 10:00:02 [utils.py:334] Calculated maximum "
        "supported batch sizes for ACL graph: 25",
    ),
    phase_end(
        "ascend_model_loaded",
        "Model runner load_model total time",
        r"Model runner load_model total time: (?P<duration_s>[\d.]{1,16}) seconds",
        "load_model",
        Sample(
            "(EngineCore pid=20) INFO 08-20 10:00:32 [model_runner_v1.py:3603] Model "
            "runner load_model total time: 11.25 seconds",
            {"duration_s": 11.25},
        ),
    ),
)
