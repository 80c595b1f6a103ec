"""Upstream vLLM: decisions, skipped stages and memory that belongs to no stage.

Source: vLLM `config/`, `platforms/`, `compilation/`, `v1/core/kv_cache_utils.py`,
`v1/core/kv_cache_planning.py`, `v1/kv_offload/`, `v1/simple_kv_offload/`, `v1/hisparse/`,
`multimodal/gpu_ipc_memory.py`, `utils/numa_utils.py`, `renderers/base.py`,
`entrypoints/openai/speech_to_text.py`, `v1/worker/gpu_model_runner.py`,
`v1/spec_decode/llm_base_proposer.py`, `logging_utils/dump_input.py`.
"""

from __future__ import annotations

from parsers.base import (
    NUMBER,
    LineRule,
    Sample,
    line_rule,
    note_rule,
    phase_end,
    phase_start,
)
from warmup_insights.model.events import ConfigRecorded, MemoryMeasured
from warmup_insights.units import GIB, MIB

_CONFIG = ("config.py", "__init__.py", "vllm.py", "compilation.py", "xpu.py", "cpu.py",
           "tpu.py", "openvino.py", "model.py", "breakable_cudagraph.py",
           "model_runner.py", "gpu_model_runner.py", "encoder_cudagraph.py",
           "platform.py", "interface.py", "cudagraph_dispatcher.py", "cpu_executor.py",
           "xpu_executor.py", "openvino_executor.py", "cuda.py")  # fmt: skip
"""Modules that decide about graphs: their wordings are many and change often."""

UNKNOWN_VARIABLE = "Unknown vLLM environment variable detected: "
"""vLLM `envs.py validate_environ`, of each variable that begins as its own do."""
VARIABLE_OF_OTHERS = (
    # vLLM's images state how they were built, Kubernetes the services of a pod.
    r"VLLM_(?:BUILD_|IMAGE_TAG\b|(?:\w{1,80}_)?SERVICE_(?:HOST|PORT)|"
    r"(?:\w{1,80}_)?PORT(?:_\d{1,5}_(?:TCP|UDP|SCTP)|\b)|"
    # What plugins read; of vllm-gaudi `envs.py`, `extension/features.py`, `extension/
    # bucketing/` and `v1/worker/hpu_model_runner.py`.
    r"ASCEND_|METAL_|NEURON_|OMNI_|RBLN_|SPYRE_|HPU_|USE_(?:FAKE_HPU|HPU_|HYBRID_CACHE|NAIVE_MAMBA)|"
    r"(?:PROMPT|DECODE|BUCKETING|GDN|GRAPH|ROW_PARALLEL|T_COMPILE|PROFILE|MINIMAX_M3)_|"
    r"(?:ENABLE|EXPONENTIAL)_BUCKETING|CONTIGUOUS_PA|DEFRAG|DEVELOPER_MODE|DEBUG\b|"
    r"(?:SKIP|FULL)_WARMUP|MM_WARMUP_|MULTIMODAL_(?:BUCKETS|RESOLUTIONS)|PROFILER_ENABLED|"
    r"PT_PROFILE|ALIBI_USE_|COMPACT_GDN|CONFIG_HIDDEN_LAYERS|COS_SIN_RECOMPUTE|DELAYED_SAMPLING|"
    r"DISABLE_MARK_SCALES|DYNAMIC_KV_QUANT|FP32_SOFTMAX|FUSEDSDPA_|MAMBA_USE_|MOE_CHUNK|"
    r"MOE_TOKEN_BOUNDARY|NIXL_DEVICE_TO_DEVICE|SCALE_ADJUSTMENT|WEIGHT_LOAD_FORCE_SYNC)"
)
"""Variables that are no mistake though vLLM itself reads none of them."""

NOTE_RULES: tuple[LineRule, ...] = (
    note_rule(
        "graphs_off",
        r"(?!.{1,200}?[OS]\w{4,9} cudagraph_mode (?:from \w{1,40} )?to |"
        r"Enforce eager set|TORCH_COMPILE_DISABLE|Cudagraph (?:is|mode))"
        r"(?:XPU Graph (?:is disabled by|is not supported in|support is experimental)"
        r".{0,300}|VLLM_XPU_GRAPH_FORCE_PIECEWISE=\d: overriding .{0,300}|"
        r".{0,300}?(?:CUDA graphs? (?:is|are) not supported|Disabling CUDA Graphs|"
        r"[Dd]isabling cudagraph|[Bb]reakable CUDA graph|BREAKABLE_CUDAGRAPH|"
        r"No piecewise cudagraph|graph fallback to eager|No CUDA graphs will be captured|"
        r"Skipping encoder and decoder CUDA graph capture|cudagraph sizes specified by|"
        r"cudagraph dispatching keys are not initialized|"
        r"Forcing (?:DYNAMO_ONCE|CompilationMode|enforce eager)|"
        r"using PIECEWISE CUDA graphs and excluding MoE).{0,300})",
        "cuda_graphs",
        "WARNING 06-03 05:44:02 [model.py:1957] CUDA graph is not supported for Grok1 "
        "on ROCm yet, fallback to eager mode.",
        files=_CONFIG,
        hint=(
            "CUDA graph is not supported",
            "CUDA graphs are not supported",
            "Disabling CUDA Graphs",
            "disabling cudagraph",
            "isabling cudagraphs",
            "Disabling cudagraph",
            "reakable CUDA graph",
            "BREAKABLE_CUDAGRAPH",
            "No piecewise cudagraph",
            "graph fallback to eager",
            "No CUDA graphs will be",
            "Skipping encoder and decoder CUDA graph",
            "cudagraph sizes specified",
            "cudagraph dispatching keys are not",
            "Forcing DYNAMO_ONCE",
            "Forcing CompilationMode",
            "Forcing enforce eager to be True",
            "using PIECEWISE CUDA graphs",
            "XPU Graph ",
            "XPU_GRAPH_FORCE_PIECEWISE=",
        ),
    ),
    note_rule(
        "setting_unknown",
        rf"{UNKNOWN_VARIABLE}(?!{VARIABLE_OF_OTHERS})VLLM_\w{{1,120}}",
        "setting_unknown",
        "(APIServer pid=1) WARNING 07-16 20:03:58 [envs.py:2027] Unknown vLLM environment "
        "variable detected: VLLM_USE_NO_SUCH_THING",
        levels=("WARNING",),
    ),
    note_rule(
        "graph_limits",
        r"Overriding max cuda graph capture size to (?P<max_size>\d{1,9}) .{0,200}|"
        r"Setting max_seq_len_to_capture to (?P<max_seq_len>\d{1,9}) .{0,200}|"
        r"Hybrid or mamba-based model detected: setting cudagraph mode to .{1,200}|"
        r"\w{1,40} is incompatible with piecewise cudagraph .{1,400}|"
        r"When compilation level is piecewise .{1,100}? cudagraph_mode will be treated as .{1,300}|"
        r".{1,100}?falling back to PIECEWISE graph mode on XPU platform.{0,100}|"
        r".{0,100}?Disabling CUDA graph support for .{1,200}|"
        r"Currently the eagle proposer only supports cudagraph_mode .{1,300}|"
        r".{1,80}? does not support full CUDA graphs; .{1,100}|"
        r"No valid cudagraph sizes after rounding .{1,300}",
        "cuda_graphs",
        "INFO 02-05 00:05:36 [config.py:271] Overriding max cuda graph capture size "
        "to 768 for performance.",
        values={"max_size": 768},
        startup_only=True,
    ),
    note_rule(
        "graph_mode_estimate",
        rf"Estimated (?P<mode>\w{{1,40}}) CUDA graph memory: (?P<first_mib>{NUMBER}) MiB "
        rf"first-capture \+ \((?P<num_graphs>\d{{1,7}})-1\) . (?P<each_mib>{NUMBER}) MiB|"
        rf"Estimated encoder CUDA graph memory: (?P<all_mib>{NUMBER}) MiB for "
        r"(?P<count>\d{1,7}) graphs",
        "cuda_graphs",
        "DEBUG 09-16 20:04:12 [gpu_model_runner.py:6360] Estimated FULL CUDA graph "
        "memory: 12.50 MiB first-capture + (35-1) × 1.25 MiB per-graph",
        values={
            "mode": "FULL",
            "first_bytes": round(12.5 * MIB),
            "num_graphs": 35,
            "each_bytes": round(1.25 * MIB),
        },
    ),
    line_rule(
        "model_runner",
        r"Using (?P<version>V\d) Model Runner|.{0,200}?; using the (?P<instead>V\d) model "
        r"runner instead",
        lambda match: ConfigRecorded(
            settings={"model_runner": match["version"] or match["instead"]}
        ),
        Sample(
            "(Worker pid=2) INFO 07-25 14:02:32 [gpu_worker.py:378] Using V2 Model "
            "Runner",
            {"settings": {"model_runner": "V2"}},
        ),
        Sample(
            "WARNING 11-20 07:44:35 [vllm.py:577] Model Runner V2 requires Triton; "
            "using the V1 model runner instead.",
            {"settings": {"model_runner": "V1"}},
        ),
    ),
    note_rule(
        "compile_decision",
        r"(?:\[[^\]\s]{1,60}\] )?(?:Cannot save aot compilation .{1,300}|"
        r"Start compiling function .{1,200}|reconstructed serializable fn .{1,200}|"
        r"Inductor compilation was disabled .{1,300}|"
        r"Detected eager backend, disabling AOT compile.{0,100}|"
        r"torch\._dynamo\.config\.enable_aot_compile is not available\. .{1,200}|"
        r"(?:CPU offload|LoRA)(?: for V0)? is not supported with `torch\.compile`(?: in v0)? "
        r"yet\. Disabling .{1,100}|"
        r"`torch\.compile` is turned on, but the model .{1,300})",
        "compile",
        "WARNING 01-16 20:04:12 [decorators.py:300] Cannot save aot compilation to "
        "path /c/model, error: x",
        startup_only=True,
    ),
    note_rule(
        "kv_cache_share",
        r"Add \d{1,5} padding layers, may waste .{1,100}|"
        r"Multiplying the GPU KV cache size by .{1,200}|"
        r"KV cache page sizes cannot be unified.{1,300}|"
        r"Using block size \d{1,9} for hidden-state cache .{1,200}|"
        r"Hybrid KV cache manager is disabled for this .{1,600}|"
        r"Turning off hybrid kv cache manager because .{1,600}|"
        r"There is a latency regression when using chunked local attention with the hybrid "
        r"KV cache manager\. .{1,300}",
        "kv_cache",
        "WARNING 07-16 20:03:56 [kv_cache_utils.py:900] Add 2 padding layers, may "
        "waste at most 6.25% KV cache memory",
        startup_only=True,
    ),
    note_rule(
        "kv_offload",
        r"SimpleCPUOffload(?:Scheduler|Worker)\b.{0,20}?: .{1,300}|DiskBackend: path=.{1,300}|"
        r"Created mmap file .{1,300}|HiSparse HMA: .{1,300}|Enabled experimental HiSparse HMA .{1,200}|"
        r"RoutedExpertsManager CPU buffer: .{1,200}",
        "kv_offload",
        "INFO 09-16 20:04:12 [manager.py:120] SimpleCPUOffloadScheduler: Allocating "
        "2048 offload blocks (16.00 GB, mode=eager, backend=cpu)",
        startup_only=True,
    ),
    phase_start(
        "kv_offload_allocates",
        r"Allocating \d{1,7} CPU tensors\.\.\.",
        "kv_offload",
        "(Worker_TP0 pid=7) INFO 09-16 20:04:12 [cpu_gpu.py:379] Allocating 1 CPU "
        "tensors...",
    ),
    note_rule(
        "memory_set_aside",
        r"Initialized multimodal GPU IPC memory pool with (?P<pool_bytes>\d{1,18}) bytes .{1,200}|"
        rf"[\w ]{{1,40}} decode workspace: (?P<workspace_gib>{NUMBER}) GiB|"
        rf"Peak GPU memory after loading weights: (?P<peak_gib>{NUMBER}) GiB|"
        rf"worker requested memory: (?P<requested_gib>{NUMBER}) ?GiB|"
        r"The model has a long context length \((?P<max_model_len>\d{1,12})\)\. .{1,400}|"
        r"\[PrefetchOffloader\] Initialized \d{1,7} modules\. .{1,300}",
        "memory",
        "DEBUG 09-16 20:04:12 [base_loader.py:70] Peak GPU memory after loading "
        "weights: 15.25 GiB",
        values={"peak_bytes": round(15.25 * GIB)},
        startup_only=True,
    ),
    line_rule(
        "weights_offloaded",
        # `model_executor/offloader/uva.py`, in GiB; the sum of the process so far.
        rf"Total CPU offloaded parameters: (?P<host_delta_gib>{NUMBER})$",
        MemoryMeasured,
        Sample(
            "(Worker_TP0_EP0 pid=141112) INFO 07-16 19:12:11 [uva.py:58] Total CPU "
            "offloaded parameters: 40.33",
            {"host_delta_bytes": round(40.33 * GIB)},
        ),
        fixed={"stage": "cpu_offload"},
        startup_only=True,
    ),
    note_rule(
        "memory_snapshot",
        r"worker init memory snapshot: .{1,600}",
        "memory",
        "DEBUG 09-16 20:04:12 [gpu_worker.py:300] worker init memory snapshot: "
        "torch_peak=0.0GiB, free_memory=78.5GiB",
        startup_only=True,
    ),
    note_rule(
        "numa_binding",
        r"Binding (?:worker|EngineCore) subprocess \(.{1,100}?\) to .{1,300}|"
        r"CPU affinity is already constrained for this process\. .{1,200}|"
        r"User lacks permission to set NUMA memory policy\. .{1,300}",
        "numa",
        "INFO 07-16 19:53:01 [numa_utils.py:331] Binding worker subprocess "
        "(local_rank=1, gpu_index=1) to CPUs 0-31 and NUMA node 0",
        startup_only=True,
    ),
    note_rule(
        "sampler_fallback",
        # `v1/sample/ops/topk_topp_sampler.py`.
        r"FlashInfer is not available\. Falling back to .{1,300}",
        "sampler",
        "(EngineCore_DP0 pid=4671) WARNING 10-14 19:22:48 [topk_topp_sampler.py:66] FlashInfer "
        "is not available. Falling back to the PyTorch-native implementation of top-p & top-k "
        "sampling. For the best performance, please install FlashInfer.",
        startup_only=True,
    ),
    note_rule(
        "drafter_loading",
        # vllm-gaudi v0.11.2 prints the configuration of the model between these words.
        r"Loading drafter model(?:\.\.\.| (?!weights took ))",
        "load_model",
        "INFO 07-16 19:53:31 [gpu_model_runner.py:4700] Loading drafter model...",
        startup_only=True,
    ),
    note_rule(
        "kernels_not_imported",
        # Devices without these modules print a ModuleNotFoundError, which is no fault.
        r"Failed to import from vllm\._\w{1,20}(?:\.\w{1,20})?(?: with|:) ImportError\(.{1,400}\)",
        "kernels_missing",
        "WARNING 11-20 07:31:00 [interface.py:171] Failed to import from vllm._C: "
        "ImportError('libcudart.so.12: cannot open shared object file')",
        startup_only=True,
    ),
    note_rule(
        "frontend_warmup",
        r"Warming up (?:chat template|(?:readonly )?multi-modal|multimodal input|audio) "
        r"[\w ]{1,60}\.\.\.|Warming up \d{1,7}/\d{1,7} for shape .{1,100}|"
        r"(?:Chat template|(?:Readonly m|M)ulti-modal|Audio preprocessing|Input processor) "
        r"warmup failed.{0,200}",
        "frontend_warmup",
        "WARNING 07-16 20:04:14 [base.py:380] Multi-modal warmup failed",
        startup_only=True,
    ),
    phase_end(
        "frontend_warmup_took",
        r"(?:Audio preprocessing|Input processor) warmup completed in "
        r"(?P<duration_s>[\d.]{1,12})s",
        "speech_warmup",
        Sample(
            "INFO 01-16 20:04:14 [speech_to_text.py:174] Audio preprocessing warmup "
            "completed in 3.25s",
            {"duration_s": 3.25},
        ),
    ),
    phase_start(
        "profiling_begins",
        # What is behind it is the run (`worker/enc_dec_model_runner.py profile_run`,
        # `worker/openvino_worker.py`).
        r"Starting profile run for multi-modal models\.|Start profiling run with .{1,200}",
        "profile_run",
        "INFO 01-16 20:03:14 [enc_dec_model_runner.py:180] Starting profile run for "
        "multi-modal models.",
        startup_only=True,
    ),
    line_rule(
        "plain",
        # Words that matter, and no fact of a start.
        r"(?:Detected \w{1,40} model.{0,200}?)?Sharing target model "
        r"(?:embedding weights|lm_head weights|topk_indices_buffer) with the draft|"
        r"(?:Rank \d{1,5}: )?Torch profiler disabled|Dumping scheduler (?:output|stats)|"
        r"Running batch with cudagraph_mode: |"
        # tpu-inference `layers/`, `runner/kv_cache_manager.py`.
        r"\[MoE requantization\]: re-quantizing MoE weights to |"
        r"Hybrid KV cache layout: num_kv_cache_groups=|Compilation num_layers = \d|"
        # What `v1/attention/backends/utils.py`, `api_router.py` and `env_override.py` announce.
        r"`\w{1,60}` (?:environment )?variable detected\. Setting KV cache layout to |"
        r"wake up the engine with tags: |NCCL_CUMEM_ENABLE is set to \S{1,20}, skipping|"
        # `kv_connector/utils.py`, `kv_connector_model_runner_mixin.py`; its first number is
        # that of the blocks in some layouts alone.
        r"Connectors do not specify a kv cache layout|"
        r"Allocating a cross layer KV cache of shape \(|"
        # vLLM 0.6 to 0.8 `config.py`; CUDA graphs are off as the setting above states.
        r"To see benefits of async output processing, enable CUDA graph|"
        # `model_loader/bitsandbytes_loader.py load_weights`, whose bar follows.
        r"Loading weights with BitsAndBytes quantization\.|"
        # For each graph, where bars and totals are read (`v1/worker/gpu/cudagraph_utils.py`,
        # `v1/worker/encoder_cudagraph.py`, `compilation/`).
        r"CG Capture: mode=|Capturing a cudagraph on \(|Captured breakable cudagraph for |"
        r"Capturing encoder cudagraph for budget=|"
        r"(?:Store|Directly load) the \S{1,20}-th graph for |PiecewiseBackend: compile_\w|"
        r"Traced files \(to be considered for compilation cache|"
        r"Initialized minimal KV cache for CUDA graph profiling|Cleaned up profiling KV cache",
        None,
        "INFO 07-26 03:15:01 [llm_base_proposer.py:1473] Sharing target model "
        "embedding weights with the draft model.",
        "INFO 08-05 12:13:48 [gpu_model_runner.py:6859] Rank 0: Torch profiler "
        "disabled for CUDA graph capture",
        "DEBUG 11-26 16:08:03 [v1/worker/gpu_model_runner.py:4310] Running batch with "
        "cudagraph_mode: NONE, batch_descriptor: BatchDescriptor(num_tokens=3)",
        "ERROR 06-13 21:02:05 [dump_input.py:81] Dumping scheduler stats: "
        "SchedulerStats(num_running_reqs=1, kv_cache_usage=0.5)",
        "INFO 06-26 20:50:03 [moe_weights.py:1239] [MoE requantization]: "
        "re-quantizing MoE weights to float8_e4m3fn",
        "INFO 06-26 20:33:42 [kv_cache_manager.py:912] Hybrid KV cache layout: "
        "num_kv_cache_groups=1, num_kv_cache_tensors=30",
        "WARNING 04-09 05:08:46 [kv_cache_manager.py:251] Compilation num_layers = 60",
        "INFO 06-13 21:02:05 [utils.py:60] `_KV_CACHE_LAYOUT_OVERRIDE` variable detected. "
        "Setting KV cache layout to HND.",
        "INFO 06-13 21:02:05 [api_router.py:39] wake up the engine with tags: None",
        "INFO 06-13 21:02:05 [env_override.py:17] NCCL_CUMEM_ENABLE is set to 0, skipping "
        "override. This may increase memory overhead with cudagraph+allreduce",
        "INFO 04-12 18:36:24 [utils.py:114] Connectors do not specify a kv cache layout, "
        "defaulting to NHD.",
        "INFO 04-12 18:36:24 [kv_connector_model_runner_mixin.py:243] Allocating a cross "
        "layer KV cache of shape (13268, 12, 12, 16, 128)",
        "WARNING 03-10 22:48:08 config.py:642] To see benefits of async output processing, "
        "enable CUDA graph. Since, enforce-eager is enabled, async output processor cannot "
        "be used",
        "INFO 04-12 18:36:24 [loader.py:1155] Loading weights with BitsAndBytes "
        "quantization. May take a while ...",
        "DEBUG 11-28 03:22:50 [cudagraph_utils.py:470] CG Capture: mode=FULL, "
        "batch_desc=BatchExecutionDescriptor(cg_mode=FULL, num_tokens=64)",
        "DEBUG 11-28 03:22:40 [backends.py:406] Store the 3-th graph for compile range"
        "(1, 8192) from inductor_standalone via handle ('artifact_3', '/cache/a')",
        "DEBUG 11-28 03:22:40 [piecewise_backend.py:151] PiecewiseBackend: compile_ranges: "
        "[(1, 8192)]",
        "DEBUG 11-28 03:22:39 [backends.py:1066] Traced files (to be considered for "
        "compilation cache):",
        "DEBUG 11-28 03:22:45 [gpu_model_runner.py:6169] Initialized minimal KV cache for "
        "CUDA graph profiling",
    ),
)
