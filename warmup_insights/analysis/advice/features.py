"""Settings of an engine as messages name them: by a name or a key, or by words for a feature."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from warmup_insights.analysis.advice.change import Value, Way
from warmup_insights.analysis.sentences import value_text

_OFF = ("false", "none", "0", "1", "", "auto", "{}", "[]")


def is_on(value: Value) -> bool:
    """Whether a setting has a value that is more than its default."""
    return str(value).lower() not in _OFF


_OFF_BY = re.compile(
    r"no --(?P<option>[a-z-]{3,60})|--no-(?!disable)(?P<negated>[a-z-]{3,60})|"
    r"--(?P<size>[a-z-]{3,60}-size) 1|(?P<variable>[A-Z\d_]{3,60})=0"
)
"""Ways to turn a feature off, of which the way to turn it on follows."""


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
    devices: tuple[str, ...] = ()
    """Kinds of device that have it; empty for any."""
    changes: Mapping[str, Value] = field(default_factory=dict)

    @property
    def required(self) -> str:
        """What turns it on; empty where more than that is to be chosen."""
        match = _OFF_BY.fullmatch(self.off)
        if match is None:
            return ""
        if match["variable"]:
            return f"{match['variable']}=1"
        if match["size"]:
            return f"--{match['size']} > 1"
        return f"--{match['option'] or match['negated']}"

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
                f"{self.off} (the run has {self.setting}={value_text(config[self.setting])})",
                self.price,
                changes,
                devices=self.devices,
            )
        unless = "" if self.is_default else ", where it is set"
        return Way(f"{self.off}{unless}", self.price, changes, devices=self.devices)


def value_of(name: str, config: Mapping[str, Value]) -> Value | None:
    """A setting that the run states, also as a pass of its compilation (vLLM
    `config/compilation.py PassConfig`); None where it states none."""
    if name in config:
        return str(config[name]) if config[name] is None else config[name]
    if not name.startswith("fuse_"):
        return None
    whole = str(config.get("compilation_config"))
    match = re.search(rf"\b{name}['\"]?\s?[:=]\s?(\w{{1,20}})", whole)
    own = config.get(f"compilation_config.pass_config.{name}")
    return own if match is None else match[1]


V2_RUNNER = "VLLM_USE_V2_MODEL_RUNNER"

_AMD = ("rocm",)

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
    Feature(r"[Ee]ager mode|\benforce_eager\b", "enforce_eager", "no --enforce-eager",
            "compilation and graphs at the start"),
    Feature(r"[Bb]atch[ _-]invarian", "VLLM_BATCH_INVARIANT", "VLLM_BATCH_INVARIANT=0",
            "results differ with the batch"),
    Feature(r"\bEC[ _-]?[Cc]onnector|ec_transfer", "ec_transfer_config", "no --ec-transfer-config",
            "encoders run in this engine"),
    Feature(r"weight[ _]transfer", "weight_transfer_config", "no --weight-transfer-config",
            "weights are not renewed from outside"),
    Feature(r"kv_offload/|KV [Oo]ffload", "kv_offloading_size", "no --kv-offloading-size",
            "no KV cache on the host"),
    Feature(r"(?i:logits ?processor)|logits_processor/", "logits_processors",
            "no --logits-processors", "what they do"),
    Feature(r"[Ss]leep[ _-]mode", "enable_sleep_mode", "no --enable-sleep-mode",
            "the engine cannot sleep"),
    Feature(r"\bEPLB\b|/eplb/|enable[_-]eplb|[Ee]xpert (?:[Pp]arallelism )?load balanc", "enable_eplb",
            "no --enable-eplb", "experts are not balanced"),
    Feature(r"[Ee]xpert[ _-][Pp]arallel(?!ism load)|(?<![Ee]lastic )\bEP\b", "enable_expert_parallel",
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
    Feature(r"KV [Cc]onnector|HiSparse|kv[_-]transfer|kv[_-]connector|P/D disagg|KV cache transfer",
            "kv_transfer_config", "no --kv-transfer-config", "KV cache is not passed on"),
    Feature(r"[Pp]rompt[ _-][Ee]mbed", "enable_prompt_embeds", "no --enable-prompt-embeds",
            "requests with embeddings are refused"),
    Feature(r"(?i:fp8(?:_e\dm\d)?|quantized|nvfp4|int8|turboquant)[ _-](?:kv|KV)[ _-]?[Cc]ache|kv[_-]cache[_-]dtype|"
            r"KV cache (?:dtype|quantization)|(?i:turboquant)",
            "kv_cache_dtype", "--kv-cache-dtype auto", "a cache of 16 bits"),
    Feature(r"(?i:encoder[ _]cuda ?graph)", "cudagraph_mm_encoder",
            "cudagraph_mm_encoder false in --compilation-config", "slower encoders"),
    Feature(r"(?<!ncoder )(?i:cuda ?graphs?)\b|CUDAGraphMode|cudagraph_mode", "cudagraph_mode", "--enforce-eager",
            "slower decoding", is_default=True, changes={"enforce_eager": True}),
    Feature(r"\b(?i:aiter)\b.{0,40}\bMLA\b|\bMLA\b.{0,40}\b(?i:aiter)\b", "VLLM_ROCM_USE_AITER_MLA",
            "VLLM_ROCM_USE_AITER_MLA=0", "slower attention", is_default=True, devices=_AMD),
    Feature(r"\b(?i:aiter)\b.{0,60}(?i:moe)\b", "VLLM_ROCM_USE_AITER_MOE",
            "VLLM_ROCM_USE_AITER_MOE=0", "slower experts", is_default=True, devices=_AMD),
    Feature(r"\b(?i:aiter)\b|\b_aiter_ops\b", "VLLM_ROCM_USE_AITER", "VLLM_ROCM_USE_AITER=0",
            "slower kernels", is_default=True, devices=_AMD),
    Feature(r"(?<!enable_)(?i:flash_?infer[ _]autotune)", "enable_flashinfer_autotune",
            "--no-enable-flashinfer-autotune", "slower kernels", is_default=True),
    Feature(r"vllm/attention/backends/flashinfer\.py", "VLLM_ATTENTION_BACKEND",
            "VLLM_ATTENTION_BACKEND unset, or FlashInfer for this torch and CUDA installed, which "
            "this backend starts without",
            "another attention backend", is_default=True),
    Feature(r"(?<!vllm/attention/backends/)(?<![a-z]_)(?i:flash_?infer(?![ _]autotune|.{0,60}(?:all_?-?reduce|all2all|one-sided|communicat)))",
            "VLLM_USE_FLASHINFER_SAMPLER",
            "no FlashInfer: VLLM_USE_FLASHINFER_SAMPLER=0 where it samples, and another "
            "--attention-backend, --moe-backend or --linear-backend where it was chosen",
            "slower kernels, where others are",
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
    Feature(r"moe[_-]backend|MoE backend|fused_moe/experts/", "moe_backend",
            "no --moe-backend of your own, or another one", "the engine picks one",
            is_default=True),
    Feature(r"device_communicators/symm_mem", "VLLM_ALLREDUCE_USE_SYMM_MEM",
            "VLLM_ALLREDUCE_USE_SYMM_MEM=0", "slower all-reduces of some sizes", is_default=True,
            devices=("cuda",)),
    Feature(r"all2all|\bdeep_ep/", "all2all_backend", "no --all2all-backend", "the engine picks one"),
    Feature(r"(?<!encoder )(?<!encoder_)attention[_ -]backend|vllm/v1/attention/backends/(?!\w{0,12}(?:mamba|gdn|linear|conv))",
            "attention_backend",
            "no --attention-backend (VLLM_ATTENTION_BACKEND in older versions) of your own, or another "
            "one",
            "the engine picks one", is_default=True),
    Feature(r"[Cc][Pp][Uu] [Oo]ffload|cpu[_-]offload", "cpu_offload_gb", "no --cpu-offload-gb",
            "the weights on the device"),
    Feature(r"[Mm]ulti-?[Ss]tep|num[_-]scheduler[_-]steps", "num_scheduler_steps",
            "no --num-scheduler-steps", "steps are scheduled one by one"),
    Feature(r"(?i:model[ _]?runner ?v2|v2 model ?runner)|\bMRV2\b|v1/worker/gpu/", V2_RUNNER,
            f"{V2_RUNNER}=0", "the model runner before, where it has the model",
            is_default=True),
)  # fmt: skip
"""Of vLLM 0.8 to 0.33: the one of a whole part of the engine last."""


def needs_v2_runner(config: Mapping[str, Value]) -> bool:
    """Whether the run has something that the model runner before refuses (vLLM
    `config/vllm.py _get_v1_model_runner_unsupported_features`)."""
    on = {name for name, value in config.items() if is_on(value)}
    return (
        bool(on & {"prefill_context_parallel_size", "enable_batch_sharded_sampling"})
        or on >= {"pipeline_parallel_size", "async_scheduling"}
        or "dspark" in str(config.get("speculative_config"))
    )


_SHORT = {
    "tp": "tensor_parallel_size", "pp": "pipeline_parallel_size", "dp": "data_parallel_size",
    "dcp": "decode_context_parallel_size", "pcp": "prefill_context_parallel_size",
}  # fmt: skip
_END_OF_SHORT = re.compile(r"_(?:world_)?size$")
_NAMES = {
    "": r"max_(?:model_len|num_(?:seqs|batched_tokens)|lora_rank|loras|cpu_loras|cudagraph_capture_size)|"
    r"data_parallel_\w+|tensor_parallel_size|node_rank|nnodes|mamba_(?:block_size|cache_mode)|"
    r"load_format|served_model_name|safetensors_load_strategy|model_loader_extra_config",
    "--model-loader-extra-config": r"enable_multithread_load|memory_limit",
    "--speculative-config": r"num_speculative_tokens|draft_(?:tensor|sample|model)\w*|prompt_lookup_m(?:ax|in)|"
    r"speculative_token_tree|synthetic_acceptance_\w+|suffix_decoding_\w+|dspark_\w+|xpress_\w+|"
    r"rejection_sample_method|use_(?:local_argmax_reduction|heterogeneous_vocab)",
    "--compilation-config": r"cudagraph_mode|compile_(?:sizes|cache\w*|ranges_\w+|mm_encoder)|pass_config|splitting_ops|custom_ops|"
    r"encoder_cudagraph_\w+|use_inductor\w*",
    "--profiler-config": r"torch_profiler_\w+|proton_profiler_\w+|(?:delay|max|warmup|active|wait)_"
    r"iterations",
    "--eplb-config": r"num_redundant_experts|log_balancedness\w*|step_interval",
    "--kv-transfer-config": r"kv_(?:connector\w*|role|rank|buffer_\w+|parallel_size|load_failure_policy)",
    "--pooler-config": r"(?:seq_|tok_)?pooling_type",
    "--attention-config": r"indexer_\w+|flex_attn_\w+|minimax_m3_\w+",
}
"""Options whose value has keys, to the names of the keys (vLLM `config/`); first settings that
are options themselves, and that a log need not state."""


def engine_name(name: str) -> str:
    """A setting by the engine's own name."""
    short = _SHORT.get(_END_OF_SHORT.sub("", name.lower()))
    if short is not None:
        return short
    if name.isupper():
        return name
    own = name.removeprefix("--").replace("-", "_")
    return own if own == "speculative_config" else own.removeprefix("speculative_")


def _option_of_key(name: str) -> str | None:
    return next((o for o, keys in _NAMES.items() if re.fullmatch(keys, name)), None)


def is_setting(name: str, config: Mapping[str, Value]) -> bool:
    """Whether a name is one of a setting, not of code."""
    own = engine_name(name)
    is_written = name.startswith(("--", "speculative_")) or name.isupper()
    is_feature = any(own == feature.setting for feature in FEATURES)
    is_known = own in config or _option_of_key(own) is not None
    return is_written or is_known or is_feature


def place_of(name: str, config: Mapping[str, Value]) -> str:
    """A setting as it is given: an option, a variable, or a key of an option's value."""
    own, option = engine_name(name), _option_of_key(engine_name(name))
    if not option and name.startswith("speculative_") and own != name:
        option = "--speculative-config"
    if option:
        return f"{own} in {option}"
    if own.isupper():
        return own
    if is_setting(name, config):
        return f"--{own.replace('_', '-')}"
    return f"{own}, an option or a value in the files of the model"
