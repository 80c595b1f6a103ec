"""Who printed the lines of a run: which engine on which device, and which of its ranks.

Engine and device follow from the strongest evidence. Strongest first: the line in which
vLLM prints the platform that it found, one of its own or a plugin's
(`platforms/__init__.py`), then modules and wordings that exist for one device alone, then `device_config` of the engine's configuration (which is `cuda` on ROCm as well),
then the device of the arguments, which newer engines do not follow, then wordings about
CUDA graphs, which ROCm shares. Modules that CUDA, ROCm, XPU and CPU
share (`gpu_worker.py`) show that vLLM ran, and not on what.

A rank follows from the name of a process, its pid or what it states itself. Prefixes by
age: vLLM `_add_prefix` and `set_process_title`; V0 workers have no number and rank 0 no
prefix at all. Rank is the global one: data, pipeline, then tensor parallel, as in vLLM
`distributed/parallel_state.py`. A process that has no peers has no rank.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, count
from typing import Any

from parsers.base import LineRule, Made
from parsers.dialects.reference import ENGINE as REFERENCE
from parsers.engine.envelope import Record
from parsers.engine.signals import BarUpdate, FailureLine
from warmup_insights.model.events import ConfigRecorded

SHARED, WANTED, CONFIGURED, OWN, DETECTED = range(1, 6)
MAX_PROCESSES = 10_000
"""No start has more processes, nor lines of code that print; further ones are not kept."""
_OF_ANY_DEVICE = ("gpu_worker.py", "gpu_model_runner.py")
_RAISED = {"CUDA": "cuda", "HIP": "rocm", "XPU": "xpu", "NPU": "ascend"}
"""Who raised an error of the device (torch `CUDAException.cpp`) or that its memory ran out
(`CUDACachingAllocator.cpp`); the words are those of the build."""
_OF_BRIDGE = re.compile(r"\bsynStatus|\bMODULE:PT_")
"""In errors of the Gaudi bridge (`synapse_helpers`, `habana_helpers/logging.h`)."""
_OF_TORCH_NPU = re.compile(r"\bacl(?:nn|rt)[A-Z]|\baclnn operator|ERR\d{5} PTA ")
"""Calls of the Ascend runtime and of its operators, in errors of torch_npu
(`core/npu/NPUException.h`)."""
_OF_NEURON = re.compile(
    r"Failed to execute the model status=\d|^Could not load the model status=\d"
)
"""What the Neuron runtime answered, in errors of torch_neuronx."""
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
    # No proof, but then words about CUDA graphs are none for CUDA either.
    "?rocm.py": ("rocm", SHARED, None),
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
    "tpu_model_runner.py": ("tpu", OWN, None),
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
NOT_THERE = "Failed to import"
"""Beginning of what a module logs whose libraries are missing: it is imported to be
looked at on other devices too (`platforms/rocm.py`)."""


_WORDS = {
    "[ROCm] ": "rocm",
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
`layers/activation.py`, `ops/topk_topp_sampler.py`, `platforms/cpu.py` and `config/
scheduler.py`, vllm-ascend `platform.py`, tpu-inference `__init__.py`."""
_NO_CUDA = "Skipping CuTeDSL warmup on non-CUDA platform"
"""Beginning of a line that all platforms but CUDA print (vLLM `warmup/cutedsl_warmup.py`)."""
_TELLING = (NOT_THERE, _NO_CUDA, *_WORDS)


def seen_file(record: Record) -> str | None:
    """The module that logged a line, with a mark where its libraries are missing, or the
    device that the line itself shows, marked."""
    text = record.message
    if text.startswith(tuple(_WORDS)):
        return next(f"!{_WORDS[words]}:" for words in _WORDS if text.startswith(words))
    if record.file is None or not text.startswith(NOT_THERE):
        return record.file
    return f"?{record.file}"


def _device_of_error(message: str) -> str | None:
    """The device whose library alone raises an error."""
    if _OF_BRIDGE.search(message):
        return "hpu"
    if _OF_TORCH_NPU.search(message):
        return "ascend"
    if _OF_NEURON.search(message):
        return "neuron"
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
        self._is_vllm = False
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
            self.add_file(seen_file(record))
        return is_new

    def add_file(self, file: str | None) -> None:
        """Take notice of the module, `path/name.py:LINE`, that logged a line, or of the
        device that the line shows."""
        if file in self._files or len(self._files) >= MAX_PROCESSES:
            return
        self._files.add(file)
        assert file is not None
        name = file.rpartition(":")[0].rpartition("/")[2]
        self._is_vllm = self._is_vllm or name in _OF_ANY_DEVICE
        if name.startswith("!"):
            self._add_device(name[1:], OWN)
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
            elif isinstance(item, BarUpdate):
                self._add_device("cuda" if "CUDA" in item.name else None, SHARED)
            elif isinstance(item, ConfigRecorded):
                self._add_config(item, rule)

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

    def device(self) -> str | None:
        """The device with the strongest evidence; None without any, or for a tie."""
        if REFERENCE in self._engines or not self._devices:
            # The reference engine writes in the wording of others.
            return None
        devices = dict(self._devices)
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
        strength = self._devices.get(device, CONFIGURED)
        is_shared = strength == CONFIGURED and device in _SHARED_CONFIGS
        return is_shared or strength == SHARED

    def engine(self) -> str | None:
        """The engine with the most lines of its own on that device; None for a tie."""
        if REFERENCE in self._engines:
            return REFERENCE
        device = self.device()
        if device in ("hpu", "tpu", None):
            wanted = {"hpu": ("vllm-gaudi", "vllm-fork"), "tpu": ("tpu-inference",)}
            names = wanted.get(device or "", tuple(self._engines))
            ranked = [item for item in self._engines.most_common() if item[0] in names]
            if len(ranked) == 1 or (ranked and ranked[0][1] > ranked[1][1]):
                return ranked[0][0]
            if ranked or device == "hpu":
                return None
        return "vllm" if self._devices or self._is_vllm else None

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
SPAWNING = frozenset({"max_model_len", PLATFORM})
"""Rules of the line behind which nothing slow is left of an engine's configuration (vLLM
`EngineArgs.create_engine_config`: the model's comes first), and of one that each process
prints."""
IMPORTING = frozenset({PLATFORM, "plugins_loading", _TRITON})
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
        if rule.name == PLATFORM and len(self._seen) < MAX_RANKS:
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


_PARTS = re.compile(r"(?:^|[_ ])(DP|PP|TP|EP)(\d{1,4})(?![\d])")
_NUMBER = re.compile(r"VllmWorker-(\d{1,4})")
_CORE = re.compile(r"EngineCore_(?:DP)?(\d{1,4})$")
MAX_RANKS = 4096
"""More than that is no number of ranks."""
_UNNUMBERED = ("VllmWorkerProcess", "RayWorker")
WORKERS = ("VllmWorker", "Worker", "RayWorker")
_OF_A_WORKER = ("worker.py", "model_runner.py", "loader.py")
"""Ends of the names of modules that run once per rank."""


def _core_number(name: str) -> str:
    """The data parallel rank in the name of an engine core, without `DP` until v0.9."""
    found = _CORE.match(name)
    return found[1] if found is not None else ""


def _is_count(ranks: set[int]) -> bool:
    """Whether the highest rank that was seen shows how many there are: several are there,
    and none is missing or their number is a power of two, as that of groups mostly is."""
    highest = max(ranks, default=-1)
    is_power = highest & (highest + 1) == 0
    return len(ranks) > highest or (len(ranks) > 1 and is_power)


class RankTable:
    """Ranks of the processes of one run."""

    def __init__(self) -> None:
        self._by_pid: dict[int, int] = {}
        self._by_name: dict[str, int] = {}
        self._pids_of_equals: dict[str | int, list[int]] = {}
        self._unnumbered: dict[int, int] = {}
        self._worlds: dict[int, int] = {}
        """Workers that stated a world of their own, in order."""
        self._sizes: dict[str, int] = {}
        self._processes: set[tuple[str, int | None]] = set()
        self._seen: set[int] = set()
        self._world_size = 0
        self._has_driver = False
        self._has_workers = False
        self._num_parts = 0
        """Engines that one process made so far, of several."""
        self._hides_workers = False
        """Ray prints one of equal lines of several workers."""
        self._has_engines = False
        """The server starts several, which share nothing."""
        self._is_in_engine = False
        """An engine's process is its own worker (`UniProcExecutor`): it has one rank."""
        self._ranks: dict[tuple[str | None, int | None, int | None], int | None] = {}
        """Ranks by process, pid and stated rank, until more is known of any of them."""

    def set_rank(self, record: Record, rank: int, world_size: int | None) -> None:
        """A process stated its own rank."""
        if world_size is not None and world_size <= MAX_RANKS:
            self._world_size = max(self._world_size, world_size)
        if record.pid is None or rank >= MAX_RANKS:
            return
        if world_size is None and not (record.process or "").startswith(_UNNUMBERED):
            return  # only the name of a folder, and the process has a name of its own
        if world_size == 1:
            number = self._of_own_world(record)
            if number is None:
                return
            rank = number
        elif world_size is not None:
            rank += world_size * self._engine_of(record.pid, rank)
        if len(self._by_pid) < MAX_PROCESSES:
            self._by_pid[record.pid] = rank
            self._swap(record.pid, rank)
            self._ranks.clear()

    def _of_own_world(self, record: Record) -> int | None:
        """The rank of a worker that states it is alone, in the order in which they do: each
        of the only workers of several engines, and each on TPU, which drives all devices of
        a host (tpu-inference `tpu_worker.py init_device`)."""
        is_of_ray = (record.process or "").startswith("RayWorker")
        if record.pid is None or not (is_of_ray or record.process == "Worker"):
            return None
        number = self._worlds.setdefault(record.pid, len(self._worlds))
        has_others = is_of_ray or self._has_engines or len(self._worlds) > 1
        return number if has_others else None

    def add_part(self, record: Record) -> None:
        """A process makes the next engine of several, which have ranks of their own."""
        if record.pid is not None and self._num_parts < MAX_RANKS:
            self._by_pid[record.pid] = self._num_parts
            self._num_parts += 1
            self._ranks.clear()

    def _swap(self, pid: int, rank: int) -> None:
        """A worker whose number was assumed stated it: another one that had that number
        by assumption takes its place."""
        assumed = self._unnumbered.get(pid)
        if assumed is not None and assumed != rank:
            for other, held in self._unnumbered.items():
                if held == rank and other not in self._by_pid:
                    self._unnumbered[other] = assumed

    def set_sizes(self, settings: dict[str, Any]) -> None:
        """The engine's configuration states the sizes of its groups."""
        for key, part in (
            ("tensor_parallel_size", "TP"),
            ("pipeline_parallel_size", "PP"),
        ):
            size = settings.get(key)
            if isinstance(size, int) and 0 < size <= MAX_RANKS:
                self._sizes[part] = size
                self._ranks.clear()
        # Each engine of a dense model is configured as the only one, below a server that
        # states their number; with a rank each has a server of its own.
        engines = settings.get("data_parallel_size")
        if settings.get("data_parallel_rank") is not None:
            self._has_engines = False
        elif isinstance(engines, int) and engines > 1:
            self._has_engines = True
            self._ranks.clear()

    def add_process(self, record: Record) -> None:
        """Take notice of the process that printed a line."""
        is_worker = (record.file or "").rpartition(":")[0].endswith(_OF_A_WORKER)
        self._hides_workers |= record.is_repeated
        if record.process is None:
            self._has_driver = self._has_driver or is_worker
            return
        is_engine = record.process.startswith("EngineCore")
        self._is_in_engine = self._is_in_engine or (is_worker and is_engine)
        if (record.process, record.pid) not in self._processes:
            if len(self._processes) < MAX_PROCESSES:
                self._processes.add((record.process, record.pid))
                self._ranks.clear()
            if is_engine:
                cores = {_core_number(name) for name, _ in self._processes}
                self._has_engines |= len(cores - {""}) > 1
            self.rank_of(record)

    def rank_of(self, record: Record) -> int | None:
        """The rank that printed a record; None when nothing shows it, or it is alone."""
        key = (record.process, record.pid, record.rank)
        if key in self._ranks:
            return self._ranks[key]
        rank = self._rank_of(record)
        if rank is not None and rank >= MAX_RANKS:
            rank = None
        if rank is not None:
            self._seen.add(rank)
        if len(self._ranks) < MAX_PROCESSES:
            self._ranks[key] = rank
        return rank

    @property
    def has_processes(self) -> bool:
        """Whether the engine has workers in processes of their own, by its settings."""
        return self._sizes.get("TP", 1) * self._sizes.get("PP", 1) > 1

    @property
    def are_shown(self) -> bool:
        """Whether lines show how many ranks there are, and not only who printed any."""
        return bool(self._world_size or self._sizes or self._is_in_engine)

    def count(self, *, is_one_process_each: bool = True) -> int | None:
        """How many ranks there are: as stated, or as many as were seen.

        On TPU and Neuron one process drives all devices of a host, whatever the groups
        are: the world that its processes state is then smaller than the groups.

        None when there is no sign of more than one, 0 when there are several and the log
        states nowhere how many: only the first ranks of groups print lines, or only one
        that failed.
        """
        stated = set(self._by_pid.values())
        stated |= self._seen - set(self._unnumbered.values())
        workers = len(self._unnumbered) + self._has_driver if self._unnumbered else 0
        if any(name == _UNNUMBERED[0] for name, _ in self._processes):
            workers = max(workers, 2)  # they exist beside a rank 0 only
        product = self._sizes.get("TP", 1) * self._sizes.get("PP", 1)
        if is_one_process_each and not 0 < self._world_size < product:
            workers = max(workers, product)
        seen = max(max(stated, default=-1) + 1, workers, self._world_size)
        if not (self._world_size or self._sizes or _is_count(stated)):
            return 0
        is_open = len(self._unnumbered) == 1 or (
            self._unnumbered and self._hides_workers
        )
        is_one_of_several = bool(is_open) and not (stated or self._sizes)
        if self._world_size or (seen > 1 and not is_one_of_several):
            return seen
        workers_seen = [name for name, _ in self._processes if name.startswith(WORKERS)]
        is_first = any(_PARTS.search(name) for name in workers_seen)
        return 0 if is_one_of_several or is_first or self._has_engines else None

    def _rank_of(self, record: Record) -> int | None:
        if record.rank is not None:
            return record.rank
        if record.pid is not None and record.pid in self._by_pid:
            return self._by_pid[record.pid]
        name = record.process
        if name is None:
            return None
        if name.startswith("EngineCore_"):
            return self._of_core(name)
        if not name.startswith(WORKERS):
            return None
        if not self._has_workers:
            self._has_workers = True
            self._ranks.clear()
        number = _NUMBER.match(name)
        if number is not None:
            return int(number[1])
        parts = {part: int(value) for part, value in _PARTS.findall(name)}
        if parts:
            parts.setdefault("DP", self._engine_of(record.pid, name))
            return self._numbered(name, parts)
        if name.startswith(_UNNUMBERED):
            return self._next_unnumbered(record.pid)
        return None

    def _engine_of(self, pid: int | None, own: str | int) -> int:
        """Which of several engines of a dense model a worker belongs to, in the order in
        which they appear: their workers have equal names and ranks (`run_engine_core`).

        `own` is the name or the rank.
        """
        if not self._has_engines or pid is None:
            return 0
        pids = self._pids_of_equals.setdefault(own, [])
        if pid not in pids and len(pids) < MAX_RANKS:
            pids.append(pid)
        return pids.index(pid) if pid in pids else 0

    def _of_core(self, name: str) -> int | None:
        """The first rank of an engine of several."""
        number = _core_number(name)
        if not number or (self._has_workers and not self._has_engines):
            return None
        if self.has_processes and not self._is_in_engine:
            return self._first_of(number)
        others = any(_core_number(other).strip("0") for other, _ in self._processes)
        return int(number) if others or number != "0" else None

    def _first_of(self, number: str) -> int | None:
        """The first rank of an engine whose workers are processes. Those of dense models
        do not name their engine: as they appear, also where another host has the rest."""
        if not self._has_workers:
            return None
        names = {name for name, _ in self._processes}
        place = int(number)
        if not any(name.startswith(WORKERS) and "DP" in name for name in names):
            cores = {int(_core_number(name)) for name in names if _core_number(name)}
            place = sorted(cores).index(place) if place in cores else 0
        return place * self._sizes.get("TP", 1) * self._sizes.get("PP", 1)

    def _numbered(self, name: str, parts: dict[str, int]) -> int:
        data, pipeline, tensor = (parts.get(part, 0) for part in ("DP", "PP", "TP"))
        if "EP" in parts and "PP" not in parts:
            # The experts' group spans data and tensor parallel ranks in their order.
            return parts["EP"]
        if data == 0 and pipeline == 0:
            return tensor
        sizes = self._sizes
        if "TP" in sizes:
            return (data * sizes.get("PP", 1) + pipeline) * sizes["TP"] + tensor
        # The sizes of the groups are unknown: order of appearance above the plain ones.
        known = self._by_name.get(name)
        if known is None:
            known = max(self._seen, default=0) + 1
            if len(self._by_name) < MAX_RANKS:
                self._by_name[name] = known
        return known

    def _next_unnumbered(self, pid: int | None) -> int | None:
        """V0: rank 0 has no prefix, the others differ by their pid. With as many workers
        as ranks it has one (vLLM `ray_distributed_executor.py`, `use_ray_spmd_worker`), as
        below an engine core."""
        if pid is None:
            return None
        if pid not in self._unnumbered:
            if len(self._unnumbered) >= MAX_RANKS:
                return None
            used = {*self._unnumbered.values(), *self._by_pid.values()}
            product = self._sizes.get("TP", 1) * self._sizes.get("PP", 1)
            size = max(self._world_size, product)
            has_core = any(name.startswith("EngineCore") for name, _ in self._processes)
            first = range(size > 1 and not self._has_driver)
            order = count() if has_core else chain(range(1, size), first, count(size))
            free = (rank for rank in order if rank not in used)
            self._unnumbered[pid] = next(free)
        return self._unnumbered[pid]
