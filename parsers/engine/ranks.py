"""Which rank a process is, from its name, its pid or what it states itself.

Prefixes by age: vLLM `_add_prefix` and `set_process_title`; V0 workers have no number
and rank 0 no prefix at all. Rank is the global one: data, pipeline, then tensor
parallel, as in vLLM `distributed/parallel_state.py`. A process that has no peers has
no rank.
"""

from __future__ import annotations

import re
from typing import Any

from parsers.engine.envelope import Record

_PARTS = re.compile(r"(?:^|[_ ])(DP|PP|TP|EP)(\d{1,4})(?![\d])")
_NUMBER = re.compile(r"VllmWorker-(\d{1,4})")
MAX_RANKS = 4096
"""More than that is no number of ranks."""
_UNNUMBERED = ("VllmWorkerProcess", "RayWorker")
_WORKERS = ("VllmWorker", "Worker", "RayWorker")
_OF_A_WORKER = ("worker.py", "model_runner.py", "loader.py")
"""Ends of the names of modules that run once per rank."""


class RankTable:
    """Ranks of the processes of one run."""

    def __init__(self) -> None:
        self._by_pid: dict[int, int] = {}
        self._by_name: dict[str, int] = {}
        self._unnumbered: dict[int, int] = {}
        self._sizes: dict[str, int] = {}
        self._processes: set[tuple[str, int | None]] = set()
        self._seen: set[int] = set()
        self._world_size = 0
        self._has_driver = False
        self._has_workers = False

    def learn(self, record: Record, rank: int, world_size: int | None) -> None:
        """A process stated its own rank."""
        if world_size is not None and world_size <= MAX_RANKS:
            self._world_size = max(self._world_size, world_size)
        if record.pid is None or rank >= MAX_RANKS:
            return
        if world_size is None and not (record.process or "").startswith(_UNNUMBERED):
            return  # only the name of a folder, and the process has a name of its own
        if world_size != 1:
            self._by_pid[record.pid] = rank

    def learn_sizes(self, settings: dict[str, Any]) -> None:
        """The engine's configuration states the sizes of its groups."""
        for key, part in (
            ("tensor_parallel_size", "TP"),
            ("pipeline_parallel_size", "PP"),
        ):
            size = settings.get(key)
            if isinstance(size, int) and 0 < size <= MAX_RANKS:
                self._sizes[part] = size

    def see(self, record: Record) -> None:
        """Take notice of the process that printed a line."""
        if record.process is None:
            file = (record.file or "").rpartition(":")[0]
            self._has_driver = self._has_driver or file.endswith(_OF_A_WORKER)
        elif (record.process, record.pid) not in self._processes:
            self._processes.add((record.process, record.pid))
            self.rank_of(record)

    def rank_of(self, record: Record) -> int | None:
        """The rank that printed a record; None when nothing shows it, or it is alone."""
        rank = self._rank_of(record)
        if rank is not None:
            self._seen.add(rank)
        return rank

    def count(self, *, is_one_process_each: bool = True) -> int | None:
        """How many ranks there are: as stated, or as many as were seen.

        On TPU and Neuron one process drives all devices of a host, whatever the groups
        are: the world that its processes state is then smaller than the groups.

        None when there is no sign of more than one.
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
        return seen if seen > 1 or self._world_size else None

    def _rank_of(self, record: Record) -> int | None:
        if record.rank is not None:
            return record.rank
        if record.pid is not None and record.pid in self._by_pid:
            return self._by_pid[record.pid]
        name = record.process
        if name is None:
            return None
        if name.startswith("EngineCore_DP"):
            return self._of_core(name)
        if not name.startswith(_WORKERS):
            return None
        self._has_workers = True
        number = _NUMBER.match(name)
        if number is not None:
            return int(number[1])
        parts = {part: int(value) for part, value in _PARTS.findall(name)}
        if parts:
            return self._numbered(name, parts)
        if name.startswith(_UNNUMBERED):
            return self._next_unnumbered(record.pid)
        return None

    def _of_core(self, name: str) -> int | None:
        """An engine of several that runs its only worker itself."""
        number = name.removeprefix("EngineCore_DP")
        if not number.isdigit() or self._has_workers or len(number) > 4:
            return None
        if self._sizes.get("TP", 1) * self._sizes.get("PP", 1) > 1:
            return None
        others = any(
            other.startswith("EngineCore_DP") and other != "EngineCore_DP0"
            for other, _ in self._processes
        )
        return int(number) if others or number != "0" else None

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
            known = self._by_name[name] = max(self._seen, default=-1) + 1
        return known

    def _next_unnumbered(self, pid: int | None) -> int | None:
        """V0: rank 0 has no prefix, the others differ by their pid."""
        if pid is None:
            return None
        return self._unnumbered.setdefault(pid, len(self._unnumbered) + 1)
