"""Errors of the host, the image and the files of a model: texts and what removes them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from warmup_insights.analysis.advice.change import Way
from warmup_insights.analysis.advice.known_texts import (
    DEEP_GEMM_ALONE,
    EAGER,
    MEMORY_OF_SHM,
    MORE_HOST,
    NO_DEEP_GEMM,
    OTHER_WEIGHTS,
    SMALLER_BUCKETS,
    WHEELS,
    KnownError,
    rows,
)

_HF_TOKEN = Way(
    "HF_TOKEN of an account that was given access on the page of the model",
    "a secret for the container: from a secret store, not on the command line",
)
_LOCAL_COPY = Way(
    "a local folder with the weights as --model, and HF_HUB_OFFLINE=1", "disk"
)
_SAME_RELEASE = Way(
    "versions that were released together: the image of the release, or a fresh environment as "
    "it is installed for this device (for CUDA one `pip install vllm`)",
    "another image",
)
_OTHER_TRANSFORMERS = Way(
    "the version of transformers that the release of vLLM requires (`pip check`): a newer or "
    "older one names and orders these settings in another way",
    "models that need the other one do not load",
)
_JSON_FILES = Way(
    "`python -m json.tool` with config.json and the other JSON files of the model; quotes around "
    "the JSON value of an option"
)
_COMPLETE = Way(
    "a complete folder: config.json, the tokenizer and all weights; for GGUF or Mistral files "
    "--load-format, --config-format and --tokenizer that fit",
    "another download",
)
_ONE_DRAFT = Way(
    "the method (eagle, eagle3, mtp) and the draft model in --speculative-config that belong "
    "together, with a draft in the form that vLLM reads, where its weights are the ones",
    where={"speculative_config": True},
)
_AS_BUILT = Way(
    "vLLM as built for this device and torch (a wheel or image of the release), and a start "
    "outside of its source folder",
    "another image",
)
_NO_KERNELS = "The compiled part of vLLM has no kernels for this quantisation"
_FOR_THIS_DEVICE = replace(OTHER_WEIGHTS, devices=("cpu", "rocm", "xpu"))
_MODEL_CODE = Way(
    "HF_MODULES_CACHE on a volume that the processes of all nodes may read, and the files of "
    "the code in the folder of the model"
)
_COMPILER = Way(
    "a compiler and the headers of Python in the image (gcc, python3-dev), with CC set",
    "a larger image",
)
_CUDA_TOOLKIT = Way(
    "the CUDA toolkit of torch's version in the image, with CUDA_HOME and nvcc in PATH",
    "some GB of image",
)
_BUILT = Way(
    "a package with kernels built already (flashinfer-jit-cache, an image of the release)",
    "a larger image",
)
_TRITON_RELEASE = Way(
    "torch and Triton of a release that was made for this device, without a ptxas of another one",
    "another image",
)
_NO_FLASHINFER_SAMPLER = Way(
    "VLLM_USE_FLASHINFER_SAMPLER=0, where FlashInfer compiles its sampler",
    "slower sampling",
    {"VLLM_USE_FLASHINFER_SAMPLER": "0"},
)
_WRITABLE = Way(
    "HOME, HF_HOME, VLLM_CACHE_ROOT, TRITON_CACHE_DIR and TORCHINDUCTOR_CACHE_DIR on a volume "
    "that this user may write"
)
_OTHER_DISK = Way(
    "files removed below the quota (`quota -s`, `lfs quota`), or HF_HOME, VLLM_CACHE_ROOT, "
    "TRITON_CACHE_DIR and TMPDIR on a file system without it",
    "disk for the weights and the caches; `df` does not show a quota",
)
_MORE_DISK = Way(
    "room on the file system that is full (`df -h` and `df -i`), or HF_HOME, VLLM_CACHE_ROOT "
    "and TMPDIR on a larger one",
    "disk for the weights and the caches",
)


def _of_other_weights(match: re.Match[str]) -> Iterable[Way]:
    """A checkpoint that fits; first the method of a draft model, where the shapes are those of
    EAGLE and EAGLE-3: their first layer takes two and three hidden sizes (vLLM
    `models/llama_eagle.py`, `llama_eagle3.py`)."""
    size, own, wanted = (int(text or 0) for text in match.groups())
    parts = {(3, 2): "eagle3", (2, 3): "eagle"}
    method = parts.get((own // size, wanted // size)) if size else None
    if method is not None and not (own % size or wanted % size):
        yield Way(
            f'"method": "{method}" in --speculative-config: the first layer of this draft model '
            f"takes {own // size} hidden sizes, and the one that was made {wanted // size}"
        )
    yield Way(
        "a vLLM as new as the checkpoint, or the revision of the checkpoint that this version "
        "was tested with",
        "another image or checkpoint",
    )
    yield Way(
        "the architecture and the form of the files as the model card gives them: "
        "--hf-overrides, --runner and --convert, or --config-format, --load-format and "
        "--tokenizer-mode (mistral), where the engine took another one"
    )
    yield _ONE_DRAFT


_FIRST_CUDA = {
    "80": "11.0", "86": "11.1", "87": "11.4", "89": "11.8", "90": "11.8", "90a": "12.0",
    "100": "12.8", "103": "12.9", "110": "13.0", "120": "12.8", "121": "12.9",
}  # fmt: skip
"""Architecture to the first CUDA toolkit that has it (its release notes)."""
_FIRST_TRITON = {"103": "3.6", "110": "3.7", "121": "3.6"}
"""Architecture to the first Triton with a ptxas that has it: of CUDA 12.8 at first, since 3.6 a
second one for capability 10 and above, of 12.9, since 3.7 of 13.1
(`cmake/nvidia-toolchain-version.json`)."""
_FIRST_SECOND = "3.6"
"""The first Triton with a second ptxas: ptxas-blackwell."""
_OF_NVCC = re.compile(r"[Nn]inja|nvcc|gpu architecture|Error building")


def _with_architecture(match: re.Match[str]) -> Iterable[Way]:
    """A toolkit or a ptxas that has the architecture which the one in use lacks."""
    number, suffix = match[1], match[2]
    first = _FIRST_CUDA.get(number + suffix) or _FIRST_CUDA.get(number)
    if suffix == "f" and first == "12.8":
        first = "12.9"  # Architectures of a family came with it.
    if _OF_NVCC.search(match.string) is not None:
        return _nvcc_of(number, first)
    return _ptxas_of(number, first, is_second="ptxas-blackwell" in match.string)


def _nvcc_of(number: str, first: str | None) -> Iterable[Way]:
    toolkit = f"a CUDA toolkit with sm_{number}"
    if first is not None:
        toolkit = f"a CUDA toolkit of {first} or newer: the first with sm_{number}"
    elif int(number) < 75:
        toolkit = f"a CUDA toolkit of 12.9 or older: CUDA 13 has no sm_{number}"
    yield Way(
        f"{toolkit}, with CUDA_HOME and PATH naming it (`nvcc --version`)",
        "some GB of image",
    )
    yield _BUILT
    yield Way(
        "TORCH_CUDA_ARCH_LIST and FLASHINFER_CUDA_ARCH_LIST unset, or with the capability of the "
        "device alone, where it is another one"
    )
    yield _NO_FLASHINFER_SAMPLER


def _ptxas_of(number: str, first: str | None, *, is_second: bool) -> Iterable[Way]:
    variable = "TRITON_PTXAS_PATH"
    if is_second:
        variable = "TRITON_PTXAS_BLACKWELL_PATH"
    elif int(number) >= 100:
        variable += f" (since Triton {_FIRST_SECOND} TRITON_PTXAS_BLACKWELL_PATH)"
    release = f"CUDA {first} or newer" if first else "a CUDA that knows the device"
    older = "" if is_second else "; Triton 3.4 and older take none of CUDA 13"
    yield Way(
        f"{variable} with the ptxas of {release}, such as /usr/local/cuda/bin/ptxas (`ptxas "
        f"--version`){older}",
        "the CUDA toolkit in the image",
    )
    triton = _FIRST_TRITON.get(number)
    if triton is None or (is_second and triton == _FIRST_SECOND):
        yield _TRITON_RELEASE
        return
    yield Way(
        f"torch and vLLM with Triton {triton} or newer, whose own ptxas has sm_{number}",
        "another image",
    )


_MACOS_OF_METAL = {"3.1": "14", "3.2": "15", "4.0": "26"}
"""Version of the Metal language to the first macOS that has it (Apple's tables)."""


def _older_metal(match: re.Match[str]) -> Iterable[Way]:
    """MLX for the macOS that is here, or the macOS that MLX was built for."""
    yield Way(
        "mlx and mlx-metal installed anew with the pip of this Mac (`pip install "
        "--force-reinstall mlx mlx-metal`): there is a wheel for each macOS, and an environment "
        "or a bundle that was made on a newer one holds that one's (macosx_26_0 in its "
        "dist-info/WHEEL)",
        "a download",
    )
    language = match[1] or (match[2] or "").removeprefix("metal")
    macos = _MACOS_OF_METAL.get(language)
    named = f"macOS {macos} or newer, the first with Metal {language}" if macos else ""
    yield Way(named or "a newer macOS, as the wheel names it", "an update of the Mac")
    yield Way(
        "MLX built on this Mac, with CMAKE_ARGS=-DCMAKE_OSX_DEPLOYMENT_TARGET and the version of "
        "its macOS",
        "Xcode with the compiler of Metal",
    )


def _of_one_cuda(match: re.Match[str]) -> Iterable[Way]:
    """vLLM for the CUDA of torch, or torch for that of vLLM."""
    other = "cu130" if match[2] == "12" else "cu129"
    yield Way(
        "vLLM for the CUDA of torch (`python -c 'import torch; print(torch.version.cuda)'`): "
        f"the one installed needs CUDA {match[2]}. {WHEELS.format(cuda=other)}",
        "another environment",
    )
    yield Way(
        f"torch for CUDA {match[2]}, with a driver that has it (`nvidia-smi`): "
        "`uv pip install torch --torch-backend=auto`",
        "another environment",
    )


_GAUDI_OF_ONE = Way(
    "driver, SynapseAI and plugin of one release (`hl-smi`, `pip list`)",
    "another image",
)
_OTHER_GAUDI_RELEASE = Way(
    "another release of vLLM for Gaudi: a newer one, or the one that last ran this model",
    "another image",
)

ROWS: tuple[KnownError, ...] = (
    *rows(
        "host_limit",
        (r"[Uu]nable to pin host memory|\bmlock\b.{0,80}(?:failed|Cannot)|memlock|"
         r"(?:cuda|hip)Host(?:Register|Alloc|Malloc)|cu(?:da)?(?:MallocHost|MemHost\w{5,8})|"
         r"(?:out of memory|[Ff]ailed).{0,80}(?:\bpin_memory|\b[Pp]inned (?:host )?memory)|"
         r"(?:\bpin_memory|\b[Pp]inned (?:host )?memory).{0,80}(?:out of memory|[Ff]ailed)",
         "Memory of the host could not be locked (pinned) for the device; it is not the "
         "device's memory that is short",
         (Way("no limit for locked memory: --ulimit memlock=-1 in Docker, LimitMEMLOCK=infinity "
              "for the container runtime of a Kubernetes node (`ulimit -l` shows it)"),
          Way("smaller buffers on the host: --cpu-offload-gb, --kv-offloading-size, --swap-space "
              "or that of the KV connector, as the start sets them",
              "less that is kept there"),
          Way("more memory of the host (`free -h`, the limit of the container), fewer engines at "
              "once", "host memory"))),
    ),
    *rows(
        "build_failed",
        (r"(?:gpu architecture|Value) '(?:sm|compute)_(\d{2,3})([af]?)'",
         "The compiler of CUDA in use (nvcc, ptxas) has no code for a device of this kind",
         _with_architecture),
        (r"SM (\d{1,2}\.\w) requires CUDA >= ([\d.]{1,8}\d)",
         "The CUDA toolkit in use is older than the device",
         (Way("a CUDA toolkit of {2} or newer, with CUDA_HOME and PATH naming it (`nvcc --version`)",
              "some GB of image"),
          Way("no FlashInfer: VLLM_USE_FLASHINFER_SAMPLER=0, and another --attention-backend, "
              "--moe-backend or --linear-backend where one of FlashInfer is in use",
              "slower kernels, where others are"))),
    ),
    *rows(
        "port_in_use",
        (r"(?:Address|address) already in use|EADDRINUSE|Could not find open port|error while attempting to bind",
         "A port is taken",
         (Way("end the process that has it (`ss -ltnp`): often an engine that still runs"),
          Way("--port with another one (--master-port or VLLM_PORT, where ranks connect)",
              "clients and probes must use it"))),
    ),
    *rows(
        "disk_full",
        # Of shared memory too: each tensor that processes share is an open file.
        (r"Too many open files|Errno 24\b",
         "The process has too many files open",
         (Way("ulimit -n 65536, or the nofile limit of the container"),)),
    ),
    *rows(
        "shared_memory",
        (r"No such file or directory: '/psm_[\da-f]{4,16}'",
         "Shared memory that processes of the engine have in common is gone: the one that made it ended",
         (Way("the error of the process that ended first, above the line or in the log of its rank",
              "this line only follows it", kind="look"),
          Way("one namespace for shared memory (--ipc=host), where ranks of a node run in several containers",
              "a right of the container"))),
        (r"shared memory object|from file </torch_|write to file </torch_|/dev/shm|shm_open|Bus error|insufficient shared memory|"
         r"shared memory \(shm\)|(?:exit code|core proc\(s\): \{'[^']{1,80}'): -7\b",
         "Shared memory (/dev/shm) is too small for the processes of the engine",
         (MEMORY_OF_SHM,)),
    ),
    *rows(
        "disk_full",
        (r"[Dd]isk quota exceeded|Errno 122\b",
         "The quota of a file system is used up",
         (_OTHER_DISK,)),
        (r"No space left on device|Errno 28\b|[Nn]ot enough (?:free )?"
         r"(?:disk )?space(?! in the data buffer)",
         "A file system is full",
         (_MORE_DISK,)),
        (r"Stale file handle|No locks available|Transport endpoint is not connected|\.nfs[\da-f]{12}|"
         r"Errno (?:5|37|107|116|121)\b|sqlite3\.\w{1,20}Error: (?:disk I/O|database is locked)",
         "A file system, mostly one over the network, gave an error",
         (Way("HOME, VLLM_CACHE_ROOT, TRITON_CACHE_DIR, TORCHINDUCTOR_CACHE_DIR and HF_HOME on a local disk "
              "of the node, where the file is one of a cache", "disk; each node fills its own"),
          Way("the mount made anew, and its server or disk looked at (`dmesg` on the host), where the "
              "file is one of the model", "what uses the mount"))),
        (r"sqlite3\.\w{1,20}Error: .{0,40}(?:malformed|not a database)",
         "A cache in a file is broken: mostly that of outlines, which processes of several nodes wrote",
         (Way("the file removed (OUTLINES_CACHE_DIR, ~/.cache/outlines), and a folder on a local disk for it",
              "it is filled anew"),)),
        (r"Permission denied|Read-only file system|Errno (?:13|30)\b",
         "The process may not write where it wants to",
         (_WRITABLE,)),
    ),
    *rows(
        "host_limit",
        (r"can't allocate memory|DefaultCPUAllocator: not enough memory|Cannot allocate memory|Errno 12\b|bad_alloc|"
         r"OUT_OF_HOST_MEMORY|"
         r"(?:^|[\s.])MemoryError\b(?!: Not enough space in the data buffer)|Too large swap space",
         "The host has too little memory, not the device",
         (MORE_HOST,)),
        (r"BrokenProcessPool|SubprocException.{0,200}\b(?:SIGKILL|-9)\b",
         "A process that compiles was ended from outside, mostly for lack of host memory",
         (Way("TORCHINDUCTOR_COMPILE_THREADS=1 (MAX_JOBS=1 for kernels that nvcc builds): fewer compile at "
              "once", "a longer compilation"),
          MORE_HOST)),
        (r"can't start new thread|pthread_create failed|Errno 11\b|"
         r"^(?:\w{1,40}: )?Resource temporarily unavailable",
         "The process may start no more threads",
         (Way("a higher limit of processes (--pids-limit, ulimit -u), processes of earlier starts "
              "ended, OMP_NUM_THREADS=1"),)),
        (r"getpwuid\(\): uid not found",
         "The user of the process has no name in the image (/etc/passwd), which torch looks up",
         (Way("USER with any name, and HOME on a volume that this user may write; "
              "TORCHINDUCTOR_CACHE_DIR alone does not do in every version"),
          Way("a user that the image has (2000 in newer images of vLLM)", "another owner of files"))),
        (r"numa_migrate_pages failed|[gs]et_mempolicy: Operation not permitted",
         "The process may not choose the node of its memory",
         (Way("--cap-add SYS_NICE (or --security-opt seccomp=unconfined) in Docker; in Kubernetes "
              "securityContext.capabilities.add: [SYS_NICE]", "a right of the container"),)),
        (r"AF_UNIX path too long|ipc path .{0,400} is longer than",
         "The path of a socket between processes is too long",
         (Way("VLLM_RPC_BASE_PATH or TMPDIR with a short path, such as /tmp"),)),
        (r"Cannot re-initialize CUDA in forked",
         "The device was used before the engine started its processes",
         (Way.that_sets("each process imports anew", VLLM_WORKER_MULTIPROC_METHOD="spawn"),
          Way("no torch.cuda call before the engine is made", "a change of the program"))),
        (r"finished its bootstrapping phase",
         "A program starts the engine outside of its main part",
         (Way("`if __name__ == \"__main__\":` around the code that makes the engine",
              "a change of the program"),
          Way("another release of the plugin or of vLLM: no program of your own starts it",
              "another image", where={"model_tag": True}))),
    ),
    *rows(
        "model_access",
        (r"No adapter found for ([^\s\"'\]]{1,200})|(\S{1,200}) doesn't contain tensors|'(\S{1,200})/adapter_config\.json'",
         "The LoRA adapter is not there",
         (Way("{1}{2}{3} as the hub has it, or mounted into the container: the folder holds "
              "adapter_config.json"),)),
        (r"No module named '?transformers_modules\.",
         "The code that the model brings cannot be imported",
         (Way("a folder of the model without dots in its name, where it has some: for Python a "
              "dot ends the name of a module"), _MODEL_CODE)),
        (r"No module named '?transformers_modules",
         "The code that the model brings cannot be imported", (_MODEL_CODE,)),
        (r"libstreamer due to: .{0,4}S3 not supported",
         "The streamer of weights has no part for S3 that loads",
         (Way("runai-model-streamer-s3 of the version of runai-model-streamer (`pip install "
              "runai-model-streamer[s3]`), and the system's libraries that it needs (zlib)",
              "some MB of image"),
          Way("the model in a folder or from the hub, without `s3://`", "a copy of the files"))),
        (r"Could not send runai_request to libstreamer due to",
         "The streamer of weights did not reach the files",
         (Way("the keys, the region and the address of the store for the process (AWS_ACCESS_KEY_ID, "
              "AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL), where the model is `s3://`"),
          Way("a newer runai-model-streamer, with its part for the store of the same version",
              "another environment"),
          Way("no --load-format runai_streamer, with the files in a folder", "a copy of the files",
              where={"load_format": "runai_streamer"}))),
        (r"No such file or directory: ''|set environment variable QUANT_CONFIG",
         "A file is opened whose name is empty: a setting that names it is not there",
         (Way("QUANT_CONFIG with the path of the configuration for FP8, which a quantisation of "
              "inc reads, or no --quantization inc for a checkpoint in FP8", devices=("hpu",)),
          Way("a path in the setting that the last frames above the error read"))),
        (r"(?:No such file or directory: '|Failed to load file )\S{0,200}?(?:maxabs_(?:quant|measure)|"
         r"measure_hooks|hooks_maxabs|/inc_output/|/hqt_output/)|"
         r"QUANT PACKAGE: Can't (?:open|load)|shape files are missing from measurement",
         "The measurements for FP8, or their configuration, are not there",
         (Way("QUANT_CONFIG with the path of a file that is in the container, and in that file "
              "`dump_stats_path` with the place of the measurements"),
          Way("measurements of this model on this generation of Gaudi (`calibrate_model.sh` of "
              "vllm-gaudi)", "the time of a calibration"))),
        (r"No such file or directory: '\S{0,200}(?:\.json|\.safetensors|\.model|\.gguf)'",
         "A file of the model is missing", (_COMPLETE,)),
    ),
    *rows(
        "missing_tool",
        (r"cannot find -l(\w{1,40})",
         "The linker does not find a library that kernels are built with",
         (Way("lib{1}.so in a directory of LIBRARY_PATH; libcuda.so comes with the driver as "
              "libcuda.so.1: a link beside it, or the stubs of the CUDA toolkit"),
          _BUILT)),
        (r"fatal error: ['\"]?flashinfer/[\w./]{1,100}: No such",
         "The headers of FlashInfer are not where a build of its kernels looks for them",
         (Way("an empty cache: remove ~/.cache/flashinfer, where a build may name folders of an earlier "
              "installation or image", "its kernels compile once more"),
          Way("flashinfer-python installed anew, in the version that this vLLM names (`pip check`)",
              "another environment"),
          _BUILT)),
        (r"fatal error: ['\"]?([^\s'\":]{1,100})['\"]?(?:: No such file| file not found)",
         "A header that kernels are compiled with is missing",
         (Way("the package with {1} in the image: Python.h is of python3-dev, those of CUDA are "
              "of the toolkit (with nvcc and headers of pip FLASHINFER_EXTRA_CUDAFLAGS=-I and the folder "
              "site-packages/nvidia/cu13/include), those of C (stddef.h, stdlib.h) of gcc and "
              "libc6-dev", "a larger image"), _BUILT)),
        (r"(:/[^\s:]{1,200})/bin/nvcc: not found",
         "CUDA_HOME is a list of folders, and has to be one",
         (Way("CUDA_HOME with one folder alone, such as /usr/local/cuda: it has {1} now"),)),
        (r"Could not find nvcc|requires CUDA (?:>=|version)|CUDA_HOME|cuda_home|nvcc.{0,40}not found|nvcc: not found|"
         r"No such file.{0,60}nvcc",
         "Something that the engine needs is missing",
         (_CUDA_TOOLKIT,
          Way("VLLM_USE_FLASHINFER_SAMPLER=0, where FlashInfer compiles",
              "slower sampling", {"VLLM_USE_FLASHINFER_SAMPLER": "0"}))),
        (r"EPLB communicator (?:'\w{1,20}' (?:requested but|supports only)|backend:)|Failed to initialize \w{1,20}EplbCommunicator|"
         r"NIXL EPLB init failed",
         "The ranks cannot exchange experts by this communicator",
         (Way('--eplb-config with "communicator": "torch_gloo"',
              "experts are exchanged through the host"),
          Way("nixl in the environment of the engine, where it is the communicator",
              "a larger image"),
          Way("no --enable-eplb", "experts are not balanced"))),
        (r"NIXL is (?:not |un)available",
         "Something that the engine needs is missing",
         (Way("nixl in the environment of the engine", "a larger image"),
          Way("another connector in --kv-transfer-config, or none",
              "no transfer between instances"))),
        (r"Ninja is required",
         "Something that the engine needs is missing",
         (Way("install ninja in the environment of the engine, with its bin directory in PATH",
              "a larger image, and the time to build the kernels at the first start"),)),
        (r"(?:[Ii]ndexer|indexer_sparse_logits) .{0,80}DeepGEMM|pinned .{0,10}DeepGEMM|"
         r"(?:MegaMoE|MoE-EP)\b.{0,40} DeepGEMM",
         "A part of the model runs on DeepGEMM alone, which is missing or too old",
         (Way("DeepGEMM of the release of vLLM in the image (vLLM `tools/install_deepgemm.sh`)",
              "a larger image"),
          Way("no --moe-backend of your own", "the engine picks one",
              where={"moe_backend": True}),
          DEEP_GEMM_ALONE)),
        (r"[Dd]eep_?(?:gemm|GEMM)\w?[ '](?:\w{1,20} ){0,2}(?:(?:is )?(?:not |un)available|not (?:installed|found)|"
         r"to be installed|installation|build\b|support in\b|>= ?[\d.]{1,8})|No module named '?deep_gemm",
         "Something that the engine needs is missing",
         (replace(NO_DEEP_GEMM, where={"quantization": "None"}, price="none: it has kernels of 8 bits"),
          Way("DeepGEMM in the image", "a larger image"),
          NO_DEEP_GEMM)),
        (r"\b[Rr]ay version ([\d.]{1,12}\d) is required",
         "A package is missing, or is of another version",
         (Way("ray >= {1} in the environment of the engine, on every node",
              "another environment"),)),
        (r"No module named '?habana_frameworks",
         "The Python part of the Gaudi software is missing",
         (Way("an image of vault.habana.ai (gaudi-docker), or habana-torch-plugin of the "
              "driver's release, in the environment of the engine", "another image"),)),
        (r"'triton' is not a package",
         "Triton is not installed: vLLM stands in for it with an empty module, which torch takes for it",
         (Way("triton of torch's version in the environment, where there is one for this device and "
              "processor", "another environment"),
          Way("a newer vLLM and torch, which start without it", "another image"))),
        (r"No module named '?vllm(?![\w.])",
         "The Python of a process has no vLLM",
         (Way("the same image or environment on every node: Ray starts workers with the Python of "
              "their node, and `ray start` has to run in the environment that has vLLM",
              "another environment", where={"distributed_executor_backend": "ray"}),
          Way("vLLM in the environment whose python runs the process (`python -c 'import vllm'`), and "
              "PYTHONPATH without folders of another one", "another environment"))),
        (r"No module named '?(?!vllm[._'])(\w{1,60})\.[\w.]{1,80}",
         "A package is there, of another version",
         (Way("the version of {1} that this vLLM was made with (`pip check`, the requirements "
              "of the release): the module is not in the one installed", "another image"),
          _SAME_RELEASE)),
        (r"No module named '?amdsmi",
         "The Python part of AMD's monitoring library is missing",
         (Way("that of the ROCm installed in the environment of the engine: `pip install "
              "/opt/rocm/share/amd_smi`"),)),
        (r"No module named '?(?!vllm[._'])([\w.-]{1,80})",
         "A package is missing",
         (Way("install {1} in the environment of the engine: the one whose python runs it",
              "a larger image; its version must fit torch and the driver"),)),
        (r"(libascend_hal\.so[\d.]{0,16}): cannot open shared object",
         "A library of the Ascend driver is missing",
         (Way("the driver of the host in the container: /usr/local/Ascend/driver mounted there, and its lib64 "
              "(common and driver below it) in LD_LIBRARY_PATH"),)),
        (r"(lib(?:ascendcl|hccl|atb|opapi|ge_\w{1,20}|graph|msprofiler|tsdclient|c_sec)\.so[\d.]{0,16}): "
         r"cannot open shared object",
         "A library of the Ascend toolkit (CANN) is missing",
         (Way("`source /usr/local/Ascend/ascend-toolkit/set_env.sh`, and nnal/atb/set_env.sh for libatb.so, "
              "before the start"),
          _SAME_RELEASE)),
        (r"(lib(?:GL|gthread-2\.0|SM|Xext|Xrender)\.so[\d.]{0,16}): cannot open shared object",
         "A library that OpenCV needs is missing",
         (Way("`apt-get install libgl1 libglib2.0-0` in the image, or opencv-python-headless instead of "
              "opencv-python, which does without {1}", "a larger image"),)),
        (r"(lib(?:Synapse|synapse|habana|hcl|hccl_|hl_|hl-|media)[\w.+-]{0,60}\.so[\d.]{0,16}): "
         r"cannot open shared object",
         "A library of the Gaudi software is missing, or is of another release",
         (Way("vLLM for Gaudi of the release that is installed (`hl-smi`, `pip list`): the tag "
              "or image of vLLM that names it, or the software that brings {1}",
              "another image"),)),
        (r"(lib(?:cudart|cublas|cublasLt|nvrtc|nvJitLink|cupti)\.so\.(1\d)): cannot open shared "
         r"object",
         "A package was built for another CUDA than torch",
         _of_one_cuda),
        (r"(lib[\w.+-]{1,60}\.so[\d.]{0,16}): cannot open shared object",
         "A library is missing",
         (Way("what brings {1} into the image, in a directory of LD_LIBRARY_PATH",
              "a larger image"),
          _SAME_RELEASE)),
        (r"(?:No such file or directory|Errno 2\b)[^']{0,60}'([^']{1,200}/aiter/jit/build)\b",
         "AITER compiles its kernels in a folder that is not there",
         (Way("`mkdir -p {1}`, writable for the user, or AITER_JIT_DIR with a folder that is"),)),
        (r"(?:No such file or directory|Errno 2\b)[^']{0,60}'[^']{1,200}\.tmp\.pid_\d",
         "Processes that compile the same kernel wrote to one folder of Triton at once",
         (Way("the same start again: what was compiled is kept"),
          Way("TRITON_CACHE_DIR with a folder on a local disk, one for each engine; a newer vLLM "
              "has one for each rank", "each compiles its kernels"))),
        (r"(?:No such file or directory|Errno 2\b)[^']{0,60}'([^']{1,200})'|"
         r"(?:[Ff]ile|[Dd]irectory|[Pp]ath)[\w ]{0,30} (?:not found|does not exist):? (/\S{1,200})",
         "A file or program is not there",
         (Way("{1}{2} in the image, or mounted there: a path is one inside the container"),)),
        (r"\b(?!(?i:it|which|that|package|module|library|plugin|driver|toolkit|dependency|graph|"
         r"nvcc)\b)([A-Za-z][\w.-]{1,40})['`]? (?:is required .{1,60}?,? "
         r"(?:but|which) )?(?:is|was) not installed|requires installation of (\w{1,40})",
         "A package is missing",
         (Way("install {1}{2} in the environment of the engine: the one whose python runs it",
              "a larger image; its version must fit torch and the driver"),)),
        (r"(?:^|[\s:])([A-Za-z][\w.-]{1,40}) ?((?:>=|==) ?[\d.]{1,12}\d) is required\b|"
         r"^ImportError: .{1,200} requires ([a-z][a-z-]{1,40}) ?((?:>=|==) ?[\d.]{1,12}\d)",
         "A package is missing, or is of another version",
         (Way("{1}{3} {2}{4} in the environment of the engine", "another environment"),)),
        (r"(\S{1,80}): (?:command )?not found|is not installed|ROCM_HOME",
         "Something that the engine needs is missing",
         (Way("install what the message names, in the image or environment of the engine",
              "a larger image; its version must fit that of torch and the driver"),)),
    ),
    *rows(
        "model_access",
        (r"HarmonyError: error downloading or loading vocab",
         "The vocabulary of gpt-oss (Harmony), which is no file of the model, cannot be had",
         (Way("TIKTOKEN_ENCODINGS_BASE with a folder that holds o200k_base.tiktoken and "
              "cl100k_base.tiktoken (https://openaipublic.blob.core.windows.net/encodings/)"),
          Way("the network of the container: a proxy or its certificates"))),
        (r"[Gg]ated ?[Rr]epo|gated repo|403 Client Error|Access to model .{1,160} "
         r"is restricted|awaiting a review",
         "The model is behind a licence or a login",
         (_HF_TOKEN, _LOCAL_COPY)),
        (r"(?:Repo id must be in the form 'repo_name' or 'namespace/repo_name':|"
         r"Invalid repository ID or local directory specified:|Can't load the configuration of) "
         r"'(\.{0,2}/[^']{1,300})'",
         "The folder of the model is not there, or has no configuration",
         (Way("config.json (params.json of a Mistral model) and the weights in {1}, as the "
              "process sees it: check the path and the mount"),)),
        (r"(?:Repo id must|HFValidation).{0,300}'([\w./-]{1,150}):((?:I?Q\d|BF16|F16|F32)\w{0,20})'",
         "This version does not read the name of a GGUF file behind a colon",
         (Way("a newer vLLM, which takes {1}:{2}", "another image"),
          Way("the GGUF file in a local folder as --model, with --tokenizer of the model it was "
              "made from", "a download"))),
        (r"RepositoryNotFound|RevisionNotFound|404 Client Error|(?<!Local)EntryNotFound|HFValidationError|"
         r"Repo id must|Invalid repository ID|not a valid model identifier|"
         r"is not a local folder|Can't load the (?:configuration|model|config)\b",
         "There is no such model or folder",
         (Way("the name as the hub has it (owner/name), or a path that exists inside the "
              "container: check the mount"),
          Way("HF_TOKEN, where the model is private", "a secret for the container"))),
        (r"only supports `use_cache=False`",
         "The model was exported without a KV cache, which vLLM needs",
         (Way("an export with use_cache=True (optimum-cli, task text-generation-with-past), or the folder "
              "of the original model", "another export"),)),
        (r"No supported config format found in \S{1,200}",
         "No configuration of the model could be read: it is not there, or the hub did not give it",
         (_HF_TOKEN,
          Way("a way to the hub from inside the container (proxy, HF_ENDPOINT), or a complete local "
              "folder with config.json as --model", "none, or disk"))),
        (r"401 Client Error|401 Unauthorized",
         "The hub wants a login",
         (_HF_TOKEN, _LOCAL_COPY)),
        (r"429 Client Error|Too Many Requests",
         "The hub refused because of too many requests",
         (_HF_TOKEN, Way("HF_HOME on a volume that all starts share", "disk"))),
        (r"\b50[0234] Server Error|Gateway Time-?out|CAS service error(?!.{0,80}\b40[13] )|Read timed out|"
         r"IncompleteRead|Connection (?:broken|aborted)|RemoteDisconnected|Consistency check "
         r"failed|ReadTimeout|ReadError|read operation timed out",
         "The hub or the way to it broke off the download",
         (Way("the same start again: what was downloaded is kept where HF_HOME outlives it",
              "the rest of the download"), _LOCAL_COPY,
          Way("HF_HUB_DISABLE_XET=1, where the text names CAS or xet",
              "a slower download", {"HF_HUB_DISABLE_XET": "1"}))),
        (r"CERTIFICATE_VERIFY_FAILED|SSLCertVerificationError",
         "The certificate of the hub, or of a proxy before it, is not trusted",
         (Way("REQUESTS_CA_BUNDLE and SSL_CERT_FILE with a file of certificates that holds the one "
              "of the proxy (huggingface_hub before 1.0 reads the first, later the second)"), _LOCAL_COPY)),
        (r"OfflineModeIsEnabled|Cannot reach \S{1,200} offline mode is enabled",
         "The hub may not be used (HF_HUB_OFFLINE), and not every file of the model is here",
         (Way("the folder that holds the files as --model (in HF_HOME it is hub/models--OWNER--NAME/"
              "snapshots/...), and as --tokenizer and in --speculative-config where those name others"),
          Way("HF_HUB_OFFLINE unset for one start, with HF_HOME on a volume: the files stay there",
              "a download"))),
        (r"LocalEntryNotFound|outgoing traffic has been disabled|"
         r"couldn't connect to|[Nn]ame resolution|NameResolutionError|MaxRetryError|"
         r"Network is unreachable|ConnectTimeout|ConnectError|SSLError|"
         r"Failed to establish a new connection",
         "The hub cannot be reached, and the files are not here",
         (Way("the network of the container (DNS, proxy: HTTPS_PROXY, HF_ENDPOINT of a "
              "mirror), or HF_HUB_OFFLINE unset"), _LOCAL_COPY)),
        (r"No tokenizer file found in directory",
         "The folder was taken for one of Mistral's form, and has no tokenizer of that",
         (Way("--tokenizer-mode hf (auto before 0.12)"),
          Way("a complete folder, where tokenizer.json and tokenizer_config.json are missing",
              "another download"))),
        (r"does not appear to have a file named|Cannot find any (?:safetensors )?model weights|"
         r"[Ww]eight files referenced in index but missing|"
         r"Could not detect config format|No (?:safetensors|config file found)",
         "A file of the model is missing", (_COMPLETE,)),
        (r"HeaderTooLarge|HeaderTooSmall|InvalidHeader|MetadataIncompleteBuffer|SafetensorError|"
         r"incomplete metadata|failed finding central directory|unexpected EOF",
         "A file of the weights is broken or not complete",
         (Way("download it again: a file of some hundred bytes is a pointer of git-lfs, "
              "another size than the hub's an interrupted download", "the download"),)),
        (r"start \(\d{1,12}\) \+ length \(\d{1,12}\) exceeds dimension size \(\d{1,12}\)",
         "A tensor is smaller than the part of it that is read",
         (Way("config.json and weights of one checkpoint, where it failed while weights were "
              "loaded: config.json states a larger size than they have"),
          Way("--quantization as the weights were made (Ascend: ascend), where the smaller size is a "
              "half or a quarter: packed weights of 8 or 4 bits of which no file states it"))),
        (r"UnicodeDecodeError",
         "A file that was read as text is none",
         (Way("--model with the folder of a model, or a file of which the name ends in .gguf: another "
              "file is read as a configuration"), _JSON_FILES)),
        # Python `json/decoder.py`, also where a check of a configuration keeps the text alone.
        (r"JSONDecodeError|is not a valid JSON file|"
         r"(?:Expecting (?:value|property name|'.' delimiter)|Extra data|Unterminated string).{0,60}: "
         r"line \d",
         "A JSON text cannot be read", (_JSON_FILES,)),
    ),
    *rows(
        "model_unsupported",
        (r"expected (?:scalar type|m\w{1,4} and m\w{1,4} to have the same dtype).{0,60}(?:Half|BFloat16|Float)",
         "Two parts of the model compute in different types",
         (Way("--dtype as `torch_dtype` of config.json: half where the quantisation or the adapter "
              "was made so, bfloat16 otherwise", "check the quality"),
          Way("a newer vLLM, where the code of the model mixes them", "another image"))),
        (r"Invalid type of HuggingFace processor\. Expected type: .{1,200} but found type: .{0,80}Tokenizer",
         "transformers found no processor for images or sound, and gave the tokenizer instead",
         (Way("processor_config.json and preprocessor_config.json in the folder of the model, as the hub "
              "has them, and the folder itself as --tokenizer, where another one is set", "a download"),
          Way("the transformers that the model was made with (`transformers_version` in its config.json), "
              "as far as the release of vLLM allows it (`pip check`)",
              "models that need another one do not load"))),
        (r"Failed to load the tokenizer",
         "transformers does not load the tokenizer of the model",
         (Way("a newer transformers, as the model card or `transformers_version` in its "
              "config.json names it: a class that it does not know is the usual cause",
              "another image"),
          Way("--trust-remote-code, with --revision of a commit whose code was read, where the "
              "model brings a tokenizer of its own", "code of the repository runs in the engine",
              {"trust_remote_code": True}))),
        (r"trust_remote_code=True|--trust-remote-code|`trust_remote_code`|custom code which must be executed|"
         r"execute the configuration file",
         "The model brings its own code, which is not run unasked",
         (Way("--trust-remote-code, with --revision of a commit whose code was read",
              "code of the repository runs in the engine", {"trust_remote_code": True}),
          Way("a newer vLLM or transformers that has the architecture", "another image"))),
        (r"model type [`'\"]?([\w.-]{1,60}\w)[`'\"]? but [Tt]ransformers does not recognize",
         "The installed transformers does not know this kind of model",
         (Way("a vLLM whose list of supported models has {1}, with the transformers it requires",
              "another image"),
          Way("a newer transformers that has {1} (`pip install -U transformers`), where this vLLM "
              "has the model and another one is not ruled out (`pip check`)",
              "models that need the older one do not load"))),
        (r"\['(?:Llama|Qwen2|Mistral|Mixtral|Gemma)ForCausalLM'\] are not supported for now",
         "A module that every model needs failed when it was imported: each release has this one",
         (Way("what the first error above the line requires: a package that is missing or of "
              "another version (often numpy, transformers, torchvision)", "another environment"),
          _SAME_RELEASE)),
        (r"^RuntimeError: (?:mat1 and mat2 shapes|a and b must have same)|"
         r"fake tensors.{0,900}(?:must have same reduction dim|cannot be multiplied|must match the size)",
         "Two parts of the model have sizes that do not fit",
         (_ONE_DRAFT,
          Way("a vLLM whose code of the model fits the checkpoint: a newer one, or the one that "
              "last started it", "another image"),
          Way("the other model runner, where the release has both (VLLM_USE_V2_MODEL_RUNNER=1 "
              "or 0)", "what it does not do yet"))),
        (r"No model architectures are specified",
         "The configuration of the model names no architecture",
         (Way("--hf-overrides '{{\"architectures\": [\"...\"]}}' with the one that the model card names"),
          _COMPLETE)),
        (r"is not supported in-tree anymore",
         "The architecture of the model is in a plugin now",
         (Way("the plugin that the message names, in the environment of the engine",
              "another package"),
          Way("an older vLLM, which has the architecture", "another image"))),
        (r"GGUF model with architecture|Unknown gguf model_type|^ValueError: Architecture \w{1,40} not supported",
         "GGUF files of this architecture cannot be read",
         (Way("weights of the model in the form of Hugging Face (safetensors) instead of GGUF: AWQ, "
              "GPTQ or FP8 for as few bits", "another download"),
          Way("a newer vLLM, with its GGUF plugin and transformers, where they read it",
              "another image"))),
        (r"does not recognize this architecture|model type `?[\w.-]{1,60}`? but|"
         r"(?<!earlier )architectures? .{1,200}(?:not supported|no vLLM "
         r"implementation)|has no vLLM implementation|Unsupported architecture|"
         r"Unrecognized (?:model|configuration class)|"
         r"is not a registered model in the Transformers",
         "This version does not know the architecture of the model",
         (Way("a vLLM whose list of supported models has it, with the transformers it requires",
              "another image"),
          Way("--model-impl transformers, where transformers knows it", "slower; not for all "
              "architectures"))),
        (r"Found \d{1,6} files matching the pattern|"
         r"'(?:Mistral|Sentence[Pp]iece|Tekken)(?!\w{0,30}Processor)\w{0,20}' object has no "
         r"attribute",
         "The tokenizer of Mistral's form does not fit the files of the model or the code",
         (Way("--tokenizer-mode hf (auto before 0.12), and no --config-format and --load-format of mistral, where "
              "the folder has files of Hugging Face's form"),
          Way("the files of Mistral's form (tekken.json, params.json), or mistral-common and "
              "transformers as the release of vLLM names them", "another download or image"))),
        (r"is unsupported LoRA weight",
         "A LoRA adapter holds a weight that the engine takes from no adapter",
         (Way("an adapter of LoRA weights (lora_A, lora_B) alone: trained without "
              "modules_to_save, and saved by peft without weights of the model itself",
              "another adapter"),
          Way("the adapter merged into the model (peft: merge_and_unload), without "
              "--enable-lora", "a whole model for each adapter"),
          Way("a newer vLLM, where the weight is one of a layer that has adapters there",
              "another image"))),
        (r"limit_mm_per_prompt\W{1,3}is only supported for multimodal",
         "This version takes the model for one of text only",
         (Way("a vLLM, with the transformers it requires, that knows the model with its images",
              "another image"),
          Way("no --limit-mm-per-prompt, where only text is wanted", "images are refused"))),
        (r"did not match any variant of untagged enum",
         "The tokenizer's file was written by newer tokenizers than are installed",
         (Way("newer transformers and tokenizers, as far as the release of vLLM allows them "
              "(`pip check`), or a newer vLLM", "another image"),
          Way("a tokenizer.json that these versions read: the revision of the model before, or "
              "--tokenizer with another folder", "another download"))),
        (r"Tokenizer class \S{1,80} does not exist",
         "The installed transformers does not know the tokenizer of the model",
         (Way("a newer transformers, as the model card or `transformers_version` in its "
              "config.json names it, as far as the release of vLLM allows it; or a newer vLLM",
              "another image"),
          Way("--trust-remote-code, with --revision of a commit whose code was read, where the "
              "model brings this class", "code of the repository runs in the engine",
              {"trust_remote_code": True}))),
        (r"(?:sure you have|need to have) (sentencepiece|tiktoken)(?: or \w{1,20})? installed",
         "The tokenizer of the model is read by a package that is missing",
         (Way("`pip install {1}` in the environment of the engine"),
          Way("tokenizer.json in the folder of the model, which is read without it"))),
        (r"instantiate the backend tokenizer|"
         r"Can't load tokenizer|load vocabulary|[Ss]entence[Pp]iece|[Tt]iktoken|"
         r"model_file or model_proto must be|TypeError: not a string$",
         "The tokenizer of the model cannot be loaded",
         (Way("the files of the tokenizer (tokenizer.json or tokenizer.model, "
              "tokenizer_config.json) in the folder of the model, where they are missing"),
          Way("transformers and tokenizers as new as the model, with sentencepiece or tiktoken "
              "installed; --tokenizer for another folder, --tokenizer-mode mistral for "
              "Mistral files", "another image"),)),
        (r"only supports modules_to_save being None|does not yet support DoRA",
         "An adapter was trained in a way that the engine does not load",
         (Way("an adapter of LoRA weights alone: trained by peft without modules_to_save and "
              "without DoRA", "another adapter"),
          Way("the adapter merged into the model (peft: merge_and_unload), without "
              "--enable-lora", "a whole model for each adapter"))),
        (r"When using LoRA, vocab size must be|No supported LoRA modules found in",
         "This version gives the layers of the model no adapters",
         (Way("the adapter merged into the model (peft: merge_and_unload), without "
              "--enable-lora", "a whole model for each adapter"),
          Way("a newer vLLM: more models have adapters there, and the largest vocabulary with "
              "them grew from 257024 (0.11) to 258048 (0.33)", "another image"))),
        (r"not support (?:BitsAndBytes|BNB)\b|BitsAndBytes .{1,60} not support|"
         r"method 'load_weights' is not defined in class",
         "This version does not load the model with bitsandbytes",
         (Way("another build of the model: AWQ, GPTQ or FP8, without --quantization bitsandbytes",
              "another checkpoint; check its quality and size"),
          Way("a newer vLLM, where the model or its experts can do it", "another image"),
          Way("16 bits: no --quantization and no --load-format bitsandbytes",
              "four times the weights of 4 bits", where={"quantization": "bitsandbytes"}))),
        (r"expected target modules in",
         "A LoRA adapter has modules that the engine gives no adapter",
         (Way("an adapter trained on modules of the list in the message", "another adapter"),)),
        (r"Unknown quantization method: (\w{1,40})",
         "This version does not know the quantisation",
         (Way("a newer vLLM, whose list has {1}, where the checkpoint states it", "another image"),
          Way("no --quantization, where it is set: the engine reads it from the checkpoint"))),
        (r"Unsupported quantization method|Cannot find any of .{1,80} quantization config|"
         r"Quantization method specified in the model config|Unknown quantization(?! (?:strategy|scheme|config mode))|"
         r"Cannot find the config file for \w{1,40}",
         "The quantisation requested is not that of the checkpoint",
         (Way("no --quantization: the engine reads it from the checkpoint"),)),
        (r"Unknown quantization config mode",
         "The file of QUANT_CONFIG has a mode that is neither of both",
         (Way('"mode": "MEASURE" or "QUANTIZE" in the file of QUANT_CONFIG'),)),
        (r"Found unknown quantization=",
         "The reader of Mistral's form does not know how the checkpoint is quantised",
         (Way("no --config-format mistral and no --load-format mistral, where the folder has "
              "files of Hugging Face's form, which state it as well"),
          Way("a newer vLLM, whose reader knows it", "another image"))),
        (r"No (?:(?:compressed-tensors|quark) compatible|INC) scheme|Unknown quantization (?:strategy|scheme)|"
         r"requires consistent quant config|must use the same quantization(?! method)|"
         r"(?:w\d{1,2}a\d{1,2}|quantization|compressed format|zero-point) (?:is )?not (?:yet )?supported on "
         r"(?:HPU|Gaudi)|Unsupported (?:FusedMoe scheme|"
         r"quantization (?:scheme|config)|GGUF quantization|ModelOpt(?! NVFP4 MoE activation override)|weight_bits|num_bits|"
         r"gptq type|groupsize|bnb_4bit)|requires all to use the same scheme|"
         r"[Cc]urrently (?:only )?support(?:s|ed)(?: only)?:? (?!only unq|unquantized|quantization operation).{0,40}quantization|"
         r"models are no longer supported|only supports? (?:gptq and awq|4-?bit|int4 and int8)|"
         r"only supports .{1,40}serialized checkpoint",
         "This version has no kernels for the way in which the checkpoint is quantised",
         (Way("a newer vLLM, with the compressed-tensors that it requires", "another image"),
          Way("another build of the model: of a scheme that this version loads, or 16 bits",
              "another checkpoint; check its quality and size"))),
        (r"Currently, only ([\d/]{1,9}-bit) weight quantization is supported for (\w{1,20})",
         "This device runs other bits of this quantisation only",
         (Way("another build of the model: {2} of {1}, or 16 bits",
              "another checkpoint; check its quality and size"),)),
        (r"not initialized from checkpoint: \{'(?:model\.)?(?:visual|vision|audio)\w{0,20}\.",
         "The checkpoint has no weights for images or sound, which the architecture has",
         (Way("--language-model-only, where this version has it and only text is wanted",
              "requests with images or sound are refused"),
          Way("a checkpoint of the whole model", "another download"))),
        (r"KeyError: '(?:[\w.]{1,40}\.)?layers\.\d{1,4}\.(?:attention\.w[kqvo]|feed_forward\.w[123])\.",
         "The weights are in Mistral's form, and were read as those of Hugging Face's",
         (Way("--config-format mistral --load-format mistral --tokenizer-mode mistral",
              "params.json and tekken.json have to be there", {"config_format": "mistral",
              "load_format": "mistral", "tokenizer_mode": "mistral"}),
          Way("consolidated*.safetensors out of the folder, where the files of Hugging Face's form "
              "are there as well"))),
        (r"\.(?:absmax|nested_absmax|quant_map|quant_state\.bitsandbytes\w{0,20})'",
         "The checkpoint is one of bitsandbytes, and was read as another",
         (Way("--quantization bitsandbytes --load-format bitsandbytes", "none",
              {"quantization": "bitsandbytes", "load_format": "bitsandbytes"}),
          Way("--pipeline-parallel-size instead of --tensor-parallel-size, or a newer vLLM, where "
              "this version divides no such weights among ranks", "stages run one after the other"))),
        (r"'(?:[\w.]{0,80}\.)?(\w{1,40})\.weight\.bitmask'",
         "A layer is stored sparse in the checkpoint, as this version does not read it",
         (Way("a build of the model that is saved without it (`disable_sparse_compression=True` in "
              "save_pretrained of llm-compressor)", "a larger checkpoint"),
          Way("the vLLM that the checkpoint was made for, with its compressed-tensors",
              "another image"))),
        (r"'(?!(?:[\w.]{0,80}\.)?mtp\.)(?:[\w.]{0,80}\.)?(\w{1,40})\.(?:w(?:13|2)_)?(?:weight_packed|weight_scale\w{0,10}|input_scale|"
         r"weight_zero_point|weight_shape|qweight|qzeros|scales|g_idx)'",
         "A layer is quantised in the checkpoint, and not in this version",
         (Way("a vLLM as new as the checkpoint, which may hold {1} quantised, or the one that the "
              "checkpoint was made for", "another image"),
          Way("a build of the model in which {1} is not quantised (the list `ignore` of "
              "llm-compressor, `modules_to_not_convert` of others)", "another checkpoint"),
          Way("--quantization, where config.json lacks its quantization_config"),
          _ONE_DRAFT)),
        (r"no module or parameter named .{0,400}\(Jax\w{1,40}\) are: set\(\)",
         "A layer has no parameters when its weights are loaded (tpu-inference)",
         (Way("no quantisation of your own in --additional-config (Qwix), or one after loading: "
              "use_abstract_model false there", "the whole model is loaded before"),
          Way("a tpu-inference as new as the checkpoint", "another image"))),
        (r"(?:KeyError: |not initialized from checkpoint: \{)'(?:[\w.]{0,80}\.)?mtp(?:_block)?\.|"
         r"no module or parameter named '[\w.]{1,80}' in \w{1,60}MTP\b",
         "The checkpoint and the engine disagree about the weights of the layers that draft (MTP)",
         (Way("no --speculative-config: the model without these layers", "slower decoding"),
          Way("a vLLM as new as the checkpoint, or the revision of the checkpoint that this version "
              "was tested with", "another image or checkpoint"),
          replace(_ONE_DRAFT, where={}))),
        (r"KeyError: '(?:(?:[\w.]{1,80}\.)?layers\.\d|[\w.]{1,120}\.(?:weight|bias)')|no module or parameter named|not initialized from checkpoint|size mismatch for (?!mm_hash|layer )|"
         r"^ValueError: (?i:unexpected|unknown|missing) (?:[\w./-]{1,30} ){0,4}(?:weight|tensor|parameter)s?\b(?! type)|"
         r"Attempted to load weight(?: \(torch\.Size\(\[(\d{1,7}), (\d{1,7})\]\)\) into parameter "
         r"\(torch\.Size\(\[\d{1,7}, (\d{1,7})\]\)\))?|Tried to load weights of size|"
         r": assert .{0,100}loaded_weight\.(?:shape|size|numel)",
         "The checkpoint and the engine disagree about the weights", _of_other_weights),
    ),
    *rows(
        "build_failed",
        (r"compiled artifact is not serializable",
         "What was compiled cannot be kept, and a start that keeps nothing gets past it",
         (Way.that_sets("each start compiles anew", VLLM_DISABLE_COMPILE_CACHE="1"), EAGER)),
        (r"Graph compile failed",
         "The graph compiler of the Gaudi software failed",
         (Way("ENABLE_CONSOLE=true LOG_LEVEL_ALL=3: the lines before the error name the graph "
              "and why", "the log does not hold more than this", kind="look"),
          _GAUDI_OF_ONE,
          _OTHER_GAUDI_RELEASE,
          SMALLER_BUCKETS)),
        (r"is not matching with the offset of new tensor",
         "A warm-up that only compiles used the values of a tensor, which it had not computed",
         (Way("VLLM_MM_WARMUP_OUTSIDE_COMPILE_ONLY=true with a newer vllm-gaudi, where the frames lead "
              "through the part for images: their shapes follow from values", "a longer warm-up"),)),
        (r"synNodeCreate\w{0,20} failed",
         "The graph compiler of the Gaudi software refused an operation",
         (Way("ENABLE_CONSOLE=true LOG_LEVEL_ALL=3: the lines before the error name the "
              "operation and why", "the log does not hold more than this", kind="look"),
          _GAUDI_OF_ONE,
          _OTHER_GAUDI_RELEASE)),
        (r"aot_compile is not supported by the current configuration",
         "This torch does not compile a model ahead of its first run",
         (Way.that_sets("it compiles with the first run", VLLM_USE_AOT_COMPILE="0"),
          Way("torch of the version that the release of vLLM requires", "another image"), EAGER)),
        (r"corrupted compilation artifact|Inductor cache lookup failed|failed to get the hash of the compiled graph",
         "A graph was not compiled, or an artefact of an earlier start that failed was loaded",
         (Way("an empty compile cache: remove ~/.cache/vllm/torch_compile_cache (under "
              "VLLM_CACHE_ROOT where that is set); an error of the compiler itself shows then",
              "one cold start"),
          Way("TORCHINDUCTOR_FORCE_DISABLE_CACHES unset, with torch before 2.8"),
          EAGER)),
        (r"/jit/compiler\.hpp:\d{1,6}.{1,20}runtime != nullptr",
         "DeepGEMM compiled a kernel, and its files are not in its cache as they should be",
         (Way("an empty cache on a disk of the host: DG_JIT_CACHE_DIR, where unset "
              "VLLM_CACHE_ROOT/deep_gemm; an earlier start may have left a part there",
              "its kernels compile once more"),
          NO_DEEP_GEMM)),
        (r"nvcc fatal\s{0,4}: (?:Unknown option|Value '.{1,40}' is not|"
         r"A single input file is required)|CUDA compiler and CUDA toolkit headers are incompatible|"
         r"ptxas fatal.{0,300}[Nn]inja|[Nn]inja.{0,600}ptxas fatal",
         "The compiler of CUDA (nvcc, ptxas) is of another version than the kernels or the device "
         "need",
         (Way("a newer CUDA toolkit in the image, as torch's, with CUDA_HOME and PATH naming it "
              "(`nvcc --version`); an older one for a device that it has left out; nvcc and "
              "headers of one release (of pip: nvidia-cuda-nvcc, -runtime and -crt)",
              "some GB of image"),
          _BUILT,
          _NO_FLASHINFER_SAMPLER)),
        (r"/ptxas-blackwell'.{0,600}returned non-zero exit status",
         "The assembler (ptxas-blackwell), which makes the code of Triton's kernels, failed",
         (Way("TRITON_PTXAS_BLACKWELL_PATH with the ptxas of a CUDA that has the device, such as "
              "/usr/local/cuda/bin/ptxas", "the CUDA toolkit in the image"),
          Way("torch with a newer Triton, which brings a newer one", "another image"))),
        (r"PTXASError|PTXAS error|ptxas(?:-blackwell)? fatal|/ptxas'.{0,600}returned non-zero exit status",
         "The assembler (ptxas), which makes the code of Triton's kernels, failed",
         (Way("TRITON_PTXAS_PATH (for capability 10 and above TRITON_PTXAS_BLACKWELL_PATH, since "
              "Triton 3.6) with the ptxas of a CUDA that knows the device, such as "
              "/usr/local/cuda/bin/ptxas", "the CUDA toolkit in the image"),
          Way("torch and Triton of a release that was made for this device", "another image"))),
        (r"(?:failed|error|not permitted|invalidated).{0,80}during (?:stream |graph )?capture|"
         r"cudaErrorStreamCapture|stream is capturing|during (?:cuda)?graph capture",
         "A graph was not captured",
         (Way("--compilation-config '{{\"cudagraph_mode\": \"PIECEWISE\"}}', or a newer vLLM",
              "attention runs without a graph; the error that came first may be above the line"),
          EAGER)),
        (r"C compiler|Python\.h|gcc.{0,600}(?:failed|non-zero|not found)",
         "Triton or torch could not build a kernel",
         (_COMPILER, EAGER)),
        (r"[Nn]inja|Error (?:building|compiling) (?:extension|objects)|nvcc fatal|"
         r"Error building",
         "Kernels that are built at the first start did not build",
         (Way("the lines of the compiler above the error: a missing header, too little memory "
              "(MAX_JOBS=4) or a CUDA older than the device", "the log holds them only where "
              "they were printed", kind="look"),
          _BUILT)),
        (r"Observed\w{1,60}(?:Error|Exception)\b",
         "The code of the model raised an error while it was compiled",
         (Way("what the text of the error requires; the same code raises it without "
              "compilation too", "the text names the setting, if there is one"),)),
        (r"(?i:recompile_?limit)",
         "A function was compiled for more shapes than its limit allows",
         (Way("another --attention-backend, where the traceback leads through flex_attention",
              "another kernel, which may be slower"),
          Way("a newer vLLM or torch, or the one that last started this model", "another image"),
          Way("--enforce-eager", "does not help where the function is one of the sampler or of a "
              "kernel: these are compiled all the same", kind="no help"))),
        (r"CalledProcessError: Command '' died with <Signals\.SIGHUP: 1>",
         "The compiler of Neuron failed: the libraries give -1 for it, and no signal was sent",
         (Way("what neuronx-cc printed above the error, or its log (log-neuron-cc.txt) in the folder "
              "of the compilation", "the error itself does not hold the cause", kind="look"),
          Way("more host memory, or fewer compilations at once: dmesg shows whether the kernel ended "
              "the compiler", "host memory"))),
        (r"InductorError.{0,200}?(?:PassManager::run failed|LLVM ERROR: )",
         "Triton could not compile a kernel of a compiled graph for this device",
         (EAGER, _TRITON_RELEASE)),
        (r"InductorError|BackendCompilerFailed|argument: 'inner_exception'|(?<!compiler\.errors\.)CompilationError|TritonMissing|"
         r"(?<!AttributeError: )torch\._(?:dynamo|inductor)",
         "Compilation failed",
         (EAGER, Way("an empty cache (VLLM_CACHE_ROOT, TORCHINDUCTOR_CACHE_DIR) and the "
                      "versions of one release", "one cold start"))),
        (r"triton\.compiler\.errors\.\w{0,30}Error|PassManager::run failed|LLVM ERROR: |stack frame size \(\d{1,9}\) exceeds limit",
         "Triton could not compile a kernel for this device",
         (Way("another attention backend, where the traceback ends in a kernel of attention",
              "another kernel, which may be slower"),
          _TRITON_RELEASE,
          Way("VLLM_USE_TRITON_FLASH_ATTN=0", "another kernel of attention, before vLLM 0.11",
              {"VLLM_USE_TRITON_FLASH_ATTN": "0"}, devices=("rocm",)))),
    ),
    *rows(
        "packages_mismatch",
        (r"deployment target .{0,40}is not supported on this OS|language version ([\d.]{1,6}\d) which is "
         r"not supported on this OS|newer than running OS|invalid value '(metal[\d.]{1,6})'",
         "The kernels of MLX were built for a newer macOS than this one",
         _older_metal),
        (r"Failed to load the default metallib|(?:mlx\.metallib|libmlx\.dylib).{0,300}(?:not found|no such file)",
         "MLX does not find its kernels (mlx.metallib)",
         (Way("mlx and mlx-metal of one version, installed anew into the environment of the engine",
              "a download"),)),
        (r"'_C' object has no attribute 'awq_",
         _NO_KERNELS,
         (Way.that_sets("slower: kernels of Triton stand in for those of CUDA",
                        VLLM_USE_TRITON_AWQ="1"), _FOR_THIS_DEVICE, _AS_BUILT)),
        (r"'_C' object has no attribute '(?:gptq|marlin|cutlass|machete)_",
         _NO_KERNELS,
         (_FOR_THIS_DEVICE, _AS_BUILT)),
        (r"No module named '?vllm\.(?:_|vllm_flash_attn\b)|_OpNamespace|Could not run '_\w{0,20}C\w{0,20}::|"
         r"name 'vllm_(?:cache_)?ops' is not defined|instantiate class '_\w{0,20}C\.",
         "The compiled part of vLLM is missing, was built for another device or torch, or lacks an "
         "operation there",
         (_AS_BUILT,
          Way("a newer vLLM, where the log has no line that importing vllm._C failed",
              "another image"))),
        (r"failed to be inspected|Could not import module '\w{1,80}'\. Are this object",
         "A module that the model needs failed when it was imported",
         (Way("what the first error above the line requires: the traceback of the import names "
              "a package that is missing or of another version (often transformers, "
              "torchvision)", "another environment"), _SAME_RELEASE)),
        (r"No package metadata was found for vllm",
         "vLLM is installed under another name, and its command reads the version by its own",
         (Way("the wheel of the release (vllm), or one for this device that is a package "
              "`vllm`", "another environment"),
          Way("`python -m vllm.entrypoints.openai.api_server`, which reads no version at its "
              "start", "none; the platform may still not be found without it"))),
        (r"has no attribute '?all_special_tokens_extended",
         "transformers 5 or newer is installed, and vLLM before 0.12 needs an older one",
         (Way("`pip install 'transformers<5'` in the environment of the engine",
              "models that need the newer one do not load"),
          Way("vLLM 0.12 or newer, in a fresh environment", "another image"))),
        (r"'\w{1,60}(?:Tokenizer|TokenizerFast|Processor|FeatureExtractor)' object has no attribute|"
         r"TypeError: \w{1,60}(?:Tokenizer|TokenizerFast|Processor|FeatureExtractor)\.\w{1,40}\(\) (?:got|missing)|"
         r"'list' object has no attribute 'keys'|Expected there to be \d{1,6} prompt updates|PreTrainedModel\.\w{1,80}\(\) got an unexpected|"
         r"Failed to apply \w{1,60}Processor\b",
         "The tokenizer or processor of the model and transformers are of different releases",
         (Way("the newest files of code in the folder of the model, where the class is one of them "
              "(processing_*.py)", where={"trust_remote_code": True}),
          Way("the transformers that the model was made with: `transformers_version` in its "
              "config.json, as far as the release of vLLM allows it (`pip check`)",
              "models that need another one do not load"),
          _SAME_RELEASE)),
        (r"(flashinfer-[a-z-]{3,20}) version \(([\w.+]{1,20})\) does not match flashinfer version "
         r"\(([\w.]{1,20})\)",
         "Two packages of FlashInfer are of different versions",
         (Way("{1} of {3} (`pip install {1}=={3}`, from the index that has it for this CUDA), or without "
              "{1}, as FlashInfer compiles its kernels then", "another environment"),
          _SAME_RELEASE)),
        (r"type 'array\.array' is not subscriptable",
         "A package needs Python 3.12: there `array.array` is a generic type",
         (Way("Python 3.12 or newer in the environment, or the release of the package before",
              "another environment"),)),
        (r"Config' object has no attribute '(?:num_\w{1,30}|vocab_size|hidden_size)'",
         "The model has a configuration in parts, which this vLLM does not read",
         (Way("a newer vLLM: models of several parts are read by the release that added them, "
              "whatever transformers has", "another image"),
          _OTHER_TRANSFORMERS)),
        (r"StrictDataclass\w{1,40}Error|'dict' object has no attribute '(?:model_type|vocab_size|hidden_size|"
         r"num_\w{1,30})'|KeyError: '(?:rope_t(?:ype|heta)|rope_scaling|factor|original_max_position_embeddings|"
         r"mrope_section|attention_factor)'$|rope_scaling.{0,40}(?:must be a dictionary|should have a)|assert \"\w{1,20}\" in "
         r"rope_scaling|"
         r"Invalid type of HuggingFace|'(?!(?:Vllm|Model|Cache|Parallel|Scheduler|Device|Load|"
         r"LoRA|Speculative|Compilation|Observability|KV|Structured|Decoding|MultiModal|Pooler|"
         r"Pass|Attention|Kernel|Offload|\w{0,40}Quant|Fp8|AWQ|GPTQ|BitsAnd|Compressed|INC)"
         r"\w{0,40}')\w{1,80}Config' object has no attribute",
         "The configuration of the model has another form than this vLLM reads",
         (_OTHER_TRANSFORMERS, _SAME_RELEASE)),
        (r"Either a revision or a version must be specified",
         "The package kernels is newer than transformers allows",
         (Way("an older kernels, as the release of transformers names it (for 5 below 0.15), or "
              "none: it is optional", "another environment"), _SAME_RELEASE)),
        (r"module 'cutlass\b[\w.]{0,60}' has no attribute",
         "A package was made for another CuTe DSL (nvidia-cutlass-dsl) than is installed",
         (Way("a newer release of the package whose frame is above the error (quack-kernels, "
              "flashinfer), as the release of vLLM requires it, in a fresh environment: an upgrade "
              "in place keeps old ones (`pip install -U quack-kernels`)", "another environment"),
          Way("nvidia-cutlass-dsl of the version before, where no such package is newer",
              "what needs the newer one"))),
        (r"AttributeError: torch\.[\w.]{1,80} does not exist$",
         "torch has no such switch of its compiler: it is of another version than this vLLM was made for",
         (Way("torch of the version that the release of vLLM requires (`pip check`), in a fresh "
              "environment", "another environment"),
          _SAME_RELEASE, EAGER)),
        (r"cannot import name '\w{1,80}' from '(?!vllm[.'])(\w{1,60})|"
         r"module '(torch|triton|flashinfer|transformers)[\w.]{0,60}' has no attribute",
         "A package is there, of another version",
         (Way("the version of {1}{2} that the release of vLLM, or the plugin that imports from it, "
              "requires (`pip check`)", "another environment"), _SAME_RELEASE)),
        (r"(\w{1,40}) needs (\w{1,40} [\d.]{1,12}\d or (?:less|greater))\.",
         "A package is of a version that another one cannot use",
         (Way("{2} in the environment of the engine, or a newer {1}", "another environment"),)),
        (r"was removed (?:from the \w{1,40} class )?in (?:the )?NumPy 2",
         "A package was written for NumPy 1",
         (Way("`pip install 'numpy<2'`, or a newer release of the package that the last frame "
              "above the error names", "other packages may need the newer NumPy"),)),
        (r"No module named '?(vllm[\w.]{1,80})|cannot import name '\w{1,80}' from '(vllm[\w.]{0,80})",
         "A program or plugin was made for another release of vLLM, or vLLM is not the one installed",
         (Way("the plugin or program whose frame is above the error, of the release that is made "
              "for the vLLM installed, or the vLLM that it names, where that frame is none of vLLM's",
              "another environment"),
          Way("a start outside of vLLM's source folder, where vLLM itself imports {1}{2}: a folder "
              "`vllm` in the current one hides the package (`python -c 'import vllm; "
              "print(vllm.__file__)'`)"),
          Way("vLLM built anew, where it is installed from its sources: its compiled parts are of an "
              "earlier commit", "time, and a compiler"),
          _SAME_RELEASE)),
        (r"'([\w-]{1,40})' is already used by a Transformers config",
         "transformers has a kind of model by now that this vLLM brings itself",
         (Way("the transformers before it had {1}, as this vLLM was made with (`pip check`; for "
              "aimv2 `pip install 'transformers<4.54'`)", "models that need a newer one do not load"),
          Way("a newer vLLM", "another image"))),
        (r"/(lib[\w+]{1,20})\.so[.\d]{0,8}: version `((?:GLIBC|GLIBCXX|CXXABI)_[\d.]{1,12})' not found",
         "The system is older than a package was built for",
         (Way("an image or a distribution whose {1} has {2} (`strings` lists what one has)",
              "another image"),
          Way("a package that was built for this system: another wheel of it, or one built here",
              "another environment"))),
        (r"-packages/(?!vllm[/.])([A-Za-z]{1,30}(?:_[a-z]{1,30})?)\S{0,200}: undefined symbol: "
         r"_ZNK?\d{1,2}(?:torch|c10|at)[\dA-Z]",
         "A package was built for another torch than is installed",
         (Way("{1} built for the torch that is installed: `pip install --force-reinstall "
              "--no-build-isolation` of its package, or its wheel for this torch and CUDA",
              "time, and a compiler"),
          Way("{1} removed, where the start does without it (flash-attn: vLLM brings its own kernels)"),
          _SAME_RELEASE)),
        (r"undefined symbol: _ZNK?\d{1,2}(?:torch|c10|at)[\dA-Z]",
         "A package was built for another torch than is installed",
         (Way("torch of the version and kind that the package was built for (`pip check`; on "
              "Gaudi that of its software, which a torch that pip installs replaces)",
              "another environment"),
          _SAME_RELEASE,
          Way("the package built anew against this torch", "time, and a compiler"))),
        (r"(?:-packages/(?!vllm[/.]|torch/|nvidia/)|/\.(?=aiter/))([A-Za-z]{1,30}(?:_[a-z]{1,30})?)\S{0,200}: undefined "
         r"symbol: ",
         "A package does not fit the libraries that are installed",
         (Way("another release of {1}: a newer one, or the one that this vLLM names (`pip check`); what "
              "it compiled at an earlier start is removed with it", "another environment"),
          _SAME_RELEASE)),
        (r"vllm/_\w{1,40}\.\S{0,40}: undefined symbol: _Z\d",
         "The compiled part of vLLM is not of its sources",
         (Way("vLLM built anew in an empty build folder, for the devices that are there "
              "(TORCH_CUDA_ARCH_LIST)", "time, and a compiler"),
          Way("the wheel or image of the release instead of a build of your own",
              "another environment"))),
        (r"CUBLAS_STATUS_(?:INVALID_VALUE|NOT_SUPPORTED)|SUBLIBRARY_VERSION_MISMATCH",
         "A library of CUDA (cuBLAS, cuDNN) was loaded of another version than torch has",
         (Way("LD_LIBRARY_PATH unset, which puts a CUDA of the system before torch's own"),
          Way("nvidia-cublas and nvidia-cudnn of the versions that torch requires (`pip check`), "
              "in a fresh environment", "another environment"))),
        (r"undefined symbol: \w{1,80}, version (lib[\w+-]{1,40}\.so[.\d]{0,10})",
         "An older library was loaded before the one that a package brings",
         (Way("LD_LIBRARY_PATH unset, or with the folder of the {1} that the package brings first "
              "(of pip site-packages/nvidia/.../lib; `ldd` of the file in the error shows "
              "which one is loaded)"),
          _SAME_RELEASE)),
        (r"undefined symbol|torchvision::nms does not exist|Numpy is not available|version `\w{1,20}_[\d.]{1,12}' not found|"
         r"compiled using NumPy 1|multiarray failed|indicate binary incompatibility|version .{0,80}does not match|"
         r"requires .{1,60}but (?!none\b|no\b).{1,60}(?:found|installed)",
         "Packages were built for other versions of one another",
         (_SAME_RELEASE,)),
        (r"Failed to import transformers\.[\w.]{1,100} because of the following error",
         "A module of transformers cannot be imported",
         (Way("the package that the line below the error names, of the version that fits torch "
              "and transformers; an optional one (flash-attn, deepspeed, peft) may be removed",
              "another environment"), _SAME_RELEASE)),
    ),
)  # fmt: skip
