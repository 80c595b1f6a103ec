"""Ranks of the processes that printed the lines of a run.

A rank follows from the name of a process, its pid or what it states itself. Prefixes by
age: vLLM `_add_prefix` and `set_process_title`; V0 workers have no number and rank 0 no
prefix at all. Rank is the global one: data, pipeline, prefill context, then tensor parallel,
as in vLLM `distributed/parallel_state.py`; decode context groups are parts of tensor parallel
ones. A process that has no peers has no rank.
"""

from __future__ import annotations

import math
import re
from itertools import chain, count
from typing import Any

from parsers.base import module_of
from parsers.engine.envelope import Record
from parsers.engine.evidence import MAX_PROCESSES
from parsers.engine.signals import RankNamed

_PARTS = re.compile(r"(?:^|[_ ])(DP|PP|PCP|TP|EP)(\d{1,4})(?![\d])")
_NUMBER = re.compile(r"VllmWorker-(\d{1,4})")
_CORE = re.compile(r"EngineCore_(?:DP)?(\d{1,4})$")
MAX_RANKS = 4096
"""More than that is no number of ranks."""
_UNNUMBERED = ("VllmWorkerProcess", "RayWorker")
WORKERS = ("VllmWorker", "Worker", "RayWorker")
RANK_ACTOR = re.compile(r"(?:DP)?(?:MoE)?EngineCoreActor")
"""An actor of Ray for each data parallel rank (vLLM `v1/engine/core.py`), on hosts whose
clocks may differ."""
_OF_A_WORKER = ("worker.py", "model_runner.py", "loader.py")
"""Ends of the names of modules that run once per rank."""


def is_grouped(name: str) -> bool:
    """Whether a process is named after its groups of ranks."""
    return _PARTS.search(name) is not None


def _is_of_several(name: str) -> bool:
    """Whether a process is one of several: it is named after its groups, or it is a worker
    in a process of its own as one device needs none (`VllmWorker rank=0`)."""
    return is_grouped(name) or name == "VllmWorker"


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
        self._by_name: dict[tuple[str, int], int] = {}
        self._places: set[tuple[int, int, int, int]] = set()
        """Data, pipeline, prefill context and tensor parallel rank of those in `_by_name`."""
        self._pids_of_equals: dict[str | int, list[int]] = {}
        self._stated: dict[tuple[int, int], int] = {}
        """The first process that stated a rank of a world of some size."""
        self._statements: set[tuple[int, bool]] = set()
        """Processes that stated a rank, and whether with the address where ranks meet."""
        self._engines: dict[int, int] = {}
        """Engines of workers that stated theirs, by pid."""
        self._unnumbered: dict[int, int] = {}
        self._worlds: dict[int, int] = {}
        """Workers that stated a world of their own, in order."""
        self._sizes: dict[str, int] = {}
        self._processes: set[tuple[str, int | None]] = set()
        self._names: set[str] = set()
        """Names in `_processes`."""
        self._data_ranks: set[str] = set()
        """Data parallel ranks in them."""
        self._seen: set[int] = set()
        self._num_engines = 0
        """Of this host where engines share nothing, else of all."""
        self._is_dense = False
        """Each of several engines is configured as the only one."""
        self._is_of_its_own = False
        """The engine is one of several that have a server each."""
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

    def set_rank(self, record: Record, named: RankNamed) -> None:
        """A process stated its own rank."""
        rank, world_size = named.rank, named.world_size
        if world_size is not None and world_size <= MAX_RANKS:
            self._world_size = max(self._world_size, world_size)
        if record.pid is None or rank >= MAX_RANKS:
            return
        if world_size is None and not (record.process or "").startswith(_UNNUMBERED):
            return  # only the name of a folder, and the process has a name of its own
        if world_size is not None and len(self._statements) < MAX_PROCESSES:
            self._statements.add((record.pid, named.address is not None))
        if world_size == 1:
            number = self._of_own_world(record)
            if number is None:
                return
            rank = number
        elif world_size is not None:
            key = rank, world_size
            if len(self._stated) < MAX_RANKS:
                self._stated.setdefault(key, record.pid)
            # Each engine has such a rank.
            self._has_engines |= self._stated.get(key, record.pid) != record.pid
            self._set_device(record.pid, named)
            rank += world_size * self._engine_of(record.pid, rank)
        if len(self._by_pid) < MAX_PROCESSES:
            self._by_pid[record.pid] = rank
            self._swap(record.pid, rank)
            self._ranks.clear()

    def _set_device(self, pid: int, named: RankNamed) -> None:
        """A worker stated its device, which shows its engine where there are several: those
        of a dense model have the devices of a host one after the other (vLLM
        `config/parallel.py get_local_gpu_index`; on HPU each engine counts its own). One with
        a server of its own may have any devices of the host, and is alone in its log."""
        if named.local_rank is None or not named.world_size:
            return
        beyond = named.local_rank - named.rank
        engine, rest = divmod(beyond, named.world_size)
        is_one = engine > 0 and rest == 0 and self._has_engines
        if is_one and len(self._engines) < MAX_PROCESSES:
            self._engines[pid] = engine

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
            ("prefill_context_parallel_size", "PCP"),
        ):
            size = settings.get(key)
            if isinstance(size, int) and 0 < size <= MAX_RANKS:
                self._sizes[part] = size
                self._ranks.clear()
        # Each engine of a dense model is configured as the only one, below a server that
        # states their number; with a rank each has a server of its own.
        engines = settings.get("data_parallel_size")
        if settings.get("data_parallel_rank") is not None:
            self._has_engines, self._is_of_its_own = False, True
        elif isinstance(engines, int) and 1 < engines <= MAX_RANKS:
            self._has_engines = True
            self._ranks.clear()
            local = settings.get("data_parallel_size_local")
            if isinstance(local, int) and 0 < local < engines:
                engines = local
            self._num_engines = engines
        elif engines == 1 and self._has_engines and not self._is_dense:
            self._is_dense = True
            self._ranks.clear()
            self._seen.clear()

    def add_process(self, record: Record) -> None:
        """Take notice of the process that printed a line."""
        is_worker = module_of(record.file).endswith(_OF_A_WORKER)
        self._hides_workers |= record.is_repeated
        if record.process is None:
            self._has_driver = self._has_driver or is_worker
            return
        is_engine = record.process.startswith("EngineCore")
        self._is_in_engine = self._is_in_engine or (is_worker and is_engine)
        if (record.process, record.pid) not in self._processes:
            is_equal = (
                record.process.startswith("Worker_") and "DP" not in record.process
            )
            self._has_engines |= is_equal and record.process in self._names
            if len(self._processes) < MAX_PROCESSES:
                self._processes.add((record.process, record.pid))
                self._names.add(record.process)
                parts = dict(_PARTS.findall(record.process))
                self._data_ranks |= {parts["DP"]} if "DP" in parts else set()
                self._ranks.clear()
            if is_engine and not self._has_engines:
                cores = set(map(_core_number, self._names))
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
    def _num_workers(self) -> int:
        """Of one engine, by its settings; 1 where they are unknown."""
        return math.prod(self._sizes.values())

    @property
    def has_processes(self) -> bool:
        """Whether the engine has workers in processes of their own, by its settings."""
        return self._num_workers > 1

    def has_stated(self, pid: int, named: RankNamed | None) -> bool:
        """Whether a worker printed a line of its start before, as each does once: with its
        rank, or one of V0 without."""
        if named is None:
            return pid in self._unnumbered
        return (pid, named.address is not None) in self._statements

    def waits_for_worker(self, world_size: int | None) -> bool:
        """Whether the engine has a world of that size, and fewer workers that stated theirs."""
        size = self._num_workers * (self._num_engines or 1)
        return world_size in (size, self._num_workers) and len(self._by_pid) < size

    @property
    def are_shown(self) -> bool:
        """Whether lines show how many ranks there are, and not only who printed any."""
        if self._world_size:
            # Each of several engines has as many, and lines of one may be missing.
            return (self.count() or 0) % self._world_size == 0
        # A core with a number may be one of several.
        is_alone = self._is_in_engine and not any(map(_core_number, self._names))
        return bool(self._sizes) or is_alone

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
        # `VllmWorkerProcess` exists beside a rank 0 only.
        has_driver = self._has_driver or _UNNUMBERED[0] in self._names
        workers = len(self._unnumbered) + has_driver if self._unnumbered else 0
        product = self._num_workers
        if is_one_process_each and not 0 < self._world_size < product:
            own = product * (self._num_engines or 1)
            # An actor of Ray that is no rank stands in for the driver (V0
            # `executor/ray_gpu_executor.py`).
            is_known = self._sizes and not self._has_engines
            workers = own if is_known else max(workers, own)
        seen = max(max(stated, default=-1) + 1, workers, self._world_size)
        is_count = _is_count(stated) and not self._is_part_of_grid()
        if not (self._world_size or self._sizes or is_count):
            return 0
        are_all = len(self._unnumbered) > 1 and workers & (workers - 1) == 0
        is_open = self._unnumbered and (self._hides_workers or not are_all)
        is_one_of_several = bool(is_open) and not (stated or self._sizes)
        if self._world_size or (seen > 1 and not is_one_of_several):
            return seen
        workers_seen = [name for name in self._names if name.startswith(WORKERS)]
        is_first = any(map(_is_of_several, workers_seen))
        return 0 if is_one_of_several or is_first or self._has_engines else None

    def _rank_of(self, record: Record) -> int | None:
        if record.rank is not None:
            return record.rank
        if record.pid is not None and record.pid in self._by_pid:
            return self._by_pid[record.pid]
        name = record.process
        if name is None:
            return None
        if name.startswith("EngineCore_") or RANK_ACTOR.fullmatch(name):
            is_actor = "_" not in name
            return self._of_actor(record) if is_actor else self._of_core(name)
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
            return self._numbered(record, parts)
        if name.startswith(_UNNUMBERED):
            return self._next_unnumbered(record.pid)
        return None

    def _of_actor(self, record: Record) -> int | None:
        """Which rank an engine without workers of its own is: Ray prints one of equal lines
        only, so it may not state that. They count as they appear, besides those that do."""
        pid = record.pid
        if pid is None or self.has_processes:
            return None
        pids = self._pids_of_equals.setdefault(record.process or "", [])
        if pid not in pids:
            if len(pids) >= MAX_RANKS:
                return None
            pids.append(pid)
            self._ranks.clear()
        stated = set(self._by_pid.values())
        free = (rank for rank in count() if rank not in stated)
        numbers = {each: next(free) for each in pids if each not in self._by_pid}
        return numbers[pid] if len(pids) > 1 else None

    def _engine_of(self, pid: int | None, own: str | int) -> int:
        """Which of several engines of a dense model a worker belongs to, in the order in
        which they appear: their workers have equal names and ranks (`run_engine_core`).

        `own` is the name or the rank.
        """
        if pid is None:
            return 0
        if pid in self._engines:
            return self._engines[pid]
        if len(self._pids_of_equals) >= MAX_RANKS and own not in self._pids_of_equals:
            return 0
        pids = self._pids_of_equals.setdefault(own, [])
        if pid not in pids and len(pids) < MAX_RANKS:
            pids.append(pid)
        return pids.index(pid) if self._has_engines and pid in pids else 0

    def _of_core(self, name: str) -> int | None:
        """The first rank of an engine of several."""
        number = _core_number(name)
        if not number or self._is_of_its_own:
            return None
        if self._has_workers and not self._has_engines:
            return None
        names = self._names
        cores = sorted(
            {int(_core_number(name)) for name in names if _core_number(name)}
        )
        has_own = self.has_processes and not self._is_in_engine
        if not has_own and not self._is_dense:
            return int(number) if number != "0" or any(cores) else None
        if has_own and not self._has_workers:
            return None
        # Workers of dense models do not name their engine: engines count as they appear,
        # also where another host has the rest.
        is_named = any(name.startswith(WORKERS) and "DP" in name for name in names)
        place = int(number)
        if not is_named:
            place = cores.index(place) if place in cores else 0
        return place * (self._num_workers if has_own else 1)

    def _numbered(self, record: Record, parts: dict[str, int]) -> int:
        name = record.process or ""
        engine = self._engine_of(record.pid, name)
        pipeline, context, tensor = (parts.get(part, 0) for part in ("PP", "PCP", "TP"))
        # An engine with a server of its own is alone in its log, whichever of several it is.
        is_alone = self._is_of_its_own and len(self._data_ranks) <= 1
        data = 0 if is_alone else parts.get("DP", engine)
        if "EP" in parts and "PP" not in parts and not is_alone:
            # The experts' group spans data and tensor parallel ranks in their order.
            return parts["EP"]
        if len(parts) == 1 and engine == 0 and not self._has_engines:
            # A name has each group of more than one rank (vLLM `v1/executor/
            # multiproc_executor.py setup_proc_title_and_log_prefix`): there is no other.
            only = data + pipeline + context + tensor
            if record.pid is None or only not in self._by_pid.values():
                return only
        sizes = self._sizes
        if "TP" in sizes:
            stage = data * sizes.get("PP", 1) + pipeline
            return (stage * sizes.get("PCP", 1) + context) * sizes["TP"] + tensor
        # The sizes of the groups are unknown: others than the first tensor parallel ones are
        # numbered above them as they appear, and no two have one number.
        known = self._by_name.get((name, engine))
        if known is None:
            if len(self._by_name) >= MAX_RANKS:
                return MAX_RANKS
            used = {*self._by_name.values(), *self._by_pid.values()}
            known = (
                tensor
                if data == pipeline == context == 0
                else max(self._seen, default=0) + 1
            )
            if known in used:
                known = max(used | self._seen) + 1
            self._by_name[name, engine] = known
            self._places.add((data, pipeline, context, tensor))
        return known

    def _is_part_of_grid(self) -> bool:
        """Whether ranks were numbered as they appeared, and there are more than those: groups
        whose sizes are unknown have a rank for each pair of theirs."""
        if not self._places or "TP" in self._sizes or self._world_size:
            return False
        sizes = [max(column) + 1 for column in zip(*self._places, strict=True)]
        return len(self._places) < int(math.prod(sizes))

    def _next_unnumbered(self, pid: int | None) -> int | None:
        """V0: rank 0 has no prefix, the others differ by their pid. With as many workers
        as ranks it has one (vLLM `ray_distributed_executor.py`, `use_ray_spmd_worker`), as
        below an engine core. The only rank of an engine on CPU is such a process too
        (`executor/cpu_executor.py`, 0.6)."""
        is_alone = self._sizes and self._num_workers == 1 and not self._has_engines
        if pid is None or is_alone:
            return None
        if pid not in self._unnumbered:
            if len(self._unnumbered) >= MAX_RANKS:
                return None
            used = {*self._unnumbered.values(), *self._by_pid.values()}
            product = self._num_workers
            size = max(self._world_size, product)
            has_core = any(name.startswith("EngineCore") for name in self._names)
            first = range(size > 1 and not self._has_driver)
            order = count() if has_core else chain(range(1, size), first, count(size))
            free = (rank for rank in order if rank not in used)
            self._unnumbered[pid] = next(free)
        return self._unnumbered[pid]
