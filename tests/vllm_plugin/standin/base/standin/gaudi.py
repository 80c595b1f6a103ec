"""What the stand-ins of all vllm-gaudi versions share; each version adds its own calls.

Written from the order of calls, the signatures and the log lines of vllm-gaudi; it
computes nothing, it only makes the same calls with shapes of the same kind.
"""

from __future__ import annotations

import gc
import os
import time

from vllm.logger import log

from standin import (
    BLOCK_BYTES,
    DEVICE,
    TOTAL,
    WEIGHTS_BYTES,
    Bag,
    Shaped,
    hang,
    maybe_fail,
    work,
)
from standin.serving import Serving


def format_bytes(size):
    """Four significant digits, like the engine's own."""
    labels = ["", "Ki", "Mi", "Gi", "Ti"]
    step = 0
    while abs(size) > 1024:
        size /= 1024
        step += 1
    return f"{size:.4g} {labels[step]}B"


class MemoryProfiler:
    """Collects garbage, then reads the memory, when entered and when left."""

    @staticmethod
    def current_device_memory_usage():
        return DEVICE.used

    @staticmethod
    def current_free_device_memory():
        return TOTAL - DEVICE.used

    def __enter__(self):
        hang("collector")
        gc.collect()
        self.initial_device_memory = type(self).current_device_memory_usage()
        self.initial_host_memory = 0
        return self

    def __exit__(self, exc_type, exc_val, exc_tb):
        gc.collect()
        self.final_device_memory = type(self).current_device_memory_usage()
        self.final_host_memory = 0
        self.consumed_device_memory = (
            self.final_device_memory - self.initial_device_memory
        )
        self.consumed_host_memory = 0

    def get_summary_string(self):
        return (
            f"{format_bytes(self.consumed_device_memory)} of device memory "
            f"({format_bytes(self.final_device_memory)}/{format_bytes(TOTAL)} used)"
            f" and 0 B of host memory (1 GiB/16 GiB used)"
        )


class Runner(Serving):
    """The calls that `HPUModelRunner` has in every version."""

    profiler_class = MemoryProfiler
    source = "hpu_model_runner.py"

    def __init__(self, vllm_config, is_driver_worker=False):
        self.vllm_config = vllm_config
        self.model_config = vllm_config.model_config
        self.max_model_len = vllm_config.model_config.max_model_len
        self.block_size = vllm_config.cache_config.block_size
        self.max_num_tokens = vllm_config.scheduler_config.max_num_batched_tokens
        self.enable_bucketing = True
        self.use_contiguous_pa = os.environ.get("VLLM_CONTIGUOUS_PA") == "true"
        self.max_prefill_batch_size = int(os.environ.get("STANDIN_PREFILLS", "1"))
        self._PAD_BLOCK_ID = -1
        self.skip_warmup = os.environ.get("VLLM_SKIP_WARMUP") == "true"
        self.seen_configs = set()
        self.graphed_buckets = set()
        self.compiled_shapes = set()
        self.kv_caches = []
        self.requests = {}
        self.mem_margin = None
        self.bucketing_manager = self.make_bucketing_manager()

    def load_model(self):
        log.info(
            f"{self.source}:1", f"Starting to load model {self.model_config.model}..."
        )
        with self.profiler_class() as m:
            maybe_fail("load_model")
            DEVICE.take(WEIGHTS_BYTES)
        gib = m.consumed_device_memory / 2**30
        log.info(f"{self.source}:2", f"Loading model weights took {gib:.4f} GB")
        with self.profiler_class() as m:
            pass
        log.info(f"{self.source}:3", "Wrapping in HPUGraph took 0.0000 GB")
        with self.profiler_class() as m:
            self._maybe_compile(self)
        log.info(f"{self.source}:4", "Compilation took 0.0000 GB")

    def _maybe_compile(self, *args, **kwargs):
        return None

    def initialize_kv_cache(self, kv_cache_config):
        self.kv_cache_config = kv_cache_config
        # One more block than is usable: writes of padding go there.
        DEVICE.take(BLOCK_BYTES * (kv_cache_config.num_blocks + 1))
        self._PAD_BLOCK_ID = kv_cache_config.num_blocks
        slots = (kv_cache_config.num_blocks + 1) * self.block_size
        self.kv_caches = [(Shaped(slots, 1), Shaped(slots, 1))]
        self.bucketing_manager.num_hpu_blocks = kv_cache_config.num_blocks

    def _forward(self, phase, batch_size, seq_len, num_blocks, warmup_mode):
        """A forward pass: compiles what it has not compiled."""
        metadata = Bag(is_prompt=phase == "prompt")
        tokens = Shaped(batch_size, seq_len)
        self._execute_model_generic(tokens, metadata, num_blocks, warmup_mode)
        return Shaped(batch_size, 32000)

    def _execute_model_generic(self, token_ids, attn_metadata, num_blocks, warmup_mode):
        batch_size, seq_len = token_ids.shape
        self._check_config(batch_size, seq_len, num_blocks, attn_metadata, warmup_mode)
        is_compiled = bool(os.environ.get("STANDIN_COMPILE"))
        uses_graph = is_compiled or self.use_graphs_of(attn_metadata, batch_size)
        shape = (attn_metadata.is_prompt, batch_size, seq_len, num_blocks)
        if uses_graph and shape not in self.compiled_shapes:
            self.compiled_shapes.add(shape)
            DEVICE.compile()
        work()

    def warmup_pass(self, buckets, is_prompt, total_mem, run):
        """The loop of `warmup_graphs`; `run` executes one bucket."""
        for index, (batch_size, seq_len, blocks) in enumerate(reversed(buckets)):
            if seq_len > self.max_num_tokens:
                continue
            graphed = (batch_size, seq_len, blocks, is_prompt)
            if graphed in self.graphed_buckets:
                continue
            self.graphed_buckets.add(graphed)
            phase = self.phase_words[is_prompt]
            self.log_warmup(phase, index, len(buckets), batch_size, seq_len, blocks)
            with self.profiler_class() as profiler:
                run(batch_size, seq_len, blocks)
            total_mem += profiler.consumed_device_memory
        return total_mem, 0.001, True

    def log_graph_warmup_summary(self, buckets, is_prompt, total_mem):
        phase = "Graph/" + ("Prompt" if is_prompt else "Decode")
        log.info(
            f"{self.source}:9",
            f"{phase} captured:{len(buckets)} used_mem:{format_bytes(total_mem)}",
        )

    def step_line(self, phase, index, total, first, second, third):
        free = format_bytes(self.profiler_class.current_free_device_memory())
        return (
            f"[Warmup][{phase}][{index + 1}/{total}] batch_size:{first} "
            f"query_len:{second} num_blocks:{third} free_mem:{free}"
        )

    def timed_warmup(self, body):
        """What `warmup_model` does around its parts."""
        if self.skip_warmup:
            log.info(f"{self.source}:10", "Skipping warmup...")
            return
        start_mem = self.profiler_class.current_device_memory_usage()
        start_time = time.perf_counter()
        body()
        elapsed = time.perf_counter() - start_time
        end_mem = self.profiler_class.current_device_memory_usage()
        log.info(
            f"{self.source}:11",
            f"Warmup finished in {elapsed:.0f} secs, "
            f"allocated {format_bytes(end_mem - start_mem)} of device memory",
        )


class Worker:
    """The calls that `HPUWorker` has in every version."""

    def __init__(
        self,
        vllm_config,
        local_rank,
        rank,
        distributed_init_method,
        is_driver_worker=False,
    ):
        self.vllm_config = vllm_config
        self.model_config = vllm_config.model_config
        self.cache_config = vllm_config.cache_config
        self.rank = rank
        self.model_runner = None

    def init_device(self):
        log.info(
            "parallel_state.py:1615",
            f"world_size={self.vllm_config.parallel_config.world_size} "
            f"rank={self.rank} local_rank={self.rank} distributed_init_method=x "
            "backend=hccl",
        )
        import habana_frameworks.torch.hpu.metrics  # noqa: F401

        self.model_runner = self.runner_class(self.vllm_config, self.rank == 0)

    def load_model(self):
        self.model_runner.load_model()

    def measured(self):
        """The body of `determine_available_memory`."""
        with self.profiler_class() as m:
            maybe_fail("profile_run")
            DEVICE.take(504 * 2**20)
        log.info(
            "hpu_worker.py:404", f"Model profiling run took {m.get_summary_string()}"
        )
        free = TOTAL - DEVICE.used
        utilization = self.cache_config.gpu_memory_utilization
        eager = self.model_config.enforce_eager
        fraction = float(os.environ.get("VLLM_GRAPH_RESERVED_MEM", "0.1"))
        fraction = 0 if eager else fraction
        usable = free * utilization
        self.model_runner.mem_margin = free * (1 - utilization)
        dummy = BLOCK_BYTES
        cache = usable * (1 - fraction)
        log.info(
            "hpu_worker.py:432",
            f"Free device memory: {format_bytes(free)}, {format_bytes(usable)} usable "
            f"(gpu_memory_utilization={utilization}), "
            f"{format_bytes(usable * fraction)} reserved for HPUGraphs "
            f"(VLLM_GRAPH_RESERVED_MEM={fraction}), {format_bytes(dummy)} reserved for "
            f"KV cache dummy block {format_bytes(cache - dummy)} reserved for usable "
            "KV cache",
        )
        return int(cache - dummy)

    def allocated(self, kv_cache_config):
        """The first part of `initialize_from_config`."""
        with self.profiler_class() as m:
            self.model_runner.initialize_kv_cache(kv_cache_config)
        slots = self.model_runner.kv_caches[0][0].shape[0]
        log.info(
            "hpu_worker.py:546",
            f"Usable num_blocks: {kv_cache_config.num_blocks}, actual allocated "
            f"num_blocks: {slots} (_PAD_BLOCK_ID={self.model_runner._PAD_BLOCK_ID}, "
            "_PAD_SLOT_ID=0)",
        )
        log.info(
            "hpu_worker.py:549",
            f"Initializing cache engine took {m.get_summary_string()}",
        )

    def compile_or_warm_up_model(self):
        if not getattr(self.model_runner, "graphed_buckets", None):
            self.model_runner.warmup_model()


SAMPLING_CONFIGS = [
    (temperature, top_p, top_k, changed)
    for changed in (True, False)
    for temperature, top_p, top_k in (
        (0.0, 1.0, 0), (1.0, 1.0, 0), (0.7, 0.9, 50),
        (0.3, 0.95, 20), (1.2, 0.8, 100), (0.8, 0.85, 0),
    )
]  # fmt: skip


class Sampler:
    """`warmup_sampler` and `_run_sampling`, since v0.11.2."""

    def warmup_sampler(self):
        sizes = list(
            dict.fromkeys([1] + [b[0] for b in self.bucketing_manager.decode_buckets])
        )
        log.info(
            f"{self.source}:5",
            f"Warming up sampler with batch sizes: {sizes} and following configs:",
        )
        for temperature, top_p, top_k, changed in SAMPLING_CONFIGS:
            log.info(
                f"{self.source}:6",
                f"temp={temperature}, top_p={top_p}, top_k={top_k}, "
                f"batch_changed={changed}",
            )
        log.info(f"{self.source}:7", "Starting sampler warmup...")
        for size in sizes:
            names = [f"warmup_req_{size}_{index}" for index in range(size)]
            logits = Shaped(size, 32000)
            for temperature, top_p, top_k, changed in SAMPLING_CONFIGS:
                parameters = Bag(temperature=temperature, top_p=top_p, top_k=top_k)
                for name in names:
                    self.requests[name] = Bag(sampling_params=parameters)
                self._run_sampling(
                    batch_changed=changed,
                    logits_device=logits,
                    request_ids=names,
                    pad_to=logits.shape[0],
                )
            self.requests = {}
        maybe_fail("sampler")
        log.info(f"{self.source}:8", "Sampler warmup completed successfully")

    def _run_sampling(
        self,
        batch_changed,
        logits_device,
        request_ids=None,
        pad_to=None,
        logits_requests=None,
    ):
        time.sleep(0.0002)
        return Shaped(logits_device.shape[0], 1), None


def greater_bucket(buckets, wanted):
    """The first bucket of a sorted list that is nowhere smaller; None without one."""
    for bucket in sorted(buckets):
        if all(have >= want for have, want in zip(bucket, wanted, strict=True)):
            return bucket
    return None
