"""Wordings beside the samples of their rules: each figure comes back in its field."""

from __future__ import annotations

import pytest

from tests.audit.reading import Reader
from tests.audit.rendering import NEWEST
from tests.audit.statements import Statement
from tests.helpers import events, of, summary_of
from warmup_insights.model.events import Note

WARMUP = "vllm/model_executor/warmup/kernel_warmup.py"
CONFIG = "vllm/config/vllm.py"
XPU = "vllm/platforms/xpu.py"
TPU = "tpu_inference/runner/compilation_manager.py"

LINES = [
    ("# GPU blocks: 7191",
     "PhaseMarked name=profile_run edge=end; KVCacheAllocated num_blocks=#1"),
    ("# neuron blocks: 4, # CPU blocks: 0", "KVCacheAllocated num_blocks=#1 num_host_blocks=#2"),
    ("# xpu blocks: 71, # CPU blocks: 5", "KVCacheAllocated num_blocks=#1 num_host_blocks=#2"),
    ("Encoder CUDA graph capture complete. Captured 7 global + 5 local budget graphs.",
     "PhaseMarked name=encoder_graph_capture edge=end; "
     "Note topic=cuda_graphs values.num_global=#1 values.num_local=#2"),
    ("Encoder CUDA graph capture complete. Captured 12 budget graphs.",
     "PhaseMarked name=encoder_graph_capture edge=end; "
     "Note topic=cuda_graphs values.num_graphs=#1"),
    ("FlyDSL _get_kernel BUILD #7 dt=1.25s (cumulative=9.5s) key=k",
     "Note topic=kernel_warmup values.num_built=#1 values.duration_s=#2 values.total_s=#3"),
    ("Rearranged experts in 2.75 seconds.", "Note topic=experts values.duration_s=#1"),
    ("Partition model took 12.75 seconds", "PhaseMarked name=partition_model edge=end duration_s=#1"),
    ("Input processor warmup completed in 3.75s",
     "PhaseMarked name=speech_warmup edge=end duration_s=#1"),
    ("Started DPSupervisor on 0.0.0.0:8000", "ServerReady"),
    ("Estimated encoder CUDA graph memory: 12.50 MiB for 9 graphs",
     "Note topic=cuda_graphs values.all_bytes=#1 values.count=#2"),
    ("MLA decode workspace: 1.5 GiB", "Note topic=memory values.workspace_bytes=#1"),
    ("worker requested memory: 71.5GiB", "Note topic=memory values.requested_bytes=#1"),
    ("KV cache swap pre-compilation finished in 1.25 [secs].",
     "CompileFinished what=~ duration_s=#1"),
    ("Warmup drafter_propose: num_reqs=16", "Note topic=tpu values.num_reqs=#1"),
    ("KV cache delete complete | hbm_after=[(3.5, 31.25), (3.75, 31.25)]Gb",
     "Note topic=kv_cache values.used_bytes=#1 values.total_bytes=#2"),
    ("block_bucket_size (512) exceeds total KV blocks (300); capping to prevent OOB.",
     "Note topic=capped values.bucket_blocks=#1 values.total_blocks=#2"),
    ("Gemma4 MTP: captured centroids CUDA graphs for sizes [1, 2, 4].",
     "Note topic=cuda_graphs values.batch_sizes=#1 values.batch_sizes=#2 values.batch_sizes=#3"),
    ("DeepGemmExperts GEMM warmup (MAX_M=8192):  45%|████▌     | 43/96 [05:10<05:58,  6.77s/it]",
     "BarUpdate name=DeepGemmExperts GEMM warmup (MAX_M=8192) done=#3 total=#4 elapsed_s=#5 "
     "item_s=#8"),
]  # fmt: skip
DECISIONS = [
    (CONFIG, "CUDA graphs are not supported with this. Overriding cudagraph_mode FULL to NONE.", "cuda_graphs"),
    (CONFIG, "Auto-enabling VLLM_USE_BREAKABLE_CUDAGRAPH=1. Set it to 0 to opt out.", "cuda_graphs"),
    (XPU, "XPU Graph is disabled by environment variable, please set A=1 to enable it.", "cuda_graphs"),
    (XPU, "VLLM_XPU_GRAPH_FORCE_PIECEWISE=1: overriding cudagraph_mode from FULL to PIECEWISE so "
     "FlashAttention stays outside the XPU Graph. Set it to 0.", "cuda_graphs"),
    ("vllm/_logger.py", "CUDA graph is not supported on XPU, fallback to the eager mode.", "cuda_graphs"),
    (WARMUP, "Skipping mixed prefill+decode attention warmup; loaded later.", "kernel_warmup"),
    (WARMUP, "No FlashInfer autotune cache entries found.Falling back.", "autotune"),
    (TPU, "AOT lower skipped for f (g); will compile in warmup.", "tpu"),
    ("vllm_gaudi/v1/engine/multi_model_async_llm.py", "Switching from a/b to c/d", "model_switch"),
    ("vllm/utils/numa_utils.py", "Binding EngineCore subprocess (local_rank=1) to NUMA nodes 0", "numa"),
]  # fmt: skip
NOT_READ = [
    ("vllm/models/any.py", "CUDA graphs are not supported with this layer", "counted"),
    (CONFIG, "Detected a thing and disabling AOT compile.", "counted"),
    (CONFIG, "[shutdown] MPClient: engine core exited unexpectedly; starting cleanup", "silent"),
    (CONFIG, "Found 3 weights to compile", "counted"),
]  # fmt: skip


def reading(text, module="vllm/v1/worker/gpu_worker.py"):
    statement = Statement(module, 1, "f", "info", "INFO", [text])
    return Reader(NEWEST).read(statement)


@pytest.mark.parametrize(("text", "reads"), LINES, ids=[text[:40] for text, _ in LINES])
def test_figures_come_back_in_their_fields(text, reads):
    found = reading(text)
    assert (found.reads, found.wrong) == (reads, [])


@pytest.mark.parametrize(("module", "text", "topic"), DECISIONS)
def test_decisions_are_kept_as_notes(module, text, topic):
    found = reading(text, module)
    assert (found.outcome, found.reads.split()[:2]) == (
        "note",
        ["Note", f"topic={topic}"],
    )


@pytest.mark.parametrize(("module", "text", "outcome"), NOT_READ)
def test_what_no_rule_knows_in_full_is_not_swallowed(module, text, outcome):
    assert reading(text, module).outcome == outcome


def test_a_server_without_the_logo_states_its_version_and_model():
    text = (
        "(APIServer pid=7) INFO 07-16 10:00:00 [startup.py:27] vLLM server version 0.33.0, "
        "serving model a/b\n"
        "(APIServer pid=7) INFO 07-16 10:00:05 [model.py:623] Resolved architecture: A\n"
    )
    summary = summary_of(events(text))
    assert (summary["engine"]["version"], summary["model"]) == ("0.33.0", "a/b")
    assert not summary["time"]["is_excerpt"]


@pytest.mark.parametrize(("name", "is_noted"), [
    ("VLLM_USE_NO_SUCH_THING", True),
    ("VLLM_ATTENTION_BACKEND", True),
    ("VLLM_USE_V1", True),
    ("VLLM_BUILD_COMMIT", False),
    ("VLLM_IMAGE_TAG", False),
    ("VLLM_SERVICE_HOST", False),
    ("VLLM_A_B_SERVICE_PORT_HTTP", False),
    ("VLLM_A_B_PORT_8000_TCP_ADDR", False),
    ("VLLM_A_B_PORT", False),
    ("VLLM_PROMPT_QUERY_BUCKET_STEP", False),
    ("VLLM_CONTIGUOUS_PA", False),
    ("VLLM_ASCEND_ENABLE_X", False),
])  # fmt: skip
def test_a_variable_that_no_one_reads_is_noted(name, is_noted):
    text = f"Unknown vLLM environment variable detected: {name}"
    start = "INFO 07-16 20:03:57 [api_utils.py:345] vLLM API server version 0.26.0\n"
    found = events(f"{start}WARNING 07-16 20:03:58 [envs.py:2027] {text}\n")
    notes = [(note.topic, note.text) for note in of(Note, found)]
    assert notes == ([("setting_unknown", text)] if is_noted else [])
