"""Errors that no table names: what their text itself states, and no more than that."""

from __future__ import annotations

import pytest

from tests.analysis.builders import facts_of, started
from tests.analysis.room_cases import ended
from warmup_insights.analysis.advice import advise
from warmup_insights.analysis.advice.stated import remedies
from warmup_insights.model.events import ConfigRecorded, Failure, PhaseMarked
from warmup_insights.model.failure_text import kind_of_message

CONFIGURE = PhaseMarked(name="configure", edge="start")
LOAD = PhaseMarked(name="load_model", edge="start")


def found(message, *before, **settings):
    config = [ConfigRecorded(settings=settings)] if settings else []
    (finding,) = advise(
        facts_of(ended(kind_of_message(message), message, *before, *config))
    )
    return finding


def ways(message, *before, **settings):
    finding = found(message, *before, **settings)
    return [finding.suggestion, *(way.suggestion for way in finding.ways)]


def test_a_stated_remedy_is_quoted_with_its_value():
    finding = found(
        "ValueError: Some algorithm is only supported with the other backend. Please set "
        "`--some-backend otherone`."
    )
    assert finding.rule == "setting_refused"
    assert finding.suggestion.startswith("--some-backend otherone, as the error states")
    assert finding.changes == {"some_backend": "otherone"}


@pytest.mark.parametrize(
    "message",
    [
        "ValueError: Rounding needs it. Please do not specify `--enable-rounding`, or set "
        "`--some-backend otherone`.",
        "ValueError: No. Use `--runner pooling` or `--runner auto` for such models.",
        "ValueError: No. You can pass `--convert <a, b> to adapt it.",
        "ValueError: No. Set --enable-something to use it.",
        "ValueError: No. Either install NIXL or set --eplb-config.use_async=false.",
        "ValueError: Found it. Remove VLLM_SOME_SWITCH=1 to go on.",
    ],
)
def test_no_value_is_read_of_a_remedy_that_states_several_or_none(message):
    finding = found(message)
    assert finding.changes == {}
    assert "“" in finding.suggestion


def test_what_the_run_has_stands_beside_the_remedy():
    suggestion = ways(
        "ValueError: max_num_scheduled_tokens is 0. Increase max_num_batched_tokens, or decrease "
        "num_speculative_tokens.",
        max_num_batched_tokens=512,
    )[0]
    assert suggestion.endswith("the run has max_num_batched_tokens=512")


def test_what_the_run_has_stands_beside_a_refused_value():
    text = "ValueError: node_rank=4 must be less than the count."
    assert ways(text, node_rank=4)[0].endswith("the run has node_rank=4")


@pytest.mark.parametrize(
    "message",
    [
        "RuntimeError: CUDA call failed. For debugging consider passing CUDA_LAUNCH_BLOCKING=1",
        "RuntimeError: It failed. Please set VLLM_LOGGING_LEVEL=DEBUG to turn on logs.",
        "RuntimeError: Worker failed with error 'no', please check the stack trace above for the "
        "root cause",
        "ValueError: Unknown. Please file a vLLM issue with your model.",
        "ValueError: Using models with different tokenizers can fail.",
        "ValueError: pass abc should be callable.",
        "RuntimeError: Build failed with code 1.",
        "RuntimeError: Start index is out of range.",
        "RuntimeError: start (0) + length (512) exceeds dimension size (256).",
    ],
)
def test_what_only_helps_to_look_further_is_no_remedy(message):
    assert remedies(message) == []


def test_a_package_to_be_installed_is_missing():
    finding = found(
        "ImportError: Some Inference is required for decoding. Install via `pip install "
        "some-inference==0.1.1`."
    )
    assert finding.rule == "missing_tool"
    assert finding.suggestion.startswith("pip install some-inference==0.1.1")


def test_a_refused_feature_has_the_option_that_turns_it_off():
    text = "ValueError: Some method does not support speculative decoding or LoRA yet."
    first, second = ways(text, enable_lora=True)[:2]
    assert first == "no --enable-lora (the run has enable_lora=True)"
    assert second == "no --speculative-config, where it is set"


def test_a_feature_that_the_run_does_without_is_not_turned_off():
    text = "ValueError: Some method is not supported with pipeline parallelism."
    assert "--pipeline-parallel-size 1" not in str(ways(text, pipeline_parallel_size=1))
    assert "--pipeline-parallel-size 1" in str(ways(text, pipeline_parallel_size=2))


def test_what_has_to_be_there_is_not_turned_off():
    for text in (
        "ValueError: Elastic scaling is only supported with enable_eplb=True.",
        "ValueError: some_lb can only be set when data_parallel_size > 1",
        "ValueError: Rounding requires prefix caching.",
    ):
        shown = " ".join(ways(text, CONFIGURE))
        assert "the error requires" in shown
        assert "no --enable-eplb" not in shown
        assert "--data-parallel-size 1" not in shown
        assert "--no-enable-prefix-caching" not in shown


def test_a_remedy_is_not_contradicted():
    text = (
        "ValueError: This model does not support `--runner pooling`. You can pass `--convert` to "
        "adapt it."
    )
    assert "no --convert" not in ways(text)


def test_a_requirement_has_the_option_of_its_feature():
    finding = found(
        "ValueError: --some-metrics requires speculative decoding.", CONFIGURE
    )
    assert finding.suggestion == "--speculative-config, as the error requires"
    assert "no --some-metrics" in [way.suggestion for way in finding.ways]


def test_a_value_is_refused_only_while_settings_are_read():
    text = "ValueError: numa_nodes must contain whole numbers."
    assert found(text, CONFIGURE).rule == "setting_refused"
    assert found("AssertionError: Output must be contiguous", LOAD).rule == (
        "failure_unexplained"
    )


@pytest.mark.parametrize(
    "message",
    [
        "TypeError: run() missing 1 required positional argument: 'x'",
        "AttributeError: 'X' object has no attribute 'y'",
        "RuntimeError: a view of a leaf Variable that requires grad is being used in place",
        "AssertionError: max_num_seqs must be set by this point",
        "TypeError: memoryview: format e not supported",
        "RuntimeError: Expected there to be 2 items in keyword arguments, but only found 1!",
    ],
)
def test_an_error_of_the_program_states_no_setting(message):
    assert found(message, CONFIGURE).rule in ("program_error", "failure_unexplained")


def test_a_row_of_the_tables_gets_the_remedy_that_it_lacks():
    text = (
        "ValueError: The checkpoint you are trying to load has model type `x` but Transformers "
        "does not recognize this architecture. You can update with `pip install --upgrade "
        "transformers`."
    )
    finding = found(text)
    assert finding.rule == "model_unsupported"
    assert "pip install --upgrade transformers" in finding.ways[-1].suggestion


@pytest.mark.parametrize(
    ("message", "changes"),
    [
        ("AssertionError: num_kv_heads=12 must be divisible by tp_size=8.", 4),
        ("AssertionError: num_kv_heads=25 must be divisible by tp_size=8.", 5),
        ("ValueError: Some heads must be divisible by tensor parallel size: num_heads=20, "
         "tp_size=8.", 4),
        ("ValueError: Audio heads must be divisible by tensor parallel size. Got self.heads=20 and "
         "tp_size=8.", 4),
    ],
)  # fmt: skip
def test_any_size_that_does_not_divide_has_the_ranks_that_do(message, changes):
    assert found(message).changes["tensor_parallel_size"] == changes


@pytest.mark.parametrize(
    ("message", "changes", "other"),
    [
        ("ValueError: max_cpu_loras (2) must be >= max_loras (4).", {"max_cpu_loras": 4},
         {"max_loras": 2}),
        ("ValueError: data_parallel_size_local (8) must be <= data_parallel_size (4)",
         {"data_parallel_size_local": 4}, {"data_parallel_size": 8}),
        ("ValueError: max_num_active_seqs (512) cannot be greater than max_num_seqs (256).",
         {"max_num_active_seqs": 256}, {"max_num_seqs": 512}),
    ],
)  # fmt: skip
def test_two_settings_that_bound_each_other_have_their_values(message, changes, other):
    finding = found(message)
    assert finding.changes == changes
    assert finding.ways[0].changes == other


def test_a_failed_compilation_has_the_start_without_it_and_another_release():
    text = "RuntimeError: some text that is not there"
    failure = Failure(failure="error", message=text, phase="compile")
    (finding,) = advise(facts_of([started("vllm", device_kind="cuda"), failure]))
    shown = " ".join([finding.suggestion, *(way.suggestion for way in finding.ways)])
    assert "--enforce-eager" in shown
    assert "another release" in shown


def test_what_a_device_lacks_names_the_kernels_and_another_build():
    text = "RuntimeError: FlashInfer-CUTLASS MoE kernel does not support current device sm_120"
    finding = found(text, LOAD)
    assert finding.rule == "device_unsupported"
    assert finding.suggestion.startswith("no FlashInfer")
    assert "TORCH_CUDA_ARCH_LIST" in str(finding.ways)


def test_what_a_device_lacks_of_a_quantisation_needs_another_build_of_the_model():
    finding = found("RuntimeError: Int8 not supported for this architecture", LOAD)
    assert finding.rule == "device_unsupported"
    assert finding.suggestion.startswith("another build of the model")


def test_weights_that_do_not_fit_may_be_read_as_those_of_another_architecture():
    text = "ValueError: Following weights were not initialized from checkpoint: {'score.weight'}"
    assert "--hf-overrides" in " ".join(ways(text))


def test_kernels_that_are_named_have_the_variable_that_turns_them_off():
    text = "AssertionError: Aiter MLA only supports 16 or 128 number of heads."
    assert "VLLM_ROCM_USE_AITER_MLA=0" in ways(text, LOAD)


@pytest.mark.parametrize(
    "message",
    [
        "AssertionError: batched format not supported yet",
        "ValueError: some W4A16 requires BF16 input, got torch.float16",
    ],
)
def test_code_that_no_setting_chooses_is_no_refused_setting(message):
    finding = found(message, LOAD)
    assert finding.rule == "failure_unexplained"
    assert "another release" in finding.ways[-1].suggestion


def test_a_feature_for_one_mode_only_has_both_ways():
    shown = ways(
        "AssertionError: Sleep mode is supported only for torch.compile mode", LOAD
    )
    assert shown[0] == "what the error requires: “for torch.compile mode”"
    assert shown[1].startswith("no --enable-sleep-mode")


def test_a_text_of_any_length_is_read_in_bounded_time():
    for part in ("use --a or ", "if a, please ", "x requires ", "a_b=", "- Set A_B "):
        assert found("ValueError: " + part * 20_000).suggestion


@pytest.mark.parametrize(
    ("message", "wrong"),
    [
        ("ValueError: --some-spec-decode-metrics requires speculative decoding to be enabled.",
         "no --speculative-config"),
        ("ValueError: Fault tolerance requires external mode (--data-parallel-external-lb). "
         "Internal mode is not supported.", "no --data-parallel-external-lb"),
        ("ValueError: bfloat16 KV cache is not supported here. Re-run with --kv-cache-dtype "
         "float16.", "no --kv-cache-dtype"),
        ("ValueError: --data-parallel-some-lb requires --data-parallel-size > 1",
         "--data-parallel-size 1"),
    ],
)  # fmt: skip
def test_what_a_message_needs_is_not_left_out(message, wrong):
    shown = ways(message, CONFIGURE)
    assert not [way for way in shown if way.startswith(wrong)]


@pytest.mark.parametrize(
    ("message", "first"),
    [
        ("ValueError: Some replay currently requires pipeline_parallel_size=1",
         "--pipeline-parallel-size 1, as the error requires"),
        ("ValueError: some_pool requires data_parallel_size > 1.",
         "--data-parallel-size > 1, as the error requires"),
        ("ValueError: --mamba-size can only be set with --enable-some-caching",
         "--enable-some-caching, as the error requires"),
        ("ValueError: some_traces requires `--some-endpoint` to be set.",
         "--some-endpoint, as the error requires"),
        ("ValueError: Some replay requires Model Runner V2",
         "VLLM_USE_V2_MODEL_RUNNER=1, as the error requires"),
        ("ValueError: Sampled drafts require rejection_sample_method='standard'.",
         "rejection_sample_method standard in --speculative-config, as the error requires"),
        ("ValueError: --some-port must be between 0 and 65535",
         "--some-port, which must be between 0 and 65535"),
        ("ValueError: suffix_decoding_depth=0 must be >= 1",
         "suffix_decoding_depth in --speculative-config, which must be >= 1"),
        ("ValueError: A draft was named, but `num_speculative_tokens` was not provided",
         "num_speculative_tokens in --speculative-config, which was not provided"),
        ("ValueError: `--decode-context-parallel-size` (8) exceeds the maximum supported value "
         "(4) for `--tensor-parallel-size` (8).", "--decode-context-parallel-size 4"),
        ("ValueError: dcp_size must be a divisor of the heads.",
         "--decode-context-parallel-size, which must be a divisor of the heads"),
    ],
)  # fmt: skip
def test_what_a_message_requires_is_given_as_it_is_set(message, first):
    assert ways(message, CONFIGURE)[0] == first


@pytest.mark.parametrize(
    "message",
    [
        "ValueError: hidden_states must be contiguous",
        "ValueError: layers.0.self_attn.qkv_proj must be 2D, got shape=(1, 2)",
        "AssertionError: NUM_TOPK (12) must be divisible by BLOCK_N (16)",
        "ValueError: hidden_size (768) must be divisible by group_size (100)",
        "ValueError: expected a 128-byte NCCL unique id, got 16 bytes",
        "AssertionError: Some allreduce should be attached to a non-NCCL group.",
    ],
)
def test_names_of_code_are_no_settings(message):
    assert found(message, LOAD).rule == "failure_unexplained"


def test_what_only_some_engines_support_is_not_turned_on():
    shown = ways(
        "NotImplementedError: A client only supports Elastic EP scaling in one mode."
    )
    assert not [way for way in shown if way.startswith("--enable-elastic-ep")]


def test_what_the_run_has_already_is_not_turned_on():
    text = "ValueError: Some store requires at least one prefix-cacheable group"
    shown = ways(text, LOAD, enable_prefix_caching=True)
    assert not [way for way in shown if way.startswith("--enable-prefix-caching")]


def test_a_part_that_failed_is_left_out_by_its_folder():
    text = "AssertionError: Regions must share a group."
    folder = "vllm/distributed/ec_transfer/a.py"
    (finding,) = advise(facts_of(ended("error", text, module=folder)))
    assert finding.suggestion == "no --ec-transfer-config, where it is set"


@pytest.mark.parametrize(
    ("message", "first"),
    [
        ("ValueError: --some-sharding requires PP=1",
         "--pipeline-parallel-size 1, as the error requires"),
        ("ValueError: --some-sharding requires TP > 1",
         "--tensor-parallel-size > 1, as the error requires"),
        ("ValueError: Some drafts require num_speculative_tokens to be at least 2.",
         "what the error requires: “num_speculative_tokens to be at least 2”"),
        ("ValueError: Some replay requires --some-buffer-len >= 1 + num_speculative_tokens (4).",
         "what the error requires: “--some-buffer-len >= 1 + num_speculative_tokens (4)”"),
        ("ValueError: Some drafts require first_anchor=true and dspark_draft_topk=4.",
         "what the error requires: “first_anchor=true and dspark_draft_topk=4”"),
        ("ValueError: Aligned sharding requires whole dimensions, pure TP, and no LoRA or bias.",
         "what the error requires: “whole dimensions, pure TP, and no LoRA or bias”"),
        ("ValueError: Some store requires at least one prefix-cacheable group",
         "what the error requires: “at least one prefix-cacheable group”"),
        ("NotImplementedError: Some PCP supports kv_producer only. Others require "
         "prefill_context_parallel_size=1.", "--prefill-context-parallel-size 1, as the error requires"),
        ("NotImplementedError: Some model does not support pipeline parallelism; "
         "pipeline_parallel_size=1 is required",
         "--pipeline-parallel-size 1, as the error requires"),
        ("ValueError: Some model has only one trained MTP step",
         "no --speculative-config, where it is set"),
    ],
)  # fmt: skip
def test_what_is_required_is_not_made_of_a_part_of_it(message, first):
    """What names a setting may state the opposite, a sum, or more beside it."""
    assert ways(message, CONFIGURE)[0] == first


@pytest.mark.parametrize(
    "message",
    [
        "ValueError: Some weights are there already, use the default --some-format.",
        "ValueError: No. Please use --some-backend instead.",
        "ValueError: No. Please set --some-backend to one of them.",
    ],
)
def test_no_word_of_a_sentence_is_a_value(message):
    finding = found(message, CONFIGURE)
    assert finding.changes == {}
    assert "--some-format," not in finding.suggestion.partition("“")[0]


def test_a_name_of_code_is_no_key_of_an_option():
    text = (
        "AssertionError: When caches are read, compile_all_parts should not be called."
    )
    assert found(text, LOAD).rule == "failure_unexplained"


@pytest.mark.parametrize(
    "limit",
    [
        "must be 16, 32 or 64", "must be 16/32/64", "must be 16-byte aligned",
        "must be 1 to 65535", "must be 1-128 characters", "must be 2 * block_size",
        "must be 0 (off), or at least 1",
    ],
)  # fmt: skip
def test_one_value_of_several_is_not_the_value(limit):
    finding = found(f"ValueError: --some-size {limit}, got 7", CONFIGURE)
    assert finding.suggestion.startswith(f"--some-size, which {limit}")
    assert finding.changes == {}


@pytest.mark.parametrize(
    ("message", "changes"),
    [
        ("ValueError: some_size_local must be 1 when some_rank is set", 1),
        ("ValueError: some_size_local must be True to use EPLB.", "True"),
        ("ValueError: some_size_local=3 must be 1 or equal to the other size=4.", 1),
        ("ValueError: some_size_local must be 4, but got 2", 4),
    ],
)
def test_a_value_that_stands_alone_is_the_value(message, changes):
    finding = found(message, CONFIGURE, some_size_local=7)
    assert finding.changes == {"some_size_local": changes}


@pytest.mark.parametrize(
    "message",
    [
        "ValueError: --some-start-rank + --some-size-local (8) exceeds --some-size (4)",
        "ValueError: Some model requires max_num_seqs=4 or 8",
    ],
)
def test_a_sum_or_a_choice_sets_nothing(message):
    assert found(message, CONFIGURE).changes == {}


def test_the_newer_model_runner_has_two_names():
    for name in ("Model Runner V2", "the V2 model runner"):
        text = f"NotImplementedError: Some model requires {name}"
        assert (
            ways(text, LOAD)[0] == "VLLM_USE_V2_MODEL_RUNNER=1, as the error requires"
        )


@pytest.mark.parametrize(
    "message",
    [
        "ValueError: Model Runner V2 does not yet support: heterogeneous-vocabulary drafts",
        "RuntimeError: UVA is not available",
        "ValueError: Some feature is not supported with the V2 model runner",
    ],
)
@pytest.mark.parametrize(
    "settings",
    [
        {"prefill_context_parallel_size": 2},
        {"enable_batch_sharded_sampling": True},
        {"speculative_config": "{'method': 'dspark'}"},
        {"pipeline_parallel_size": 2, "async_scheduling": True},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_the_model_runner_before_is_no_way_for_what_only_the_newer_one_does(
    message, settings
):
    off = "VLLM_USE_V2_MODEL_RUNNER=0"
    assert any(off in way for way in ways(message, LOAD))
    assert not any(off in way for way in ways(message, LOAD, **settings))
    needed = ways("ValueError: Some replay requires Model Runner V2", LOAD, **settings)
    assert needed[0].startswith("VLLM_USE_V2_MODEL_RUNNER=1")


@pytest.mark.parametrize(
    ("message", "stated"),
    [
        ("AssertionError: Some kernels not found. Please follow https://a.b/README.md to install "
         "them.", "Please follow"),
        ("NotImplementedError: Some op is not available. Rebuild some-kernels with SOME_SWITCH.",
         "Rebuild some-kernels"),
        ("ValueError: An adapter has fused weights. Start the engine with "
         "--enable-mixed-some-format.", "Start the engine"),
        ("ValueError: Windows differ. One potential fix is to set disable_some_window=True",
         "One potential fix"),
        ("ValueError: No such kernel for this block. Pin the draft to TRITON_MLA for it.",
         "Pin the draft"),
        ("RuntimeError: Remote engine 3 must not use --headless here", "Remote engine 3"),
        ("ValueError: No model specified! Please specify model either as a positional argument or "
         "in a config file.", "Please specify model"),
        ("RuntimeError: Both instances must use one layout.Disable this check using "
         "--kv-transfer-config.", "Disable this check"),
    ],
)  # fmt: skip
def test_every_way_in_which_an_engine_states_a_remedy_is_read(message, stated):
    assert f"“{stated}" in ways(message, LOAD)[0]


@pytest.mark.parametrize(
    ("message", "first"),
    [
        ("AssertionError: hash_tokens=24 not divisible by 7. Hybrid models need "
         "--enable-prefix-caching to align them.", "--enable-prefix-caching"),
        ("RuntimeError: some_reconfigure requires VLLM_ALLOW_INSECURE_THING=1 because it pickles.",
         "VLLM_ALLOW_INSECURE_THING=1, as the error requires"),
        ("ValueError: VLLM_SOME_PATH does not support api_server_count > 1",
         "VLLM_SOME_PATH unset"),
        ("ValueError: data_parallel_hybrid_lb is not applicable in headless mode",
         "no --data-parallel-hybrid-lb"),
        ("ValueError: VLLM_SOME_LAYOUT=abc does not satisfy every supported set; valid layouts: "
         "['x'].", "VLLM_SOME_LAYOUT unset"),
        ("ValueError: Refusing to deserialize it without VLLM_ALLOW_INSECURE_THING=1",
         "VLLM_ALLOW_INSECURE_THING=1, as the error requires"),
        ("ValueError: --linear-backend=abc was requested but no 'abc' kernel exists for it.",
         "no --linear-backend"),
        ("ValueError: --some-embed is unsupported with tied embeddings", "no --some-embed"),
        ("ValueError: The Proton profiler currently supports NVIDIA CUDA only",
         "one of those that the message names left out"),
    ],
)  # fmt: skip
def test_a_need_or_a_refusal_is_read_in_other_words(message, first):
    assert ways(message, CONFIGURE)[0].startswith(first)


def test_what_a_build_does_not_have_yet_a_newer_one_may_have():
    text = "RuntimeError: Currently, scaled fp8 gemm is not implemented for Blackwell"
    assert ways(text, LOAD)[0].startswith("a build of torch, vLLM and its kernels")


def test_an_assertion_of_the_code_of_models_may_name_an_option():
    text = (
        "AssertionError: Only symmetric weights are there. Try --moe-backend emulation."
    )
    folder = "vllm/model_executor/layers/a.py"
    (finding,) = advise(facts_of(ended("error", text, LOAD, module=folder)))
    assert finding.suggestion.startswith("--moe-backend emulation, as the error states")


@pytest.mark.parametrize(
    ("package", "shown"),
    [
        ("'some[extra]>=1.2'", "pip install 'some[extra]>=1.2', as"),
        (
            "'git+https://a.b/c@main#d=e_f'",
            "pip install 'git+https://a.b/c@main#d=e_f', as",
        ),
        ("some==1.2", "pip install some==1.2, as"),
    ],
)
def test_what_is_to_be_installed_is_named_whole(package, shown):
    text = f"ImportError: It requires Some. Run `pip install {package}`."
    assert ways(text)[0].startswith(shown)


@pytest.mark.parametrize(
    "message",
    [
        "ValueError: enable_flashinfer_autotune and kernel_config.enable_flashinfer_autotune are "
        "mutually exclusive",
        "AssertionError: FlashInfer one-sided communication does not support heterogeneous top_k",
        "ValueError: FlashInfer autotune is not supported with something",
        "ValueError: moe_backend='FLASHINFER_SOME' is not supported for FP8 MoE. Expected one of "
        "['a'].",
    ],
)
def test_a_name_with_flashinfer_in_it_is_no_sampler_or_attention_of_it(message):
    assert "VLLM_USE_FLASHINFER_SAMPLER" not in " ".join(ways(message, LOAD))


def test_what_there_is_is_no_part_of_what_is_required():
    text = "ValueError: Some backend only supports awq and gptq format,but got abc"
    assert ways(text, CONFIGURE)[0] == "what the error requires: “awq and gptq format”"
    text = "NotImplementedError: Expert load balancing is not supported for CPU."
    assert ways(text, LOAD)[0].startswith("no --enable-eplb")


def test_a_mode_of_graphs_that_a_backend_refuses_is_one_of_graphs():
    text = "ValueError: CUDAGraphMode.FULL is not supported with SomeBackend backend"
    assert "--enforce-eager" in " ".join(ways(text, LOAD))


def test_a_call_out_of_place_is_no_setting():
    text = (
        "AssertionError: Current vLLM config is not set. This typically means "
        "get_current_vllm_config() was called outside of a set_current_vllm_config() context"
    )
    assert found(text, CONFIGURE).rule == "failure_unexplained"
    text = "AssertionError: SomeBackend can only be called once"
    assert found(text, LOAD).rule == "failure_unexplained"


def test_a_list_of_what_is_registered_is_one_of_values():
    text = "ValueError: Unsupported some backend 'x'. Registered backends: ['a', 'b']."
    assert ways(text, LOAD)[0].startswith("one of those that the message lists")


def test_one_rank_is_not_made_fewer():
    text = (
        "ValueError: The input size is not aligned with the quantized weight shape. This can be "
        "caused by too large tensor parallel size."
    )
    assert ways(text, LOAD)[0].startswith("a smaller --tensor-parallel-size")
    shown = " ".join(ways(text, LOAD, tensor_parallel_size=1))
    assert "a smaller --tensor-parallel-size" not in shown


def test_a_key_that_some_method_alone_has_may_be_left_out():
    text = "ValueError: dspark_draft_topk is only supported by DSpark"
    assert "no dspark_draft_topk in --speculative-config" in ways(text, CONFIGURE)


def test_what_is_not_there_is_no_requirement():
    text = (
        "ValueError: No IOProcessor plugins installed but one is required (some/model)."
    )
    assert "“No IOProcessor" not in ways(text, CONFIGURE)[0]
    text = "ValueError: Chunked input is required because we need the flexibility to do so."
    assert "flexibility" not in ways(text, CONFIGURE)[0]


@pytest.mark.parametrize(
    "message",
    [
        "ValueError: Externally held weights on device cuda:0 (70.0/80.0 GiB) exceed the desired "
        "GPU memory utilization (0.5, 40.0 GiB). Increase GPU memory utilization or reduce GPU "
        "memory used by other processes.",
        "ValueError: Free memory on device cuda:0 (10.0/80.0 GiB) on startup is less than the "
        "engine's budget after excluding external process's weights (0.9, 52.0 GiB). Decrease GPU "
        "memory utilization or reduce GPU memory used by other processes.",
    ],
)
def test_weights_that_another_process_holds_are_no_allocation(message):
    finding = found(message, LOAD)
    assert finding.rule == "setting_refused"
    assert "GPU memory utilization or reduce" in finding.suggestion


@pytest.mark.parametrize(
    ("message", "first"),
    [
        ("ValueError: Unknown load_format: abc", "another --load-format"),
        ("ValueError: Unknown FP8 MoE backend: ABC", "no --moe-backend of your own"),
        ("ValueError: Unsupported all2all backend: abc", "no --all2all-backend"),
        (
            "ValueError: Unsupported structured output backend: abc",
            "--structured-outputs-config",
        ),
    ],
)
def test_a_value_that_is_not_there_names_its_setting(message, first):
    assert ways(message, LOAD)[0].startswith(first)


def test_a_name_of_code_has_no_such_value():
    for text in (
        "ValueError: Invalid expert index: 3",
        "ValueError: Unknown backend type x",
        "ValueError: some_stem and some_input are mutually exclusive",
    ):
        assert found(text, LOAD).rule == "failure_unexplained"


def test_copies_on_a_node_are_made_fewer_whatever_a_setting_with_such_a_name_is():
    text = "AssertionError: DP adjusted local rank 4 is out of bounds for 4 devices."
    shown = ways(text, LOAD, data_parallel_size=1)
    assert shown[0].startswith("a smaller --data-parallel-size-local")


@pytest.mark.parametrize(
    "message",
    [
        "ValueError: --some-backend=abc is only available on CUDA.",
        "ValueError: --some-backend requires NVIDIA GPUs",
        "ValueError: --some-backend is only supported for Some models, but the model is Other.",
    ],
)
def test_another_device_or_model_is_the_last_way(message):
    shown = ways(message, CONFIGURE)
    assert shown[0] == "no --some-backend"
    assert shown[1].startswith("what the error requires")


@pytest.mark.parametrize(
    ("message", "first"),
    [
        ("AssertionError: DCP not support sliding window.", "--decode-context-parallel-size 1"),
        ("AssertionError: num_redundant_experts 2000 must be less than or equal to 1023",
         "num_redundant_experts in --eplb-config"),
        ("ValueError: VLLM_SOME_PORT 'a:b' must be a valid integer",
         "VLLM_SOME_PORT, which must be a valid integer"),
        ("ValueError: use_local_argmax_reduction is enabled but draft model A does not have it.",
         "no use_local_argmax_reduction in --speculative-config"),
        ("ValueError: enable_multithread_load does not support safetensors_load_strategy=some; it "
         "reads lazily.", "no enable_multithread_load in --model-loader-extra-config"),
        ("NotImplementedError: Combining dual-path encoder CUDA graphs with capture axes is not "
         "supported yet.", "cudagraph_mm_encoder false in --compilation-config"),
    ],
)  # fmt: skip
def test_a_refusal_in_few_words_names_its_setting(message, first):
    assert ways(message, LOAD)[0].startswith(first)


def test_a_value_behind_to_or_of_a_name_with_digits_is_read():
    text = "ValueError: It is incompatible. Please set `--some-cache-dtype` to `abc`."
    assert found(text, CONFIGURE).changes == {"some_cache_dtype": "abc"}
    text = "AssertionError: Some only supports all2all_backend='some', got 'abc'."
    assert found(text, LOAD).changes == {"all2all_backend": "some"}
    text = (
        "ArgumentTypeError: Decimals are not allowed. Did you mean to use 16k instead?"
    )
    assert "“Did you mean to use 16k instead?”" in ways(text, CONFIGURE)[0]


def test_what_stands_behind_without_is_needed():
    text = "ValueError: Adapter bias cannot be used for a.b without --enable-some-bias."
    assert ways(text, LOAD)[0].startswith("--enable-some-bias, as the error requires")
    text = "AssertionError: Speculative decoding is not supported without a wide cache."
    assert ways(text, LOAD)[0].startswith("no --speculative-config")


def test_a_flag_of_code_has_no_other_value():
    shown = ways("ValueError: is_some=True is not supported with LoRA", LOAD)
    assert not any("is_some" in way for way in shown if way.startswith("another "))
