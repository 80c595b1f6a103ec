"""Settings that an engine refused, and the value that its message names."""

from __future__ import annotations

from warmup_insights.analysis.advice.finding import Way
from warmup_insights.analysis.advice.known_texts import KnownError, rows
from warmup_insights.analysis.advice.known_values import (
    at_most_experts,
    dividing_context,
    fewer_ranks,
    fewer_requests,
    higher_limit,
    larger_rank,
    larger_step,
    room_for_drafts,
    shorter_model,
    visible_ranks,
    whole_chunks,
    whole_drafts,
    whole_item,
)

_ORDERED_RANGE = Way(
    "VLLM_PROMPT_... and VLLM_DECODE_..._BUCKET_MIN at most their _MAX: the lines `bucket "
    "config` above list (min, step, max); an unset _MAX follows from max_num_seqs, "
    "max_model_len and max_num_batched_tokens",
    "none",
)
_NO_SKIP = Way(
    "VLLM_SKIP_WARMUP=true, as the message proposes",
    "does not help in use: each shape compiles when a request needs it",
)


ROWS: tuple[KnownError, ...] = (
    KnownError(
        "setting_refused",
        r"set tensor_parallel_size \((\d{1,6})\) to less than max local gpu count \((\d{1,6})\)",
        "There are fewer devices than ranks",
        visible_ranks,
    ),
    KnownError(
        "setting_refused",
        r"tp_size=(\d{1,6}) must be divisible by dcp_size=(\d{1,6})",
        "The ranks of a context do not divide those of tensor parallelism",
        dividing_context,
    ),
    KnownError(
        "setting_refused",
        r"Tensor parallel size \d{1,6} is greater than the number of experts (\d{1,6})",
        "There are fewer experts than ranks",
        at_most_experts,
    ),
    KnownError(
        "setting_refused",
        r"max_num_batched_tokens \((\d{1,9})\) must be divisible by mamba_chunk_size "
        r"\((\d{1,6})\)",
        "A step does not take whole chunks of a Mamba layer",
        whole_chunks,
    ),
    KnownError(
        "setting_refused",
        r"num_speculative_tokens:\s?(\d{1,6}) must be divisible by n_predict=(\d{1,6})",
        "The tokens drafted in a step are no multiple of those of the draft layers",
        whole_drafts,
    ),
    KnownError(
        "setting_refused",
        r"max_num_batched_tokens=(\d{1,9}) and scheduled_token_delta=(\d{1,9})",
        "A step takes fewer tokens than drafts are set aside for",
        room_for_drafts,
    ),
    *rows(
        "setting_refused",
        (r"(?:Min\. batch size|bucket_min) cannot be greater than",
         "A bucket range ends before it begins",
         (_ORDERED_RANGE, _NO_SKIP)),
        (r"Generated 0 (prompt|decode) buckets",
         "The ranges and limits leave no bucket",
         (Way("the variables VLLM_..._BUCKET_... of {1} unset, or ranges that hold a block and "
              "do not begin above max_model_len or max_num_batched_tokens",
              "other buckets"),)),
        (r"Invalid bucketing strategy: (\S{0,40})",
         "This bucketing strategy does not exist",
         (Way("VLLM_BUCKETING_STRATEGY=exp, lin or pad", "none"),)),
        (r"Invalid (?:count range .{1,40} in )?(VLLM_\w{1,80}) entry",
         "A variable has a value that cannot be read",
         (Way("{1} in the form that the message gives", "none"),)),
        (r"(\w{1,80}) does not support LoRA yet",
         "This version loads no adapters for the model",
         (Way("no --enable-lora, with the adapter merged into the weights",
              "one model for each adapter"),
          Way("a newer vLLM or plugin whose list of supported models has LoRA for it",
              "another image"))),
        (r"Sleep mode can only be used for one instance per process",
         "Two engines with sleep mode run in one process",
         (Way("a process for each engine, or no --enable-sleep-mode", "none"),)),
        (r"(VLLM_\w{1,80}): failed to process environment variable",
         "A variable has a value that cannot be read",
         (Way("{1} with a value of its kind (a whole number, true or false), or unset",
              "none"),)),
        (r"model type '?([\w.-]{1,60})'? does not support float16",
         "This model needs the range of bfloat16",
         (Way("--dtype bfloat16", "a device that has it (compute capability 8.0)",
              {"dtype": "bfloat16"}),
          Way("--dtype float32", "twice the memory, slower", {"dtype": "float32"}))),
        (r"invalid (tool call|reasoning) parser: (\S{1,80})",
         "There is no parser of this name",
         (Way("one of the names in the message instead of {2}, or a newer vLLM that has it",
              "none"),)),
        (r"VLLM_USE_V1=1 is not supported with (\S{1,80}\w)",
         "An option runs in the older engine only",
         (Way("no {1}, or VLLM_USE_V1 unset", "the option, or the V1 engine"),)),
        (r"not divisible by weight quantization",
         "Blocks of the quantised weights do not divide among so many ranks",
         (Way("a smaller --tensor-parallel-size", "each device holds more of the weights"),
          Way("--enable-expert-parallel, where the layer is one of experts: each rank holds "
              "whole ones", "another division of the work between ranks"))),
        (r"(?:input|output)_size_per_partition|not aligned with the quantized weight shape",
         "Quantised weights do not divide among so many ranks",
         (Way("a smaller --tensor-parallel-size", "each device holds more of the weights"),
          Way("another kind of quantisation, of larger or no groups", "another checkpoint"))),
        (r"[Tt]arget and draft model should have the same voca",
         "The draft model has another vocabulary than the model",
         (Way("a draft model that was made for this model", "another checkpoint"),
          Way("no --speculative-config", "slower decoding"))),
        (r"chat template string \((.{1,200}?)\) appears path-like",
         "The chat template is not there",
         (Way("{1} mounted into the container, as an absolute path", "none"),)),
    ),
    KnownError(
        "setting_refused",
        r"attention heads \((\d{1,6})\) must be divisible by tensor parallel size \((\d{1,6})\)",
        "The attention heads do not divide among the ranks",
        fewer_ranks,
    ),
    KnownError(
        "setting_refused",
        r"greater than the derived max_model_len \(\w{1,60}=([\d.]{1,16})",
        "--max-model-len is beyond what the model was made for",
        shorter_model,
    ),
    KnownError(
        "setting_refused",
        r"max_num_batched_tokens \((\d{1,9})\) is smaller than max_model_len \((\d{1,9})\)",
        "A step takes fewer tokens than the longest prompt",
        larger_step,
    ),
    KnownError(
        "setting_refused",
        r"max_num_batched_tokens \((\d{1,9})\) must be greater than or equal to max_num_seqs "
        r"\((\d{1,9})\)",
        "A step takes fewer tokens than requests may run",
        fewer_requests,
    ),
    KnownError(
        "setting_refused",
        r"max_tokens_per_mm_item \((\d{1,9})\) is larger than max_num_batched_tokens",
        "A step takes fewer tokens than one image or video",
        whole_item,
    ),
    KnownError(
        "setting_refused",
        r"total_hbm_used_gb=([\d.]{1,12})\s?Gi?B exceeds total_hbm_limit_cap_gb=([\d.]{1,12})"
        r"\s?Gi?B.{0,200}?gpu-memory-utilization from ([\d.]{1,8}\d)",
        "The weights take more than the utilisation allows",
        higher_limit,
    ),
    KnownError(
        "setting_refused",
        r"LoRA rank (\d{1,6}) is greater than max_lora_rank",
        "An adapter has a higher rank than was allowed",
        larger_rank,
    ),
    KnownError(
        "setting_refused",
        r"World size \((\d{1,6})\) is larger than the number of available GPUs \((\d{1,6})\)",
        "There are fewer devices than ranks",
        visible_ranks,
    ),
    KnownError(
        "setting_refused",
        r"AssertionError: (\d{1,9}) is not divisible by (\d{1,6})",
        "A size of the model does not divide among the ranks",
        fewer_ranks,
    ),
    *rows(
        "setting_refused",
        (r"unrecognized arguments?: (\S{1,80})",
         "This version does not know an argument",
         (Way("`vllm serve --help=all` of this version for what {1} is called, or remove it",
              "none"),)),
        (r"JAX compilation occurred but was forbidden",
         "A shape came that no warm-up had compiled, and compilation was forbidden",
         (Way("VLLM_XLA_CHECK_RECOMPILATION=0, the default: the shape is compiled when it comes",
              "the first request of each such shape waits for its compilation",
              {"VLLM_XLA_CHECK_RECOMPILATION": "0"}),
          Way("requests as the warm-up foresees them (the frames above the line name the part: "
              "log-probabilities, samplers), or a newer tpu-inference", "what they do"))),
        (r"provide the model as a positional argument",
         "The name of the model is not where this version reads it",
         (Way("`vllm serve NAME ...`, the name first and no --model", "none"),)),
        (r"validation errors? for (\w{0,40}Config)",
         "The engine refused its configuration",
         (Way("the lines below this one name the setting of {1} and what it must be",
              "the first line of the error does not hold it"),)),
        (r"(?:error|ArgumentError): argument ([^\s:]{1,80})",
         "An argument has a value that this version refuses",
         (Way("{1} as `vllm serve --help=all` lists its values", "none"),)),
    ),
)  # fmt: skip

LAST: tuple[KnownError, ...] = rows(
    "setting_refused",
    (r"(--[a-z][a-z-]{1,60}) requires (--[a-z][a-z-]{1,60})",
     "An option needs another one",
     (Way("{2} as well", "none"), Way("no {1}", "what it does"))),
    (r"(?:ValueError|NotImplementedError): [^:]{1,200}? (?:(?:is|are) (?:not|only) (?:yet |currently )?"
     r"supported (?:with|when|for|by|in|if|on)\b|does not (?:yet |currently )?support\b)",
     "The engine refuses a combination of settings",
     (Way("one of the two that the message names left out",
          "what it does; another version may know both"),)),
    (r"ValueError: invalid literal for int\(\) with base 10: ('.{0,80}?')",
     "A whole number cannot be read",
     (Way("a whole number in the variable or option that has the value {1}: the frame above "
          "the error names it", "none"),)),
    (r"ValueError: .{0,120}?((?:--[a-z]|[a-z]{2,20}_)[\w-]{1,60})\W[^.]{0,80}?"
     r"(?:must|should|has to|needs to) be\b",
     "The engine refuses a value",
     (Way("{1} as the message asks for it", "none"),)),
)  # fmt: skip
"""Wide texts, which count where no other row has matched."""
