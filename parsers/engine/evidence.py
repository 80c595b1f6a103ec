"""Which engine on which device printed the lines of a run.

Engine and device follow from the strongest evidence. Strongest first: the line in which
vLLM prints the platform that it found, one of its own or a plugin's
(`platforms/__init__.py`), then modules and wordings that exist for one device alone, then `device_config` of the engine's configuration (which is `cuda` on ROCm as well),
then the device of the arguments, which newer engines do not follow, then wordings about
CUDA graphs, which ROCm shares. Modules that CUDA, ROCm, XPU and CPU
share (`gpu_worker.py`) show that vLLM ran, and not on what.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from parsers.base import LineRule, Made, module_of
from parsers.dialects.reference import ENGINE as REFERENCE
from parsers.engine.envelope import Record
from parsers.engine.failures import names_engine
from parsers.engine.signals import BarUpdate, FailureLine, PackageFrame
from parsers.engine.steps import STEP_BARS
from warmup_insights.model.events import ConfigRecorded

SHARED, WANTED, CONFIGURED, OWN, DETECTED = range(1, 6)
MAX_PROCESSES = 10_000
"""No start has more processes, nor lines of code that print; further ones are not kept."""
_OF_ANY_DEVICE = ("gpu_worker.py", "gpu_model_runner.py", "jit_monitor.py")
_RAISED = {"CUDA": "cuda", "HIP": "rocm", "XPU": "xpu", "NPU": "ascend"}
"""Who raised an error of the device (torch `CUDAException.cpp`) or that its memory ran out
(`CUDACachingAllocator.cpp`); the words are those of the build."""
_OF_BRIDGE = re.compile(r"\bsynStatus|\bMODULE:PT_")
"""In errors of the Gaudi bridge (`synapse_helpers`, `habana_helpers/logging.h`)."""
_OF_TORCH_NPU = re.compile(r"\bacl(?:nn|rt)[A-Z]|\baclnn operator|ERR\d{5} PTA ")
"""Calls of the Ascend runtime and of its operators, in errors of torch_npu
(`core/npu/NPUException.h`)."""
_OF_AMD = re.compile(r"\[(?i:aiter)\]|\bgfx(?:9\d[0-9a-f]|1\d{3})\b|\bamdsmi_\w")
"""How AMD's library of kernels begins what it prints, the names of its devices, and the calls
of its driver's library."""
_OF_MLX = re.compile(r"^MLX error: ")
"""Of Apple's library."""
_OF_NEURON = re.compile(
    r"Failed to execute the model status=\d|^Could not load the model status=\d|"
    r"\bnrt_\w{1,60} status=\d"
)
"""What the Neuron runtime answered, in errors of torch_neuronx."""
_NAMED_CUDA = re.compile(r"\bdevice cuda:\d")
"""A device of torch, which calls that of ROCm so too."""
_OF_TORCH = re.compile(
    r"\b(CUDA|HIP|XPU|NPU) (?:error: |function error: |out of memory\. Tried to allocate)"
)
API_SERVER, ARGUMENTS, ENGINE_CONFIG = 1, 2, 3
"""`LineRule.starts` of the first line of an API server, of its arguments, and of the line
with the engine's configuration."""
PARTED = "tpu_disaggregated"
"""The rule of the line behind which one process makes several engines."""
CONFIG_STATED = "engine_config_stated"
"""The rule of lines with that of an engine that was made."""
_SHARED_CONFIGS = ("cuda", "cpu")
"""What `device_config` is on ROCm and on Neuron as well."""

_MODULES: dict[str, tuple[str, int, str | None]] = {
    "rocm.py": ("rocm", OWN, None),
    "cuda.py": ("cuda", OWN, None),
    "autotuner.py": ("cuda", OWN, None),
    "xpu.py": ("xpu", OWN, None),
    "xpu_worker.py": ("xpu", OWN, None),
    "xpu_model_runner.py": ("xpu", OWN, None),
    "cpu.py": ("cpu", OWN, None),
    "cpu_worker.py": ("cpu", OWN, None),
    "cpu_model_runner.py": ("cpu", OWN, None),
    "hpu.py": ("hpu", OWN, "vllm-fork"),
    "hpu_executor.py": ("hpu", OWN, "vllm-fork"),
    "habana_executor.py": ("hpu", OWN, "vllm-fork"),
    "habana_model_runner.py": ("hpu", OWN, "vllm-fork"),
    "habana_worker.py": ("hpu", OWN, "vllm-fork"),
    "hpu_model_runner.py": ("hpu", OWN, None),
    "hpu_worker.py": ("hpu", OWN, None),
    "tpu.py": ("tpu", OWN, None),
    "tpu_model_runner.py": ("tpu", OWN, "vllm"),
    "tpu_executor.py": ("tpu", OWN, "vllm"),
    "ray_tpu_executor.py": ("tpu", OWN, "vllm"),
    "tpu_platform.py": ("tpu", OWN, "tpu-inference"),
    "tpu_runner.py": ("tpu", OWN, "tpu-inference"),
    "tpu_worker.py": ("tpu", OWN, None),
    "tpu_jax.py": ("tpu", OWN, "tpu-inference"),
    "tpu_jax_runner.py": ("tpu", OWN, "tpu-inference"),
    "tpu_worker_jax.py": ("tpu", OWN, "tpu-inference"),
    "compilation_manager.py": ("tpu", OWN, "tpu-inference"),
    "worker_v1.py": ("ascend", OWN, None),
    "model_runner_v1.py": ("ascend", OWN, None),
    "neuron.py": ("neuron", OWN, None),
    "neuron_worker.py": ("neuron", OWN, None),
    "neuron_model_runner.py": ("neuron", OWN, None),
    "neuronx_distributed.py": ("neuron", OWN, None),
    "neuronx_distributed_model_loader.py": ("neuron", OWN, None),
    "neuronx_distributed_model_runner.py": ("neuron", OWN, None),
}
"""Module that logs to the device it is for, how surely, and the engine it is of."""
_PACKAGES: dict[str, tuple[str, str | None]] = {
    "vllm_ascend": ("ascend", None),
    "vllm_gaudi": ("hpu", "vllm-gaudi"),
    "vllm_neuron": ("neuron", None),
    "vllm_metal": ("metal", None),
    "tpu_inference": ("tpu", "tpu-inference"),
}
"""Package of a plugin to its device and engine: its functions run there alone."""
NOT_THERE = "Failed to import"
"""Beginning of what a module logs whose libraries are missing: it is imported to be
looked at on other devices too (`platforms/rocm.py`)."""
_LOOKED_AT = {"rocm.py": "rocm"}
"""Such a module to the device that was looked for: no proof, but then words about CUDA
graphs are none for CUDA either."""
_WORDS = {
    "[ROCm] ": "rocm",
    "Using legacy triton_kernels on ROCm": "rocm",
    "[aiter] ": "rocm",
    "xpu kernel ": "xpu",
    "bfloat16 is not fully supported on XPU": "xpu",
    "ACL graph ": "ascend",
    "Environment variable VLLM_CPU_KVCACHE_SPACE (GiB) for CPU": "cpu",
    "CPU-only mode doesn't support parallel": "cpu",
    "TPU info: node_name=": "tpu",
    "Running vLLM on TPU ": "tpu",
    "Using custom scheduler class vllm_neuron": "neuron",
    "Using custom scheduler class vllm_ascend": "ascend",
}
"""Beginnings of lines that one platform alone prints, to that platform: vLLM
`layers/activation.py`, `fused_moe/gpt_oss_triton_kernels_moe.py`, `ops/
topk_topp_sampler.py`, `platforms/cpu.py` and `config/scheduler.py`, aiter, vllm-ascend
`platform.py`, tpu-inference `__init__.py`."""
_NO_CUDA = "Skipping CuTeDSL warmup on non-CUDA platform"
"""Beginning of a line that all platforms but CUDA print (vLLM `warmup/cutedsl_warmup.py`)."""
_TELLING = (NOT_THERE, _NO_CUDA, *_WORDS)


_OF_ONE_DEVICE = tuple(_WORDS)


class Shown(NamedTuple):
    """What a line shows of the engine and its device, whether or not it has a rule."""

    file: str | None
    """The module that logged it, `path/name.py:LINE`; None where its libraries are missing."""
    device: str | None = None
    """The device that it names itself."""
    strength: int = OWN


def shown_by(record: Record) -> Shown:
    """The module that logged a line, and the device that the line names."""
    text, file = record.message, record.file
    if text.startswith(NOT_THERE):
        return Shown(None, _LOOKED_AT.get(module_of(file)), SHARED)
    if text.startswith(_OF_ONE_DEVICE):
        device = next(_WORDS[words] for words in _WORDS if text.startswith(words))
        return Shown(file, device)
    return Shown(file)


def _device_of_error(message: str) -> str | None:
    """The device whose library alone raises an error."""
    if _OF_BRIDGE.search(message):
        return "hpu"
    if _OF_TORCH_NPU.search(message):
        return "ascend"
    if _OF_NEURON.search(message):
        return "neuron"
    if _OF_AMD.search(message):
        return "rocm"
    if _OF_MLX.search(message):
        return "metal"
    raised = _OF_TORCH.search(message)
    return _RAISED[raised[1]] if raised else None


class Evidence:
    """What the lines of one run state about its engine and its device."""

    def __init__(self) -> None:
        self._engines: Counter[str] = Counter()
        self._devices: dict[str, int] = {}
        self._files: set[str | None] = {None}
        self._printers: set[tuple[str | None, str | None, int | None]] = set()
        """Modules with the names and pids of processes."""
        self._framed: dict[str, str | None] = {}
        """Devices, with engines, of functions that tracebacks lead through."""
        self._is_vllm = False
        self._is_named = False
        """Whether an error names vLLM's engine or its device."""
        self._is_no_cuda = False

    def add_line(self, record: Record) -> bool:
        """Take notice of who printed a line; whether that module of that process had
        printed none before."""
        printer = (record.file, record.process, record.pid)
        is_new = printer not in self._printers
        if is_new or record.message.startswith(_TELLING):
            if len(self._printers) < MAX_PROCESSES:
                self._printers.add(printer)
            self._is_no_cuda = self._is_no_cuda or record.message.startswith(_NO_CUDA)
            self.add_shown(shown_by(record))
        return is_new

    def add_shown(self, shown: Shown) -> None:
        """Take notice of the module that logged a line, and of the device that it names."""
        self._add_device(shown.device, shown.strength)
        file = shown.file
        if file in self._files or len(self._files) >= MAX_PROCESSES:
            return
        self._files.add(file)
        name = module_of(file)
        self._is_vllm = self._is_vllm or name in _OF_ANY_DEVICE
        known = _MODULES.get(name)
        if known is None:
            return
        device, strength, engine = known
        self._add_device(device, strength)
        if engine is not None:
            self._engines[engine] += 1

    def add_rule(self, rule: LineRule, made: Iterable[Made]) -> None:
        """Take notice of a line that a rule matched, and of what it states."""
        if rule.engine is not None:
            self._engines[rule.engine] += 1
        device = rule.device
        if device is not None and self._devices.get(device) != OWN:
            self._add_device(device, SHARED if device == "cuda" else OWN)
        if rule.starts:
            self._is_vllm = True
        for item in made:
            if isinstance(item, FailureLine):
                self._add_device(_device_of_error(item.message), OWN)
                is_on_cuda = _NAMED_CUDA.search(item.message) is not None
                self._add_device("cuda" if is_on_cuda else None, SHARED)
                self._is_named |= is_on_cuda or names_engine(item.message)
            elif isinstance(item, PackageFrame):
                self._add_frame(item.path)
            elif isinstance(item, BarUpdate):
                self._add_device("cuda" if "CUDA" in item.name else None, SHARED)
                self._add_device("hpu" if item.name in STEP_BARS else None, OWN)
            elif isinstance(item, ConfigRecorded):
                self._add_config(item, rule)

    def _add_frame(self, file: str) -> None:
        """Take notice of whose function a traceback leads through: that of a plugin, or of
        a worker that is for one device (`worker/`)."""
        device, engine = _PACKAGES.get(file.partition("/")[0], (None, None))
        folder, _, name = file.rpartition("/")
        if device is None and folder.endswith("/worker") and name in _MODULES:
            device, _, engine = _MODULES[name]
        if device is not None:
            self._framed.setdefault(device, engine)

    def _add_config(self, item: ConfigRecorded, rule: LineRule) -> None:
        is_engine = rule.starts == ENGINE_CONFIG or rule.name == CONFIG_STATED
        self._is_vllm = self._is_vllm or is_engine
        if (rule.starts or is_engine) and "+Gaudi" in (item.version or ""):
            self._engines["vllm-fork"] += 1
        if item.device_kind is not None and item.engine is not None:
            self._engines[item.engine] += 1
        strength = DETECTED
        if is_engine or rule.starts == ARGUMENTS:
            strength = CONFIGURED if is_engine else WANTED
        self._add_device(item.device_kind, strength)

    def _add_device(self, device: str | None, strength: int) -> None:
        if device is not None:
            self._devices[device] = max(self._devices.get(device, 0), strength)

    def _strengths(self) -> dict[str, int]:
        """How strong the evidence for each device is."""
        framed = {name: max(OWN, self._devices.get(name, 0)) for name in self._framed}
        return {**self._devices, **framed}

    def device(self) -> str | None:
        """The device with the strongest evidence; None without any, or for a tie."""
        devices = self._strengths()
        if REFERENCE in self._engines or not devices:
            # The reference engine writes in the wording of others.
            return None
        is_no_cuda = self._is_no_cuda and devices.get("cuda", OWN) < OWN
        if is_no_cuda and devices.pop("cuda") == CONFIGURED:
            devices.setdefault("rocm", CONFIGURED)  # the only other one so named
        best = max(devices.values(), default=0)
        found = [name for name, strength in devices.items() if strength == best]
        return found[0] if len(found) == 1 else None

    def is_guess(self) -> bool:
        """Whether the device follows from words that another platform shares."""
        device = self.device()
        if device is None:
            return False
        strength = self._strengths().get(device, CONFIGURED)
        is_shared = strength == CONFIGURED and device in _SHARED_CONFIGS
        return is_shared or strength == SHARED

    def engine(self) -> str | None:
        """The engine with the most lines of its own on that device; None for a tie."""
        if REFERENCE in self._engines:
            return REFERENCE
        device = self.device()
        if device in ("hpu", "tpu", None):
            wanted = {
                "hpu": ("vllm-gaudi", "vllm-fork"),
                "tpu": ("tpu-inference", "vllm"),
            }
            engines = self._engines or Counter(filter(None, self._framed.values()))
            names = wanted.get(device or "", tuple(engines))
            ranked = [item for item in engines.most_common() if item[0] in names]
            if len(ranked) == 1 or (ranked and ranked[0][1] > ranked[1][1]):
                return ranked[0][0]
            if ranked or device is not None:
                return None
        is_vllm = self._is_vllm or self._is_named
        return "vllm" if self._devices or self._framed or is_vllm else None

    @property
    def is_of_errors(self) -> bool:
        """Whether no line but those of errors shows engine and device, which leaves the number
        of ranks unknown."""
        is_own = any(strength > SHARED for strength in self._devices.values())
        return self._is_named and not (self._is_vllm or self._engines or is_own)

    def contradiction(self) -> str | None:
        """The devices that have evidence of their own besides the chosen one."""
        device = self.device()
        strong = {name for name, strength in self._devices.items() if strength >= OWN}
        others = sorted(strong - {device, "cpu"})
        if device is None or not others:
            return None
        return (
            f"Some lines are those of an engine on {' and '.join(others)}, stronger "
            f"evidence is for {device}"
        )


PLATFORM = "platform"
_TRITON = "triton_looked_for"
PROGRAM_LINES = 300
"""Imports print fewer lines; a trainer that builds its model first prints more."""
LONG_BEFORE_S = 600.0
"""A program makes its engine, and that its processes, sooner after they imported vLLM."""
SPAWNING = frozenset({"max_model_len", "task", PLATFORM})
"""Rules of lines behind which nothing slow is left of an engine's configuration (vLLM
`EngineArgs.create_engine_config`: the model's comes first; before 0.9.2 its length is not
printed), and of one that each process prints."""
IMPORTING = frozenset({PLATFORM, "plugins_loading", "kernels_not_imported", _TRITON})
"""Rules of lines that a process prints while it imports vLLM."""


def imports_late(rule: LineRule, record: Record) -> bool:
    """Whether a process that has its name already imports one module more
    (`triton_utils/importing.py`, at the first use)."""
    return rule.name == _TRITON and record.process is not None


def imports_unnamed(rule: LineRule, record: Record) -> bool:
    """Whether a process that has no name yet imports vLLM."""
    return rule.name in IMPORTING and record.process is None


class Imports:
    """Imports of vLLM before the start of an engine, by process.

    Each process prints the platform once, when it is first read (`platforms/__init__.py`): also a
    program that only starts the engine in another process, or in an actor of Ray.
    """

    def __init__(self) -> None:
        self._seen: list[tuple[int | None, float | None]] = []
        """The Ray actor, or None outside of any, and the time."""
        self.began: float | None = None
        """When the process that starts the engine did."""
        self._line: int | None = None

    def is_far(self, rule: LineRule, line: int) -> bool:
        """Whether a line starts an engine in a program, and its output since the first
        import is too long for that of an import."""
        if self._line is None:
            self._line = line
        is_far = rule.starts > API_SERVER and line - self._line > PROGRAM_LINES
        if is_far:
            self.began = None
        return is_far

    def move(self, rule: LineRule, actor: int | None, time: float | None) -> bool:
        """Add a line; True if it starts an engine in another process than the first."""
        if rule.name == PLATFORM and len(self._seen) < MAX_PROCESSES:
            self._seen.append((actor, time))
        if not rule.starts or not self._seen:
            return False
        own = [seen for who, seen in self._seen if who == actor]
        near = _up_to(time, own)
        if rule.starts == ENGINE_CONFIG:
            # A core that was spawned imports after the process that it belongs to.
            self.began = near[0] if near else None
            is_other = actor is not None and self._seen[0][0] != actor
            return is_other or len(near) < len(own)
        self.began = near[-1] if near else None
        is_first = len(self._seen) == 1 and len(near) == 1
        return not is_first and (bool(own) or actor is not None)


def _up_to(time: float | None, seen: Sequence[float | None]) -> Sequence[float | None]:
    """The last of these times, none of them long before the next one or `time`: what
    imports vLLM so long before is another program, or does other things first."""
    for place in range(len(seen) - 1, -1, -1):
        own = seen[place]
        if own is not None and time is not None and time - own > LONG_BEFORE_S:
            return seen[place + 1 :]
        time = own
    return seen
