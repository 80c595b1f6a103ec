"""Errors whose text names their cause: which rule applies, and what is to be changed."""

from __future__ import annotations

import pytest

from tests.analysis.builders import facts_of, started
from tests.analysis.room_cases import ended
from warmup_insights.analysis.advice import advise
from warmup_insights.analysis.advice.remedies import KNOWN, known_error
from warmup_insights.analysis.advice.rules_failure import TEXT_RULES as RULES
from warmup_insights.model.events import ConfigRecorded, Failure, PhaseMarked
from warmup_insights.model.failure_text import kind_of_message

NCCL = "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970, "
TEXTS = [
    ("concurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated abruptly",
     "host_limit", "TORCHINDUCTOR_COMPILE_THREADS=1", {}),
    ("FileNotFoundError: [Errno 2] No such file or directory: '/psm_1a2b3c4d'", "shared_memory",
     "the process that ended first", {}),
    ("KeyError: \"Tool parser 'some' not found.\"", "setting_refused", "instead of some", {}),
    ("some.XetDownloadError: CAS service error : HTTP status client error (401 Unauthorized)",
     "model_access", "HF_TOKEN", {}),
    ("ModuleNotFoundError: No module named 'vllm.vllm_flash_attn.flash_attn_interface'",
     "packages_mismatch", "vLLM as built for this device", {}),
    ("ModuleNotFoundError: No module named 'amdsmi'", "missing_tool", "/opt/rocm/share/amd_smi", {}),
    ("ValueError: Current platform does not support NVFP4 quantization. Please use Blackwell and above.",
     "device_unsupported", "another build of the model", {}),
    ("RuntimeError: Unsupported kv cache dtype: fp8_e4m3", "device_unsupported", "--kv-cache-dtype auto",
     {"kv_cache_dtype": "auto"}),
    ("RuntimeError: could not create a primitive descriptor for a matmul primitive",
     "device_unsupported", "--dtype float32", {"dtype": "float32"}),
    ("ValueError: Mosaic failed to compile TPU kernel: Not implemented: some", "device_unsupported",
     "a newer tpu-inference", {}),
    ("ValueError: XFormers does not support attention logits soft capping.", "device_unsupported",
     "of your own", {}),
    ("RuntimeError: unable to write to file </torch_12_34>: No space left on device (28)",
     "shared_memory", "--shm-size", {}),
    ("OSError: [Errno 116] Stale file handle", "disk_full", "on a local disk", {}),
    ("OSError: [Errno 37] No locks available", "disk_full", "on a local disk", {}),
    ("OSError: [Errno 16] Device or resource busy: '.nfs00000000f3c6a83c00000a1b'", "disk_full",
     "on a local disk", {}),
    ("sqlite3.DatabaseError: database disk image is malformed", "disk_full", "OUTLINES_CACHE_DIR", {}),
    ("/x.cu:1:10: fatal error: flashinfer/page.cuh: No such file or directory", "missing_tool",
     "remove ~/.cache/flashinfer", {}),
    ("/bin/sh: 1: :/usr/local/cuda-12.8/bin/nvcc: not found", "missing_tool",
     "it has :/usr/local/cuda-12.8 now", {}),
    ("ImportError: libascend_hal.so: cannot open shared object file: No such file or directory",
     "missing_tool", "/usr/local/Ascend/driver", {}),
    ("ImportError: libhccl.so: cannot open shared object file: No such file or directory",
     "missing_tool", "ascend-toolkit/set_env.sh", {}),
    ("ImportError: libGL.so.1: cannot open shared object file: No such file or directory",
     "missing_tool", "libgl1", {}),
    ("triton.compiler.errors.CompilationError: at 1:0: def some_kernel(", "build_failed",
     "another attention backend", {}),
    ("huggingface_hub.errors.StrictDataclassFieldValidationError: Validation error for field 'some'",
     "packages_mismatch", "the version of transformers", {}),
    ("AttributeError: 'dict' object has no attribute 'model_type'", "packages_mismatch",
     "the version of transformers", {}),
    ("RuntimeError: flashinfer-cubin version (0.4.0) does not match flashinfer version (0.5.2). Please "
     "install the same version of both packages.", "packages_mismatch",
     "pip install flashinfer-cubin==0.5.2", {}),
    ("RuntimeError: Expected there to be 4 prompt updates corresponding to 4 image items, but instead "
     "found 3 prompt updates!", "packages_mismatch", "the transformers that the model was made with", {}),
    ("NCCL WARN Call to ibv_modify_qp failed with error Connection timed out (RuntimeError: NCCL error: "
     "unhandled system error)", "ranks_not_connected", "NCCL_IB_GID_INDEX", {}),
    ("NCCL WARN Cuda failure 801 'operation not supported' (RuntimeError: NCCL error: unhandled cuda "
     "error)", "ranks_not_connected", "NCCL_CUMEM_ENABLE=0", {}),
    ("RuntimeError: Error in function 'TrtllmGenBatchedGemmRunner' at /w/some.cu:143: No kernel found "
     "for the given options: mDtypeA: E2m1", "device_unsupported", "--moe-backend triton or marlin", {}),
    ("RuntimeError: TopKTopPSamplingFromProb failed with error code some", "device_unsupported",
     "VLLM_USE_FLASHINFER_SAMPLER=0", {"VLLM_USE_FLASHINFER_SAMPLER": "0"}),
    ("RuntimeError: Assertion error (/w/.deps/flashmla-src/csrc/sm90/some.cuh:614): Assertion `res == "
     "CUresult::CUDA_SUCCESS` failed.", "device_unsupported", "VLLM_USE_BREAKABLE_CUDAGRAPH=0", {}),
    ("RuntimeError: ACL stream synchronize failed, error code:507014", "device_unreachable",
     "of one release", {}),
    ("AssertionError: Aiter MLA only supports 16 or 128 number of heads.", "setting_refused",
     "VLLM_ROCM_USE_AITER_MLA=0", {"VLLM_ROCM_USE_AITER_MLA": "0"}),
    ("ValueError: AITER FP8 ViT attention requires ROCm.", "setting_refused",
     "no --mm-encoder-attn-dtype fp8", {}),
    ("ValueError: mm_encoder_attn_dtype='fp8' requires the FlashInfer cuDNN backend with cuDNN >= 9.17.1 "
     "on Blackwell (SM 100) or newer.", "setting_refused", "no --mm-encoder-attn-dtype fp8", {}),
    ("AssertionError: some_mtp only support predict one token now", "setting_refused",
     "num_speculative_tokens 1", {"num_speculative_tokens": 1}),
    ("AssertionError: assert is_fa_version_supported(self.fa_version)", "device_unsupported",
     "of your own", {}),
    ("TypeError: SomeProcessor.__init__() got multiple values for argument 'tokenizer'",
     "packages_mismatch", "the transformers that the model was made with", {}),
    ("TypeError: Invalid type of HuggingFace processor. Expected type: <class 'some.ProcessorMixin'>, but "
     "found type: <class 'some.PreTrainedTokenizerFast'>", "model_unsupported",
     "processor_config.json", {}),
    ("AttributeError: torch._inductor.config.some_switch does not exist", "packages_mismatch",
     "torch of the version that the release of vLLM requires", {}),
    ("KeyError: 'mtp.0.ffn.experts.w13_weight_scale'", "model_unsupported", "no --speculative-config",
     {}),
    ("KeyError: 'layers.0.ffn.experts.w2_weight_scale'", "model_unsupported", "may hold experts quantised",
     {}),
    ("RuntimeError: Invalid thread config: thread_m_blocks = 1, thread_k = -1, thread_n = -1",
     "setting_refused", "a smaller --tensor-parallel-size", {}),
    ("triton.some.PTXASError: ptxas-blackwell fatal   : Value 'sm_110a' is not defined for option "
     "'gpu-name'", "build_failed", "TRITON_PTXAS_BLACKWELL_PATH with the ptxas of CUDA 13.0", {}),
    ("ValueError: Unknown vLLM environment variable detected: VLLM_SOME_NAME", "setting_refused",
     "VLLM_SOME_NAME unset", {}),
    ("ValueError: The quantization method some + other is not supported for the current GPU. Minimum "
     "capability: 70. Current capability: 60.", "device_unsupported", "another build of the model",
     {}),
    ("NotImplementedError: AITER MegaMoE requires gfx950.", "device_unsupported", "no --moe-backend",
     {}),
    ("ValueError: current platform some does not support ray.", "setting_refused",
     "--distributed-executor-backend mp", {"distributed_executor_backend": "mp"}),
    ("ValueError: XPU backend only supports V1.", "setting_refused", "VLLM_USE_V1=1",
     {"VLLM_USE_V1": "1"}),
    ("AssertionError: Prefill with FusedSDPA not supported with alibi slopes!", "setting_refused",
     "VLLM_PROMPT_USE_FUSEDSDPA=false", {"VLLM_PROMPT_USE_FUSEDSDPA": "false"}),
    ("AssertionError: Prefill with Flex Attention not supported with alibi slopes!", "setting_refused",
     "VLLM_PROMPT_USE_FLEX_ATTENTION=false", {"VLLM_PROMPT_USE_FLEX_ATTENTION": "false"}),
    ("AssertionError: Non-contiguous PA not supported with alibi slopes!", "setting_refused",
     "--no-enable-prefix-caching", {}),
    ("AssertionError: Invalid max query padding, the max query padding should be greater than or equal "
     "to the block size.", "setting_refused", "VLLM_HPU_FSDPA_SLICE_ENABLED=false",
     {"VLLM_HPU_FSDPA_SLICE_ENABLED": "false"}),
    ("ValueError: some_kind quantization is currently not supported in rocm.", "device_unsupported",
     "another build of the model", {}),
    ("NotImplementedError: Sparse Attention is not supported on XPU.", "device_unsupported",
     "a newer vLLM or plugin, where it has them for XPU", {}),
    ("NotImplementedError: DeepGEMM MegaMoE requires SM100 GPUs.", "device_unsupported",
     "no --moe-backend", {}),
    ("AssertionError: Backend SOME is not supported for vit attention. Supported backends are: A",
     "setting_refused", "no --mm-encoder-attn-backend", {}),
    ("RuntimeError: aot_compile is not supported by the current configuration. Please make sure "
     "torch.compile is enabled with the latest version of PyTorch", "build_failed",
     "VLLM_USE_AOT_COMPILE=0", {"VLLM_USE_AOT_COMPILE": "0"}),
    ("AssertionError: Inductor cache lookup failed. Please remove the cache directory and try again.",
     "build_failed", "an empty compile cache", {}),
    ("RuntimeError: EPLB communicator 'nixl' supports only cuda-like devices (got cpu).",
     "missing_tool", '"communicator": "torch_gloo"', {}),
    ("ValueError: use_some and cudagraph_mode are mutually exclusive, prefer cudagraph_mode since "
     "use_some is deprecated.", "setting_refused", "one of use_some and cudagraph_mode left out", {}),
    ("ValueError: FP8 KV cache is not supported by some backend on some device (compute capability "
     "8.0); native FP8 (fp8e4nv) requires SM89+. Re-run with --kv-cache-dtype bfloat16.",
     "device_unsupported", "--kv-cache-dtype bfloat16", {"kv_cache_dtype": "bfloat16"}),
    ("ValueError: Head size 72 is not supported by SomeAttention. Supported head sizes are: [64]. "
     "Set VLLM_ATTENTION_BACKEND=FLEX_ATTENTION to use it.", "device_unsupported",
     "--attention-backend FLEX_ATTENTION", {}),
    ("NotImplementedError: MLA is not supported on CPU.", "device_unsupported", "VLLM_MLA_DISABLE=1",
     {"VLLM_MLA_DISABLE": "1"}),
    ("ValueError: No valid MLA prefill backend found with some. Reasons: {A: [b]}.",
     "device_unsupported", "VLLM_MLA_DISABLE=1", {"VLLM_MLA_DISABLE": "1"}),
    ("ValueError: Unknown attention backend: 'some'. Valid options are: A, B", "setting_refused",
     "one of the names in the message instead of some", {}),
    ("ValueError: Load format `some` is not supported", "setting_refused", "--load-format auto",
     {"load_format": "auto"}),
    ("ValueError: Capture size larger than 512 is not supported for full cuda graph.",
     "setting_refused", "--max-cudagraph-capture-size 512", {}),
    ("AssertionError: Hidden Size 1000 not in supported list of hidden sizes[2048]",
     "setting_refused", "no --all2all-backend", {}),
    ("AssertionError: Given number of CPU id list ['0-7'] doesn't match local world size 2.",
     "setting_refused", "VLLM_CPU_OMP_THREADS_BIND with 2 lists", {}),
    ("AssertionError: VLLM_CPU_NUM_OF_RESERVED_CPU (4) should less than 4.", "setting_refused",
     "VLLM_CPU_NUM_OF_RESERVED_CPU of less than 4", {}),
    ("ValueError:  The selected backend, SOME,does not support block size 16.(currently only "
     "supports block size 1)", "setting_refused", "--block-size 1", {"block_size": 1}),
    ("ValueError:  The selected backend, SOME,does not support block size 1.", "setting_refused",
     "no --block-size", {}),
    ("AssertionError: local_world_size (8) exceeds assigned_physical_gpu_ids count (4)",
     "setting_refused", "--tensor-parallel-size 4", {"tensor_parallel_size": 4}),
    ("IndexError: visible device ordinal 4 is out of range for SOME_VISIBLE_DEVICES=0,1",
     "setting_refused", "a smaller --data-parallel-size-local", {}),
    ("AssertionError: Not enough total available nodes (1) and devices per node (8) to satisfy required "
     "world size 16 and data parallel size 2", "ranks_not_connected", "`ray status`", {}),
    ("AssertionError: Nodes are not homogeneous, [{}]", "ranks_not_connected",
     "nodes with the same number of devices", {}),
    ("ValueError: Ray version 2.43.0 is required, but found 2.9.0", "missing_tool", "ray >= 2.43.0",
     {}),
    ("RuntimeError: EPLB communicator 'nixl' requested but NIXL is unavailable.", "missing_tool",
     '"communicator": "torch_gloo"', {}),
    ("RuntimeError: Sparse Attention Indexer CUDA op requires DeepGEMM support in the current vLLM "
     "environment.", "missing_tool", "DeepGEMM of the release", {}),
    ("ImportError: Petit is not installed. Please install it with `pip install petit-kernel`.",
     "missing_tool", "pip install petit-kernel", {}),
    ("RuntimeError: Unknown gguf model_type: some", "model_unsupported", "instead of GGUF", {}),
    ("ValueError: When using LoRA, vocab size must be <= 258048", "model_unsupported",
     "merge_and_unload", {}),
    ("AttributeError: Model SomeModel does not support BitsAndBytes quantization yet. No "
     "'packed_modules_mapping' found.", "model_unsupported", "AWQ, GPTQ or FP8", {}),
    ("ValueError: Unknown quantization config mode,please validate quantization config file",
     "model_unsupported", "QUANT_CONFIG", {}),
    ("ValueError: Unknown quantization scheme some", "model_unsupported", "a newer vLLM", {}),
    ("vllm serve: error: argument --dtype: invalid choice: 'x' (choose from 'auto', 'half')",
     "setting_refused", "--dtype with one of 'auto', 'half'", {}),
    ("RuntimeError: ReshapeAndCacheOperation setup failed!", "device_unreachable",
     "--kv-cache-dtype auto", {"kv_cache_dtype": "auto"}),
    ("RuntimeError: Tried to instantiate class '_core_C.ScalarType', but it does not exist! Ensure "
     "that it is registered via torch::class_", "packages_mismatch", "vLLM as built for this device",
     {}),
    ("TypeError: not a string", "model_unsupported", "tokenizer.json or tokenizer.model", {}),
    ("RuntimeError: Resource temporarily unavailable", "host_limit", "ulimit -u", {}),
    ("RuntimeError: oneCCL: coll.cpp:1 f: EXCEPTION: |CCL_SYCL| sched algorithms do not support "
     "sycl_graph recording, please use sycl_algorithms", "ranks_not_connected", "--enforce-eager",
     {"enforce_eager": True}),
    ("ValueError: Failed to find a kernel that can implement the ScaledMM linear layer. Reasons: ",
     "device_unsupported", "--linear-backend and VLLM_DISABLED_KERNELS left out", {}),
    ("RuntimeError: Failed to find function aclmdlRICaptureBegin", "device_unreachable",
     "of one release", {}),
    ("RuntimeError: GetDevice:x.ts:60 NPU function error: aclrtGetCurrentContext(&d), error code "
     "is 107002", "device_unreachable", "npu-smi info", {}),
    ("RuntimeError: capture_begin:x.ts:214 NPU function error: c10_npu::acl::AclmdlRICaptureBegin("
     "capture_stream_, capture_mode), error code is 207005", "device_unreachable",
     "(HDK) 25.5.1 or newer", {}),
    ("RuntimeError: x NPU function error: aclmdlRICaptureEnd(model_ri_, &g), error code is 207008",
     "device_unreachable", "fewer cudagraph_capture_sizes", {}),
    ("AssertionError: mla_gluon requires gfx950 (CDNA4), got gfx942", "device_unsupported",
     "VLLM_ROCM_USE_AITER_MLA=0", {"VLLM_ROCM_USE_AITER_MLA": "0"}),
    ("AssertionError: some_kernel requires gfx950, got gfx942", "device_unsupported",
     "VLLM_ROCM_USE_AITER=0", {"VLLM_ROCM_USE_AITER": "0"}),
    ("AssertionError: Attempted to load weight (torch.Size([4096, 12288])) into parameter "
     "(torch.Size([4096, 8192]))", "model_unsupported", '"method": "eagle3"', {}),
    ("AssertionError: Attempted to load weight (torch.Size([4096, 8192])) into parameter "
     "(torch.Size([4096, 12288]))", "model_unsupported", '"method": "eagle"', {}),
    ("AssertionError: Attempted to load weight (torch.Size([4096, 4096])) into parameter "
     "(torch.Size([4096, 8192]))", "model_unsupported", "a vLLM as new as the checkpoint", {}),
    ("AssertionError: assert result == 0", "ranks_not_connected", "vLLM is using nccl", {}),
    ("ModuleNotFoundError: No module named 'triton.compiler'; 'triton' is not a package",
     "missing_tool", "triton of torch's version", {}),
    ("FileNotFoundError: [Errno 2] No such file or directory: '/r/.triton/cache/de75/fused_moe"
     ".json.tmp.pid_1528_587007'", "missing_tool", "the same start again", {}),
    ("UnicodeDecodeError: 'utf-8' codec can't decode byte 0xac in position 446: invalid start byte",
     "model_access", "ends in .gguf", {}),
    ("AssertionError: assert (b.shape[0] % 16 == 0 and b.shape[1] % 16 == 0)",
     "device_unsupported", "a newer vLLM", {}),
    ("AttributeError: 'Qwen2_5OmniConfig' object has no attribute 'num_attention_heads'",
     "packages_mismatch", "a newer vLLM", {}),
    ("TypeError: __init__() missing 1 required positional argument: 'inner_exception'",
     "build_failed", "--enforce-eager", {"enforce_eager": True}),
    ("AttributeError: '_OpNamespace' '_C' object has no attribute 'awq_dequantize'",
     "packages_mismatch", "VLLM_USE_TRITON_AWQ=1", {"VLLM_USE_TRITON_AWQ": "1"}),
    ("AttributeError: '_OpNamespace' '_C' object has no attribute 'gptq_marlin_repack'",
     "packages_mismatch", "vLLM as built for this device", {}),
    ("NameError: name 'vllm_cache_ops' is not defined", "packages_mismatch",
     "vLLM as built for this device", {}),
    ("RuntimeError: TPU initialization failed: Invalid --2a_slice_builder_worker_addresses "
     "specified. Expected 16 worker addresses, got 8.", "device_unreachable",
     "every host of the slice", {}),
    ("ValueError: torch.float16 is not supported for quantization method mxsome. Supported "
     "dtypes: [torch.bfloat16]", "device_unsupported", "--dtype bfloat16", {"dtype": "bfloat16"}),
    ("ValueError: Unknown quantization strategy x: should be one of y", "model_unsupported",
     "a newer vLLM", {}),
    ("RuntimeError: The device (Some [0x1]) doesn't support querying the available free memory.",
     "device_unsupported", "UR_L0_ENABLE_SYSMAN_ENV_DEFAULT=0",
     {"UR_L0_ENABLE_SYSMAN_ENV_DEFAULT": "0"}),
    ("some.BackendSupportedError: mm_fp4 does not support backend 'some' with capability 120",
     "device_unsupported", "--linear-backend marlin", {}),
    ("RuntimeError: Failed to initialize cutlass TMA WS grouped gemm", "device_unsupported",
     "--moe-backend triton or marlin", {}),
    ("RuntimeError: Triton Error [HIP]: Code: 101, invalid device ordinal",
     "device_unreachable", "libamdhip64.so that torch loads", {}),
    ("AttributeError: module 'cutlass.some' has no attribute 'Some'", "packages_mismatch",
     "a newer release of the package whose frame", {}),
    ("KeyError: 'embed_tokens.weight.bitmask'", "model_unsupported",
     "disable_sparse_compression=True", {}),
    ("KeyError: 'model.layers.9.mtp_block.norm.weight'", "model_unsupported",
     "no --speculative-config", {}),
    ("ValueError: There is no module or parameter named 'a.b' in SomeMTP.", "model_unsupported",
     "no --speculative-config", {}),
    ("subprocess.CalledProcessError: Command '['/x/bin/ptxas-blackwell', '-v', "
     "'--gpu-name=sm_199a']' returned non-zero exit status 255.", "build_failed",
     "TRITON_PTXAS_BLACKWELL_PATH with the ptxas", {}),
    ("RuntimeError: MXFP4 quantization is not supported on gfx942", "device_unsupported",
     "VLLM_ROCM_USE_AITER_FP4BMM=0", {"VLLM_ROCM_USE_AITER_FP4BMM": "0"}),
    ("ValueError: Only support per-tensor scaling factor for fp8 KV cache", "setting_refused",
     "--kv-cache-dtype auto", {"kv_cache_dtype": "auto"}),
    ("RuntimeError: Unsupported block size: 128", "setting_refused", "no --block-size", {}),
    ("RuntimeError: Some KV cache block size must be divisible by 128", "setting_refused",
     "--block-size 128", {"block_size": 128}),
    ("RuntimeError: Error in function 'some': Missing TRTLLM-GEN kernel (context): a=2",
     "device_unsupported", '"use_trtllm_attention": false', {}),
    ("ValueError: GGUF model with architecture some is not supported yet.", "model_unsupported",
     "instead of GGUF", {}),
    ("ValueError: Architecture some2 not supported", "model_unsupported", "instead of GGUF", {}),
    ("NotImplementedError: No INC scheme found for layer config: x", "model_unsupported",
     "a newer vLLM", {}),
    ("NotImplementedError: No Int8 MoE backend supports the deployment configuration "
     "(weight_key=a, activation_key=b).", "device_unsupported", "a newer image for a newer device",
     {}),
    ("ValueError: The environment variable 'SOME_CONFIG_PATH' is not set.", "setting_refused",
     "SOME_CONFIG_PATH", {}),
    ("RuntimeError: NIXL is unavailable.", "missing_tool", "nixl", {}),
    ("RuntimeError: NIXL >= 1.2.0 is required, but nixl==1.1 is installed", "missing_tool",
     "NIXL >= 1.2.0", {}),
    ("ValueError: Model Runner V1 does not support: some feature", "setting_refused",
     "VLLM_USE_V2_MODEL_RUNNER=1", {"VLLM_USE_V2_MODEL_RUNNER": "1"}),
    ("RuntimeError: The compiled artifact is not serializable. This usually means that the model "
     "code has something in it.", "build_failed", "VLLM_DISABLE_COMPILE_CACHE=1",
     {"VLLM_DISABLE_COMPILE_CACHE": "1"}),
    ("MemoryError: Not enough space in the data buffer, try calling free_buf() to free up space",
     "failure_unexplained", "read the traceback", {}),
    ("ValueError: Unexpected extra config keys for load format auto: dict_keys(['a'])",
     "setting_refused", "no --model-loader-extra-config", {}),
    ("ValueError: Model loader extra config is not supported for load format dummy",
     "setting_refused", "no --model-loader-extra-config", {}),
    ("FileNotFoundError: Weight files referenced in index but missing: a.safetensors",
     "model_access", "a complete folder", {}),
    ("RuntimeError: Cannot find any safetensors model weights with `/models/a`", "model_access",
     "a complete folder", {}),
    ("ValueError: /adapters/a doesn't contain tensors", "model_access", "/adapters/a", {}),
    ("ValueError: sum(partitions)=30 does not match num_hidden_layers=32.", "setting_refused",
     "VLLM_PP_LAYER_PARTITION with as many numbers", {}),
    ("ValueError: Invalid partition string: 8,x", "setting_refused", "VLLM_PP_LAYER_PARTITION", {}),
    ("ValueError: `model` should be provided as the first positional argument when using `vllm "
     "serve`.", "setting_refused", "the name first", {}),
    ("AssertionError: DP adjusted local rank 4 is out of bounds for 4 devices.", "setting_refused",
     "--data-parallel-size-local", {}),
    ("Exception: Error setting CUDA_VISIBLE_DEVICES: local range: [1, 2) base value: \"0\"",
     "setting_refused", "--data-parallel-size-local", {}),
    ("ValueError: Local TP/PP/PCP replica size (8) exceeds the number of visible XPU devices (4).",
     "setting_refused", "--tensor-parallel-size 4", {"tensor_parallel_size": 4}),
    ("AssertionError: The DP master node (ip: 10.0.0.4) is missing or dead", "ranks_not_connected",
     "ray status", {}),
    ("ValueError: No model architectures are specified", "model_unsupported", "--hf-overrides", {}),
    ("ValueError: The attention backends share no supported KV cache block size (A: [16]; B: [64]).",
     "setting_refused", "no --attention-backend", {}),
    ("TypeError: reasoning_parser_name='some' has not been registered", "setting_refused",
     "instead of some", {}),
    ("TypeError: Error: --enable-auto-tool-choice requires tool_parser:'some' which has not been "
     "registered", "setting_refused", "instead of some", {}),
    ("TypeError: --tool-call-parser some cannot be used with the tokenizer of 'a/b': no",
     "setting_refused", "of the family of this model", {}),
    ("ImportError: Using Ray backend requires installation of ray.", "missing_tool",
     "install ray", {}),
    ("ImportError: Transformers modeling backend requires transformers>=5.0.0 for this, but got "
     "4.57.1", "missing_tool", "transformers >=5.0.0", {}),
    ("NotImplementedError: Some KV cache requires full-attention layers, but none were found in "
     "the config.", "failure_unexplained", "read the traceback", {}),
    ("ValueError: Model architecture Some is not supported in-tree anymore. Please install the "
     "plugin at https://a.b if you want to use this model architecture.", "model_unsupported",
     "the plugin that the message names", {}),
    ("RuntimeError: VLLM_SOME_SIZE: failed to process environment variable", "setting_refused",
     "VLLM_SOME_SIZE unset", {}),
    ("AssertionError: Bucketing strategy should be Padding-Aware to enable FusedSDPA slicing.",
     "setting_refused", "VLLM_HPU_FSDPA_SLICE_ENABLED=false",
     {"VLLM_HPU_FSDPA_SLICE_ENABLED": "false"}),
    ("AssertionError: w8a16 not yet supported on HPU", "model_unsupported", "a newer vLLM", {}),
    ("ValueError: FP8 modelopt quantization not yet supported on Gaudi", "model_unsupported",
     "a newer vLLM", {}),
    ("AssertionError: pad_percent must be between 0 and 50 percentage points, got: (70)",
     "setting_refused", "_BUCKET_PAD_PERCENT", {}),
    ("RuntimeError: cudaHostRegister failed: out of memory", "host_limit", "memlock", {}),
    ("torch.OutOfMemoryError: CUDA error: out of memory in pin_memory", "host_limit", "memlock", {}),
    ("torch.AcceleratorError: CUDA error: out of memory, cudaHostAlloc", "host_limit", "memlock", {}),
    ("RuntimeError: oneCCL: ze_call.cpp:9 do_call: EXCEPTION: ze error at zeMemOpenIpcHandle, code: "
     "ZE_RESULT_ERROR_INVALID_ARGUMENT", "ranks_not_connected", "CCL_TOPO_P2P_ACCESS=0", {}),
    ("RuntimeError: oneCCL: ze_handle_manager.cpp:9 get_ptr: EXCEPTION: unknown memory type",
     "ranks_not_connected", "expandable_segments", {}),
    ("RuntimeError: [enforce fail at /g/transport/tcp/device.cc:84] ifa != nullptr. Unable to find "
     "address for: ^lo", "ranks_not_connected", "instead of ^lo", {}),
    ("RuntimeError: /k.cu:1:10: fatal error: 'some_header.h' file not found", "missing_tool",
     "the package with some_header.h", {}),
    ("AssertionError: Number of experts in the model must be greater than 0 when expert parallelism "
     "is enabled.", "setting_refused", "no --enable-expert-parallel", {}),
    ("api_server.py: error: argument --some-limit: Value {'image': cannot be converted to "
     "<function loads at 0x7f>.", "setting_refused", "--some-limit with a JSON object", {}),
    ("ValueError: Model architectures ['LlamaForCausalLM'] are not supported for now.",
     "model_unsupported", "the first error above", {}),
    ("RuntimeError: a and b must have same reduction dim, but got [64, 512] X [256, 128].",
     "model_unsupported", "fits the checkpoint", {}),
    ("RuntimeError: cuDNN error: CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH", "packages_mismatch",
     "LD_LIBRARY_PATH unset", {}),
    ("RuntimeError: CUDA error: CUBLAS_STATUS_INVALID_VALUE when calling `cublasGemmEx(x)`",
     "packages_mismatch", "LD_LIBRARY_PATH unset", {}),
    ("RuntimeError: synStatus=8 [Device not found] Device acquire failed.", "device_unreachable",
     "habana.ai/gaudi", {}),
    ("RuntimeError: 0 active drivers ([]). There should only be one.", "device_unreachable",
     "give the container the devices", {}),
    ("RuntimeError: CUDA error: misaligned address", "device_unreachable", "dmesg", {}),
    ("RuntimeError: NCCL error: invalid usage (run with NCCL_DEBUG=WARN for details)",
     "ranks_not_connected", "a device for each rank", {}),
    ("ValueError: numpy.dtype size changed, may indicate binary incompatibility.",
     "packages_mismatch", "released together", {}),
    ("RuntimeError: Failed to import a kernel: It requires CUDA >= 12.9", "missing_tool",
     "the CUDA toolkit of torch's version", {}),
    ("RuntimeError: Failed to initialize cutlass TMA WS grouped gemm. Error: Error Internal",
     "device_unsupported", "--moe-backend", {}),
    ("RuntimeError: Check failed: BatchDecodeWithPagedKVCache failed with error invalid argument",
     "device_unsupported", "--attention-backend", {}),
    ("RuntimeError: expected scalar type Half but found BFloat16", "model_unsupported", "--dtype",
     {}),
    ("AttributeError: module 'torch' has no attribute 'float4_x9'", "packages_mismatch",
     "the version of torch", {}),
    ("error: some_attention.py:211:0: stack frame size (164000) exceeds limit (131056) in "
     "function 'some_fwd'", "build_failed", "another attention backend", {}),
    ("RuntimeError: TPU initialization failed: open(/dev/accel0): Operation not permitted",
     "device_unreachable", "--privileged", {}),
    ("pynvml.NVMLError_InvalidArgument: Invalid Argument", "device_unreachable",
     "--tensor-parallel-size of at most", {}),
    ("AssertionError: assert self.total_num_heads % tp_size == 0", "setting_refused",
     "a smaller --tensor-parallel-size", {}),
    ("AssertionError: num_attention_heads must be divisible by world_size", "setting_refused",
     "a smaller --tensor-parallel-size", {}),
    ("AssertionError: num_key_value_heads (12) must be divisible by tensor-parallel world size "
     "(8).", "setting_refused", "--tensor-parallel-size 4", {"tensor_parallel_size": 4}),
    ("RuntimeError: Some-V3 Tool parser could not locate tool call start/end tokens in the "
     "tokenizer!", "setting_refused", "--tool-call-parser", {}),
    ("RuntimeError: Only one platform plugin can be activated, but got: ['cuda', 'other']",
     "setting_refused", "VLLM_PLUGINS", {}),
    ("RuntimeError: No supported CUDA architectures found for major versions [10, 12].",
     "device_unsupported", "FLASHINFER_CUDA_ARCH_LIST", {}),
    ("RuntimeError: Distributed package doesn't have NCCL built in", "ranks_not_connected",
     "built with NCCL", {}),
    ("KeyError: 'rope_type'", "packages_mismatch", "transformers", {}),
    ("RuntimeError: numactl is required for NUMA binding but is not installed or not on PATH.",
     "missing_tool", "install numactl", {}),
    ("ValueError: Unexpected Flint expert weight: layers.0.mlp.w", "model_unsupported",
     "as new as the checkpoint", {}),
    ("RuntimeError: Could not find open port after 9 attempts starting from port 29500",
     "port_in_use", "end the process", {}),
    ("FileNotFoundError: FP8 scale file not found: /models/scales.json", "missing_tool",
     "/models/scales.json in the image", {}),
    ("ValueError: Total number of attention heads (28) must be divisible by tensor parallel "
     "size (8).", "setting_refused", "--tensor-parallel-size 4", {"tensor_parallel_size": 4}),
    ("ValueError: Total number of attention heads (40) must be divisible by tensor parallel "
     "size (16).", "setting_refused", "--tensor-parallel-size 8",
     {"tensor_parallel_size": 8}),
    ("AssertionError: 151936 is not divisible by 7", "setting_refused",
     "--tensor-parallel-size 4", {"tensor_parallel_size": 4}),
    ("FileNotFoundError: [Errno 2] No such file or directory: "
     "'/inc/llama/maxabs_quant_g3.json'", "model_access", "QUANT_CONFIG with the path", {}),
    ("ValueError: User-specified max_model_len (40000) is greater than the derived "
     "max_model_len (max_position_embeddings=32768 or model_max_length=None).",
     "setting_refused", "--max-model-len 32768", {"max_model_len": 32768}),
    ("ValueError: max_num_batched_tokens (2048) is smaller than max_model_len (8192).",
     "setting_refused", "--max-num-batched-tokens 8192", {"max_num_batched_tokens": 8192}),
    ("ValueError: max_num_batched_tokens (64) must be greater than or equal to max_num_seqs "
     "(256).", "setting_refused", "--max-num-batched-tokens 256", {"max_num_batched_tokens": 256}),
    ("ValueError: Chunked MM input disabled but max_tokens_per_mm_item (4225) is larger than "
     "max_num_batched_tokens (4096).", "setting_refused", "--max-num-batched-tokens 4225",
     {"max_num_batched_tokens": 4225}),
    ("ValueError: total_hbm_used_gb=731.21GiB exceeds total_hbm_limit_cap_gb=718.55GiB by "
     "12.66GiB. Please consider increasing --gpu-memory-utilization from 0.90 to a larger "
     "value.", "setting_refused", "--gpu-memory-utilization 0.916",
     {"gpu_memory_utilization": 0.916}),
    # 0.944 is what is in use: the engine needs more than that.
    ("ValueError: total_hbm_used_gb=236.0GiB exceeds total_hbm_limit_cap_gb=225.0GiB by "
     "11.0GiB. Please consider increasing --gpu-memory-utilization from 0.9 to a larger "
     "value.", "setting_refused", "--gpu-memory-utilization 0.945",
     {"gpu_memory_utilization": 0.945}),
    ("ValueError: LoRA rank 48 is greater than max_lora_rank 16.", "setting_refused",
     "--max-lora-rank 64", {"max_lora_rank": 64}),
    ("ValueError: World size (4) is larger than the number of available GPUs (2) in this "
     "node.", "setting_refused", "--tensor-parallel-size 2", {"tensor_parallel_size": 2}),
    ("ValueError: Available memory on node 0 (21.13/23.54 GiB) on kv cache allocation is less "
     "than requested memory for kv (500.0 GiB). Decrease --kv-cache-memory-bytes, "
     "VLLM_CPU_KVCACHE_SPACE, or reduce CPU memory used by other processes.",
     "host_limit", "VLLM_CPU_KVCACHE_SPACE=19 ", {"VLLM_CPU_KVCACHE_SPACE": 19}),
    ("ValueError: Available memory on node 0 (8.0/32.0 GiB) on kv cache allocation is less "
     "than requested memory for kv (12.8/16.0 GiB). Reduce CPU memory used by other "
     "processes.", "host_limit", "--gpu-memory-utilization 0.32,",
     {"gpu_memory_utilization": 0.32}),
    ("AssertionError: Not enough allowed NUMA nodes to bind threads of 2 local CPUWorkers. "
     "Allowed NUMA nodes are [0]. Please try to bind threads manually or decrease DP/TP/PP.",
     "setting_refused", "--tensor-parallel-size 1", {"tensor_parallel_size": 1}),
    ("ValueError: invalid literal for int() with base 10: 'abc'", "setting_refused",
     "'abc'", {}),
    ("Abort was called at 84 line in file", "device_unreachable", "intel-compute-runtime", {}),
    ("Memory access fault by GPU node-3 (Agent handle: 0x14e0) on address 0x7f00. Reason: "
     "Unknown.", "device_unreachable", "AMD_SERIALIZE_KERNEL", {}),
    ("HW Exception by GPU node-1 (Agent handle: 0x14e0) reason :GPU Hang",
     "device_unreachable", "AMD_SERIALIZE_KERNEL", {}),
    ("RuntimeError: level_zero backend failed with error: 40 (UR_RESULT_ERROR_OUT_OF_RESOURCES)",
     "device_unreachable", "intel-compute-runtime", {}),
    ("RuntimeError: start (0) + length (512) exceeds dimension size (256).", "model_access",
     "config.json and weights", {}),
    ("json.decoder.JSONDecodeError: Expecting property name enclosed in double quotes: line 1",
     "model_access", "json.tool", {}),
    ("vllm: error: unrecognized arguments: --foo", "setting_refused", "--foo", {}),
    ("ValueError: Bfloat16 is only supported on GPUs with compute capability of at least "
     "8.0.", "device_unsupported", "--dtype half", {"dtype": "half"}),
    ("RuntimeError: Triton Error [CUDA]: device kernel image is invalid",
     "device_unsupported", "a newer driver on the host", {}),
    ("RuntimeError: CUDA error: device kernel image is invalid", "device_unsupported",
     "made for this device", {}),
    ("ValueError: `use_cache` was set to `True` but the loaded model only supports "
     "`use_cache=False`. Please load your current model with `use_cache=False`",
     "model_access", "an export with use_cache=True", {}),
    ("triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 131072",
     "device_unsupported", "backend", {}),
    ("RuntimeError: Error 803: system has unsupported display driver / cuda driver "
     "combination", "driver_mismatch", "LD_LIBRARY_PATH", {}),
    ("RuntimeError: ('Quantization scheme is not supported for ', 'the current GPU. Min "
     "capability: 80. ', 'Current capability: 75.')", "device_unsupported",
     "another build of the model", {}),
    ("NotImplementedError: FlashAttention V1 with FP8 KV cache not yet supported",
     "device_unsupported", "--kv-cache-dtype auto", {"kv_cache_dtype": "auto"}),
    ("ValueError: No valid attention backend found for cuda with kv_cache_dtype=fp8_e4m3. "
     "Reasons: {FLASHMLA_SPARSE: [kv_cache_dtype not supported]}.", "device_unsupported",
     "--kv-cache-dtype auto", {"kv_cache_dtype": "auto"}),
    ("AssertionError: n_physical_experts=256 must be divisible by ep_size=3. Adjust it.",
     "setting_refused", "larger by 2", {}),
    ("ValueError: base_model.model.lm_head.weight is unsupported LoRA weight.",
     "model_unsupported", "modules_to_save", {}),
    ("OSError: Found 0 files matching the pattern: `^tokenizer`. Make sure that a Mistral "
     "tokenizer is present in ['config.json'].", "model_unsupported", "--tokenizer-mode", {}),
    ("AttributeError: 'MistralTokenizer' object has no attribute 'convert_tokens_to_ids'",
     "model_unsupported", "--tokenizer-mode hf", {}),
    ("ValueError: Converting from SentencePiece and Tiktoken failed, if a converter is "
     "available", "model_unsupported", "tokenizer.json", {}),
    ("ValueError: Could not detect config format for no config file found.", "model_access",
     "config.json", {}),
    ("ModuleNotFoundError: Could not import module 'ProcessorMixin'. Are this object's "
     "requirements defined correctly?", "packages_mismatch", "above", {}),
    ("ModuleNotFoundError: No module named 'transformers_modules'", "model_access",
     "HF_MODULES_CACHE", {}),
    ("ModuleNotFoundError: No module named 'transformers_modules.Model-4.5-9B'",
     "model_access", "dots", {}),
    ("ValueError: Model architectures ['LlamaForCausalLM'] failed to be inspected. Please "
     "check the logs for more details.", "packages_mismatch", "above", {}),
    ("RuntimeError: Failed to infer device type", "device_unreachable", "--gpus all", {}),
    ("jax.errors.JaxRuntimeError: FAILED_PRECONDITION: TPU initialization failed: "
     "open(/dev/vfio/4): 16: Device or resource busy; Couldn't open iommu group /dev/vfio/4",
     "device_unreachable", "fuser -v /dev/vfio", {}),
    ("jax.errors.JaxRuntimeError: FAILED_PRECONDITION: TPU initialization failed: No TPU "
     "devices found after filtering", "device_unreachable", "TPU_VISIBLE_CHIPS", {}),
    ("RuntimeError: JAX compilation occurred but was forbidden in this context.",
     "setting_refused", "VLLM_XLA_CHECK_RECOMPILATION=0",
     {"VLLM_XLA_CHECK_RECOMPILATION": "0"}),
    ("ValueError: Failed to find a kernel that can implement the ScaledMM linear layer. "
     "Reasons: ", "device_unsupported", "for each kernel", {}),
    ("ModuleNotFoundError: No module named 'compressed_tensors.compressors.pack_quantized'",
     "missing_tool", "the version of compressed_tensors", {}),
    ("ModuleNotFoundError: No module named 'tblib'", "missing_tool", "install tblib", {}),
    ("ValueError: Following weights were not initialized from checkpoint: "
     "{'visual.blocks.23.norm1.weight', 'visual.blocks.15.norm2.bias'}", "model_unsupported",
     "--language-model-only", {}),
    ("requests.exceptions.ReadTimeout: (ReadTimeoutError(\"HTTPSConnectionPool(host="
     "'huggingface.co', port=443): Read timed out.\"), '(Request ID: 1)')", "model_access",
     "the same start again", {}),
    ("torch.AcceleratorError: CUDA error: device-side assert triggered",
     "device_unreachable", "AMD_SERIALIZE_KERNEL=3", {}),
    ("httpx.ConnectTimeout: timed out", "model_access", "HF_ENDPOINT", {}),
    ("RuntimeError: create_config:build/CMakeFiles/torch_npu.dir/compiler_depend.ts:148 HCCL "
     "function error: hcclCommInitRootInfoConfig(numRanks, &rootInfo, rank, config, "
     "&(comm->hcclComm_)), error code is 1", "ranks_not_connected", "npu-smi info", {}),
    ("RuntimeError: Initialize:build/CMakeFiles/torch_npu.dir/compiler_depend.ts:245 NPU "
     "function error: aclrtSetDevice, error code is 507033", "device_unreachable",
     "/dev/davinci_manager", {}),
    ("RuntimeError: copy_d2d:../torch_npu/csrc/aten/ops/Copy.cpp:89 NPU function error: call "
     "aclnnInplaceCopy failed, error code is 507015", "device_unreachable",
     "torch_npu and vllm-ascend of one", {}),
    ("RuntimeError: The Inner error is reported as above. The process exits for this inner "
     "error, and the current working operator name is aclnnRmsNorm.", "device_unreachable",
     "torch_npu and vllm-ascend of one", {}),
    ("RuntimeError: aclrtSynchronizeStream(stream) failed.", "device_unreachable",
     "torch_npu and vllm-ascend of one", {}),
    ("RuntimeError: [ERROR] 2026-07-25-16:54:01 (PID:7, Device:1, RankID:-1) ERR02200 DIST call "
     "hccl api failed", "ranks_not_connected", "npu-smi info", {}),
    ("importlib.metadata.PackageNotFoundError: No package metadata was found for vllm",
     "packages_mismatch", "wheel of the release", {}),
    ("vllm serve: error: argument --dtype: invalid choice: 'x' (choose from 'auto')",
     "setting_refused", "--dtype with one of", {}),
    ("ImportError: libcuda.so.1: cannot open shared object file: No such file or directory",
     "device_unreachable", "--gpus all", {}),
    ("RuntimeError: synStatus=26 [Generic failure] Device acquire failed.",
     "device_unreachable", "hl-smi", {}),
    ("Exception: Could not send runai_request to libstreamer due to: b'S3 not supported'",
     "model_access", "runai-model-streamer-s3", {}),
    ("Exception: Could not send runai_request to libstreamer due to: b'File access error'",
     "model_access", "AWS_ENDPOINT_URL", {}),
    ("RuntimeError: Device type HPU is not supported for torch.Generator() api.",
     "device_unsupported", "a newer release of vLLM for Gaudi", {}),
    ("ValueError: Unsupported config: device_for_scales=3 for device_type=2",
     "device_unsupported", "no `device_for_scales`", {}),
    ("FileNotFoundError: Failed to load file /m/inc_output_hooks_maxabs_6_8.npz",
     "model_access", "dump_stats_path", {}),
    ("Exception: Got exception: [Errno 2]. QUANT PACKAGE: Can't open /m/quant.json!",
     "model_access", "QUANT_CONFIG", {}),
    ("FileNotFoundError: [Errno 2] No such file or directory: ''", "model_access",
     "a path in the setting", {}),
    ("OSError: Either pass config_path parameter explicitly (recommended), or set environment "
     "variable QUANT_CONFIG", "model_access", "a path in the setting", {}),
    ("JaxRuntimeError: ABORTED: Internal error when accessing libtpu multi-process lockfile.",
     "device_unreachable", "/tmp/libtpu_lockfile", {}),
    ("zmq.error.ZMQError: Address already in use (addr='tcp://1.2.3.4:5')", "port_in_use",
     "ss -ltnp", {}),
    ("RuntimeError: unable to open shared memory object </torch_123> in read-write mode",
     "shared_memory", "--shm-size", {}),
    ("PermissionError: [Errno 13] Permission denied: '/.cache'", "disk_full", "HF_HOME", {}),
    ("RuntimeError: Cannot re-initialize CUDA in forked subprocess.", "host_limit", "spawn",
     {"VLLM_WORKER_MULTIPROC_METHOD": "spawn"}),
    ("huggingface_hub.errors.RepositoryNotFoundError: 401 Client Error.", "model_access",
     "the name as the hub has it", {}),
    ("huggingface_hub.errors.GatedRepoError: 403 Client Error.", "model_access", "HF_TOKEN",
     {}),
    ("safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge",
     "model_access", "download it again", {}),
    ("OSError: a/b does not appear to have a file named config.json", "model_access",
     "a complete folder", {}),
    ("ValueError: The checkpoint you are trying to load has model type `x` but Transformers "
     "does not recognize this architecture.", "model_unsupported", "supported models", {}),
    ("ValueError: set the option `trust_remote_code=True` to remove this error.",
     "model_unsupported", "--trust-remote-code", {"trust_remote_code": True}),
    (NCCL + "unhandled system error (run with NCCL_DEBUG=INFO for details)",
     "ranks_not_connected", "/dev/shm", {}),
    (NCCL + "unhandled cuda error", "ranks_not_connected", "NCCL_DEBUG=INFO", {}),
    (NCCL + "remote process exited or there was a network error", "ranks_not_connected",
     "ended first", {}),
    ("RuntimeError: hcclCommInitRank failed", "ranks_not_connected", "LOG_LEVEL_ALL=3", {}),
    ("torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 "
     "clients joined.", "ranks_not_connected", "VLLM_HOST_IP", {}),
    ("ValueError: Cannot provide a placement group of placement_group_specs=[] within 1800 "
     "seconds.", "ranks_not_connected", "ray status", {}),
    ("RuntimeError: collective nonSFG is not supported during hpu graph capturing",
     "ranks_not_connected", "PT_HPU_ENABLE_LAZY_COLLECTIVES=true",
     {"PT_HPU_ENABLE_LAZY_COLLECTIVES": "true"}),
    ("FileNotFoundError: [Errno 2] No such file or directory: '/usr/local/cuda/bin/nvcc'",
     "missing_tool", "CUDA toolkit", {}),
    ("RuntimeError: Could not find nvcc", "missing_tool", "CUDA toolkit", {}),
    ("ModuleNotFoundError: No module named 'decord'", "missing_tool", "install decord", {}),
    ("ImportError: libcudart.so.12: cannot open shared object file", "missing_tool",
     "needs CUDA 12", {}),
    ("ImportError: libcublas.so.13: cannot open shared object file", "missing_tool",
     "https://wheels.vllm.ai/RELEASE/cu129", {}),
    ("requests.exceptions.SSLError: (MaxRetryError('[SSL: CERTIFICATE_VERIFY_FAILED] certificate "
     "verify failed: unable to get local issuer certificate'))", "model_access",
     "REQUESTS_CA_BUNDLE and SSL_CERT_FILE", {}),
    ("api_server.py: error: unrecognized arguments: serve a/b", "setting_refused", "--model a/b",
     {}),
    ("vllm: error: unrecognized arguments: --top-k 5", "setting_refused",
     "--override-generation-config with the key top_k", {}),
    ("RuntimeError: Assertion error (csrc/apis/../jit/kernel_runtime.hpp:51): exit_code == 0",
     "device_unsupported", "cuobjdump", {}),
    ("RuntimeError: Assertion error (/b/deepgemm-src/csrc/jit/compiler.hpp:99): a and \"NVCC "
     "version should be >= 12.9\"", "device_unsupported", "nvcc 12.9 or newer", {}),
    ("RuntimeError: CUDA driver error (/b/csrc/jit/handle.hpp:91): 209 (CUDA_ERROR_X, x)",
     "device_unsupported", "VLLM_USE_DEEP_GEMM=0", {"VLLM_USE_DEEP_GEMM": "0"}),
    ("NotImplementedError: No compiled some_mm: no some_mm kernel for CUDA device capability: 87",
     "device_unsupported", "made for this device", {}),
    ("RuntimeError: The NVIDIA driver on your system is too old (found version 12080).",
     "driver_mismatch", "newer driver", {}),
    ("ValueError: make sure you have sentencepiece installed.", "model_unsupported",
     "`pip install sentencepiece`", {}),
    ("ImportError: /x/site-packages/xformers/_C.so: undefined symbol: _ZN3c105ErrorC2E",
     "packages_mismatch", "xformers built for the torch", {}),
    ("ValueError: The checkpoint you are trying to load has model type `a_b` but Transformers does "
     "not recognize this architecture.", "model_unsupported", "supported models has a_b", {}),
    ("vllm.third_party.pynvml.NVMLError_NotFound: Not Found", "device_unreachable",
     "whole UUIDs", {}),
    ("huggingface_hub.errors.OfflineModeIsEnabled: Cannot reach https://hub/api/a/b: offline mode "
     "is enabled.", "model_access", "the folder that holds the files as --model", {}),
    ("vllm serve: error: the following arguments are required: model_tag", "setting_refused",
     "`vllm serve NAME ...`", {}),
    ("KeyError: 'layers.7.feed_forward.w3.weight'", "model_unsupported", "--config-format mistral",
     {"config_format": "mistral", "load_format": "mistral", "tokenizer_mode": "mistral"}),
    ("ValueError: No valid attention backend found for cuda with Config(a=1). Reasons: "
     "{ONE_B: [block_size not supported], TWO_B: [compute capability not supported]}.",
     "device_unsupported", "no --block-size: ONE_B runs then", {}),
    ("ValueError: No valid attention backend found for cuda with Config(a=1). Reasons: {ONE_B: "
     "[sparse not supported, compute capability not supported], TWO_B: [sparse not supported]}.",
     "device_unsupported", "a newer vLLM with a backend for this device: TWO_B lacks the least", {}),
    ("ValueError: No valid attention backend found for cuda with Config(a=1). Reasons: {ONE_B: "
     "[sparse not supported], FLASHINFER_MLA: [sparse not supported, compute capability not "
     "supported], TWO_B: [compute capability not supported, TWO_B is only supported on Hopper "
     "devices.]}.", "device_unsupported", "another device: TWO_B runs on one of those that it names",
     {}),
    ("This kernel only supports sm120 (torch.AcceleratorError: CUDA error: unspecified launch "
     "failure)", "device_unsupported", "made for this device", {}),
    ("RuntimeError: Only XE2 cutlass kernel is supported currently.", "device_unsupported",
     "vllm-xpu-kernels", {}),
    ("RuntimeError: Required aspect fp64 is not supported on the device", "device_unsupported",
     "OverrideDefaultFP64Settings=1", {}),
    ("RuntimeError: Assertion error (csrc/apis/../jit_kernels/impls/../../jit/compiler.hpp:147): "
     "runtime != nullptr", "build_failed", "DG_JIT_CACHE_DIR", {}),
    ("RuntimeError: FlashInfer requires GPUs with sm75 or higher", "device_unsupported",
     "toolkit of 12.9", {}),
    ("AttributeError: module 'torch' has no attribute 'nvfp4'", "setting_refused",
     "--kv-cache-dtype fp8", {"kv_cache_dtype": "fp8"}),
    ("subprocess.CalledProcessError: Command '['/x/triton/backends/nvidia/bin/ptxas', '-v', "
     "'--gpu-name=sm_121a', '/tmp/a.ptx']' returned non-zero exit status 255.", "build_failed",
     "TRITON_PTXAS_PATH", {}),
    ("AssertionError: assert new_spec.page_size_bytes == max_page_size", "setting_refused",
     "no --speculative-config", {}),
    ("ValueError: Unsupported mxfp4_backend for Mxfp4MoEMethod: Mxfp4MoeBackend.ONE_KERNEL. "
     "Expected TRTLLM, Triton, AITER, or XPU backend.", "setting_refused",
     "--moe-backend marlin", {}),
    ("RuntimeError: Failed to execute the model status=1006 message=Execution Out-Of-Bounds "
     "Memory Access", "device_unreachable", "a checkpoint, tokenizer and limits", {}),
    ("subprocess.CalledProcessError: Command '' died with <Signals.SIGHUP: 1>.", "build_failed",
     "what neuronx-cc printed", {}),
    ("RuntimeError: Check failed: (status == cudaSuccess) is false: BatchPrefillWithPagedKVCache "
     "failed with error invalid argument", "device_unsupported", "--attention-backend TRITON_ATTN",
     {}),
    ("ValueError: Resource axis: attn_dp of PartitionSpec(None, 'attn_dp') is not found in mesh: "
     "('data', 'model').", "setting_refused", "NEW_MODEL_DESIGN=1", {"NEW_MODEL_DESIGN": "1"}),
    ("ValueError: There is no module or parameter named 'a.layers.0.b.weight' in SomeModel. The "
     "available parameters belonging to a.layers.0.b (JaxLinear) are: set()", "model_unsupported",
     "no quantisation of your own", {}),
    ("ValueError: No supported config format found in owner/model", "model_access", "HF_TOKEN", {}),
    ('RuntimeError: nrt_tensor_allocate status=4 message="Allocation Failure"',
     "device_unsupported", "a smaller --max-model-len", {}),
    ("zmq.error.ZMQError: Operation not supported", "failure_unexplained",
     "the error of the process that ended is above it", {}),
    ("ray.exceptions.RayChannelTimeoutError: System error: Timed out waiting for object available "
     "to read. ObjectID: 00", "ranks_not_connected", "the lines of each rank", {}),
    ("ValueError: For FP8 Fused MoE layers, only per-tensor scales for weights and activations are "
     "supported. Found num_bits=8", "device_unsupported", "a newer vLLM", {}),
    ("RuntimeError: Bad StatusOr access: INTERNAL: Mosaic failed to compile TPU kernel: Not "
     "Implemented: The last dim size is not 128 in original base memref.", "device_unsupported",
     "a newer release for TPU", {}),
    ("AssertionError: assert self.page_size_padded >= page_size", "setting_refused",
     "no --block-size", {}),
    ("FloatingPointError: Invalid value (nan) encountered in sharded computation.",
     "setting_refused", "without values that overflow", {}),
    ("NotImplementedError: Layer model.layers.1: page size is not divisible by the maximum page "
     "size and cannot be padded.", "setting_refused", "no --speculative-config", {}),
    ("AssertionError: block_size must be divisible by hash_block_size", "setting_refused",
     "no --block-size", {}),
    ("ValueError: Each KV cache group's real block_size must be divisible by hash_block_size",
     "setting_refused", "no --block-size", {}),
    ("RuntimeError: One of GPU archs of ['gfx1151'] is invalid or not supported",
     "device_unsupported", "VLLM_ROCM_USE_AITER=0", {"VLLM_ROCM_USE_AITER": "0"}),
    ("AttributeError: 'AForCausalLM' object has no attribute 'set_aux_hidden_state_layers'",
     "setting_refused", "no --speculative-config of eagle3", {}),
    ("The condition [ g_ibv.init(deviceConfig) == hcclSuccess ] failed. ibv initialization failed",
     "ranks_not_connected", "habanalabs_ib", {}),
    ("RuntimeError: hcl_ibverbs_t::init failed to find matching Habana IB device (hbl_6)",
     "ranks_not_connected", "habanalabs_ib", {}),
    ("MLX error: Failed to load the default metallib. This library is using a deployment target "
     "(0x00020008) that is not supported on this OS.", "packages_mismatch", "mlx-metal", {}),
    ("RuntimeError: Failed to load the default metallib. This library is using language version "
     "4.0 which is not supported on this OS. library not found", "packages_mismatch", "mlx-metal",
     {}),
    ("ImportError: dlopen(/v/mlx/core.cpython-312-darwin.so, 0x0002): Symbol not found: _x (built "
     "for macOS 26.2 which is newer than running OS)", "packages_mismatch", "mlx-metal", {}),
    ("libc++abi: terminating due to uncaught exception of type std::runtime_error: [metal::Device] "
     "Unable to build metal library from source error: invalid value 'metal3.1' in "
     "'-std=metal3.1'", "packages_mismatch", "mlx-metal", {}),
    ("MLX error: Failed to load the default metallib. library not found library not found",
     "packages_mismatch", "of one version", {}),
    ("RuntimeError: unable to open shared memory object </torch_9> in read-write mode: Too many "
     "open files (24)", "disk_full", "ulimit -n", {}),
    ("RuntimeError: unable to open shared memory object </torch_9> in read-write mode: No space "
     "left on device (28)", "shared_memory", "/dev/shm", {}),
    ("ray.exceptions.RaySystemError: System error: No module named 'vllm'", "missing_tool",
     "whose python runs the process", {}),
    ("RuntimeError: No HIP GPUs are available", "device_unreachable", "/dev/kfd", {}),
    ("KeyError: 'UCX'", "ranks_not_connected", "NIXL_PLUGIN_DIR", {}),
    ("UCX  ERROR mlx5_7: ibv_modify_qp(UMR QP 0x1) failed to modify to RTR: No such device "
     "(nixl._bindings.nixlBackendError: NIXL_ERR_BACKEND)", "ranks_not_connected",
     "UCX_NET_DEVICES", {}),
    ("TimeoutError: Orchestrator did not become ready within 600s", "ranks_not_connected",
     "--init-timeout of more than 600", {}),
    ("ValueError: Kernel does not support weight_bits = uint4b8 (device_capability = 61)",
     "device_unsupported", "another build of the model", {}),
    ("RuntimeError: Ninja build failed. Ninja output: x.h(4): error: #error directive: \"CUDA "
     "compiler and CUDA toolkit headers are incompatible\"", "build_failed", "nvcc and headers", {}),
    ("ValueError: num_speculative_tokens must be provided with speculative model unless the draft "
     "states one", "setting_refused", "in --speculative-config", {}),
    ("ValueError: prefill_context_parallel_size=3 must be 4 here", "setting_refused", "--prefill-context-parallel-size 4",
     {"prefill_context_parallel_size": 4}),
    ("InductorError: CalledProcessError: Command '['/usr/bin/gcc']' returned non-zero exit "
     "status 1.", "build_failed", "gcc", {}),
    ("RuntimeError: Graph compile failed. synStatus=synStatus 26 [Generic failure].",
     "build_failed", "LOG_LEVEL_ALL=3", {}),
    ("AssertionError: Tried to load weights of size torch.Size([6144])to a parameter of size "
     "torch.Size([18432])", "model_unsupported", "as new as the checkpoint", {}),
    ("pydantic_core.ValidationError: 1 validation error for VllmConfig", "setting_refused",
     "the setting of VllmConfig", {}),
    ("vllm serve: error: argument --compilation-config/-cc: 1 validation error for "
     "CompilationConfig; mode; Input should be 0, 1, 2 or 3 [type=enum, input_value=9]",
     "setting_refused", "for mode of CompilationConfig; the message: Input should be 0, 1, 2 or 3",
     {}),
    ("vllm serve: error: argument --compilation-config/-cc: 1 validation error for "
     "CompilationConfig; foo; Unexpected keyword argument [type=unexpected_keyword_argument]",
     "setting_refused", "no foo in CompilationConfig", {}),
    ("ValueError: Either model_file or model_proto must be specified.", "model_unsupported",
     "tokenizer.json", {}),
    ("ValueError: Invalid repository ID or local directory specified: '/models/x'.",
     "model_access", "config.json (params.json of a Mistral model) and the weights in /models/x",
     {}),
    ("HFValidationError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': "
     "'/models/x'. Use `repo_type` argument if needed.", "model_access", "weights in /models/x",
     {}),
    ("ImportError: /lib/x86_64-linux-gnu/libstdc++.so.6: version `GLIBCXX_3.4.32' not found "
     "(required by /x/vllm/_C.abi3.so)", "packages_mismatch",
     "whose libstdc++ has GLIBCXX_3.4.32", {}),
    ("ValueError: No common block size for 7 (CPU_ATTN: [MultipleOf(32)]). ",
     "setting_refused", "one of their list: CPU_ATTN: [MultipleOf(32)]", {}),
    ("FileNotFoundError: [Errno 2] No such file or directory: '/loras/a/adapter_config.json'",
     "model_access", "/loras/a as the hub has it", {}),
    ("OverflowError: bind(): port must be 0-65535.", "setting_refused", "--port of 1", {}),
    ("ValueError: Unknown level: 'FOO'", "setting_refused", "VLLM_LOGGING_LEVEL=DEBUG", {}),
    ("AssertionError", "failure_unexplained", "read the traceback", {}),
    ("RuntimeError: PassManager::run failed", "build_failed", "another attention backend", {}),
    ("torch._inductor.exc.InductorError: RuntimeError: PassManager::run failed", "build_failed",
     "--enforce-eager", {"enforce_eager": True}),
    ("ImportError: /x/flash_attn_2_cuda.so: undefined symbol: _ZN3c10", "packages_mismatch",
     "released together", {}),
    ("AttributeError: Qwen2Tokenizer has no attribute all_special_tokens_extended. Did you "
     "mean: 'num_special_tokens_to_add'?", "packages_mismatch", "transformers<5", {}),
    ("ImportError: cannot import name 'A' from 'transformers'", "packages_mismatch",
     "the version of transformers", {}),
    ("RuntimeError: Worker process (PID=1) terminated with exit code -15.", "killed", "dmesg",
     {}),
    ("RuntimeError: Engine core initialization failed. See root cause above. Failed core "
     "proc(s): {}", "failure_unexplained", "ended from outside", {}),
    ("TypeError: __init__() got an unexpected keyword argument 'trust_remote_code'",
     "program_error", "released together", {}),
    ("AssertionError: please set tensor_parallel_size (4) to less than max local gpu count (2)",
     "setting_refused", "--tensor-parallel-size 2", {"tensor_parallel_size": 2}),
    ("ValueError: tp_size=4 must be divisible by dcp_size=3.", "setting_refused",
     "--decode-context-parallel-size 2", {"decode_context_parallel_size": 2}),
    ("ValueError: Tensor parallel size 16 is greater than the number of experts 8.",
     "setting_refused", "--tensor-parallel-size 8", {"tensor_parallel_size": 8}),
    ("ValueError: max_num_batched_tokens (8000) must be divisible by mamba_chunk_size (256)",
     "setting_refused", "--max-num-batched-tokens 7936", {"max_num_batched_tokens": 7936}),
    ("AssertionError: Min. batch size cannot be greater than max. batch size. If you want to "
     "skip warmup, set VLLM_SKIP_WARMUP=true", "setting_refused", "_BUCKET_MIN", {}),
    ("AssertionError: bucket_min cannot be greater than bucket_max. If you want to skip "
     "warmup, set VLLM_SKIP_WARMUP=true", "setting_refused", "_BUCKET_MIN", {}),
    ("AssertionError: bucket_step must be positive, got: (0)", "setting_refused",
     "_BUCKET_STEP at least 1", {}),
    ("RuntimeError: Generated 0 prompt buckets. Please adjust the bucketing configuration "
     "according to README", "setting_refused", "_BUCKET_", {}),
    ("ValueError: Invalid bucketing strategy: foo, please choose from ['exp', 'lin', 'pad']",
     "setting_refused", "VLLM_BUCKETING_STRATEGY=exp", {}),
    ("RuntimeError: VLLM_PROMPT_BS_BUCKET_MAX: failed to process environment variable",
     "setting_refused", "VLLM_PROMPT_BS_BUCKET_MAX", {}),
    ("TypeError: Error: --enable-auto-tool-choice requires --tool-call-parser",
     "setting_refused", "--tool-call-parser", {}),
    ("KeyError: 'invalid tool call parser: foo (chose from { hermes })'", "setting_refused",
     "instead of foo", {}),
    ("NotImplementedError: VLLM_USE_V1=1 is not supported with --kv-cache-dtype.",
     "setting_refused", "VLLM_USE_V1 unset", {}),
    ("ValueError: The model type 'gemma2' does not support float16. Reason: Numerical "
     "instability.", "setting_refused", "--dtype bfloat16", {"dtype": "bfloat16"}),
    ("ValueError: Weight input_size_per_partition = 10944 is not divisible by min_thread_k = "
     "128.", "setting_refused", "smaller --tensor-parallel-size", {}),
    ("ValueError: The supplied chat template string (foo.jinja) appears path-like, but "
     "doesn't exist!", "setting_refused", "foo.jinja", {}),
    ("ValueError: LoRA is not supported with chunked prefill", "setting_refused",
     "no --enable-lora", {}),
    ("ValueError: Target and draft model should have the same vocabulary size",
     "setting_refused", "draft model", {}),
    ("AssertionError: Error in memory profiling. Initial free memory 23.1 GiB, current free "
     "memory 24.2 GiB.", "memory_changed", "one after another", {}),
    ("AssertionError: Sinks are only supported in FlashAttention 3", "device_unsupported",
     "backend", {}),
    ("ValueError: Head size 80 is not supported by PagedAttention.", "device_unsupported",
     "backend", {}),
    ("RuntimeError: HIP error: hipErrorNoBinaryForGpu", "device_unsupported", "made for this",
     {}),
    ("RuntimeError: CUDA unknown error - this may be due to an incorrectly set up environment",
     "device_unreachable", "nvidia-smi", {}),
    ("RuntimeError: CUDA driver initialization failed, you might not have a CUDA gpu.",
     "device_unreachable", "nvidia-smi", {}),
    ("RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate`",
     "device_unreachable", "--gpu-memory-utilization lower", {}),
    ("RuntimeError: level_zero backend failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)",
     "device_unreachable", "dmesg", {}),
    ("RuntimeError: [enforce fail at alloc_cpu.cpp:114] data. DefaultCPUAllocator: not enough "
     "memory: you tried to allocate 1234 bytes.", "host_limit", "more host memory", {}),
    ("HfHubHTTPError: 504 Server Error: Gateway Time-out for url: https://huggingface.co/x",
     "model_access", "the same start again", {}),
    ("RuntimeError: Data processing error: CAS service error : Reqwest Error",
     "model_access", "the same start again", {}),
    ("ValueError: `rope_scaling` must be a dictionary with two fields, `type` and `factor`",
     "packages_mismatch", "the version of transformers", {}),
    ("KeyError: 'model.layers.0.self_attn.qkv_proj.weight_scale'", "model_unsupported",
     "as new as the checkpoint", {}),
    ("ModuleNotFoundError: No module named 'habana_frameworks'", "missing_tool",
     "vault.habana.ai", {}),
    ("TypeError: type 'array.array' is not subscriptable", "packages_mismatch", "Python 3.12", {}),
    ("ModuleNotFoundError: No module named 'vllm._C'", "packages_mismatch", "as built for", {}),
    ("ModuleNotFoundError: No module named 'vllm.attention.layers'", "packages_mismatch",
     "the plugin or program", {}),
    ("AttributeError: '_OpNamespace' '_C' object has no attribute 'cutlass_scaled_mm'",
     "packages_mismatch", "as built for", {}),
    ("ValueError: 'aimv2' is already used by a Transformers config, pick another name.",
     "packages_mismatch", "the transformers before it had aimv2", {}),
    ("RuntimeError: operator torchvision::nms does not exist", "packages_mismatch",
     "released together", {}),
    ("CalledProcessError: Command '['/usr/bin/gcc', '/tmp/tmpabcdefgh/main.c', '-O3', "
     "'-shared', '-fPIC', '-o', '/tmp/cuda_utils.so']' returned non-zero exit status 1.",
     "build_failed", "a compiler", {}),
    ("RuntimeError: synNodeCreateWithId failed for node: batch_gemm with synStatus 26",
     "build_failed", "LOG_LEVEL_ALL=3", {}),
    ("FileNotFoundError: [Errno 2] No such file or directory: '/models/x/config.json'",
     "model_access", "a complete folder", {}),
    ("FileNotFoundError: [Errno 2] No such file or directory: 'ldconfig'", "missing_tool",
     "ldconfig in the image", {}),
    ("LocalEntryNotFoundError: Cannot find an appropriate cached snapshot folder",
     "model_access", "the network of the container", {}),
    ("ConnectionError: (ProtocolError('Connection aborted.', RemoteDisconnected('x')))",
     "model_access", "the same start again", {}),
    ("OSError: Can't load the configuration of 'x/y'.", "model_access", "the name as the hub",
     {}),
    ("zmq.error.ZMQError: ipc path '/very/long' is longer than 107 characters", "host_limit",
     "VLLM_RPC_BASE_PATH", {}),
    ("ValueError: While loading /lora/x, expected target modules in ['q_proj']",
     "model_unsupported", "adapter", {}),
    ("RuntimeError: This flash attention build does not support tanh softcapping.",
     "device_unsupported", "backend", {}),
    ("ValueError: invalid literal for int() with base 10: 'GPU-af560c2b'",
     "device_unreachable", "CUDA_VISIBLE_DEVICES with numbers", {}),
    ("ValueError: CUDA_VISIBLE_DEVICES is set to empty string", "device_unreachable",
     "--gpus all", {}),
    ("TimeoutError: RPC call to execute_model timed out.", "ranks_not_connected",
     "busy with execute_model", {}),
    ("ValueError: With `vllm serve`, you should provide the model as a positional argument",
     "setting_refused", "vllm serve NAME", {}),
    ("OSError: [Errno 12] Cannot allocate memory", "host_limit", "more host memory", {}),
    ("RuntimeError: std::bad_alloc", "host_limit", "more host memory", {}),
    ("ray.exceptions.RaySystemError: System error: No available node types can fulfill "
     "resource request", "ranks_not_connected", "ray status", {}),
    ("RuntimeError: Ninja is required to load C++ extensions", "missing_tool", "ninja", {}),
    ("RuntimeError: TPU initialization failed: open(/dev/vfio/0): Device or resource busy",
     "device_unreachable", "fuser -v /dev/vfio", {}),
    ("MQEngineDeadError: Engine loop is not running. Inspect the stacktrace",
     "failure_unexplained", "ended from outside", {}),
    ("EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root "
     "cause.", "failure_unexplained", "ended from outside", {}),
    ("ValueError: num_speculative_tokens:5 must be divisible by n_predict=2", "setting_refused",
     "num_speculative_tokens 4", {"num_speculative_tokens": 4}),
    ("ValueError: VllmConfig does not have enough slots to schedule a token and support the "
     "speculative decoding settings. Got max_num_batched_tokens=2048 and "
     "scheduled_token_delta=4096.", "setting_refused", "of more than 4096", {}),
    ("RuntimeError: offset_ 0is not matching with the offset of new tensor 184467", "build_failed",
     "VLLM_MM_WARMUP_OUTSIDE_COMPILE_ONLY=true", {}),
    ("KeyError: 'midlayer.self_attn.qkv_proj.bias'", "model_unsupported", "as new as the", {}),
    ("RuntimeError: Unable to initialize backend 'tpu': INVALID_ARGUMENT: Error: unexpected worker "
     "hostname 'localhost' from env var TPU_WORKER_HOSTNAMES.", "setting_refused",
     "TPU_WORKER_HOSTNAMES unset", {}),
    ("RuntimeError: Engine core initialization failed. See root cause above. Failed core "
     "proc(s): {'EngineCore_DP0': -11}", "failure_unexplained", "PYTHONFAULTHANDLER=1", {}),
    ("RuntimeError: Engine core initialization failed. See root cause above. Failed core "
     "proc(s): {'EngineCore_DP0': 1}", "failure_unexplained", "ended from outside", {}),
    ("ValueError: Expecting value: line 1 column 1 (char 0)", "model_access", "json.tool", {}),
    ("ValueError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
     "model_access", "json.tool", {}),
    ("RuntimeError: Expected a.dtype() == torch::kInt8 to be true, but got false.",
     "device_unsupported", "made for this device", {}),
    ("RuntimeError: view size is not compatible with input tensor's size and stride. Use "
     ".reshape(...) instead.", "failure_unexplained", "read the traceback", {}),
    ("not enough values to unpack", "failure_unexplained", "VLLM_LOGGING_LEVEL=DEBUG", {}),
    ("synStatus=20 [Device reset] Event synchronize failed.", "failure_unexplained",
     "VLLM_LOGGING_LEVEL=DEBUG", {}),
    ("EngineCore failed to start.", "failure_unexplained", "exc_info", {}),
    ("ValueError: Gemma3nForConditionalGeneration does not support LoRA yet.",
     "setting_refused", "--enable-lora", {}),
    ("ValueError: FlashInfer does not support this kind of KV cache.", "setting_refused",
     "no FlashInfer", {}),
    ("AssertionError: Sleep mode can only be used for one instance per process.",
     "setting_refused", "a process for each engine", {}),
    ("ValueError: Invalid VLLM_MULTIMODAL_RESOLUTIONS entry '1024-768'; expected 'WxH'",
     "setting_refused", "VLLM_MULTIMODAL_RESOLUTIONS in the form", {}),
    ("ValueError: The output_size of gate's and up's weight = 192 is not divisible by weight "
     "quantization block_n = 128.", "setting_refused", "--tensor-parallel-size", {}),
    ("ValueError: Currently, only 4-bit weight quantization is supported for AWQ, but got 8 "
     "bits.", "model_unsupported", "AWQ of 4-bit", {}),
    ("ValueError: Loading lora a failed: No adapter found for /adapters/a", "model_access",
     "/adapters/a", {}),
    ("RuntimeError: NIXL is not available", "missing_tool", "nixl", {}),
    ("torch.AcceleratorError: CUDA error: operation failed due to a previous error during "
     "capture", "build_failed", '{"cudagraph_mode": "PIECEWISE"}', {}),
    ("RuntimeError: cutlass_gemm_caller, /workspace/csrc/quantization/w8a8/cutlass/c3x/"
     "cutlass_gemm_caller.cuh:62, Error Internal", "device_unsupported",
     "VLLM_DISABLED_KERNELS", {}),
    ("RuntimeError: synStatus=8 [Device not found] Device acquire failed. No devices found.",
     "device_unreachable", "HABANA_VISIBLE_DEVICES", {}),
    (NCCL + "invalid usage (run with NCCL_DEBUG=WARN for details)", "ranks_not_connected",
     "a device for each rank", {}),
    ("RuntimeError: MODULE:PT_BRIDGE Exception in Lowering thread... [Rank:0] Habana exception "
     "raised from HcclGroup at hccl_kernels.cpp:231", "ranks_not_connected", "hl-smi", {}),
    ("RuntimeError: Did not receive response from front-end process within 5 minutes",
     "ranks_not_connected", "the server's process", {}),
    ("torch.distributed.DistNetworkError: The client socket has timed out after 1800000ms while "
     "trying to connect to (10.0.0.7, 43115).", "ranks_not_connected", "VLLM_HOST_IP", {}),
    ("RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:133] Timed "
     "out waiting 1800000ms for recv operation to complete", "ranks_not_connected",
     "every rank", {}),
    ("subprocess.TimeoutExpired: Command '['nvcc']' timed out after 60 seconds",
     "failure_unexplained", "VLLM_LOGGING_LEVEL=DEBUG", {}),
    ("torch._dynamo.exc.SkipFrame: BF16 is not supported", "device_unsupported", "--dtype half",
     {"dtype": "half"}),
    ("RuntimeError: Triton kernel JIT compilation during inference: fused_moe_kernel .",
     "setting_refused", "--jit-monitor-mode warn", {"jit_monitor_mode": "warn"}),
    ("OSError: [Errno 122] Disk quota exceeded: '/home/a/.cache/vllm/x'", "disk_full",
     "`quota -s`", {}),
    ("KeyError: <PlatformEnum.XPU: 5>", "device_unsupported", "names for XPU", {}),
    ("AssertionError: assert param_data.shape == loaded_weight.shape", "model_unsupported",
     "as new as the checkpoint", {}),
    ("RuntimeError: The size of tensor a (4096) must match the size of tensor b (1024) at "
     "non-singleton dimension 0", "failure_unexplained", "VLLM_LOGGING_LEVEL=DEBUG", {}),
    ("ValueError: max_num_seqs (1024) exceeds available Mamba cache blocks (600). Each decode "
     "sequence requires one Mamba cache block, so CUDA graph capture cannot proceed. Please "
     "lower max_num_seqs to at most 600 or increase gpu_memory_utilization.",
     "setting_refused", "--max-num-seqs 600", {"max_num_seqs": 600}),
    ("RuntimeError: Worker failed with error 'max_num_seqs (256) exceeds available Mamba cache "
     "blocks (161). Each decode sequence requires one Mamba cache block', please check the "
     "stack trace above for the root cause", "setting_refused", "--max-num-seqs 161",
     {"max_num_seqs": 161}),
    ("torch.AcceleratorError: CUDA error: the provided PTX was compiled with an unsupported "
     "toolchain.", "driver_mismatch", "newer driver", {}),
    ("ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name' "
     "(triton.runtime.errors.PTXASError: PTXAS error: Internal Triton PTX codegen error)",
     "build_failed", "TRITON_PTXAS_BLACKWELL_PATH) with the ptxas of CUDA 12.9 or newer", {}),
    ("ptxas fatal   : Value 'sm_90a' is not defined for option 'gpu-name' "
     "(triton.runtime.errors.PTXASError: PTXAS error: Internal Triton PTX codegen error)",
     "build_failed", "TRITON_PTXAS_PATH with the ptxas of CUDA 12.0 or newer", {}),
    ("RuntimeError: SM 12.x requires CUDA >= 12.9", "build_failed", "a CUDA toolkit of 12.9", {}),
    ("nvcc fatal   : Unsupported gpu architecture 'compute_121a' (RuntimeError: Error building "
     "extension 'x': /usr/bin/nvcc -I$CUDA_HOME/include: not found)", "build_failed",
     "a CUDA toolkit of 12.9 or newer", {}),
    ("nvcc fatal   : Unsupported gpu architecture 'compute_120f' (RuntimeError: Ninja build "
     "failed. Ninja output:)", "build_failed", "a CUDA toolkit of 12.9 or newer", {}),
    ("nvcc fatal   : Unsupported gpu architecture 'compute_70' (RuntimeError: Ninja build "
     "failed. Ninja output:)", "build_failed", "a CUDA toolkit of 12.9 or older", {}),
    ("nvcc fatal   : Unknown option '-static-global-template-stub=false' (RuntimeError: Ninja "
     "build failed. Ninja output:)", "build_failed", "a newer CUDA toolkit", {}),
    ("nvcc fatal   : Unsupported gpu architecture 'compute_120a' (RuntimeError: Ninja build "
     "failed. Ninja output:)", "build_failed", "a CUDA toolkit of 12.8 or newer", {}),
    ("/bin/sh: 1: :/usr/local/cuda/bin/nvcc: not found (RuntimeError: Ninja build failed. "
     "Ninja output:)", "missing_tool", "CUDA_HOME", {}),
    ("KeyError: 'getpwuid(): uid not found: 1000770000'", "host_limit", "USER", {}),
    ("ValueError: VLLM_PORT 'tcp://10.1.2.3:8000' appears to be a URI. This may be caused by a "
     "Kubernetes service discovery issue", "setting_refused", "enableServiceLinks: false", {}),
    ("ValueError: invalid literal for int() with base 10: 'tcp://10.1.2.3:8000'",
     "setting_refused", "enableServiceLinks: false", {}),
    ("RuntimeError: UVA is not available", "device_unsupported",
     "VLLM_WSL2_ENABLE_PIN_MEMORY=1", {"VLLM_WSL2_ENABLE_PIN_MEMORY": "1"}),
    ("openai_harmony.HarmonyError: error downloading or loading vocab file: failed to download "
     "or load vocab file", "model_access", "TIKTOKEN_ENCODINGS_BASE", {}),
    ("RuntimeError: Every node should have a unique IP address. Got 2 nodes with node ids "
     "['a'] and 3 unique IP addresses {'10.0.1.12'}.", "ranks_not_connected",
     "--node-ip-address", {}),
    ("ValueError: Ray does not allocate any GPUs on the driver node. Consider adjusting the "
     "Ray placement group or running the driver on a GPU node.", "ranks_not_connected",
     "on a node of the cluster with a device", {}),
    ("ValueError: Number of devices 4 must be >= the product of mesh_shape (1, 8)",
     "setting_refused", "--tensor-parallel-size 4", {"tensor_parallel_size": 4}),
    ("ValueError: Insufficient devices for 2D mesh: found 1, expected 8 for mesh shape (1, 8).",
     "setting_refused", "jax.devices()", {}),
    ("RuntimeError: numa_migrate_pages failed. errno: 1", "host_limit", "SYS_NICE", {}),
    ("AssertionError: No enough allowed NUMA nodes to bind threads of 2 CPUWorkers. Allowed "
     "NUMA nodes are [0]. Please try to bind threads manually.", "setting_refused",
     "--tensor-parallel-size 1", {"tensor_parallel_size": 1}),
    ("Illegal instruction", "device_unsupported", "lscpu", {}),
    ("Worker proc VllmWorker-0 died unexpectedly (exit code: -4), shutting down executor.",
     "device_unsupported", "lscpu", {}),
    ("Worker proc VllmWorker-0 died unexpectedly (exit code: -7)", "shared_memory", "/dev/shm", {}),
    ("socket.gaierror: [Errno -2] Name or service not known", "setting_refused", "--host", {}),
    ("AssertionError: expert parallel group is not initialized. EP group is only created for MoE "
     "models with num_experts > 0.", "setting_refused", "a newer vLLM", {}),
    ("RuntimeError: moe_wna16_marlin_gemm, /workspace/csrc/libtorch_stable/moe/marlin_moe_wna16"
     "/ops.cu:768, size_k = 256, is not divisible by b_scales.size(1) = 15", "setting_refused",
     "smaller --tensor-parallel-size", {}),
    ("RuntimeError: NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
     "ranks_not_connected", "NCCL_DEBUG=INFO", {}),
    ("RuntimeError: vLLM failed to compile the model. The most likely reason for this is that "
     "a previous compilation failed, leading to a corrupted compilation artifact.",
     "build_failed", "~/.cache/vllm/torch_compile_cache", {}),
    ("AssertionError: failed to get the hash of the compiled graph", "build_failed",
     "~/.cache/vllm/torch_compile_cache", {}),
    ("ImportError: Numba needs NumPy 2.2 or less. Got NumPy 2.3.", "packages_mismatch",
     "NumPy 2.2 or less", {}),
    ("AttributeError: `newbyteorder` was removed from the ndarray class in NumPy 2.0. Use "
     "`arr.view(arr.dtype.newbyteorder(order))` instead.", "packages_mismatch", "numpy<2", {}),
    ("ImportError: cannot import name 'AConfig' from 'transformers' (/x/__init__.py)",
     "packages_mismatch", "the version of transformers", {}),
    ("TypeError: Invalid type of HuggingFace config. Expected type: <class 'a.BConfig'>, but "
     "found type: <class 'c.BConfig'>", "packages_mismatch", "the version of transformers", {}),
    ("AttributeError: 'Qwen2MoeConfig' object has no attribute 'mlp_only_layers'",
     "packages_mismatch", "the version of transformers", {}),
    ("RuntimeError: Failed to import transformers.models.clip.modeling_clip because of the "
     "following error (look up to see its traceback):", "packages_mismatch",
     "the line below", {}),
    ("ImportError: bitsandbytes version is wrong. Please install bitsandbytes>=0.46.1.",
     "missing_tool", "bitsandbytes>=0.46.1", {}),
    ("ValueError: rope_scaling should have a 'rope_type' key", "packages_mismatch",
     "the version of transformers", {}),
    ("ValueError: speculative_draft_tensor_parallel_size=4 cannot be other value than 1 or "
     "target model tensor_parallel_size", "setting_refused",
     "draft_tensor_parallel_size 1 in --speculative-config",
     {"draft_tensor_parallel_size": 1}),
    ("ValueError: Offline data parallel mode is not supported/useful for dense models.",
     "setting_refused", "a program for each rank", {}),
    ("AssertionError: In Mamba cache align mode, block_size (2096) must be <= "
     "max_num_batched_tokens (2048).", "setting_refused", "--max-num-batched-tokens 2096",
     {"max_num_batched_tokens": 2096}),
    ("AssertionError: 3-read Mamba conv transfer requires DS conv state layout. Set "
     "VLLM_SSM_CONV_STATE_LAYOUT=DS", "setting_refused", "VLLM_SSM_CONV_STATE_LAYOUT=DS",
     {"VLLM_SSM_CONV_STATE_LAYOUT": "DS"}),
    ("RuntimeError: Assertion error (/workspace/.deps/deepgemm-src/csrc/apis/layout.hpp:60): "
     "Unknown SF transformation", "device_unsupported", "VLLM_USE_DEEP_GEMM=0",
     {"VLLM_USE_DEEP_GEMM": "0"}),
    ("RuntimeError: DeepGEMM backend is not available", "missing_tool", "DeepGEMM in the image",
     {}),
    ("AssertionError: local_world_size (8) must be less than or equal to the number of visible "
     "devices (2).", "setting_refused", "--tensor-parallel-size 2", {"tensor_parallel_size": 2}),
    ("AssertionError: local_world_size (8) must be less than or equal to the number of visible "
     "devices (0).", "setting_refused", "8 devices for the container", {}),
    ("RuntimeError: oneCCL: ze_fd_manager.cpp:214 fill_device_fds: EXCEPTION: open failed: fd: "
     "-1, errno: No such file or directory", "ranks_not_connected", "/dev/dri/by-path", {}),
    ("ValueError: Either a revision or a version must be specified.", "packages_mismatch",
     "kernels", {}),
    ("ValueError: `limit_mm_per_prompt` is only supported for multimodal models.",
     "model_unsupported", "that knows the model", {}),
    ("ValueError: Loading lora [\"a failed: No adapter found for /out/checkpoint-57\"]",
     "model_access", "/out/checkpoint-57 as the hub", {}),
    ("AssertionError: Microbatching currently only supports the deepep_low_latency and "
     "deepep_high_throughput all2all backend. naive is not supported. To fix use "
     "--all2all-backend=deepep_low_latency.", "setting_refused",
     "--all2all-backend deepep_low_latency", {"all2all_backend": "deepep_low_latency"}),
    ("ValueError: NvFp4 MoE backend 'SOME_KERNELS' does not support the deployment "
     "configuration since kernel does not support ('standard',) activation format.",
     "setting_refused", "--moe-backend auto", {}),
    ("AssertionError: Scaling method \"ScaleMethodString.X\" is not supported for runtime scale "
     "patching (graph recompile reduction)", "setting_refused", "RUNTIME_SCALE_PATCHING=0",
     {"RUNTIME_SCALE_PATCHING": "0"}),
    ("ValueError: Attempted to assign 2048 x 3 = 6144 image tokens to 2048 placeholders",
     "setting_refused", "more than 6144", {}),
    ("ValueError: The quantization method x is deprecated and will be removed in future versions "
     "of vLLM. To bypass, set `--allow-deprecated-quantization`.", "setting_refused",
     "--allow-deprecated-quantization", {}),
    ("ValueError: You can use float16 instead by explicitly setting the `dtype` flag in CLI, for "
     "example: --dtype=half.", "setting_refused", "--dtype half,", {"dtype": "half"}),
    ("ValueError: attention_backend and attention_config.backend are mutually exclusive",
     "setting_refused", "one of attention_backend and attention_config.backend left out", {}),
    ("ValueError: Cannot set both `pooling_type` and `seq_pooling_type`", "setting_refused",
     "one of pooling_type and seq_pooling_type", {}),
    ("ValueError: Invalid compilation mode: 9. Valid modes are: 0, 1, 2, 3", "setting_refused",
     "that the message lists", {}),
    ("ValueError: speculative_max_model_len=64 cannot be larger than draft_max_model_len=32",
     "setting_refused", "max_model_len in --speculative-config", {}),
    ("AssertionError: node_rank=4 must be less than nnodes=2.", "setting_refused", "--node-rank",
     {}),
    ("ImportError: libSynapse.so.1.99: cannot open shared object file: No such file or "
     "directory", "missing_tool", "vLLM for Gaudi", {}),
    ("RuntimeError: Failed to load the tokenizer. Consider setting `trust_remote_code=True`.",
     "model_unsupported", "newer transformers", {}),
    ("Exception: data did not match any variant of untagged enum PreTokenizerWrapper at line 7 "
     "column 3", "model_unsupported", "newer transformers", {}),
    ("ValueError: vLLM only supports modules_to_save being None.", "model_unsupported",
     "without modules_to_save", {}),
    ("ValueError: Found unknown quantization='nvfp9' in config", "model_unsupported",
     "--config-format mistral", {}),
    ("NotImplementedError: No compressed-tensors compatible scheme was found.",
     "model_unsupported", "compressed-tensors", {}),
    ("AttributeError: 'SomeTokenizer' object has no attribute 'vocab'", "packages_mismatch",
     "transformers_version", {}),
    ("AttributeError: 'MistralSomeImageProcessor' object has no attribute 'fetch'",
     "packages_mismatch", "transformers_version", {}),
    ("NotImplementedError: Encoder self-attention and encoder/decoder cross-attention are not "
     "implemented for TritonMLAImpl", "device_unsupported", "--attention-backend", {}),
    ("RuntimeError: CUDASymmetricMemoryAllocator::rendezvous: detected allocations from "
     "overlapping devices", "ranks_not_connected", "VLLM_ALLREDUCE_USE_SYMM_MEM=0",
     {"VLLM_ALLREDUCE_USE_SYMM_MEM": "0"}),
    ("RuntimeError: Failed: CUDA error /w/DeepEP/csrc/deep_ep.cpp:226 'invalid resource handle'",
     "ranks_not_connected", "allgather_reducescatter", {}),
    ("RuntimeError: oneCCL: exec.cpp:122 start_workers: EXCEPTION: failed to start worker # 0",
     "ranks_not_connected", "CCL_WORKER_AFFINITY", {}),
    ("ImportError: /x/vllm/_C.abi3.so: undefined symbol: _ZN3c104SomeEv", "packages_mismatch",
     "torch of the version", {}),
    ("NotImplementedError: Pipeline parallelism is not supported for this model. Supported models "
     "implement the `SupportsPP` interface.", "setting_refused", "no --pipeline-parallel-size",
     {}),
    ("AssertionError: assert intermediate_tensors is not None", "setting_refused",
     "no --pipeline-parallel-size", {}),
    ("ValueError: Hybrid KV cache manager is disabled but failed to convert the KV cache specs to "
     "one unified type.", "setting_refused", "--no-disable-hybrid-kv-cache-manager", {}),
    ("ValueError: Block size must be a multiple of 16.", "setting_refused", "--block-size 16",
     {"block_size": 16}),
    ("ValueError: Invalid value '' for VLLM_SOME_BACKEND. Valid options: ['a', 'b'].",
     "setting_refused", "VLLM_SOME_BACKEND unset", {}),
    ("ValueError: Model Runner V2 supports pooling tasks ['a'], but this model selects 'b'.",
     "setting_refused", "VLLM_USE_V2_MODEL_RUNNER=0", {"VLLM_USE_V2_MODEL_RUNNER": "0"}),
    ("vllm: error: unrecognized arguments: --task embedding", "setting_refused",
     "--runner pooling", {}),
    ("vllm: error: unrecognized arguments: --some-option 1", "setting_refused", "--help=all", {}),
    ("RuntimeError: Unable to pin host memory with error code: -1", "host_limit",
     "memlock=-1", {}),
    ("huggingface_hub.errors.HFValidationError: Repo id must use alphanumeric chars, '-', '_' or "
     "'.': 'a/b-GGUF:Q4_K_M'.", "model_access", "a/b-GGUF:Q4_K_M", {}),
    ("ValueError: No tokenizer file found in directory: /data/m", "model_access",
     "--tokenizer-mode hf", {}),
    ("ValueError: Tokenizer class SomeTokenizer does not exist or is not currently imported.",
     "model_unsupported", "newer transformers", {}),
    ("TypeError: SomePreTrainedModel._check() got an unexpected keyword argument 'x'",
     "packages_mismatch", "transformers_version", {}),
    ("ImportError: /x/vllm/_C.abi3.so: undefined symbol: _Z9some_quantRN2at6TensorE",
     "packages_mismatch", "built anew", {}),
    ("nixl._bindings.nixlBackendError: NIXL_ERR_BACKEND", "ranks_not_connected", "UCX", {}),
    ("vllm.third_party.pynvml.NVMLError_NotSupported: Not Supported", "device_unreachable",
     "VLLM_WORKER_MULTIPROC_METHOD=spawn", {"VLLM_WORKER_MULTIPROC_METHOD": "spawn"}),
    ("Engine iteration timed out. This should never happen!", "ranks_not_connected",
     "VLLM_ENGINE_ITERATION_TIMEOUT_S=3600", {"VLLM_ENGINE_ITERATION_TIMEOUT_S": "3600"}),
    ("RuntimeError: RESOURCE_EXHAUSTED: Ran out of memory in memory space smem. Used 1.25M of "
     "1.00M smem.", "device_unsupported", "--max-model-len", {}),
    ("RuntimeError: Ninja build failed. Ninja output: ptxas fatal   : Value 'sm_199a' is not "
     "defined for option 'gpu-name'", "build_failed", "a CUDA toolkit with sm_199", {}),
    ("RuntimeError: nvcc fatal   : A single input file is required for a non-link phase when an "
     "outputfile is specified", "build_failed", "newer CUDA toolkit", {}),
    ("jaxlib._jax.XlaRuntimeError: RESOURCE_EXHAUSTED: Ran out of memory in memory space vmem. "
     "Used 32.42M of 16.00M vmem.", "device_unsupported", "newer tpu-inference", {}),
    (NCCL + "unhandled cuda error, NCCL version 2.29.3; Failed to bind NVLink SHARP (NVLS) "
     "Multicast memory of size 4194304 : CUDA error 2 'out of memory'.",
     "ranks_not_connected", "NCCL_NVLS_ENABLE=0", {"NCCL_NVLS_ENABLE": "0"}),
    ("RuntimeError: HIP error: invalid device ordinal", "device_unreachable",
     "--tensor-parallel-size", {}),
    ("RuntimeError: size_n must divisible by BLOCK_SIZE_N", "setting_refused",
     "smaller --tensor-parallel-size", {}),
    ("ValueError: Unsupported connector type: LMCacheConnector", "setting_refused",
     "LMCacheConnectorV1", {}),
    ("ValueError: Unsupported connector type: OwnConnector", "setting_refused",
     "kv_connector_module_path with the module of OwnConnector", {}),
    ("AssertionError: assert issubclass(connector_cls, KVConnectorBase)", "setting_refused",
     "V1 engine", {}),
    ("AssertionError: assert issubclass(connector_cls, KVConnectorBase_V1)", "setting_refused",
     "LMCacheConnectorV1 for LMCacheConnector", {}),
    ("AssertionError: Expected at least 9216 dummy tokens for profiling, but found 8192 tokens "
     "instead.", "setting_refused", "at most 8192", {}),
    ("ValueError: There is no module or parameter named 'lm_head.weight_scale_2' in "
     "SomeForCausalLM", "model_unsupported", "hold lm_head quantised", {}),
    ("KeyError: 'layers.7.mlp.up_proj.weight.absmax'", "model_unsupported",
     "--load-format bitsandbytes",
     {"quantization": "bitsandbytes", "load_format": "bitsandbytes"}),
    ('AssertionError: assert "factor" in rope_scaling', "packages_mismatch",
     "version of transformers", {}),
    ("RuntimeError: Failed: Cuda error /w/csrc/custom_all_reduce.cuh:401 'invalid argument'",
     "ranks_not_connected", "--disable-custom-all-reduce", {"disable_custom_all_reduce": True}),
    ("RuntimeError: Version mismatch: The cluster was started with:", "ranks_not_connected",
     "same Ray and Python", {}),
    ("RuntimeError: Failed: Assertion error /w/DeepEP/csrc/deep_ep.cpp:99 'nvshmem_rank == "
     "internode::init(root, rank)'", "ranks_not_connected", "/dev/infiniband", {}),
    ("amdsmi.amdsmi_exception.AmdSmiLibraryException: Error code:", "device_unreachable",
     "/dev/dri/renderD", {}),
    ("AttributeError: '_OpNamespace' '_C' object has no attribute "
     "'get_cuda_view_from_cpu_tensor'", "device_unsupported", "no --cpu-offload-gb", {}),
    ("FileNotFoundError: [Errno 2] No such file or directory: '/v/site-packages/aiter/jit/build/"
     "lock_module_gemm'", "missing_tool", "mkdir -p /v/site-packages/aiter/jit/build`", {}),
    ("ImportError: /home/a/.aiter/jit/module_norm.so: undefined symbol: _ZN7ck_tile3foo",
     "packages_mismatch", "another release of aiter", {}),
    ("ImportError: /v/site-packages/aiter/jit/module_norm.so: undefined symbol: _ZN7ck_tile3foo",
     "packages_mismatch", "another release of aiter", {}),
    ("UnboundLocalError: cannot access local variable 'Method'", "program_error",
     "released together", {}),
    ("ImportError: /x/nvidia/cusolver/lib/libcusolver.so.12: undefined symbol: "
     "__nvJitLinkCreate_12_9, version libnvJitLink.so.12", "packages_mismatch",
     "LD_LIBRARY_PATH unset", {}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("message", "kind", "is_there"),
    [
        ("ImportError: /x/aiter/jit/module_a.so: undefined symbol: _ZN7ck_tile5abcdeE", "rocm", True),
        ("ImportError: /x/aiter/jit/module_a.so: undefined symbol: _ZN7ck_tile5abcdeE", "cuda", False),
        ("RuntimeError: aiter: One of GPU archs of ['gfx1151'] is invalid or not supported", "rocm", True),
    ],
)  # fmt: skip
def test_a_library_that_does_not_load_or_run_may_be_left_out(message, kind, is_there):
    finding = _raised(message, "", started(device_kind=kind))
    shown = [finding.suggestion, *(way.suggestion for way in finding.ways)]
    assert ("VLLM_ROCM_USE_AITER=0" in shown) is is_there


@pytest.mark.parametrize(("message", "rule", "change", "changes"), TEXTS)
def test_a_text_has_its_rule_and_its_change(message, rule, change, changes):
    (finding,) = advise(facts_of(ended(kind_of_message(message), message)))
    assert finding.rule == rule
    assert change in finding.suggestion
    assert finding.changes == changes
    assert finding.severity == "high"


def test_what_is_set_already_is_no_way():
    text = "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised"
    config = ConfigRecorded(settings={"enforce_eager": True})
    (finding,) = advise(facts_of([config, *ended("error", text)]))
    assert finding.suggestion.startswith("an empty cache")
    assert "enforce" not in str([way.suggestion for way in finding.ways])


def _with(settings, message):
    (finding,) = advise(
        facts_of([ConfigRecorded(settings=settings), *ended("error", message)])
    )
    return [finding.suggestion, *(way.suggestion for way in finding.ways)]


def test_what_the_run_has_for_a_setting_stands_beside_a_way():
    text = (
        "ValueError: The input_size_per_partition = 96 is not divisible by group_size"
    )
    first = _with({"tensor_parallel_size": 4}, text)[0]
    assert first.endswith("; the run has tensor_parallel_size=4")


def test_what_the_run_does_without_is_not_left_out_again():
    text = "ValueError: Target and draft model should have the same vocabulary size"
    assert "no --speculative-config" in _with({}, text)
    assert "no --speculative-config" not in _with({"speculative_config": "None"}, text)


def test_a_way_for_a_setting_comes_first_where_the_run_has_it():
    text = "RuntimeError: HIP error: invalid device ordinal"
    ways = {}
    for name in ("ray", "mp"):
        config = ConfigRecorded(settings={"distributed_executor_backend": name})
        finding = _raised(text, "", started(device_kind="rocm"), config)
        shown = [finding.suggestion, *(way.suggestion for way in finding.ways)]
        ways[name] = ["RAY_EXPERIMENTAL" in way for way in shown]
    assert ways["ray"][0]
    assert not any(ways["mp"])


@pytest.mark.parametrize(
    ("kind", "is_named"), [("cuda", False), ("rocm", True), (None, True)]
)
def test_a_way_for_another_kind_of_device_is_none(kind, is_named):
    finding = _raised(
        "RuntimeError: PassManager::run failed", "", started(device_kind=kind)
    )
    shown = [finding.suggestion, *(way.suggestion for way in finding.ways)]
    assert ("VLLM_USE_TRITON_FLASH_ATTN=0" in shown) == is_named


@pytest.mark.parametrize(
    ("kind", "way"),
    [
        ("cuda", "--gpus all"),
        ("rocm", "/dev/kfd"),
        ("xpu", "/dev/dri"),
        ("hpu", "habana"),
    ],
)
def test_a_container_gets_the_devices_of_its_kind(kind, way):
    found = _raised(
        "RuntimeError: Failed to infer device type", "", started(device_kind=kind)
    )
    assert way in found.suggestion
    others = [each.suggestion for each in found.ways]
    assert any("/usr/local/nvidia" in each for each in others) == (kind == "cuda")


def test_a_crash_is_of_the_library_that_its_frames_name_and_of_no_cache():
    crash = Failure(
        failure="error", artifact="/c/inductor_cache/u4/c.py",
        message="*** SIGSEGV received at time=1746566409 on cpu 131 ***",
    )  # fmt: skip
    (finding,) = advise(facts_of([crash]))
    assert "the innermost frames" in finding.suggestion
    assert "most recent call first" not in finding.suggestion
    assert not any("CACHE" in way.suggestion for way in finding.ways)


def test_an_eager_start_changes_nothing_before_there_is_a_model():
    text = "RuntimeError: CUDA error: misaligned address"
    named = {}
    for stage in ("init_worker", "profile_run"):
        finding = _raised(text, phase=stage)
        shown = [finding.suggestion, *(way.suggestion for way in finding.ways)]
        named[stage] = any("--enforce-eager" in way for way in shown)
    assert named == {"init_worker": False, "profile_run": True}


def test_a_kernel_that_only_cuda_has_is_done_without_on_another_device():
    text = "AttributeError: '_OpNamespace' '_C' object has no attribute 'gptq_marlin_repack'"
    first = {
        kind: _raised(text, "", started(device_kind=kind)).suggestion
        for kind in ("cpu", "cuda")
    }
    assert first["cpu"].startswith("another build of the model")
    assert first["cuda"].startswith("vLLM as built for this device")


def test_an_eager_start_whose_graphs_fail_to_compile_needs_another_triton():
    text = "torch._inductor.exc.InductorError: RuntimeError: PassManager::run failed"
    ways = _with({"enforce_eager": True}, text)
    assert [way.partition(" of")[0] for way in ways] == ["torch and Triton"]


def test_a_cache_in_the_type_of_mla_is_none_of_a_draft_model_without():
    text = (
        "ValueError: No valid attention backend found for cuda with Config(head_size=64, "
        "kv_cache_dtype=fp8_ds_mla, block_size=64, use_mla=False, has_sink=False). Reasons: "
        "{FLASH_ATTN: [kv_cache_dtype not supported]}."
    )
    settings = {"kv_cache_dtype": "fp8_ds_mla"}
    assert _with(settings, text)[0].startswith("--kv-cache-dtype auto")
    drafted = _with({**settings, "speculative_config": "Spec(method='dspark')"}, text)
    assert drafted[0].startswith("no --speculative-config")


def test_a_draft_model_is_named_where_the_run_has_one():
    text = (
        "ValueError: There is no module or parameter named 'embed_tokens' in SomeModel"
    )
    config = {"speculative_config": "SpeculativeConfig(method='eagle3')"}
    assert "draft model" in _with(config, text)[0]
    assert not any("draft model" in way for way in _with({}, text))


def test_every_rule_of_the_table_is_a_rule():
    assert {known.rule for known in KNOWN} == {rule.name for rule in RULES}


@pytest.mark.parametrize(
    "message",
    [
        "ValueError: Total number of attention heads (0) must be divisible by tensor "
        "parallel size (0).",
        "AssertionError: 7 is not divisible by 1",
        "ValueError: tp_size=4 must be divisible by dcp_size=0.",
        "ValueError: Tensor parallel size 2 is greater than the number of experts 0.",
        "ValueError: max_num_batched_tokens (0) must be divisible by mamba_chunk_size (0)",
        "ValueError: LoRA rank 4096 is greater than max_lora_rank 512.",
        "ValueError: World size (2) is larger than the number of available GPUs (0)",
        "ValueError: total_hbm_used_gb=1GiB exceeds total_hbm_limit_cap_gb=0GiB by 1GiB. "
        "Please consider increasing --gpu-memory-utilization from 0.9 to a larger value.",
    ],
)  # fmt: skip
def test_a_text_without_a_fitting_value_still_gets_a_way(message):
    (finding,) = advise(facts_of(ended("error", message)))
    assert finding.rule == "setting_refused"
    assert finding.suggestion


def test_a_text_of_any_length_is_searched_in_bounded_time():
    for known in KNOWN:
        assert known.statement("NCCL (" * 100_000) is None or known.rule


def test_what_no_row_names_has_none():
    for text in ("", "no", "ValueError: no", "AssertionError", "Uncaught exception"):
        assert known_error(text) is None


def _ways(message):
    (finding,) = advise(facts_of(ended(kind_of_message(message), message)))
    return " | ".join((finding.suggestion, *(way.suggestion for way in finding.ways)))


def test_attention_sinks_need_another_backend():
    for text in (
        "AssertionError: Sinks are only supported in FlashAttention 3",
        "ValueError: No valid attention backend found for cuda with has_sink: True. Reasons: "
        "{FLASH_ATTN: [sink setting not supported]}.",
    ):
        assert "TRITON_ATTN" in _ways(text)


def test_no_backend_is_left_out_where_the_engine_looked_for_one_by_itself():
    text = (
        "ValueError: No valid attention backend found for cuda with Config(a=1). Reasons: "
        "{FLASHINFER_MLA: [compute capability not supported]}."
    )
    ways = _ways(text)
    assert "of your own" not in ways
    assert "VLLM_USE_FLASHINFER" not in ways


def test_the_message_of_a_kernel_names_the_quantisation_without_its_limit():
    text = (
        "ValueError: Weight input_size_per_partition = 10944 is not divisible by min_thread_k "
        "= 128. Consider reducing tensor_parallel_size or running with --quantization gptq."
    )
    assert "--quantization gptq" in _ways(text)


def test_a_system_call_that_rdma_needs_is_named():
    assert "IPC_LOCK" in _ways("RuntimeError: NCCL error: unhandled system error")


def test_an_error_of_cuda_in_nccl_is_no_lack_of_shared_memory():
    assert "/dev/shm" not in _ways("RuntimeError: NCCL error: unhandled cuda error")


def test_what_asks_ray_for_a_node_by_its_address_may_have_another_address():
    text = (
        "ray.exceptions.RaySystemError: System error: No available node types can fulfill "
        "resource request {'node:10.0.1.12': 0.001, 'GPU': 1.0}"
    )
    assert "VLLM_HOST_IP" in _ways(text)


def test_a_device_type_that_is_not_found_may_be_that_of_another_package():
    text = _ways("RuntimeError: Failed to infer device type")
    assert "habana-torch-plugin" in text
    assert "runtimeClassName" in text


def test_a_gaudi_that_is_not_acquired_may_have_the_driver_of_another_release():
    for status in ("synStatus=8 [Device not found]", "synStatus=26 [Generic failure]"):
        text = _ways(f"RuntimeError: {status} Device acquire failed.")
        assert "the driver of the image's release" in text


@pytest.mark.parametrize(
    "message",
    [
        "AssertionError: lora_a_scale_stacked must be provided for w8a8 quantization",
        "AssertionError: sample_rate must be in (0, 1.0], got 3",
        "ValueError: do not use --some-option here",
    ],
)
def test_what_is_no_option_of_the_engine_is_not_called_one(message):
    assert known_error(message) is None


def test_a_file_without_a_name_is_the_configuration_for_fp8_on_gaudi():
    finding = _raised(
        "FileNotFoundError: [Errno 2] No such file or directory: ''", "", *PLUGIN
    )
    assert finding.suggestion.startswith("QUANT_CONFIG with the path")


def test_packages_of_a_gaudi_are_not_installed_as_those_of_cuda():
    text = _ways(
        "ImportError: cannot import name 'some' from 'vllm.utils' (/x/utils.py)"
    )
    assert "as it is installed for this device" in text


@pytest.mark.parametrize(
    ("module", "config", "change"),
    [
        (
            "vllm/lora/ops/shrink.py",
            {"enable_lora": True},
            "no --enable-lora (the run has",
        ),
        ("vllm/v1/spec_decode/eagle.py", {}, "no --speculative-config"),
        ("flashinfer/decode.py", {}, "no FlashInfer"),
        ("vllm/attention/backends/flashinfer.py", {}, "VLLM_ATTENTION_BACKEND unset"),
        (
            "transformers/models/a/b.py",
            {},
            "the transformers that the model was made with",
        ),
        ("somepackage/core.py", {}, "somepackage of the version"),
        ("vllm/model_executor/layers/linear.py", {}, ""),
    ],
)
@pytest.mark.parametrize("message", ["RuntimeError: it is 3, not 4", "KeyError: 3"])
def test_the_part_in_which_a_traceback_ends_is_left_out_or_renewed(
    message, module, config, change
):
    failure = Failure(failure="error", message=message, module=module)
    recorded = ConfigRecorded(settings=config)
    (finding,) = advise(facts_of([recorded, failure]))
    ways = [finding.suggestion, *(way.suggestion for way in finding.ways)]
    assert ways[0].startswith(change) if change else module in str(finding)


@pytest.mark.parametrize(
    "message",
    ["subprocess.CalledProcessError: Command 'x' returned non-zero exit status 1.",
     "RuntimeError: Some call failed with status=7", "TimeoutError: nothing came"],
)  # fmt: skip
def test_a_package_that_only_reports_an_error_needs_no_other_version(message):
    failure = Failure(failure="error", message=message, module="somepackage/core.py")
    (finding,) = advise(facts_of([failure]))
    ways = [finding.suggestion, *(way.suggestion for way in finding.ways)]
    assert not any(way.startswith("somepackage of the version") for way in ways)


def test_an_error_that_names_a_file_of_a_part_has_its_way():
    failure = Failure(
        failure="error", message="AssertionError: it is locked for 'turboquant_a.py:9'"
    )
    (finding,) = advise(facts_of([failure]))
    assert finding.suggestion.startswith("--kv-cache-dtype auto")


@pytest.mark.parametrize(
    ("message", "wrong"),
    [
        ("RuntimeError: The driver is not installed", "install driver"),
        ("ImportError: Some Plugin is not installed", "install Plugin"),
        ("ValueError: Some Compiled Graph is not installed.", "install Graph"),
        ("AssertionError: _quant_deep_gemm has no support for these scales.", "DeepGEMM in the image"),
        ("ValueError: Unknown parameter type: abc", "a vLLM as new as the checkpoint"),
    ],
)  # fmt: skip
def test_no_package_is_made_of_a_word(message, wrong):
    (finding,) = advise(facts_of(ended(kind_of_message(message), message)))
    assert wrong not in finding.suggestion


PLUGIN = [started("vllm-gaudi", version="0.26.0")]
CUDA = [started("vllm", device_kind="cuda")]
LINEAR = "vllm/model_executor/layers/linear.py"


def _raised(message, module="", *before, phase=None):
    failure = Failure(failure="error", message=message, module=module, phase=phase)
    (finding,) = advise(facts_of([*before, failure]))
    return finding


@pytest.mark.parametrize(
    ("message", "module"),
    [
        ("TypeError: some_call() got an unexpected keyword argument 'x'", "vllm_gaudi/a.py"),
        ("ImportError: cannot import name 'Some' from 'vllm.v1.core'", "vllm_gaudi/a.py"),
        ("AssertionError: num_heads must be 8", LINEAR),
    ],
)  # fmt: skip
def test_a_plugin_that_does_not_fit_is_named_with_the_version_of_vllm(message, module):
    finding = _raised(message, module, *PLUGIN)
    assert "the vllm-gaudi that was made for vLLM 0.26.0" in finding.suggestion


@pytest.mark.parametrize(
    ("message", "change"),
    [
        ("SomeModel currently does not support prefix caching", "--no-enable-prefix-caching"),
        ("pipeline parallel is not supported", "--pipeline-parallel-size 1"),
        ("Expert Parallelism is currently not supported for SomeMethod.", "no --enable-expert-parallel"),
        ("Make sure all cudagraph capture sizes <= max_num_seq.", "the remedy that the error states"),
    ],
)  # fmt: skip
def test_code_of_models_that_refuses_a_feature_is_about_its_setting(message, change):
    finding = _raised(f"AssertionError: {message}", LINEAR, phase="load_model")
    assert finding.suggestion.startswith(change)


@pytest.mark.parametrize(
    "message",
    ["Some AITER kernel only supports maps with 0 and 1s.",
     "AITER data is not there. Please ensure that init_some is called before this function."],
)  # fmt: skip
def test_code_of_models_about_its_own_calls_is_about_no_setting(message):
    finding = _raised(f"AssertionError: {message}", LINEAR, phase="load_model")
    assert finding.rule == "failure_unexplained"


def test_an_assertion_of_the_code_of_models_is_about_no_setting():
    text = "AssertionError: max_num_seqs must be 8"
    assert _raised(text, phase="configure").rule == "setting_refused"
    assert _raised(text, LINEAR, phase="configure").rule == "failure_unexplained"


def test_a_library_that_a_line_names_may_be_left_out():
    finding = _raised("RuntimeError: [AITER] no such thing")
    assert finding.suggestion == "VLLM_ROCM_USE_AITER=0"


def test_a_warm_up_that_fails_for_an_unknown_cause_is_left_out_first():
    finding = _raised("RuntimeError: synStatus=26", "", *PLUGIN, phase="model_warmup")
    assert finding.suggestion.startswith("VLLM_SKIP_WARMUP=true")


def test_eager_mode_is_no_cure_for_what_kernels_compile():
    finding = _raised("torch._dynamo.exc.Some: recompile_limit reached")
    assert "enforce" not in finding.suggestion
    assert not finding.changes
    (way,) = [way for way in finding.ways if "enforce" in way.suggestion]
    assert way.price.startswith("does not help")


@pytest.mark.parametrize(
    ("message", "effect"),
    [
        ("RuntimeError: NCCL error: some", "shows which call failed, and with what"),
        ("undefined symbol: some", "the start gets past this error, if that is its cause"),
        ("AssertionError: 151936 is not divisible by 7", "the start gets past this error"),
    ],
)  # fmt: skip
def test_no_general_way_is_promised_to_be_enough(message, effect):
    assert _raised(message).effect == effect


@pytest.mark.parametrize(("is_set", "count"), [(True, 0), (False, 1)])
def test_no_finding_about_a_failure_offers_what_the_run_has(is_set, count):
    """One filter for all of them, also where no text is known."""
    recorded = ConfigRecorded(settings={"enforce_eager": is_set})
    before = [started("vllm", device_kind="cuda"), recorded]
    finding = _raised("RuntimeError: unknown", "", *before, phase="graph_capture")
    ways = [finding.suggestion, *(way.suggestion for way in finding.ways)]
    assert sum("--enforce-eager" in way for way in ways) == count


@pytest.mark.parametrize(
    ("reason", "named"),
    [("head_size not supported", False), ("block_size not supported", True)],
)
def test_a_backend_that_was_selected_needs_what_its_reasons_name(reason, named):
    finding = _raised(
        f"ValueError: Selected backend SOME is not valid for this configuration. Reason: ['{reason}']"
    )
    shown = " ".join(way.suggestion for way in finding.ways)
    assert finding.suggestion.startswith("no --attention-backend")
    assert ("no --block-size" in shown) is named
    assert "--kv-cache-dtype" not in shown


@pytest.mark.parametrize(
    "module",
    [
        "vllm/model_executor/layers/quantization/some.py",
        "vllm_gaudi/ops/hpu_compressed_tensors.py",
    ],
)
def test_an_error_of_a_quantisation_has_another_build_of_the_model(module):
    text = "ValueError: Some weights have no scales."
    assert _raised(text, module, phase="load_model").suggestion.startswith(
        "another build"
    )
    assert not _raised(text, phase="load_model").suggestion.startswith("another build")


def test_a_check_of_a_models_settings_is_about_settings():
    text = "AssertionError: Chunked prefill is required for Mamba prefix caching."
    finding = _raised(text, "vllm/model_executor/models/config.py", phase="configure")
    assert finding.suggestion.startswith("--enable-chunked-prefill")


def test_an_ascend_device_that_refuses_a_call_may_lack_memory():
    failure = "RuntimeError: NPU function error: aclnnSome(), error code is 207001"
    assert "memory" not in _raised(failure, phase="profile_run").title


@pytest.mark.parametrize(
    ("phase", "is_named"), [("graph_capture", True), (None, False)]
)
def test_an_eager_start_is_for_what_failed_while_graphs_were_made(phase, is_named):
    """Once they are made, the warm-up of kernels and samplers runs with or without them."""
    captured = [
        ConfigRecorded(settings={}),
        PhaseMarked(name="graph_capture", edge="start"),
        PhaseMarked(name="graph_capture", edge="end"),
    ]
    finding = _raised(
        "RuntimeError: value tensor [5]", "", *CUDA, *captured, phase=phase
    )
    ways = [finding.suggestion, *(way.suggestion for way in finding.ways)]
    assert any("--enforce-eager" in way for way in ways) is is_named


@pytest.mark.parametrize(("device", "is_named"), [("cpu", True), ("cuda", False)])
def test_a_device_that_was_given_is_not_another_than_was_found(device, is_named):
    text = "TypeError: Worker.__init__() got an unexpected keyword argument 'a'"
    recorded = ConfigRecorded(settings={"device": device})
    finding = _raised(text, "vllm/worker/worker_base.py", *CUDA, recorded)
    assert finding.suggestion.startswith("no --device cpu") is is_named


ILLEGAL = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"


@pytest.mark.parametrize(
    ("settings", "phase", "is_first"),
    [
        ({"compilation_config": "{'pass_config': {'fuse_allreduce_rms': True}}"}, "profile_run", True),
        ({"compilation_config": '{"pass_config":{"fuse_allreduce_rms":true}}'}, "graph_capture", True),
        ({"compilation_config.pass_config.fuse_allreduce_rms": True}, "compile", True),
        ({"compilation_config": "{'pass_config': {'fuse_allreduce_rms': True}}"}, "load_model", False),
        ({"compilation_config": "{'pass_config': {'fuse_allreduce_rms': False}}"}, "compile", False),
        ({"compilation_config.pass_config.fuse_allreduce_rms": True, "tensor_parallel_size": 1},
         "compile", False),
        ({}, "compile", False),
    ],
)  # fmt: skip
def test_an_all_reduce_that_is_fused_is_left_out_as_a_guess(settings, phase, is_first):
    recorded = ConfigRecorded(settings={"tensor_parallel_size": 2, **settings})
    finding = _raised(ILLEGAL, "", *CUDA, recorded, phase=phase)
    assert ('"fuse_allreduce_rms": false' in finding.suggestion) is is_first
    assert ("a guess" in finding.suggestion) is is_first
    rest = " ".join(way.suggestion for way in finding.ways)
    assert "fuse_allreduce" not in rest
    assert not finding.changes


@pytest.mark.parametrize("name", ["moe_backend", "linear_backend"])
@pytest.mark.parametrize(("value", "is_first"), [("some", True), ("auto", False)])
def test_kernels_that_were_chosen_are_left_out_first(name, value, is_first):
    recorded = ConfigRecorded(settings={name: value})
    finding = _raised(ILLEGAL, "", *CUDA, recorded, phase="compile")
    option = f"no --{name.replace('_', '-')}"
    assert finding.suggestion.startswith(option) is is_first


def test_kernels_of_aiter_that_were_chosen_are_left_out_first():
    text = "Memory access fault by GPU node-9 on address 0x1. Reason: Unknown."
    for value, is_first in (("1", True), ("0", False)):
        recorded = ConfigRecorded(settings={"VLLM_ROCM_USE_AITER": value})
        finding = _raised(text, "", started(device_kind="rocm"), recorded)
        assert finding.suggestion.startswith("VLLM_ROCM_USE_AITER_MOE=0") is is_first


@pytest.mark.parametrize(
    "name",
    [
        "chatcmpl-0123456789abcdef-01234567", "0_01234567-89ab-cdef-0123-456789abcdef",
        "cmpl-0123456789abcdef0123456789abcdef",
    ],
)  # fmt: skip
def test_a_request_that_is_unknown_is_no_matter_of_transformers(name):
    finding = _raised(f"KeyError: '{name}'", "", *CUDA)
    assert finding.rule == "program_error"
    assert finding.suggestion.startswith("another release of vLLM")
    shown = " ".join(way.suggestion for way in finding.ways)
    assert "transformers" not in shown
    other = _raised("KeyError: 'some_name'", "", *CUDA)
    assert "transformers" in " ".join(way.suggestion for way in other.ways)


def test_an_error_of_a_program_in_a_quantisation_has_another_build_of_the_model():
    module = "vllm/model_executor/layers/quantization/some.py"
    finding = _raised("KeyError: 'Linear'", module, *CUDA, phase="load_model")
    shown = [way.suggestion for way in finding.ways]
    assert any(way.startswith("another build of the model") for way in shown)


def test_one_device_is_not_made_fewer():
    text = "RuntimeError: CUDA error: invalid device ordinal"
    for ranks, word in ((1, "CUDA_VISIBLE_DEVICES"), (2, "--tensor-parallel-size")):
        recorded = ConfigRecorded(settings={"tensor_parallel_size": ranks})
        assert _raised(text, "", *CUDA, recorded).suggestion.startswith(word)


def test_kernels_of_8_bits_are_left_out_first_where_the_model_has_none():
    text = "RuntimeError: DeepGEMM backend is not available."
    for kind, first in (
        (None, "VLLM_USE_DEEP_GEMM=0"),
        ("fp8", "DeepGEMM in the image"),
    ):
        recorded = ConfigRecorded(settings={"quantization": kind})
        finding = _raised(text, "", *CUDA, recorded)
        ways = [finding.suggestion, *(way.suggestion for way in finding.ways)]
        assert ways[0] == first
        assert len(set(ways)) == len(ways)


def test_a_figure_that_a_model_lacks_is_a_matter_of_transformers():
    text = "TypeError: unsupported operand type(s) for *: 'int' and 'NoneType'"
    models = _raised(text, "vllm/model_executor/models/some.py", *CUDA)
    assert models.suggestion.startswith("the transformers that this vLLM was made with")
    other = _raised(text, "vllm/v1/engine/some.py", *CUDA)
    assert "transformers" not in other.suggestion


@pytest.mark.parametrize(
    ("phase", "is_named"), [("load_model", False), ("profile_run", True)]
)
def test_a_graph_that_fails_while_weights_load_is_none_of_a_bucket(phase, is_named):
    finding = _raised("RuntimeError: Graph compile failed.", "", *PLUGIN, phase=phase)
    named = [way.suggestion for way in finding.ways]
    assert any(way.startswith("smaller largest buckets") for way in named) == is_named


@pytest.mark.parametrize(
    ("version", "shown"),
    [
        (None, "--attention-backend TRITON_ATTN (VLLM_ATTENTION_BACKEND in older versions"),
        ("0.33.0", "--attention-backend TRITON_ATTN"),
        ("0.12.0", "VLLM_ATTENTION_BACKEND=TRITON_ATTN"),
        ("0.10.2", "VLLM_ATTENTION_BACKEND=TRITON_ATTN_VLLM_V1"),
    ],
)  # fmt: skip
def test_a_way_has_the_names_of_the_version(version, shown):
    text = "RuntimeError: BatchPrefillWithPagedKVCache failed with error some"
    first = _raised(text, "", started("vllm", version=version)).suggestion
    assert first.startswith(shown) if version is None else first == shown


def test_what_a_way_sets_has_the_name_of_the_version():
    text = "RuntimeError: mla_some requires gfx950, but got gfx942"
    ways = _raised(text, "", started("vllm", version="0.12.0", device_kind="rocm")).ways
    changed = [way.changes for way in ways if way.changes]
    assert {"VLLM_ATTENTION_BACKEND": "TRITON_MLA"} in changed


def test_an_option_has_the_name_of_the_version_with_its_number():
    text = (
        "ValueError: Capture size larger than 512 is not supported for full cuda graph."
    )
    for version, name in (
        ("0.10.2", "--cuda-graph-sizes"),
        ("0.33.0", "--max-cudagraph-capture-size"),
    ):
        first = _raised(text, "", started("vllm", version=version)).suggestion
        assert first.endswith(f"above 512: {name} 512")


def test_kernels_that_no_version_of_then_has_by_name_are_left_out_another_way():
    text = "RuntimeError: Failed to initialize cutlass TMA WS grouped gemm"
    finding = _raised(text, "", started("vllm", version="0.12.0"))
    assert finding.suggestion.endswith("VLLM_USE_FLASHINFER_MOE_...=0")


def test_a_program_that_does_not_fit_when_it_is_loaded_is_none_of_the_weights():
    text = (
        "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Error loading program 'jit_some': Attempting "
        "to reserve 6.14G at the bottom of memory. That was not possible. There are 5.93G free"
    )
    failed = Failure(failure="out_of_memory", message=text, phase="load_model")
    (finding,) = advise(facts_of([started(device_kind="tpu"), failed]))
    assert finding.rule == "out_of_memory"


def test_an_assertion_of_a_models_own_folder_is_about_no_setting():
    text = "AssertionError: Some limit in fused blocks only support 7.0 now."
    assert _raised(text, "vllm/models/some/model.py").rule == "failure_unexplained"


def test_kernels_of_flashinfer_are_left_out_once():
    text = (
        "RuntimeError: Error in function 'TrtllmGenBatchedGemmRunner' at /w/some.cu:143: No kernel "
        "found for the given options: some"
    )
    finding = _raised(text, "flashinfer/fused_moe/core.py", started("vllm"))
    assert "SAMPLER" not in str([way.suggestion for way in finding.ways])


def test_the_second_assembler_of_triton_needs_no_first_release_of_itself():
    text = (
        "ptxas-blackwell fatal   : Value 'sm_121a' is not defined for option 'gpu-name'"
    )
    finding = _raised(text)
    shown = [finding.suggestion, *(way.suggestion for way in finding.ways)]
    assert "Triton 3." not in str(shown)


def test_a_quantisation_of_float16_alone_has_other_kernels_or_another_build():
    finding = _raised(
        "ValueError: torch.bfloat16 is not supported for quantization method awq. Supported "
        "dtypes: [torch.float16]"
    )
    assert finding.suggestion == "--dtype half"
    assert "awq_marlin" in finding.ways[0].suggestion


@pytest.mark.parametrize(
    "text", ["Graph compile failed.", "synNodeCreateWithId failed for node: a"]
)
def test_a_graph_that_does_not_compile_may_do_so_with_another_release(text):
    finding = _raised(f"RuntimeError: {text}", "", *PLUGIN)
    assert any("that last ran this model" in way.suggestion for way in finding.ways)
