"""Features of an engine that messages name in words, and the option that turns each off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from warmup_insights.analysis.advice.change import Value, Way

_OFF = ("false", "none", "0", "1", "", "auto", "{}", "[]")


def is_on(value: Value) -> bool:
    """Whether a setting has a value that is more than its default."""
    return str(value).lower() not in _OFF


@dataclass(frozen=True)
class Feature:
    """How messages name a feature, its setting, and what turns it off (vLLM
    `engine/arg_utils.py`)."""

    pattern: str
    setting: str
    off: str
    price: str
    is_default: bool = False
    """Whether the engine has it on unless it is set otherwise."""
    changes: Mapping[str, Value] = field(default_factory=dict)

    def is_on(self, config: Mapping[str, Value]) -> bool:
        """Whether the run states that it has the feature."""
        return self.setting in config and is_on(config[self.setting])

    def may_be_on(self, config: Mapping[str, Value]) -> bool:
        """Whether nothing states that the run does without it."""
        return self.setting not in config or self.is_on(config)

    def way(self, config: Mapping[str, Value]) -> Way:
        """What turns it off."""
        changes = dict(self.changes)
        if self.is_on(config):
            return Way(
                f"{self.off} (the run has {self.setting}={str(config[self.setting])[:40]})",
                self.price,
                changes,
            )
        unless = "" if self.is_default else ", where it is set"
        return Way(f"{self.off}{unless}", self.price, changes)


FEATURES: tuple[Feature, ...] = (
    Feature(r"\bLoRA\b|\blora\b|enable[_-]lora", "enable_lora", "no --enable-lora",
            "an adapter has to be merged into the weights: one model for each"),
    Feature(r"[Pp]ipeline[ -]?[Pp]arallel|\bPP\b|\bpipeline_parallel_size\b",
            "pipeline_parallel_size", "--pipeline-parallel-size 1",
            "the devices by --tensor-parallel-size, or fewer of them"),
    Feature(r"[Ss]peculati(?:ve|on)|[Ss]pec(?:ulative)?[ _-]decod|\bEAGLE\b|\bMTP\b|draft model",
            "speculative_config", "no --speculative-config", "slower decoding"),
    Feature(r"[Pp]refix[ _-][Cc]ach", "enable_prefix_caching", "--no-enable-prefix-caching",
            "prompts that begin alike are computed anew", is_default=True),
    Feature(r"[Cc]hunked[ _-][Pp]refill", "enable_chunked_prefill",
            "--no-enable-chunked-prefill", "a step as long as the longest prompt",
            is_default=True),
    Feature(r"[Aa]sync(?:hronous)?[ _-]scheduling", "async_scheduling",
            "--no-async-scheduling", "slower decoding", is_default=True),
    Feature(r"[Ss]leep[ _-]mode", "enable_sleep_mode", "no --enable-sleep-mode",
            "the engine cannot sleep"),
    Feature(r"\bEPLB\b|/eplb/|enable[_-]eplb|[Ee]xpert [Pp]arallelism load balanc", "enable_eplb",
            "no --enable-eplb", "experts are not balanced"),
    Feature(r"[Ee]xpert[ _-][Pp]arallel(?!ism load)|(?<!Elastic )\bEP\b", "enable_expert_parallel",
            "no --enable-expert-parallel", "each rank holds a part of every expert"),
    Feature(r"[Ee]lastic EP|enable_elastic_ep", "enable_elastic_ep", "no --enable-elastic-ep",
            "as many ranks as at the start"),
    Feature(r"\bDBO\b|enable[_-]dbo|[Mm]icrobatching", "enable_dbo", "no --enable-dbo",
            "communication is not hidden behind computation"),
    Feature(r"(?i:decode[ -]context[ -]parallel)|\bdecode_context_parallel_size\b|\bDCP\b",
            "decode_context_parallel_size", "--decode-context-parallel-size 1",
            "each rank holds more of the KV cache"),
    Feature(r"(?i:prefill[ _-]context[ _-]parallel)|\bPCP\b",
            "prefill_context_parallel_size", "--prefill-context-parallel-size 1",
            "slower long prompts"),
    Feature(r"[Dd]ata[ -][Pp]arallel|\bdata_parallel_size\b|\bDP\b", "data_parallel_size",
            "--data-parallel-size 1", "an engine for each copy"),
    Feature(r"KV [Cc]onnector|kv[_-]transfer|kv[_-]connector|P/D disagg|KV cache transfer",
            "kv_transfer_config", "no --kv-transfer-config", "KV cache is not passed on"),
    Feature(r"[Pp]rompt[ _-][Ee]mbed", "enable_prompt_embeds", "no --enable-prompt-embeds",
            "requests with embeddings are refused"),
    Feature(r"(?i:fp8|quantized|nvfp4|int8|turboquant)[ _-](?:kv|KV)[ _-]?[Cc]ache|kv[_-]cache[_-]dtype|"
            r"KV cache (?:dtype|quantization)|(?i:turboquant)",
            "kv_cache_dtype", "--kv-cache-dtype auto", "a cache of 16 bits"),
    Feature(r"(?i:cuda ?graphs?)\b|cudagraph_mode", "cudagraph_mode", "--enforce-eager",
            "slower decoding", is_default=True, changes={"enforce_eager": True}),
    Feature(r"\b(?i:aiter)\b.{0,40}\bMLA\b|\bMLA\b.{0,40}\b(?i:aiter)\b", "VLLM_ROCM_USE_AITER_MLA",
            "VLLM_ROCM_USE_AITER_MLA=0", "slower attention", is_default=True),
    Feature(r"\b(?i:aiter)\b.{0,60}(?i:moe)\b", "VLLM_ROCM_USE_AITER_MOE",
            "VLLM_ROCM_USE_AITER_MOE=0", "slower experts", is_default=True),
    Feature(r"\b(?i:aiter)\b", "VLLM_ROCM_USE_AITER", "VLLM_ROCM_USE_AITER=0", "slower kernels",
            is_default=True),
    Feature(r"(?i:flash_?infer)", "VLLM_USE_FLASHINFER_SAMPLER",
            "no FlashInfer: VLLM_USE_FLASHINFER_SAMPLER=0, and another --attention-backend or "
            "--moe-backend where it was chosen", "slower kernels, where others are",
            is_default=True),
    Feature(r"(?i:\bdeep_?gemm)", "VLLM_USE_DEEP_GEMM", "VLLM_USE_DEEP_GEMM=0",
            "slower FP8 kernels", is_default=True),
    Feature(r"structured_output|\bxgrammar\b|\bllguidance\b|\boutlines\b",
            "structured_outputs_config",
            "--structured-outputs-config with another backend (xgrammar, guidance, outlines)",
            "other grammars, or slower ones", is_default=True),
    Feature(r"vllm/multimodal/", "limit_mm_per_prompt",
            "--language-model-only, or --limit-mm-per-prompt with 0 of each kind",
            "requests with images or sound are refused", is_default=True),
    Feature(r"with multiprocessing|multiprocessing (?:backend|executor)",
            "distributed_executor_backend", "--distributed-executor-backend ray",
            "a Ray cluster", is_default=True),
    Feature(r"moe[_-]backend|MoE backend", "moe_backend", "no --moe-backend",
            "the engine picks one"),
    Feature(r"all2all", "all2all_backend", "no --all2all-backend", "the engine picks one"),
    Feature(r"(?<!encoder )(?<!encoder_)attention[_ -]backend", "attention_backend",
            "no --attention-backend and no VLLM_ATTENTION_BACKEND", "the engine picks one"),
    Feature(r"[Cc][Pp][Uu] [Oo]ffload|cpu[_-]offload", "cpu_offload_gb", "no --cpu-offload-gb",
            "the weights on the device"),
    Feature(r"[Mm]ulti-?[Ss]tep|num[_-]scheduler[_-]steps", "num_scheduler_steps",
            "no --num-scheduler-steps", "steps are scheduled one by one"),
)  # fmt: skip
"""Of vLLM 0.8 to 0.33."""
