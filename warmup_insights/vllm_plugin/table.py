"""Every hook: which call of which engine, since when, and what it shows.

Signatures were read in vllm-gaudi v0.10.0 to 2026-08, vLLM 0.13.0, 0.21.0, 0.26.0 and
0.33.0, and vllm-fork v1.20.0 to v1.22.0 and habana_main. Rows of one topic stand in
for each other; a topic without any attached row is reported as not instrumented.
"""

from __future__ import annotations

from warmup_insights.vllm_plugin import engine_core, workers
from warmup_insights.vllm_plugin.hooks import Hook, Probe
from warmup_insights.vllm_plugin.hpu import buckets as hpu_buckets
from warmup_insights.vllm_plugin.hpu import memory as hpu_memory
from warmup_insights.vllm_plugin.hpu import serving as hpu_serving
from warmup_insights.vllm_plugin.hpu import steps as hpu_steps
from warmup_insights.vllm_plugin.hpu import warmup as hpu_warmup


def _rows(
    engine: str,
    module: str,
    owner: str | None,
    *rows: tuple[str, str, Probe] | tuple[str, str, Probe, str | None, str | None],
    only_errors: bool = False,
) -> tuple[Hook, ...]:
    """Hooks on one class: name of the method, topic, probe, and maybe since and until."""
    return tuple(
        Hook(
            engine=engine, topic=topic, module=module, owner=owner, name=name,
            probe=probe, since=since, until=until, only_errors=only_errors,
        )
        for name, topic, probe, since, until in ((*row, None, None)[:5] for row in rows)
    )  # fmt: skip


_GAUDI = "vllm_gaudi"
_RUNNER = f"{_GAUDI}.v1.worker.hpu_model_runner"
_BUCKETING = f"{_GAUDI}.extension.bucketing"


def _ranges(module: str, owner: str, since: str) -> tuple[Hook, ...]:
    """The ranges of a bucketing strategy."""
    return _rows(
        "vllm-gaudi", f"{_BUCKETING}.{module}", owner,
        ("get_prompt_cfgs", "bucket ranges", hpu_buckets.prompt_ranges, since, None),
        ("get_decode_cfgs", "bucket ranges", hpu_buckets.decode_ranges, since, None),
    )  # fmt: skip


GAUDI = (
    *_rows(
        "vllm-gaudi", f"{_GAUDI}.v1.worker.hpu_worker", "HPUWorker",
        ("__init__", "rank", workers.worker_init),
        ("init_device", "device", hpu_memory.worker_device),
        ("determine_available_memory", "memory budget", hpu_memory.determine_memory),
        ("initialize_from_config", "KV cache memory", hpu_memory.initialize_cache),
    ),
    *_rows(
        "vllm-gaudi", _RUNNER, "HPUModelRunner",
        ("load_model", "loading", hpu_memory.load_model),
        ("_maybe_compile", "torch.compile", hpu_memory.compile_model),
        ("initialize_kv_cache", "KV cache", hpu_memory.kv_cache),
        ("warmup_model", "warm-up", hpu_warmup.warmup_model),
        ("warmup_graphs", "passes over buckets", hpu_warmup.warmup_pass),
        ("_prepare_dummy_scenario", "buckets", hpu_warmup.scenario, "0.11.2", None),
        ("warmup_scenario", "buckets", hpu_warmup.scenario, None, "0.11.2"),
        ("_check_config", "executed shapes", hpu_serving.check_config),
        ("_use_graphs", "use of graphs", hpu_warmup.use_graphs),
        ("warmup_unified_graphs", "unified attention", hpu_warmup.unified_pass,
         "0.11.2", "0.18.0"),
        ("_prepare_dummy_unified_scenario", "unified buckets", hpu_warmup.scenario,
         "0.11.2", "0.18.0"),
        ("_get_unified_config", "unified shapes", hpu_warmup.executed_unified,
         "0.11.2", "0.18.0"),
        ("warmup_sampler", "sampler", hpu_steps.warmup_sampler, "0.11.2", None),
        ("_run_sampling", "sampler steps", hpu_steps.run_sampling, "0.11.2", None),
        ("warmup_defragmenter", "defragmenter", hpu_steps.warmup_defragmenter,
         "0.11.2", "0.18.0"),
        ("warmup_pooler", "pooler", hpu_steps.warmup_pooler, "0.13.0", None),
        ("warmup_multimodal_graphs", "multimodal", hpu_steps.warmup_multimodal,
         "0.11.2", None),
        ("log_warmup_multimodal", "multimodal steps", hpu_steps.multimodal_step,
         "0.11.2", None),
        ("execute_model", "serving", hpu_serving.serve_step),
        ("sample_tokens", "serving", hpu_serving.serve_step, "0.11.2", None),
        ("_form_prefill_batch", "prefill batches", hpu_serving.form_prefill),
    ),
    *_rows(
        "vllm-gaudi", f"{_GAUDI}.extension.profiler", "HabanaMemoryProfiler",
        ("__enter__", "memory measurements", hpu_memory.profiler_enter),
        ("__exit__", "memory measurements", hpu_memory.profiler_exit),
        ("current_device_memory_usage", "memory of the warm-up", hpu_warmup.memory_read),
    ),
    *_rows(
        "vllm-gaudi", f"{_GAUDI}.extension.runtime", None,
        ("finalize_config", "runtime configuration", hpu_memory.runtime_config,
         "0.11.2", None),
    ),
    *_rows(
        "vllm-gaudi", f"{_BUCKETING}.common", "HPUBucketingManager",
        ("generate_prompt_buckets", "bucket lists", hpu_buckets.prompt_buckets),
        ("generate_decode_buckets", "bucket lists", hpu_buckets.decode_buckets),
        ("generate_unified_buckets", "unified bucket lists",
         hpu_buckets.unified_buckets, "0.11.2", "0.18.0"),
        ("generate_spec_decode_buckets", "buckets of speculative decoding",
         hpu_buckets.speculative_buckets, "0.13.0", None),
        ("get_bucketing_strategy", "bucketing strategy", hpu_buckets.strategy),
        ("read_from_file", "bucket file", hpu_buckets.read_file, "0.11.2", None),
        ("find_prompt_bucket", "bucket misses", hpu_buckets.find_prompt_bucket),
        ("find_decode_bucket", "bucket misses", hpu_buckets.find_decode_bucket),
    ),
    *_ranges("exponential", "ExponentialBucketingStrategy", "0.11.2"),
    *_ranges("linear", "LinearBucketingStrategy", "0.11.2"),
    *_ranges("padding_aware", "PaddingAwareBucketingStrategy", "0.20.0"),
    *_rows(
        "vllm-gaudi", f"{_GAUDI}.extension.defragmentation", "OnlineDefragmenter",
        ("warmup", "defragmenter", hpu_steps.warmup_defragmenter, "0.17.1", None),
        ("_swap", "defragmenter steps", hpu_steps.swap, "0.17.1", None),
        ("defragment", "defragmentation", hpu_steps.defragment, "0.11.2", None),
    ),
    *_rows(
        "vllm-gaudi", f"{_GAUDI}.extension.defragmentation", "CacheSwapUtils",
        ("swap", "defragmenter steps", hpu_steps.swap, "0.11.2", "0.18.0"),
    ),
)  # fmt: skip
"""vllm-gaudi v0.10.0 to 2026-08."""

UPSTREAM = (
    *_rows(
        "vllm", "vllm.engine.arg_utils", "EngineArgs",
        ("create_engine_config", "options and files of the model", engine_core.configure),
    ),
    *_rows(
        "vllm", "vllm.v1.executor.abstract", "Executor",
        ("__init__", "start of workers", engine_core.start_workers),
        ("sleep", "sleep mode", engine_core.sleep, "0.10.0", None),
        ("wake_up", "sleep mode", engine_core.wake_up, "0.10.0", None),
    ),
    *_rows(
        "vllm", "vllm.ray.ray_env", None,
        ("get_env_vars_to_copy", "variables of Ray workers", engine_core.copy_to_ray,
         "0.17.1", None),
    ),
    *_rows(
        "vllm", "vllm.v1.engine.llm_engine", "LLMEngine",
        ("__init__", "start and ready", engine_core.offline_engine),
    ),
    *_rows(
        "vllm", "vllm.v1.engine.async_llm", "AsyncLLM",
        ("__init__", "start of a server", engine_core.server_engine),
    ),
    *_rows(
        "vllm", "uvicorn.server", "Server",
        ("startup", "ready to serve", engine_core.server_started),
    ),
    *_rows(
        "vllm", "vllm.entrypoints.launchers.run_batch", None,
        ("run_batch", "ready for a batch", engine_core.run_batch, "0.29.0", None),
    ),
    *_rows(
        "vllm", "vllm.entrypoints.openai.run_batch", None,
        ("run_batch", "ready for a batch", engine_core.run_batch, "0.10.2", "0.29.0"),
    ),
    *_rows(
        "vllm", "vllm.v1.engine.core", "EngineCore",
        ("_initialize_kv_caches", "configuration and initialisation", engine_core.initialize),
    ),
    *_rows(
        "vllm", "vllm.v1.engine.core", "EngineCoreProc",
        ("_send_engine_dead", "errors while serving", engine_core.core_failed),
    ),
    *_rows(
        "vllm", "vllm.v1.engine.core_client", "MPClient",
        ("shutdown", "end of serving", engine_core.stop_engine),
    ),
    *_rows(
        "vllm", "vllm.v1.utils", None,
        ("wait_for_completion_or_failure", "end of several servers",
         engine_core.wait_for_servers),
    ),
    *_rows(
        "vllm", "vllm.v1.executor.multiproc_executor", "WorkerProc",
        ("wait_for_ready", "workers that end", engine_core.wait_for_workers),
    ),
    *_rows(
        "vllm", "vllm.v1.engine.utils", None,
        ("launch_core_engines", "launch of engine cores", engine_core.launch_cores,
         "0.10.0", None),
        ("wait_for_engine_startup", "start of engine cores", engine_core.start_cores,
         "0.10.0", None),
    ),
    *_rows(
        "vllm", "vllm.v1.engine.utils", "CoreEngineProcManager",
        ("__init__", "launch of engine cores", engine_core.launch_cores, "0.10.0", None),
    ),
    *_rows(
        "vllm", "vllm.v1.core.kv_cache_utils", None,
        ("get_max_concurrency_for_kv_cache_config", "concurrency",
         engine_core.concurrency),
    ),
    *_rows(
        "vllm", "vllm.compilation.backends", "CompilerManager",
        ("initialize_cache", "tracing of the model", workers.open_cache),
        ("compile", "compilation", workers.compile_graph),
        ("load", "compile cache", workers.load_graph),
    ),
    *_rows(
        "vllm", "vllm.compilation.decorators", None,
        ("_try_load_aot_compiled_fn", "cache of compiled functions",
         workers.load_aot, "0.18.0", None),
    ),
    *_rows(
        "vllm", "vllm.compilation.wrapper", "TorchCompileWithNoGuardsWrapper",
        ("aot_compile", "compilation of functions", workers.compile_aot,
         "0.11.2", None),
    ),
    *_rows(
        "vllm", "vllm.v1.worker.cpu_worker", "CPUWorker",
        ("__init__", "rank, CPU", workers.cpu_init),
        ("init_device", "device, CPU", workers.worker_device),
        ("determine_available_memory", "memory budget, CPU", workers.cpu_memory),
    ),
    *_rows(
        "vllm", "vllm.v1.worker.xpu_worker", "XPUWorker",
        ("init_device", "device, XPU", workers.worker_device),
    ),
    *_rows(
        "vllm", "vllm.v1.worker.cpu_model_runner", "CPUModelRunner",
        ("warming_up_model", "warm-up, CPU", workers.cpu_warm_up),
    ),
    *_rows(
        "vllm", "vllm.v1.worker.gpu_worker", "Worker",
        ("__init__", "rank", workers.worker_init),
        ("init_device", "device", workers.worker_device),
        ("load_model", "loading", workers.load_model),
        ("determine_available_memory", "memory budget", workers.determine_memory),
        ("initialize_from_config", "KV cache", workers.initialize_cache),
        ("compile_or_warm_up_model", "warm-up", workers.warm_up),
    ),
    *_rows(
        "vllm", "vllm.model_executor.warmup.kernel_warmup", None,
        ("kernel_warmup", "warm-up of kernels", workers.warm_kernels, "0.10.1", None),
    ),
    *_rows(
        "vllm", "vllm.v1.worker.gpu.warmup", None,
        ("warmup_kernels", "warm-up of the model, runner V2", workers.warm_model,
         "0.17.0", None),
    ),
    *_rows(
        "vllm", "vllm.utils.jit_monitor", None,
        ("_handle_jit_event", "kernels compiled while serving", workers.compiled_late,
         "0.25.0", None),
    ),
    *_rows(
        "vllm", "vllm.v1.worker.gpu_worker", "Worker",
        ("execute_model", "errors of workers while serving", workers.step),
        ("sample_tokens", "errors of workers while serving", workers.step,
         "0.13.0", None),
        only_errors=True,
    ),
    *_rows(
        "vllm", "vllm.v1.worker.gpu_model_runner", "GPUModelRunner",
        ("profile_run", "profiling run", workers.profile_run),
        ("profile_cudagraph_memory", "estimate of graph memory",
         workers.estimate_graphs, "0.18.0", None),
        ("capture_model", "graph capture", workers.capture_model),
        ("_dummy_run", "graphs", workers.dummy_run),
    ),
    *_rows(
        "vllm", "vllm.v1.worker.gpu.model_runner", "GPUModelRunner",
        ("profile_run", "profiling run, runner V2", workers.profile_run,
         "0.12.0", None),
        ("profile_cudagraph_memory", "estimate of graph memory, runner V2",
         workers.estimate_graphs, "0.18.0", None),
        ("capture_model", "graph capture, runner V2", workers.capture_model,
         "0.12.0", None),
    ),
    *_rows(
        "vllm", "vllm.v1.worker.gpu.cudagraph_utils", "CudaGraphManager",
        ("capture", "graphs, runner V2", workers.capture_all, "0.21.0", None),
    ),
    *_rows(
        "vllm", "vllm.v1.worker.gpu.cudagraph_utils", None,
        ("prepare_inputs_to_capture", "graph by graph, runner V2",
         workers.prepare_inputs, "0.21.0", None),
    ),
)  # fmt: skip
"""Upstream vLLM V1; the rows that are not of a worker serve vllm-gaudi too."""

_EXTENSION = "vllm_hpu_extension"
_V1 = ("0.7.0", "0.9.1")
"""vllm-fork had V1 of its own in 1.21 and 1.22 only."""


def _contexts(module: str, owner: str) -> tuple[Hook, ...]:
    """The bucketing of vllm-hpu-extension before 1.22, once per strategy."""
    path = f"{_EXTENSION}.{module}"
    lists = _rows(
        "vllm-fork", path, owner,
        ("generate_prompt_buckets", "bucket lists", hpu_buckets.prompt_buckets),
        ("generate_decode_buckets", "bucket lists", hpu_buckets.decode_buckets),
    )  # fmt: skip
    omitted = _rows(
        "vllm-fork", path, None,
        ("generate_prompt_buckets", "omitted buckets", hpu_buckets.omitted_buckets,
         None, "0.9.0"),
    )  # fmt: skip
    return (*lists, *omitted)


FORK = (
    *_rows(
        "vllm-fork", "vllm.engine.llm_engine", "LLMEngine",
        ("__init__", "start, V0", engine_core.server_engine),
        ("_initialize_kv_caches", "initialisation, V0", engine_core.initialize),
    ),
    *_rows(
        "vllm-fork", "vllm.worker.hpu_worker", "HPUWorker",
        ("__init__", "rank, V0", workers.worker_init),
        ("init_device", "device, V0", hpu_memory.worker_device),
        ("determine_num_available_blocks", "memory budget, V0",
         hpu_memory.determine_memory),
        ("initialize_cache", "KV cache, V0", hpu_memory.kv_cache_fork),
    ),
    *_rows(
        "vllm-fork", "vllm.worker.hpu_model_runner", "HPUModelRunnerBase",
        ("load_model", "loading, V0", hpu_memory.load_model_fork),
        ("_maybe_compile", "torch.compile, V0", hpu_memory.compile_model, "0.7.0", None),
        ("warmup_model", "warm-up, V0", hpu_warmup.warmup_model),
        ("warmup_graphs", "passes over buckets, V0", hpu_warmup.warmup_pass),
        ("warmup_all_buckets", "plain passes, V0", hpu_warmup.plain_pass, None, "0.9.0"),
        ("warmup_scenario", "buckets, V0", hpu_warmup.scenario),
        ("_check_config", "executed shapes, V0", hpu_serving.check_config),
        ("_use_graphs", "use of graphs, V0", hpu_warmup.use_graphs),
    ),
    *_rows(
        "vllm-fork", "vllm.worker.hpu_model_runner", "HPUModelRunner",
        ("_check_config", "executed shapes, V0", hpu_serving.check_config),
    ),
    *_rows(
        "vllm-fork", "vllm.v1.worker.hpu_worker", "HPUWorker",
        ("__init__", "rank", workers.worker_init, *_V1),
        ("init_device", "device", hpu_memory.worker_device, *_V1),
        ("determine_available_memory", "memory budget", hpu_memory.determine_memory, *_V1),
        ("initialize_cache", "KV cache memory", hpu_memory.initialize_cache, *_V1),
    ),
    *_rows(
        "vllm-fork", "vllm.v1.worker.hpu_model_runner", "HPUModelRunner",
        ("load_model", "loading", hpu_memory.load_model, *_V1),
        ("initialize_kv_cache", "KV cache", hpu_memory.kv_cache, *_V1),
        ("warmup_model", "warm-up", hpu_warmup.warmup_model, *_V1),
        ("warmup_graphs", "passes over buckets", hpu_warmup.warmup_pass, *_V1),
        ("warmup_all_buckets", "plain passes", hpu_warmup.plain_pass, "0.7.0", "0.9.0"),
        ("warmup_scenario", "buckets", hpu_warmup.scenario, *_V1),
        ("_check_config", "executed shapes", hpu_serving.check_config, *_V1),
        ("_use_graphs", "use of graphs", hpu_warmup.use_graphs, *_V1),
        ("execute_model", "serving", hpu_serving.serve_step, *_V1),
        ("_form_prefill_batch", "prefill batches", hpu_serving.form_prefill, *_V1),
    ),
    *_rows(
        "vllm-fork", f"{_EXTENSION}.profiler", "HabanaMemoryProfiler",
        ("__enter__", "memory measurements", hpu_memory.profiler_enter),
        ("__exit__", "memory measurements", hpu_memory.profiler_exit),
        ("current_device_memory_usage", "memory of the warm-up", hpu_warmup.memory_read),
    ),
    *_rows(
        "vllm-fork", f"{_EXTENSION}.bucketing.common", "HPUBucketingManager",
        ("generate_prompt_buckets", "bucket lists", hpu_buckets.prompt_buckets),
        ("generate_decode_buckets", "bucket lists", hpu_buckets.decode_buckets),
        ("get_bucketing_strategy", "bucketing strategy", hpu_buckets.strategy,
         "0.9.0", None),
        ("find_prompt_bucket", "bucket misses", hpu_buckets.find_prompt_bucket,
         "0.9.0", None),
        ("find_decode_bucket", "bucket misses", hpu_buckets.find_decode_bucket,
         "0.9.0", None),
    ),
    *_contexts("bucketing", "HPUBucketingContext"),
    *_contexts("bucketing.linear", "HPUBucketingContext"),
    *_contexts("bucketing.exponential", "HPUExponentialBucketingContext"),
)  # fmt: skip
"""HabanaAI vllm-fork, V0 and V1; read, not run."""

HOOKS: tuple[Hook, ...] = (*GAUDI, *UPSTREAM, *FORK)


def hooks_for(engine: str) -> tuple[Hook, ...]:
    """The rows that concern an engine; each is built on some vLLM."""
    own = {"vllm-gaudi": GAUDI, "vllm-fork": FORK}.get(engine, ())
    return (*own, *UPSTREAM)
