"""Output of vLLM's `collect_env`: a file of its own, or pasted above a log.

Source: vLLM `collect_env.py` (`vllm collect-env` since 0.9), HabanaAI vllm-fork
`collect_env.py` with its HPU lines. What could not be collected gives nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec

from parsers.base import Dialect
from parsers.engine.convert import text_of
from warmup_insights.model.events import ConfigRecorded
from warmup_insights.secrets import mask

MAX_BYTES = 1 << 18
ABOVE = 1000
"""Of the mark stand the operating system, in newer versions, and the version of PyTorch."""
IMPORTED = 5
"""Lines that importing vLLM logs above the output."""
MAX_LINES = 3000
MAX_PACKAGES = 100
MAX_VALUE = 300
MARK = b"Is debug build"
"""In every version of the output, and in no log."""
_SETTINGS = {
    "PyTorch version": "torch_version",
    "CUDA used to build PyTorch": "torch_cuda_version",
    "ROCM used to build PyTorch": "torch_rocm_version",
    "XPU used to build PyTorch": "torch_xpu_version",
    "OS": "os", "Python version": "python_version",
    "CUDA runtime version": "cuda_runtime_version",
    "HIP runtime version": "hip_runtime_version", "ROCM Version": "rocm_version",
    "XPU runtime version": "xpu_runtime_version",
    "Nvidia driver version": "driver_version", "HPU driver version": "driver_version",
    "Level Zero driver version": "driver_version",
    "GPU models and configuration": "devices", "Intel GPU models": "devices",
    "HPU devices": "devices", "vLLM Version": "vllm_version",
}  # fmt: skip
_NOT_THERE = {"", "N/A", "None", "Could not collect", "No CUDA", "No XPU"}
_KEY = re.compile(r"([A-Za-z][\w ()./-]{1,40}?) {0,30}: ?(.{0,2000})")
_DEVICE = re.compile(r"GPU \d{1,4}: (.{1,200})")
_PACKAGE = re.compile(
    r"\[(?:pip3?|conda)\] ([\w.-]{1,100})(?:==| {1,60})(\d[\w.+!-]{0,60})"
)
_VARIABLE = re.compile(r"([A-Z][A-Za-z0-9_]{1,100})=(.{0,2000})")
_GAUDI_BUILD = re.compile(r"\+hpu_([\d.]{3,20})")
_LOGGED = re.compile(
    r"\(\w{1,40} pid=|(?:INFO|WARNING|ERROR|DEBUG|CRITICAL) \d\d-\d\d \d\d:\d\d"
)
_END = re.compile(r"\s{0,8}(?:```|</details>)")

DIALECT = Dialect(
    name="collect-env",
    title="output of vLLM's collect_env",
    versions="V0 (2024) to 2026-11",
    source="vllm/collect_env.py",
    rules=(),
    sample="PyTorch version              : 2.9.0+cu128",
)


def looks_like_environment(head: bytes) -> bool:
    """Whether a file that begins so is the output alone, with no log above or below it."""
    place = _place(head)
    if place < 0 or len(head) >= MAX_BYTES:
        return False
    return _num_logged(head[:place]) <= IMPORTED and not _num_logged(head[place:])


def _num_logged(part: bytes) -> int:
    lines = part.decode("utf-8", "replace").splitlines()
    return sum(_LOGGED.search(line[:500]) is not None for line in lines)


def _place(data: bytes) -> int:
    """Where the mark begins a line; -1 where none does."""
    if data.startswith(MARK):
        return 0
    place = data.find(b"\n" + MARK)
    return place + 1 if place >= 0 else -1


def read_environment(text: str) -> ConfigRecorded | None:
    """The settings of the first output in a text; None without one.

    They fill in what the engine itself does not state: the command may have run before
    or after it, in another shell.
    """
    place = text.find(MARK.decode())
    if place < 0:
        return None
    lines = text[max(0, place - ABOVE) : place + MAX_BYTES].splitlines()
    return _recorded(lines[:MAX_LINES])


class EnvironmentInLog:
    """Finds the output in the blocks of a log, above its lines or below them."""

    def __init__(self) -> None:
        self._data = b""
        self._line = 0

    def add_block(self, block: bytes, number: int) -> None:
        """Take a block of lines; `number` of them came before."""
        if self._data:
            if len(self._data) < MAX_BYTES:
                self._data += block
            return
        place = _place(block)
        if place >= 0:
            self._line = number + block.count(b"\n", 0, place) + 1
            self._data = block[max(0, place - ABOVE) :]

    def read(self) -> ConfigRecorded | None:
        """What it states; None without one."""
        found = read_environment(self._data.decode("utf-8", "replace"))
        return found and msgspec.structs.replace(found, line=self._line)


def _recorded(lines: Iterable[str]) -> ConfigRecorded | None:
    settings: dict[str, str] = {}
    packages: dict[str, str] = {}
    environment: dict[str, str] = {}
    devices: Counter[str] = Counter()
    for line in _own(lines):
        if found := _DEVICE.fullmatch(line.strip()):
            devices[text_of(found[1])] += 1
        elif found := _PACKAGE.match(line):
            packages.setdefault(f"package.{found[1]}", found[2])
        elif found := _VARIABLE.fullmatch(line):
            environment.setdefault(found[1], _value(found[1], found[2]))
        elif found := _KEY.fullmatch(line.rstrip()):
            name = _SETTINGS.get(found[1].strip())
            if name is not None and found[2].strip() not in _NOT_THERE:
                settings.setdefault(name, _value(name, found[2]))
    if "torch_version" not in settings:
        return None
    made = _made(settings, devices)
    return ConfigRecorded(
        settings={**settings, **made, **dict(islice(packages.items(), MAX_PACKAGES))},
        environment=environment,
        version=settings.get("vllm_version", "").split(" ")[0] or None,
        fills=True,
    )


def _made(settings: dict[str, str], devices: Counter[str]) -> dict[str, str]:
    """What follows from several lines or from a part of one."""
    made = {}
    if devices:
        made["devices"] = ", ".join(f"{n}x {name}" for name, n in devices.items())
    if "python_version" in settings:
        made["python_version"] = settings["python_version"].split(" ")[0]
    if build := _GAUDI_BUILD.search(settings["torch_version"]):
        made["habana_version"] = build[1]
    return made


def _own(lines: Iterable[str]) -> Iterator[str]:
    """The lines of the output: what ends it counts only below its first settings."""
    has_begun = False
    for line in lines:
        is_end = _END.match(line) or _LOGGED.search(line[:500])
        if has_begun and is_end:
            return
        has_begun = has_begun or line.startswith(MARK.decode())
        if not is_end:
            yield line


def _value(name: str, value: str) -> str:
    return text_of(str(mask(name, value)))[:MAX_VALUE]
