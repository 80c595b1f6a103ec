"""Which rank a process is, from what its prefix or its own lines say.

Prefixes by age: vLLM `_add_prefix` and `set_process_title`; V0 workers have no number
and rank 0 no prefix at all. Rank is the global one: data, pipeline, then tensor
parallel, as in vLLM `distributed/parallel_state.py`.
"""

from __future__ import annotations

import re

from parsers.envelope import Record

_PARTS = re.compile(r"(DP|PP|TP)(\d{1,4})")
MAX_RANKS = 1024
"""More than that is no number of ranks; a line must not make events without end."""
_WORKERS = ("VllmWorker", "Worker", "RayWorker")


class RankTable:
    """Ranks of the processes of one run."""

    def __init__(self) -> None:
        self._by_pid: dict[int, int] = {}
        self._by_name: dict[str, int] = {}
        self._unnumbered: dict[int, int] = {}
        self._seen: set[int] = set()

    def learn(self, record: Record, rank: int) -> None:
        """A process told its own rank."""
        if record.pid is not None:
            self._by_pid[record.pid] = rank

    def rank_of(self, record: Record) -> int | None:
        """The rank that printed a record; None when nothing tells."""
        rank = self._rank_of(record)
        if rank is not None:
            self._seen.add(rank)
        return rank

    def folded(self, rank: int | None, count: int) -> list[int]:
        """Ranks that a line standing for `count` lines also speaks for."""
        if count <= 1 or count > MAX_RANKS:
            return []
        others = [other for other in range(count + 1) if other != (rank or 0)]
        return others[: count - 1]

    def _rank_of(self, record: Record) -> int | None:
        if record.rank is not None:
            return record.rank
        if record.pid is not None and record.pid in self._by_pid:
            return self._by_pid[record.pid]
        name = record.process
        if name is None or not name.startswith(_WORKERS):
            return None
        parts = dict(_PARTS.findall(name))
        if parts:
            return self._numbered(name, {k: int(v) for k, v in parts.items()})
        if name == "VllmWorkerProcess" or name.startswith("RayWorker"):
            return self._next_unnumbered(record.pid)
        return None

    def _numbered(self, name: str, parts: dict[str, int]) -> int:
        if parts.get("DP", 0) == 0 and parts.get("PP", 0) == 0:
            return parts.get("TP", 0)
        # The sizes of the groups are unknown: order of appearance above the plain ones.
        known = self._by_name.get(name)
        if known is None:
            known = self._by_name[name] = max(self._seen, default=-1) + 1
        return known

    def _next_unnumbered(self, pid: int | None) -> int | None:
        """V0: rank 0 has no prefix, the others are told apart by their pid."""
        if pid is None:
            return None
        return self._unnumbered.setdefault(pid, len(self._unnumbered) + 1)
