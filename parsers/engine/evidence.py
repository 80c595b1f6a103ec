"""Which engine on which device, by the strongest evidence in the lines of a run.

Strongest first: the line in which vLLM prints the platform that it found, one of its
own or a plugin's (`platforms/__init__.py`), then modules and wordings that exist for one device alone,
then `device_config` of the engine's configuration (which is `cuda` on ROCm as well),
then wordings about CUDA graphs, which ROCm shares. Modules that CUDA, ROCm, XPU and CPU
share (`gpu_worker.py`) show that vLLM ran, and not on what.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from parsers.base import LineRule, Made
from parsers.dialects.reference import ENGINE as REFERENCE
from parsers.engine.envelope import Record
from parsers.engine.signals import BarUpdate, FailureLine
from warmup_insights.model.events import ConfigRecorded

SHARED, CONFIGURED, OWN, DETECTED = range(1, 5)
_OF_ANY_DEVICE = ("gpu_worker.py", "gpu_model_runner.py")
_RAISED = {"CUDA": "cuda", "HIP": "rocm", "XPU": "xpu"}
"""Who raised that memory ran out (torch `CUDACachingAllocator.cpp`)."""
_OUT_OF_MEMORY = re.compile(r"\b(CUDA|HIP|XPU) out of memory\. Tried to allocate")
API_SERVER, ENGINE_CONFIG = 1, 3
"""`LineRule.starts` of the first line of an API server, and of the line with the
engine's configuration."""

_MODULES: dict[str, tuple[str, int, str | None]] = {
    "rocm.py": ("rocm", OWN, None),
    # No proof, but then words about CUDA graphs are none for CUDA either.
    "?rocm.py": ("rocm", SHARED, None),
    "cuda.py": ("cuda", OWN, None),
    "autotuner.py": ("cuda", OWN, None),
    "xpu.py": ("xpu", OWN, None),
    "xpu_worker.py": ("xpu", OWN, None),
    "xpu_model_runner.py": ("xpu", OWN, None),
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
}
"""Module that logs to the device it is for, how surely, and the engine it is of."""
NOT_THERE = "Failed to import"
"""Beginning of what a module logs whose libraries are missing: it is imported to be
looked at on other devices too (`platforms/rocm.py`)."""


def seen_file(record: Record) -> str | None:
    """The module that logged a line, with a mark where its libraries are missing."""
    if record.file is None or not record.message.startswith(NOT_THERE):
        return record.file
    return f"?{record.file}"


_ROCM_ONLY = "[ROCm] "
"""Beginning of warnings behind `current_platform.is_rocm()` (`layers/activation.py`)."""


class Evidence:
    """What the lines of one run state about its engine and its device."""

    def __init__(self) -> None:
        self._engines: Counter[str] = Counter()
        self._devices: dict[str, int] = {}
        self._files: set[str | None] = {None}
        self._is_vllm = False

    def see_line(self, record: Record) -> None:
        """Take notice of the module that logged a line."""
        if record.message.startswith(_ROCM_ONLY):
            self._see_device("rocm", OWN)
        self.see_file(seen_file(record))

    def see_file(self, file: str | None) -> None:
        """Take notice of the module, `path/name.py:LINE`, that logged a line."""
        if file in self._files:
            return
        self._files.add(file)
        assert file is not None
        name = file.rpartition(":")[0].rpartition("/")[2]
        self._is_vllm = self._is_vllm or name in _OF_ANY_DEVICE
        known = _MODULES.get(name)
        if known is None:
            return
        device, strength, engine = known
        self._see_device(device, strength)
        if engine is not None:
            self._engines[engine] += 1

    def see_rule(self, rule: LineRule, made: Iterable[Made]) -> None:
        """Take notice of a line that a rule matched, and of what it states."""
        if rule.engine is not None:
            self._engines[rule.engine] += 1
        if rule.device is not None:
            self._see_device(rule.device, SHARED if rule.device == "cuda" else OWN)
        if rule.starts:
            self._is_vllm = True
            for item in made:
                if isinstance(item, ConfigRecorded) and "+Gaudi" in (
                    item.version or ""
                ):
                    self._engines["vllm-fork"] += 1
        for item in made:
            if isinstance(item, FailureLine):
                raised = _OUT_OF_MEMORY.search(item.message)
                self._see_device(_RAISED[raised[1]] if raised else None, OWN)
            elif isinstance(item, BarUpdate):
                self._see_device("cuda" if "CUDA" in item.name else None, SHARED)
            elif isinstance(item, ConfigRecorded):
                self._see_stated(item, is_config=rule.starts == ENGINE_CONFIG)

    def _see_stated(self, item: ConfigRecorded, *, is_config: bool) -> None:
        if item.device_kind is not None and item.engine is not None:
            self._engines[item.engine] += 1
        self._see_device(item.device_kind, CONFIGURED if is_config else DETECTED)

    def _see_device(self, device: str | None, strength: int) -> None:
        if device is not None:
            self._devices[device] = max(self._devices.get(device, 0), strength)

    def device(self) -> str | None:
        """The device with the strongest evidence; None without any, or for a tie."""
        if REFERENCE in self._engines or not self._devices:
            # The reference engine writes in the wording of others.
            return None
        best = max(self._devices.values())
        found = [name for name, strength in self._devices.items() if strength == best]
        return found[0] if len(found) == 1 else None

    def is_guess(self) -> bool:
        """Whether the device follows from words that ROCm shares with CUDA."""
        return self.device() is not None and max(self._devices.values()) == SHARED

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
