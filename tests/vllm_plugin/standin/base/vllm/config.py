"""Stand-in for the configuration classes, with the attributes that matter."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class ModelConfig:
    model: str = "standin/tiny"
    tokenizer: str = "standin/tiny"
    dtype: str = "bfloat16"
    max_model_len: int = 1024
    enforce_eager: bool = False
    seed: int = 0
    tokenizer_mode: str = "auto"
    architecture: str = "LlamaForCausalLM"


@dataclass
class CacheConfig:
    block_size: int = 128
    gpu_memory_utilization: float = 0.5
    cache_dtype: str = "auto"
    enable_prefix_caching: bool = False
    num_gpu_blocks_override: int | None = 64


@dataclass
class SchedulerConfig:
    max_num_seqs: int = 4
    max_num_batched_tokens: int = 1024
    async_scheduling: bool = False


@dataclass
class ParallelConfig:
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    data_parallel_size: int = 1
    data_parallel_rank: int = 0
    rank: int = 0

    @property
    def world_size(self):
        return self.tensor_parallel_size


@dataclass
class CompilationConfig:
    compilation_time: float = 0.0


@dataclass
class ObservabilityConfig:
    otlp_traces_endpoint: str = "http://me:sk-very-secret-thing@host/v1"
    cudagraph_metrics: bool = False


@dataclass
class VllmConfig:
    model_config: ModelConfig = field(default_factory=ModelConfig)
    cache_config: CacheConfig = field(default_factory=CacheConfig)
    scheduler_config: SchedulerConfig = field(default_factory=SchedulerConfig)
    parallel_config: ParallelConfig = field(default_factory=ParallelConfig)
    compilation_config: CompilationConfig = field(default_factory=CompilationConfig)
    observability_config: ObservabilityConfig = field(
        default_factory=ObservabilityConfig
    )
    secrets: str = "not for anybody"
