"""Errors of devices and of their drivers: texts and what removes them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from warmup_insights.analysis.advice.change import Way
from warmup_insights.analysis.advice.known_texts import (
    DEEP_GEMM_ALONE,
    EAGER,
    NO_DEEP_GEMM,
    OTHER_BUILD,
    OTHER_WEIGHTS,
    SMALLER_BUCKETS,
    WHEELS,
    KnownError,
    rows,
)

_DTYPE_HALF = Way.that_sets(
    "a narrower range than bfloat16: check the quality", dtype="half"
)
_INTEL_DRIVER = Way(
    "dmesg on the host (xe, i915): a reset of the device is named there; without one a newer "
    "driver (intel-compute-runtime) in the image",
    "another image",
)
_NEWER_DRIVER = Way(
    "a newer driver on the host: CUDA 13 needs 580, CUDA 12 needs 525 (`nvidia-smi`)",
    "a restart of the host, or of what uses its devices",
)
_OLDER_IMAGE = Way("an image made for an older CUDA", "an older vLLM")
_CUDA_COMPAT = Way(
    "VLLM_ENABLE_CUDA_COMPATIBILITY=1 with an image of vLLM that has it, or the libraries of "
    "cuda-compat before the driver's in LD_LIBRARY_PATH",
    "devices for data centres only",
)
_DEEP_GEMM = (
    r"(?:Assertion|CUDA driver|CUDA runtime|NVRTC|cuBLASLt) error \(\S{0,200}?"
    r"(?:deepgemm|/jit(?:_kernels)?/|csrc/apis/)\S{0,200}?"
)
"""How DeepGEMM states an error (`csrc/utils/exception.hpp`), and the paths of its code."""
_DRIVER_LIBRARIES = Way(
    "LD_LIBRARY_PATH=/usr/local/nvidia/lib64 in Kubernetes, where the node puts the libraries of "
    "its driver there (GKE) and the image names other directories",
    devices=("cuda",),
)
_ON_CHIP = Way(
    "--gpu-memory-utilization, higher or lower",
    "does not help: it is on-chip memory",
    kind="no help",
)
_CACHE_OF_16_BITS = Way.that_sets(
    "a cache of 16 bits holds half as many tokens as one of 8 bits",
    kv_cache_dtype="auto",
)
_ASCEND_RELEASE = Way(
    "the Ascend toolkit, torch_npu and vllm-ascend of one release", "another image"
)
_FEWER_ASCEND_GRAPHS = Way(
    "fewer cudagraph_capture_sizes in --compilation-config, or cudagraph_mode FULL_DECODE_ONLY "
    "there: each piece of a graph takes streams of its own",
    "batches between the sizes are padded, and prompts run without graphs",
)
_GAUDI_RELEASE = Way(
    "on Gaudi the driver of the image's release (`hl-smi` on the host, the tag of the image)",
    "another image or driver",
)
_CPU_BUILD = Way(
    "without an accelerator a vLLM that was built for the CPU: `pip list` shows it as vllm with "
    "+cpu in its version",
    "much slower",
)
_GIVE_GAUDI = Way(
    "give the container the devices: --runtime habana and HABANA_VISIBLE_DEVICES, in Kubernetes "
    "a limit of habana.ai/gaudi, and runtimeClassName where that runtime is not the default"
)
_IF_GAUDI = replace(_GIVE_GAUDI, devices=("hpu",))
_GIVE_GPUS = Way(
    "give the container the devices: --gpus all or --runtime nvidia, in Kubernetes a limit of "
    "nvidia.com/gpu, and runtimeClassName where that runtime is not the default; check "
    "CUDA_VISIBLE_DEVICES",
    devices=("cuda",),
)
_GIVE_AMD = Way(
    "give the container the devices: --device /dev/kfd --device /dev/dri --group-add video (and "
    "render), in Kubernetes a limit of amd.com/gpu; check HIP_VISIBLE_DEVICES and "
    "ROCR_VISIBLE_DEVICES (`rocm-smi` in the container)"
)
_GIVE_INTEL = Way(
    "give the container the devices: --device /dev/dri and -v /dev/dri/by-path:/dev/dri/by-path; "
    "check ZE_AFFINITY_MASK (`xpu-smi discovery` in the container)",
    devices=("xpu",),
)
_GIVE_DEVICES = (
    _GIVE_GPUS, _IF_GAUDI, replace(_GIVE_AMD, devices=("rocm",)), _GIVE_INTEL,
)  # fmt: skip
_RAY_TASK = Way(
    "num_gpus for the task or actor that starts the engine, where Ray started it: Ray hides the "
    "devices from one that requests none",
    where={"distributed_executor_backend": "ray"},
)


_OTHER_LINEAR = Way(
    "--linear-backend marlin or cutlass (VLLM_NVFP4_GEMM_BACKEND in older versions): other kernels "
    "for linear layers than those of FlashInfer",
    "slower kernels",
)
_NO_FUSED_ALL_REDUCE = Way(
    '--compilation-config \'{"pass_config": {"fuse_allreduce_rms": false}}\' for one start: a guess, '
    "for a start in which each rank of tensor parallelism ends so",
    "slower decoding; the all-reduce of FlashInfer is not fused with the norm",
    where={"fuse_allreduce_rms": True, "tensor_parallel_size": True},
)
_OTHER_EXPERTS = Way(
    "no --moe-backend of your own, or another one, for one start: shows whether these kernels are the cause",
    "slower kernels, where the ones chosen run",
    where={"moe_backend": True},
)
_OWN_LINEAR = Way(
    "no --linear-backend of your own, or another one, for one start: shows whether these kernels are the "
    "cause",
    "slower kernels, where the ones chosen run",
    where={"linear_backend": True},
)
_NO_AITER = Way(
    "VLLM_ROCM_USE_AITER_MOE=0, then VLLM_ROCM_USE_AITER=0, for one start: shows whether kernels of "
    "AITER are the cause",
    "slower kernels",
    where={"VLLM_ROCM_USE_AITER": "1"},
    devices=("rocm",),
)
_LOOK_AT_DEVICE = Way(
    "dmesg on the host (Xid, ECC): a device with errors is taken out; without any, "
    "CUDA_LAUNCH_BLOCKING=1 (AMD: AMD_SERIALIZE_KERNEL=3) names the kernel",
    "slower; the line of the error is not the kernel's without it",
    kind="look",
)
COMPILED = ("compile", "profile_run", "graph", "kernel", "sampler", "model_warmup")
"""What stages begin with in which kernels of a compiled model run."""


def is_of_stage(way: Way, stage: str) -> bool:
    """Whether a stage runs what a way leaves out or makes smaller: the fused all-reduce (vLLM
    `compilation/passes/fusion/allreduce_rms_fusion.py`), no bucket before the weights are
    there."""
    if way == SMALLER_BUCKETS:
        return not stage.startswith("load")
    return way != _NO_FUSED_ALL_REDUCE or stage.startswith(COMPILED)


def _without_kernels_of_choice(match: re.Match[str]) -> Iterable[Way]:
    """Kernels that the run states, each left out, before the device and any of them."""
    yield from (_OTHER_EXPERTS, _OWN_LINEAR, _NO_AITER, _NO_FUSED_ALL_REDUCE)
    yield from (_LOOK_AT_DEVICE, EAGER)


_NO_OWN_BACKEND = Way(
    "no --attention-backend (VLLM_ATTENTION_BACKEND in older versions) of your own",
    "the engine picks one that fits, where there is one",
)
_OF_TRITON = Way(
    "--attention-backend TRITON_ATTN (VLLM_ATTENTION_BACKEND in older versions; "
    "TRITON_ATTN_VLLM_V1 before 0.11)",
    "slower than a backend made for the device",
)
_OTHER_KERNELS = "slower kernels, where others are"
_REASONS = {
    "kv_cache_dtype not supported": "--kv-cache-dtype auto",
    "block_size not supported": "no --block-size",
    "dtype not supported": "--dtype auto",
}
"""Reasons of vLLM (`v1/attention/backend.py validate_configuration`) that a setting decides."""
_OF_DEVICE = re.compile(
    r"compute capability|on this device|only supported on .{1,80} devices|"
    r"^(?:Hopper|Blackwell|Ampere|Ada)\b"
)
"""Reasons that another device does away with."""
_BACKEND = re.compile(r"(\w{1,40}): \[([^\]]{0,400})\]")


def _nearest_backend(match: re.Match[str]) -> Iterable[Way]:
    """The settings or the devices with which some backend runs, or what the nearest one lacks.

    None was chosen: a choice that does not fit has another text (vLLM `platforms/cuda.py
    get_attn_backend_cls`).
    """
    lacking: dict[str, list[str]] = {}
    is_set = is_elsewhere = False
    for backend, text in _BACKEND.findall(match[1]):
        stated = [reason.strip() for reason in text.split(",") if reason.strip()]
        if stated and all(reason in _REASONS for reason in stated):
            settings = ", ".join(dict.fromkeys(_REASONS[reason] for reason in stated))
            is_set = True
            yield Way(f"{settings}: {backend} runs then", "what they set")
        elif stated and all(_OF_DEVICE.search(reason) for reason in stated):
            is_elsewhere = True
            yield Way(
                f"another device: {backend} runs on one of those that it names "
                f"({', '.join(stated)})",
                "another device",
            )
        elif stated:
            lacking[backend] = stated
    if lacking and not (is_set or is_elsewhere):
        backend = min(lacking, key=lambda name: len(lacking[name]))
        yield Way(
            f"a newer vLLM with a backend for this device: {backend} lacks the least "
            f"({', '.join(lacking[backend])}), and no setting brings it",
            "another image",
        )
    elif is_elsewhere:
        yield Way("a newer vLLM with a backend for this device", "another image")


def _without_reasons(match: re.Match[str]) -> Iterable[Way]:
    """Another backend, or what the reasons name of the settings."""
    yield _NO_OWN_BACKEND
    named = ", ".join(s for reason, s in _REASONS.items() if reason in match[1])
    if named:
        yield Way(f"{named}: the message names them", "what they set")


def _without_kernel(match: re.Match[str]) -> Iterable[Way]:
    """The kernels of AITER that need another device turned off: those of MLA alone where it is
    one of them (vLLM `envs.py`)."""
    if "mla" in match[1].lower():
        yield Way.that_sets(_OTHER_KERNELS, VLLM_ROCM_USE_AITER_MLA="0")
        yield Way.that_sets(_OTHER_KERNELS, attention_backend="TRITON_MLA")
    else:
        yield Way.that_sets(_OTHER_KERNELS, VLLM_ROCM_USE_AITER="0")
    yield Way(
        f"a newer vLLM and AITER, which take this kernel on {match[2]} alone, or have it for "
        f"{match[3]}",
        "another image",
    )


def _type_of_quantisation(match: re.Match[str]) -> Iterable[Way]:
    """The types that the message lists; float16 alone in the releases that list none."""
    price = "none: the weights are of 4 or 8 bits anyway"
    for name in re.findall(r"torch\.(b?float16)", match[1] or "torch.float16"):
        yield Way.that_sets(price, dtype={"float16": "half"}.get(name, name))
    if "awq" in match[0]:
        yield Way(
            "--quantization awq_marlin, whose kernels take bfloat16 (capability 8.0 and above), or "
            "another build of the model, where the model refuses float16 (Gemma 3)",
            "another checkpoint, where these kernels do not take it",
        )


_OF_EXPERTS = re.compile(r"(?i)moe|grouped|batched_?gemm|expert")


def _without_flashinfer(match: re.Match[str]) -> Iterable[Way]:
    """Other kernels for what the text is about: samplers, experts, linear layers or any."""
    if re.match(r"TopK|TopP|Sampling", match[0]):
        yield Way.that_sets("slower sampling", VLLM_USE_FLASHINFER_SAMPLER="0")
    elif _OF_EXPERTS.search(match.string):
        yield Way(
            "other kernels for experts than those of FlashInfer: --moe-backend triton or marlin",
            "slower experts",
        )
    elif "gemm" in match.string.lower():
        yield _OTHER_LINEAR
    else:
        yield Way(
            "another backend than FlashInfer: --moe-backend (triton, marlin) for one of experts, "
            "--linear-backend (marlin, cutlass) for one of linear layers, --attention-backend for one "
            "of attention, VLLM_USE_FLASHINFER_SAMPLER=0 for a sampler",
            "slower kernels",
        )
    yield Way(
        "a newer vLLM with its FlashInfer, which know the device", "another image"
    )


def _as_old_as_driver(match: re.Match[str]) -> Iterable[Way]:
    """A driver as new as the build, or a build as old as the driver that the error states."""
    yield _NEWER_DRIVER
    yield _CUDA_COMPAT
    if match[1] is None:
        yield _OLDER_IMAGE
        return
    wheels = {"12": "cu129", "11": "cu118"}.get(match[1], f"cu{match[1]}0")
    yield Way(
        f"an image, or torch and vLLM, for CUDA {match[1]}: this driver has {match[1]}.{match[2]}, "
        f"and runs most of what was built for a newer {match[1]}.x. {WHEELS.format(cuda=wheels)}",
        "another environment",
    )


ROWS: tuple[KnownError, ...] = (
    *rows(
        "device_unsupported",
        (r"Bfloat16 is only supported on (?:GPUs|XPUs)|\bBF16 is not supported",
         "The device has no bfloat16",
         (_DTYPE_HALF, Way.that_sets("twice the memory, slower", dtype="float32"))),
        (r"torch\.\w{1,12} is not supported for quantization method \w{1,40}"
         r"(?:\. Supported dtypes: \[([\w., ]{1,120}))?",
         "This quantisation does not run in the type of the start",
         _type_of_quantisation),
        (r"Device type HPU is not supported for torch\.Generator",
         "This release makes random numbers on the device, which torch for Gaudi has no generator for",
         (Way("no --load-format dummy: the weights of the checkpoint", "the time to load them",
              where={"load_format": "dummy"}),
          Way("a newer release of vLLM for Gaudi, which takes the generator of the Gaudi software for "
              "seeds and none for dummy weights", "another image"))),
        (r"Unsupported config: device_for_scales=",
         "The scales for FP8 are those of another generation of Gaudi",
         (Way("no `device_for_scales` in the file of QUANT_CONFIG, and measurements of this "
              "generation (`calibrate_model.sh` of vllm-gaudi): Gaudi 3 alone takes the scales of "
              "another one, Gaudi 2", "the time of a calibration"),)),
        (r"No [\w ]{1,40}MoE backend supports the deployment configuration",
         "No kernels for the experts of this build run on this device with these settings",
         (_OTHER_EXPERTS,
          Way("no --enable-lora for one start: shows whether kernels with adapters are what is missing",
              "no adapters", where={"enable_lora": True}),
          OTHER_BUILD,
          Way("no choice of your own: no --moe-backend, --all2all-backend or VLLM_USE_...",
              "the engine picks kernels"),
          OTHER_WEIGHTS)),
        (r"[Qq]uantization (?:scheme|method \w[\w +-]{0,60}) is not supported for\W{1,8}the current GPU",
         "The device is too old for this quantisation",
         (OTHER_WEIGHTS, Way("a newer device", "the capability needed is in the message"))),
        (r"Current platform does not support NVFP4",
         "The device, or this version on it, has no kernels for weights in NVFP4",
         (OTHER_WEIGHTS,
          Way("a newer vLLM, whose kernels (Marlin) take them on devices of capability 8.0 and above",
              "another image"))),
        (r"fp8e4nv not supported in this architecture|float8\w{0,20} (?:is|are) not supported",
         "The device has no kernels for this kind of 8 bits",
         (Way("weights that are not FP8 (AWQ, GPTQ, 16 bits), and --kv-cache-dtype auto where it "
              "is set", "another checkpoint; twice the KV cache"),
          Way("--kv-cache-dtype fp8_e5m2, where only the cache is concerned", "accuracy",
              {"kv_cache_dtype": "fp8_e5m2"}))),
        (rf"{_DEEP_GEMM}.{{0,300}}NVCC version should be >= ([\d.]{{1,8}}\d)",
         "DeepGEMM compiles its kernels when they are needed, and the compiler is too old",
         (Way("nvcc {1} or newer, with CUDA_HOME naming its toolkit (`$CUDA_HOME/bin/nvcc --version`)",
              "some GB of image"),
          NO_DEEP_GEMM)),
        (rf"{_DEEP_GEMM}kernel_runtime\.hpp:\d{{1,6}}.{{1,20}}exit_code == 0",
         "DeepGEMM could not read the kernel that it had compiled: it calls cuobjdump for that",
         (Way("cuobjdump in the bin directory of CUDA_HOME (package cuda-cuobjdump-12-9 or of "
              "the toolkit's own number)", "a larger image"),
          NO_DEEP_GEMM)),
        (r"This kernel only supports sm_?\d",
         "A kernel ran on a device other than the ones that it was compiled for",
         (Way("a build of vLLM whose kernels were made for this device: a newer image, or "
              "TORCH_CUDA_ARCH_LIST with its capability when building", "another image"),
          Way("VLLM_DISABLED_KERNELS with the name after `Selected` above, or another "
              "--moe-backend, where it is a kernel of linear layers or of experts",
              "slower, where the next one is"),
          OTHER_WEIGHTS)),
        (rf"{_DEEP_GEMM}(?!.{{0,220}}runtime != nullptr)",
         "A DeepGEMM kernel of this build does not run on this device or with these sizes",
         (replace(NO_DEEP_GEMM, price="slower FP8 kernels; the indexer of sparse attention has no others"),
          Way("a newer vLLM, whose DeepGEMM knows the device", "another image"))),
        (r"Assertion error \(\S{0,200}?flashmla\S{0,200}?\)",
         "A kernel of FlashMLA, the attention of this model, could not be started",
         (Way("VLLM_USE_BREAKABLE_CUDAGRAPH=0 where the engine turned it on by itself (`Auto-enabling` in the log; "
              "since 0.22 for DeepSeek V4)", "whole graphs instead of pieces"),
          Way("another release of vLLM: a newer one, or the one that last served such requests",
              "another image"),
          Way("a smaller --max-num-batched-tokens or --max-model-len, where long prompts alone fail",
              "prompts in more pieces, or shorter requests"))),
        (r"No supported CUDA architectures found for major versions \[([\d, ]{0,60})\]",
         "FlashInfer compiles kernels for devices of other generations only, or none is left",
         (Way("TORCH_CUDA_ARCH_LIST and FLASHINFER_CUDA_ARCH_LIST unset, or with the capability "
              "of the device; it must be one of {1}, and nvcc as new as it", "some GB of image"),
          Way("another --attention-backend, --moe-backend or --linear-backend than one of FlashInfer, "
              "and VLLM_USE_FLASHINFER_SAMPLER=0, where the device is of another generation",
              "slower kernels, where others are"))),
        (r"FlashInfer requires GPUs with sm75 or higher",
         "FlashInfer compiles kernels for no device that is here, mostly as its CUDA toolkit is "
         "older than the device",
         (Way("a CUDA toolkit of 12.9 or newer for a device of capability 12 (12.8 for 10), with "
              "CUDA_HOME and PATH naming it: `Failed to get device capability` above states what "
              "is required", "some GB of image"),
          Way("no FlashInfer: VLLM_USE_FLASHINFER_SAMPLER=0, and another --attention-backend, "
              "--moe-backend or --linear-backend where one of FlashInfer is in use",
              "slower kernels, where others are"),
          Way("TORCH_CUDA_ARCH_LIST and FLASHINFER_CUDA_ARCH_LIST unset, or with the capability "
              "of the device"))),
        (r"(\w{1,60}) requires (gfx\w{3,6})\b.{0,60}? got (gfx\w{3,6})",
         "A kernel of AITER, AMD's library, was chosen that this device cannot run",
         _without_kernel),
        (r"(?:MX|mx)?(?:FP|fp)4 quantization is not supported on gfx",
         "A kernel of AITER for 4 bits was chosen that this device cannot run",
         (Way.that_sets("none, where the weights are not of 4 bits", VLLM_ROCM_USE_AITER_FP4BMM="0"),
          Way.that_sets(_OTHER_KERNELS, VLLM_ROCM_USE_AITER="0"), OTHER_WEIGHTS)),
        (r"One of GPU archs of \[",
         "AITER, AMD's library of kernels, has none for this device",
         (Way.that_sets(_OTHER_KERNELS, VLLM_ROCM_USE_AITER="0"), OTHER_BUILD)),
        (r"Only XE2 cutlass kernel is supported|XE2 cutlass kernel is not enabled",
         "The attention of this build has no kernel for this Intel device",
         (Way("a newer vllm-xpu-kernels, or vLLM for XPU, that names the device",
              "another image"),
          Way.that_sets("slower attention; attention over images may have a backend of its own",
                        attention_backend="TRITON_ATTN"))),
        (r"doesn't support querying the available free memory",
         "The driver of the Intel device does not state how much of its memory is free",
         (Way.that_sets("none: the memory is read another way", UR_L0_ENABLE_SYSMAN_ENV_DEFAULT="0"),
          Way("a newer driver (intel-compute-runtime, level-zero) with torch as the release of vLLM "
              "names it; WSL 2 has no such figure", "another image or host"))),
        (r"aspect fp64 is not supported",
         "The Intel device has no numbers of 64 bits, which a kernel needs",
         (Way("OverrideDefaultFP64Settings=1 with IGC_EnableDPEmulation=1: the driver emulates "
              "them", "slower kernels, where they use them"),
          Way("another --attention-backend, or a newer vLLM for XPU, whose kernels do without",
              "another image"))),
        (r"Triton Error \[CUDA\]: device kernel image is invalid",
         "The driver does not load a kernel that Triton compiled for this device: it is older than "
         "the ptxas of this Triton",
         (_NEWER_DRIVER,
          Way("torch with Triton for the CUDA that the driver has (`nvidia-smi`), or TRITON_PTXAS_PATH "
              "with a ptxas of that CUDA", "another image"))),
        (r"no kernel image is available|invalid device function|kernel image is invalid|is not compatible with the current PyTorch "
         r"installation|hipErrorNoBinaryForGpu",
         "The build has no kernels for this device",
         (Way("HSA_OVERRIDE_GFX_VERSION of a device of the same generation that the build has "
              "(10.3.0, 11.0.0), and HIP_VISIBLE_DEVICES without the one in the processor",
              "no promise: the kernels are another device's", devices=("rocm",)),
          OTHER_BUILD)),
        # `csrc/quantization/w8a8/cutlass/scaled_mm_c2x.cu`: what older devices have alone.
        (r"No compiled \w{1,60}|no \w{1,60} kernel for CUDA device capability|"
         r"Expected [ab]\.dtype\(\) == torch::kInt8",
         "The build has no kernel of this kind for this device",
         (OTHER_BUILD, OTHER_WEIGHTS)),
        (r"KeyError: <PlatformEnum\.(\w{1,20}): \d",
         "No kernel of this build does what the quantisation needs on this platform",
         (Way("another build of the model: 16 bits, or a quantisation that the documentation "
              "names for {1}", "another checkpoint; check its quality and size"),
          Way("a newer vLLM or plugin, where it has kernels for it", "another image"))),
        (r"FP8 Fused MoE layers, only per-tensor scales",
         "The kernels of this version take other scales of FP8 experts than the checkpoint has",
         (Way("a newer vLLM, whose kernels take scales per channel and token", "another image"),
          OTHER_WEIGHTS)),
        (r"could not create a primitive\b",
         "The library of kernels for processors (oneDNN) has none of this type for this processor",
         (Way.that_sets("memory, and speed", dtype="float32"),
          Way.that_sets("an older processor may compute it slowly", dtype="bfloat16"),
          OTHER_BUILD)),
        (r"Mosaic failed to compile TPU kernel.{0,200}last dim size is not 128",
         "A kernel of the TPU needs heads of 128 values, or a whole multiple, which the model has not",
         (Way("a newer release for TPU, which pads such heads", "another image"),
          Way("another model", "its answers"))),
        (r"Mosaic failed to compile TPU kernel",
         "A kernel of the TPU was not compiled for this chip and model",
         (Way("a newer tpu-inference, whose kernels take them", "another image"),
          Way("another MODEL_IMPL_TYPE, or --kv-cache-dtype auto where it is set",
              "another implementation, or a cache of 16 bits"))),
        (r"Failed to find a kernel that can implement the (\w{1,40})",
         "No kernel of this build does what the quantisation needs on this device",
         (Way("what the lines under the error name for each kernel: a setting, or the "
              "capability that it needs; --linear-backend and VLLM_DISABLED_KERNELS left out: "
              "they leave kernels untried", "slower kernels, where one is forced"),
          OTHER_BUILD, OTHER_WEIGHTS)),
        (r"\b(?:b?mm|(?:group_)?gemm)_\w{1,40} does not support backend",
         "FlashInfer has no kernel of this kind for a linear layer on this device",
         (_OTHER_LINEAR,
          Way("a newer vLLM with its FlashInfer, which know the device", "another image"),
          OTHER_WEIGHTS)),
        (r"b\.shape\[0\] % 16 == 0 and b\.shape\[1\] % 16 == 0",
         "A CUTLASS kernel of 8 bits needs layers of sizes that are multiples of 16",
         (Way("a newer vLLM, which pads such layers", "another image"),
          Way("another build of the model, with layers of other sizes (a part for images) left in "
              "16 bits", "another checkpoint"),
          Way("a --tensor-parallel-size that leaves such sizes to each rank"))),
        (r"cutlass_\w{1,60},.{1,200}Error (?:Internal|Not Supported|Invalid Problem)",
         "A CUTLASS kernel of this build does not run on this device or with these sizes",
         (Way("VLLM_DISABLED_KERNELS with the name after `Selected` above, where the log has "
              "that line: the engine takes the next kernel", "slower, where the next one is"),
          OTHER_BUILD, OTHER_WEIGHTS)),
        (r"Missing TRTLLM-GEN kernel",
         "The attention of TensorRT-LLM in FlashInfer has no kernel for these sizes",
         (Way("--attention-config '{{\"use_trtllm_attention\": false}}' (VLLM_USE_TRTLLM_ATTENTION=0 in "
              "older versions)", "slower attention"),
          Way("another --attention-backend than FLASHINFER, and no --block-size", "other kernels"),
          Way("a newer vLLM with its FlashInfer", "another image"))),
        (r"(?:Prefill|Decode)With\w{1,30}KVCache\w{0,40} failed",
         "The attention of FlashInfer does not run on this device or with these sizes",
         (_OF_TRITON,
          Way("a newer vLLM with its FlashInfer, which know the device", "another image"))),
        (r"[Ff]ailed to (?:initialize|run) cutlass|TMA WS grouped|cudnnGraphNotSupportedError|"
         r"(?:TopK|TopP|Sampling)\w{0,40} failed|TrtllmGen\w{0,40}Runner.{0,200}No kernel found",
         "A kernel of FlashInfer does not run on this device or with these sizes",
         _without_flashinfer),
        (r"[Ss]inks (?:are|is) only supported|support attention sinks|sink setting not supported|"
         r"has_sink[=:] ?True",
         "The attention backend has no attention sinks, which the model needs",
         (_NO_OWN_BACKEND,
          _OF_TRITON,
          Way("a newer vLLM, where none was set", "another image"))),
        (r"kv_cache_dtype=\w{1,20}_ds_mla.{0,300}?use_mla=False",
         "A layer that is none of MLA cannot hold its KV cache in the type of those that are",
         (Way("no --speculative-config: the layers of its draft model take the type of the cache",
              "no speculative decoding", where={"speculative_config": True}),
          _CACHE_OF_16_BITS)),
        (r"KV cache is not supported .{1,300}? Re-run with --kv-cache-dtype (\w{3,20})",
         "An attention backend does not hold the KV cache in this type on this device",
         (Way.that_sets("a cache of 16 bits", kv_cache_dtype="{1}"),)),
        (r"(?:FP8|fp8|[Qq]uantized) KV[ -]?cache (?:is )?not (?:yet )?supported|[Uu]nsupported kv[ _]cache[ _]dtype|"
         r"kv_cache_dtype[=:]\s?'?(?!auto)\w{1,20}.{0,1500}?kv_cache_dtype not supported",
         "An attention backend does not hold the KV cache in the type that was asked for",
         (_CACHE_OF_16_BITS,
          _NO_OWN_BACKEND, Way("a newer vLLM", "another image"))),
        (r"No valid attention backend found.{0,600}?Reasons: \{(.{1,1400})",
         "No attention backend does what the model and the settings need on this device",
         _nearest_backend),
        (r"Selected backend .{1,80} is not valid for this configuration\.? Reason: (.{1,600})",
         "The attention backend does not run on this device or in this configuration",
         _without_reasons),
        (r"\b(\w{2,40}) quantization is currently not supported in (\w{2,20})",
         "This kind of device has no kernels for the quantisation",
         (OTHER_WEIGHTS, Way("a newer vLLM or plugin, whose list for {2} has {1}", "another image"))),
        (r"Sparse Attention is not supported on (\w{2,10})",
         "The sparse attention of the model has no kernels for this kind of device",
         (Way("a newer vLLM or plugin, where it has them for {1}", "another image"),
          Way("another model: one whose attention is not sparse", "another model"))),
        (r"MegaMoE requires (?:SM100|gfx950)",
         "The kernels for experts that were chosen (MegaMoE) do not run on this device",
         (Way("no --moe-backend of your own", "the engine picks one"),
          replace(DEEP_GEMM_ALONE, devices=("cuda",)))),
        (r"Head size \d{1,5} is not supported",
         "The attention backend has no kernels for heads of this size",
         (Way("--attention-backend FLEX_ATTENTION, which takes all sizes "
              "(VLLM_ATTENTION_BACKEND in older versions)", "slower attention",
              devices=("cuda", "rocm")),
          Way("a newer vLLM or plugin, whose backend takes the size", "another image"))),
        (r"No valid (?:\w{1,10} ){0,2}prefill backend|\bMLA is not supported on CPU",
         "No attention with latent vectors (MLA) runs on this device or in this build",
         (Way("no mla_prefill_backend in --attention-config", "the engine picks one",
              where={"attention_config": True}),
          Way.that_sets("a KV cache several times as large", VLLM_MLA_DISABLE="1"),
          Way("a newer vLLM", "another image"))),
        (r"FlashAttention (?:only )?(?:supports|requires) |only supported in FlashAttention|"
         r"Unsupported FA version|is_fa_version_supported|Flash\w{0,20} is only supported on|"
         r"[Ff]lash ?[Aa]ttention.{0,40}does not support|XFormers does not support|No operator found for .memory_efficient|"
         r"No valid (?:\w{1,10} ){0,2}attention backend",
         "The attention backend does not run on this device or in this configuration",
         (_NO_OWN_BACKEND, _OF_TRITON,
          Way("VLLM_USE_V1=0 before 0.12: the engine before it has attention for older devices",
              "the older engine", devices=("cuda",)),
          Way("--kv-cache-dtype auto", "a cache of 16 bits, where the reason in the message names it",
              where={"kv_cache_dtype": True}))),
        (r"(?:[Ee]ncoder|[Cc]ross).{0,80}attention.{0,40}(?:is|are) not implemented for (\w{1,60})",
         "The attention backend has none for an encoder, which the model needs",
         (_NO_OWN_BACKEND,
          Way("a newer vLLM, or another --attention-backend, where none was set: {1} is that "
              "of this device", "another image"))),
        (r"out of resource: shared memory|OutOfResources",
         "A Triton kernel needs more shared memory than the multiprocessor has",
         (Way("another attention or MoE backend, or a newer vLLM whose tiles fit this device",
              "the memory of the device has no part in it"),
          _ON_CHIP)),
        (r"memory space smem",
         "A kernel needs more of the scalar memory of the TPU than it has",
         (Way("a smaller --max-model-len or --max-num-seqs, or a larger --block-size: the table of "
              "the blocks of all requests lies there",
              "shorter requests, or fewer at once"),
          Way("a newer tpu-inference, whose kernels need less of it", "another image"),
          _ON_CHIP)),
        (r"nrt_tensor_allocate status=4",
         "The memory of the Neuron cores is full",
         (Way("a smaller --max-model-len or --max-num-seqs: the KV cache follows from them",
              "shorter requests, or fewer at once"),
          Way("a larger --tensor-parallel-size, with as many cores for the process "
              "(NEURON_RT_VISIBLE_CORES)", "more cores, which hold a part each"))),
        (r"memory space vmem",
         "A kernel needs more of the memory on the chip of the TPU than it has",
         (Way("a newer tpu-inference, whose kernels fit this chip and model, or LIBTPU_INIT_ARGS="
              "--xla_tpu_scoped_vmem_limit_kib with more", "none known"),
          _ON_CHIP)),
        (r"no attribute '?get_cuda_view_from_cpu_tensor",
         "This build has no view of host memory on its device, which offloading to the host needs",
         (Way("no --cpu-offload-gb: more devices, or weights of fewer bits", "devices, or accuracy"),
          Way("a newer vLLM, where it offloads on this device", "another image"))),
        (r"UVA is not available",
         "The model runner needs pinned memory, which is off (under WSL2 unless it is asked for)",
         (Way.that_sets("WSL2 with a kernel of 4.19.121 or newer",
                        VLLM_WSL2_ENABLE_PIN_MEMORY="1"),
          Way.that_sets("the model runner before", VLLM_USE_V2_MODEL_RUNNER="0"),
          Way("a newer vLLM, which does without it", "another image"))),
        (r"(?:^|\s)Illegal instruction\b|was compiled with avx\w{0,10} but CPU does not|"
         r"(?:exit code|core proc\(s\): \{'[^']{1,80}'): -4\b",
         "The processor lacks an instruction that a package was built with",
         (Way("`lscpu`: a build of vLLM for this processor (for AVX2 one with "
              "VLLM_CPU_DISABLE_AVX512=true, --build-arg of docker/Dockerfile.cpu), or a "
              "virtual machine that has the instructions of its host", "another image"),)),
    ),
    *rows(
        "memory_changed",
        (r"Error in memory profiling",
         "Other programs gave memory of the device back while the engine measured it",
         (Way("the same start again once they have ended (the monitor of the device shows who "
              "holds memory); engines of one device one after another"),)),
    ),
    *rows(
        "driver_mismatch",
        (r"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH|unsupported display driver|"
         r"forward compatibility was attempted",
         "The process loads a library of the driver (libcuda) that does not fit the driver of "
         "the host",
         (Way("the host's library first: LD_LIBRARY_PATH=/usr/local/nvidia/lib64:"
              "/usr/local/nvidia/lib:/usr/lib/x86_64-linux-gnu, or --gpus all; an image brings "
              "another one in /usr/local/cuda/compat (`ldconfig -p | grep libcuda`)"),
          Way("a newer driver, where the host's (`nvidia-smi`) is older than the CUDA of the "
              "image; a restart, where it was replaced since the last one",
              "a restart of the host, or of what uses its devices"),
          _OLDER_IMAGE)),
        (r"driver on your system is too old(?: \(found version (\d{1,3})0(\d)0\))?|"
         r"driver version is insufficient",
         "The driver of the host is older than the CUDA of the image",
         _as_old_as_driver),
        (r"PTX was compiled with an unsupported toolchain|UnsupportedPtxVersion",
         "The driver of the host is older than the CUDA that a kernel was compiled with",
         (_NEWER_DRIVER, _CUDA_COMPAT, _OLDER_IMAGE)),
        (r"Driver/library version mismatch",
         "The driver was replaced while its old module is still loaded",
         (Way("restart the host, or unload and load the nvidia modules",
              "everything on its devices ends"),)),
        (r"system not yet initialized|CUDA_ERROR_SYSTEM_NOT_READY|Error 802",
         "The fabric of the devices is not up",
         (Way("start nvidia-fabricmanager of the driver's version on the host "
              "(`systemctl status nvidia-fabricmanager`)", "none; devices with NVSwitch "
              "need it"),)),
    ),
    *rows(
        "device_unreachable",
        (r"CUDA unknown error|CUDA error: unknown error|CUDA driver initialization failed|Unexpected error from "
         r"cudaGetDeviceCount",
         "The driver did not start for this process",
         (Way("`nvidia-smi` in the container, then a restart of it or of the host: after a "
              "suspend or an update the module nvidia_uvm has to be loaded anew",
              "what runs on its devices"), _GIVE_GPUS)),
        (r"NVML_SUCCESS == r INTERNAL ASSERT",
         "Memory ran out, and the driver did not answer while this was reported",
         (Way("a lower --gpu-memory-utilization, or a smaller --max-num-batched-tokens",
              "KV cache, or prompts in more pieces; the log does not hold how much is missing"),
          Way("`nvidia-smi`: other processes on the device, a driver that was replaced"))),
        (r"CU(?:BLAS|DNN)_STATUS_NOT_INITIALIZED",
         "A library of the device did not start: mostly no memory is left for it, or the "
         "driver does not fit",
         (Way("--gpu-memory-utilization lower by 0.03 or more, and nothing else on the device "
              "(`nvidia-smi`)", "KV cache; the log does not hold how much is missing"),
          _NEWER_DRIVER)),
        (r"invalid literal for int\(\) with base 10: '(?:GPU|MIG)-",
         "This version reads devices by number only",
         (Way("CUDA_VISIBLE_DEVICES with numbers (`nvidia-smi -L` lists them in order), or a "
              "newer vLLM"),)),
        (r"Failed to infer device type",
         "vLLM found no device that it was built for",
         (*_GIVE_DEVICES,
          Way("vLLM, or its plugin, as built for the device, with torch's part for it (Gaudi: "
              "habana-torch-plugin of the driver's release; `pip list`; `python -c 'import "
              "torch; print(torch.version.cuda)'`)", "another environment"),
          _DRIVER_LIBRARIES,
          Way("VLLM_LOGGING_LEVEL=DEBUG: lines `... platform is not available because` name "
              "the reason for each; a library of another CUDA in LD_LIBRARY_PATH is one",
              "a longer log", kind="look"),
          _CPU_BUILD)),
        (r"NVMLError_NotSupported",
         "The monitoring library of the driver does not answer here (WSL2, Jetson)",
         (Way.that_sets("processes start anew", VLLM_WORKER_MULTIPROC_METHOD="spawn"),
          Way("a newer vLLM, which does so under WSL2 by itself", "another image"))),
        (r"NVMLError_NotFound",
         "The driver has no device of the name that the process was given",
         (Way("CUDA_VISIBLE_DEVICES with whole UUIDs, as `nvidia-smi -L` prints them, or with "
              "numbers: the beginning of one is not enough"),)),
        (r"No HIP GPUs are available",
         "The process has no device", (_GIVE_AMD, _RAY_TASK)),
        (r"CUDA_VISIBLE_DEVICES is set to empty|0 active drivers|No HPU devices? (?:found|available)|"
         r"No CUDA GPUs are available|Found no NVIDIA driver|"
         r"no CUDA-capable device|NVMLError(?!_InvalidArgument)|Failed to initialize NVML|"
         r"Torch not compiled with CUDA|libcuda\.so",
         "The process has no device",
         (*_GIVE_DEVICES, _RAY_TASK,
          Way("a torch that was built for the device (`python -c 'import torch; "
              "print(torch.version.cuda)'`)", "another environment"),
          _DRIVER_LIBRARIES,
          _CPU_BUILD)),
        (r"(?:/dev/(?:kfd|dri|accel|nvidia|vfio)\S{0,40}).{0,40}(?:Permission denied|Operation not permitted)|"
         r"Permission denied.{0,20}/dev/(?:kfd|dri|accel|nvidia|vfio)|Unable to open /dev/kfd",
         "The process may not open the device",
         (Way("the device files in the container (--device of each, such as /dev/kfd and /dev/dri; "
              "--privileged for a TPU) and the groups that own them (--group-add video, render)"),)),
        (r"AmdSmi\w{0,20}Exception|AMDSMI_STATUS",
         "The monitoring library of AMD's driver (amdsmi) does not answer",
         (Way("/dev/kfd and every /dev/dri/renderD* for the process that starts the engine: --device of "
              "both, and the groups that own them (video, render); `amd-smi static` as that user"),
          Way("an image with the ROCm that the driver and the device need", "another image"))),
        (r"Triton Error \[HIP\].{1,40}invalid device ordinal",
         "Triton does not find the device on which torch runs",
         (Way("TRITON_LIBHIP_PATH with the libamdhip64.so that torch loads, or LD_LIBRARY_PATH with "
              "its folder first, and PYTHONNOUSERSITE=1",
              "a guess, where torch itself finds the device"),
          Way("HIP_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES and CUDA_VISIBLE_DEVICES unset, or the same "
              "devices in each"),
          Way("torch, Triton and ROCm of one release", "another image"))),
        (r"invalid device ordinal|device >= 0 && device < num_gpus|NVMLError_InvalidArgument",
         "A rank requested a device that is not there",
         (Way("on AMD RAY_EXPERIMENTAL_NOSET_HIP_VISIBLE_DEVICES=1 for `ray start` and the engine: "
              "otherwise Ray shows each worker one device, which the engine counts from 0 anew",
              where={"distributed_executor_backend": "ray"}, devices=("rocm",)),
          Way("--tensor-parallel-size of at most the devices that are visible "
              "(`nvidia-smi -L`, CUDA_VISIBLE_DEVICES)", "more of the weights on each"),
          Way("CUDA_VISIBLE_DEVICES (AMD: HIP_VISIBLE_DEVICES) with devices that are there, or unset"))),
        (r"libtpu.{0,20}lockfile",
         "The lock of the TPU belongs to another process, or to one that ended",
         (Way("end the process that holds the TPU (`fuser -v /dev/vfio/* /dev/accel*`); with "
              "none left, remove /tmp/libtpu_lockfile"),)),
        (r"slice_builder_worker_addresses specified\. Expected (\d{1,5}) worker addresses, got \d",
         "Fewer processes take part than the slice of the TPU has hosts and chips",
         (Way("a start on every host of the slice, with a Ray worker on each (`ray status`): "
              "{1} addresses are expected"),
          Way("TPU_PROCESS_BOUNDS and TPU_CHIPS_PER_PROCESS_BOUNDS for the chips of one host, "
              "where the rest of the slice shall not take part", "fewer chips"))),
        (r"No TPU devices found|TPU initialization failed: (?!open)",
         "The process has no TPU",
         (Way("TPU_VISIBLE_CHIPS of chips that the host has (`ls /dev/vfio /dev/accel*`), and "
              "JAX_PLATFORMS unset; one engine for each group of chips"),
          Way("the device files in the container (--privileged, or --device of each)"))),
        (r"NoSuchDevice|aclrt(?:SetDevice|GetCurrentContext)|rtSetDevice|npu_?[Gg]et_?[Ss]oc|get_soc_version",
         "The process does not reach the Ascend device",
         (Way("`npu-smi info` in the container: --device /dev/davinciN, /dev/davinci_manager, "
              "/dev/devmm_svm and /dev/hisi_hdc, the driver of the host mounted, "
              "ASCEND_RT_VISIBLE_DEVICES of devices that are there"),
          Way("torch_npu and the Ascend toolkit of the driver's release", "another image"))),
        (r"\[Device not found\]|No devices found",
         "The process found no free device",
         (_GIVE_GAUDI,
          Way("end what holds the devices (hl-smi): each belongs to one process"),
          _GAUDI_RELEASE)),
        (r"Device acquire failed|synDeviceAcquire",
         "Another process holds the Gaudi, or it is in a bad state",
         (Way("end the process that holds it (hl-smi, `fuser -v` of the device files), then start "
              "again"),
          Way("HABANA_VISIBLE_DEVICES or HABANA_VISIBLE_MODULES with devices that no other "
              "process has; with Ray as many free ones on each node as it places workers there"),
          Way("a reset of the device by its tool, when no process is left", "everything on it "
              "ends"), _GAUDI_RELEASE)),
        (r"TPU is already in use|open\(/dev/vfio\S{0,20}\): (?:16|Device or resource busy)|"
         r"iommu group",
         "Another process holds the TPU",
         (Way("end the process that holds the TPU (`fuser -v /dev/vfio/* /dev/accel*`), then start "
              "again"),
          Way("TPU_VISIBLE_CHIPS with chips that no other process has"))),
        (r"[Dd]evice\(s\) is/are busy or unavailable",
         "Another process holds the device, or it is in a bad state",
         (Way("end the process that holds it (nvidia-smi, `fuser -v` of the device files), then "
              "start again"),
          Way("a reset of the device by its tool, when no process is left", "everything on it "
              "ends"))),
        (r"device-side assert|CUDA_KERNEL_ASSERT|Assertion `.{1,200}` failed",
         "A kernel met a value that it does not allow, such as an index outside of a table",
         (Way("the lines `Assertion ... failed` above the error name the kernel and the condition; "
              "CUDA_LAUNCH_BLOCKING=1 (AMD: AMD_SERIALIZE_KERNEL=3) gives the call that it was in",
              "slower; without it the line of the error is not the kernel's"),
          Way("a newer vLLM, or --enforce-eager and a text-only request to tell which part "
              "makes the value: tokenizer and model of other sizes, an image, a draft model",
              "slower decoding while it is looked for"))),
        (r"Abort was called at \d",
         "The driver of the Intel device ended the process",
         (_INTEL_DRIVER, EAGER)),
        (r"ReshapeAndCache\w{0,20} setup failed|operator name is Reshape\w{0,10}CacheOperation",
         "The Ascend device does not write the KV cache in its type",
         (_CACHE_OF_16_BITS,)),
        (r"Failed to find function acl\w{1,60}",
         "The Ascend toolkit is older than torch_npu needs",
         (_ASCEND_RELEASE,
          EAGER)),
        (r"(?i:alloc sq cq fail)|(?:capture_(?:begin|end)|AclmdlRICapture).{0,300}\b207005\b",
         "The Ascend device gave no more queues for the streams of the graphs to be captured",
         (Way("an Ascend driver (HDK) 25.5.1 or newer on the host, with the CANN that belongs to it, "
              "where `npu-smi info` shows an older one", "a restart of the host; another image"),
          _FEWER_ASCEND_GRAPHS, EAGER)),
        (r"(?i:stream resources are insufficient|insufficient_stream_resources)|"
         r"(?i:capture_(?:begin|end)|AclmdlRICapture).{0,300}\b207008\b",
         "The Ascend device has fewer streams than the graphs to be captured need",
         (_FEWER_ASCEND_GRAPHS, EAGER)),
        (r"current working operator name is|NPU function error|\bacl(?:nn|rt)[A-Z]|ACL stream synchronize failed",
         "A call of the Ascend device failed",
         (_ASCEND_RELEASE,
          Way("ASCEND_LAUNCH_BLOCKING=1: the traceback is that of the call then", "slower; the "
              "line of the error is not the call's without it", kind="look"),
          Way("the lines below the error (EZ9999, errorStr) and ~/ascend/log/debug/plog: what the "
              "device reports of its kernel"),
          EAGER)),
        (r"Failed to execute the model status=\d{1,5} message=Execution Out-Of-Bounds|NRT_EXEC_OOB",
         "The Neuron device met an index outside of a table in a compiled model",
         (Way("a checkpoint, tokenizer and limits that fit the model that was compiled: lines of "
              "weights that were not initialised, or of a model taken for another one, name what does "
              "not", "another checkpoint, or a model that the release supports"),
          Way("the lines of the runtime above the error (NRT, NMGR): the first of them names the "
              "compiled model and its bucket", "the log holds no more", kind="look"))),
        (r"UR_RESULT_ERROR_(?:DEVICE_LOST|OUT_OF_RESOURCES)",
         "The Intel device was lost, or its driver has no resources left",
         (_INTEL_DRIVER,
          Way("end the process that holds the device (xpu-smi ps), then start again"),
          Way("torch, oneCCL and the driver as the release of vLLM names them, where the device "
              "is lost when several of them exchange data first", "another image"))),
        (r"illegal memory access|Memory access fault by GPU",
         "A kernel or the device failed, for no lack of memory", _without_kernels_of_choice),
        (r"uncorrectable ECC|unspecified launch failure|misaligned address|illegal instruction|CUBLAS_STATUS_(?:EXECUTION_FAILED|INTERNAL_ERROR)|"
         r"hardware exception|HSA_STATUS_ERROR|HW Exception by GPU|\bXid\b",
         "A kernel or the device failed, for no lack of memory",
         (_LOOK_AT_DEVICE, EAGER)),
    ),
    *rows(
        "setting_refused",
        (r"Aiter MLA only supports .{1,40} number of heads",
         "AITER's attention with latent vectors (MLA) has no kernels for so many heads on each device",
         (Way.that_sets("slower attention", VLLM_ROCM_USE_AITER_MLA="0"),
          Way("another --tensor-parallel-size, with which each device has as many heads as the message "
              "requires", "more or fewer devices"))),
        (r"AITER FP8 ViT attention requires|mm_encoder_attn_dtype='fp8'",
         "The encoder of images has no attention of 8 bits on this device or with this backend",
         (Way("no --mm-encoder-attn-dtype fp8", "slower images: attention of 16 bits"),
          Way("no --mm-encoder-attn-backend of your own", "the engine picks one"))),
        (r"AssertionError: (\w{1,30})_mtp only support predict one token",
         "The layers of this model that draft (MTP) draft one token in a step",
         (Way("num_speculative_tokens 1 in --speculative-config", "one token is drafted in a step",
              {"num_speculative_tokens": 1}),)),
        (r"per-tensor scaling factor for fp8 KV",
         "This version does not take the scales of the KV cache that the checkpoint has, or lacks",
         (_CACHE_OF_16_BITS,
          Way("a newer vLLM, which takes them", "another image"))),
        (r"FloatingPointError: [Ii]nvalid value \((nan|inf)\)",
         "JAX looks for values that are no number, and found one in a result",
         (Way("a checkpoint or quantisation without values that overflow (another --quantization "
              "or --dtype): the answers with that value are wrong either way", "another build"),
          Way("unset JAX_DEBUG_NANS and JAX_DEBUG_INFS", "the engine serves on, with wrong answers "
              "to such requests"))),
        (r"ValueError: invalid literal for int\(\) with base 10: ('.{0,80}?')",
         "A whole number cannot be read",
         (Way("a whole number in the variable or option that has the value {1}: the frame above "
              "the error names it"),)),
    ),
)  # fmt: skip
