"""The log stream of one container, pod or unit of a file: which start-up a line is of.

Of several starts that print into one stream the processes show whose a line is; in a
container those of the next start have the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable

from parsers.engine.dispatch import Matched
from parsers.engine.envelope import Record
from parsers.engine.evidence import ENGINE_CONFIG, Shown
from parsers.engine.failures import Traceback
from parsers.engine.joining import Joiner
from parsers.engine.ranks import WORKERS, is_grouped
from parsers.engine.runs import (
    EARLIER_S,
    FRONT,
    IDLE_S,
    IMPORT_S,
    LEAP_S,
    MAX_OPENINGS,
    OpenRun,
)
from parsers.engine.signals import FailureLine, RankNamed


class BeforeRun:
    """The first stamped line since the last run: a start-up begins with chatter."""

    MAX_LINES = 100

    def __init__(self) -> None:
        self.time: float | None = None
        self.last: float | None = None
        self.imported: float | None = None
        """When the first process since then imported vLLM."""
        self.shown: list[Shown] = []
        """What the lines since then show."""

    def add_line(self, time: float | None, shown: Shown) -> None:
        """A line without a rule, before any run."""
        if time is None:
            return
        if self.last is None or time - self.last > IDLE_S or time < self.last:
            self.time, self.shown, self.imported = time, [], None
        self.last = time
        if len(self.shown) < self.MAX_LINES:
            self.shown.append(shown)

    def add_import(self, time: float | None, shown: Shown) -> None:
        """A line of a process that imports vLLM while an earlier run is ready or over:
        the next start-up begins with it, unless it follows from an import long before."""
        last = self.last
        if time is not None and last is not None and time - last > IMPORT_S:
            self.time = self.last = self.imported = None
        self.add_line(time, shown)
        self.imported = time if self.imported is None else self.imported

    def start(self, time: float | None) -> tuple[float | None, float | None]:
        """When a run began whose first known line has this time, and the import of vLLM
        before that line."""
        first, last, imported = self.time, self.last, self.imported
        self.time = self.last = self.imported = None
        if time is None or first is None or last is None:
            return time, None
        is_near = 0 <= time - last <= IDLE_S
        return (first, imported) if is_near else (time, None)


_FIRST_OF_WORKER = "Worker ready; awaiting tasks"
"""The first line of a worker of V0 (vLLM `executor/multiproc_worker_utils.py
_run_worker_process`), which states no rank."""
LISTED_LINES = 10
"""So near below the heading of an environment the program that lists it imports vLLM."""
MAX_EARLIER = 8
"""Start-ups that may go on while a later one of the same stream is read."""


class Stream:
    """The lines of one container, pod or unit: the start that is read, those before it that may
    go on, and which of them a line is of."""

    def __init__(self) -> None:
        self.run: OpenRun | None = None
        self.earlier: list[OpenRun] = []
        """Earlier starts whose processes may still print."""
        self.ended_pids: dict[int, set[int]] = {}
        """Processes of starts that are over, each with all of its start."""
        self.before_run = BeforeRun()
        self._actors: dict[int, float] = {}
        """When actors of Ray first printed beside the start in another one."""
        self.traceback = Traceback()
        self.joiner = Joiner()
        self.last_owner: OpenRun | None = None
        """The earlier start that the last line of a named process belongs to."""
        self.is_fenced = False
        """The last block of code in a page of Markdown ended, or the next one began."""
        self.is_of_other = False
        """Another engine stated its arguments."""
        self.listed_line = -LISTED_LINES
        """Number of the heading of an environment."""
        self._first: tuple[float, int | None, str] | None = None
        """Time, process and text of the first record with a time."""
        self._now: float | None = None
        """The time of the last one."""

    def begins_anew(self, record: Record, time: float | None) -> bool:
        """Whether its log stands once more below itself, from a record on: its first one, at
        the same time."""
        if time is None:
            return False
        last, self._now = self._now, time
        if last is None:
            self._first = time, record.pid, record.message
        elif last - time > EARLIER_S:
            return self._first == (time, record.pid, record.message)
        return False

    def anew(self) -> Stream:
        """What is kept where its log begins once more."""
        stream = Stream()
        stream.joiner, stream._first, stream._now = self.joiner, self._first, self._now
        return stream

    def note_actor(self, actor: int | None, time: float | None) -> None:
        """An actor of Ray printed while the start in another one goes on."""
        if actor is not None and time is not None and len(self._actors) < MAX_OPENINGS:
            self._actors.setdefault(actor, time)

    def actor_since(self, actor: int | None, time: float | None) -> float | None:
        """When a start began that is the next one, in this actor: its first line of those."""
        first = self._actors.pop(actor, time) if actor is not None else time
        if first is None or time is None:
            return time
        return first if 0 <= time - first <= IDLE_S else time

    def begin_worker(self, record: Record, matched: Matched | None) -> list[OpenRun]:
        """A line may be one that each worker prints once: earlier starts with a process of
        its number that printed one, or that got ready, are over; those that must end now."""
        pid, made = record.pid, () if matched is None else matched.made
        worlds = (m for m in made if isinstance(m, RankNamed) and m.world_size)
        named = next(worlds, None)
        is_worker = (record.process or "").startswith(WORKERS)
        awaits_tasks = is_worker and record.message.startswith(_FIRST_OF_WORKER)
        if pid is None or (named is None and not awaits_tasks):
            return []
        return self._replace(
            pid,
            lambda run: (
                run.ranks.has_stated(pid, named) or (run.is_ready and pid in run.pids)
            ),
        )

    def owner(
        self, record: Record, matched: Matched | None, time: float | None
    ) -> OpenRun | None:
        """The earlier start that a line belongs to by its process; mostly None.

        An engine core belongs to the start that waits for one with its model. Where an
        earlier start has only its last lines, the server whose traceback is behind that of
        its engine core is its own, though the next one in a container has the same number.
        """
        last = self.last_owner
        is_traced = record.stamp is None and record.level is None
        if last is not None:
            is_going_on = is_traced and last.is_excerpt and last in self.earlier
            last = last if is_going_on else None
        if record.process is None:
            # The program that started the server may end with it.
            made = () if matched is None else matched.made
            return last if any(isinstance(m, FailureLine) for m in made) else None
        if not record.process.startswith(FRONT):
            last = None
        self.last_owner = last or self._owner_of(record, matched, time)
        return self.last_owner

    def _owner_of(
        self, record: Record, matched: Matched | None, time: float | None
    ) -> OpenRun | None:
        pid, current = record.pid, self.run
        if pid is None or current is None or pid in current.pids:
            return None
        if matched is None or not matched.rule.starts:
            actor = record.actor
            if current.is_of(actor):
                return None
            own = (
                r for r in self.earlier
                if r.is_of(actor)
                or (pid in r.pids
                    and not (matched is None and r.is_over_at(time, IDLE_S)))
            )  # fmt: skip
            return next(own, None) or self._engine_of(record, matched, current)
        if matched.rule.starts != ENGINE_CONFIG:
            return None
        if current.model is None or current.is_configured_as(matched):
            return None
        own = (
            r for r in self.earlier
            if r.model and r.is_configured_as(matched)
            and (r.has_several or not r.has_engine)
        )  # fmt: skip
        return next(own, None)

    def _engine_of(
        self, record: Record, matched: Matched | None, current: OpenRun
    ) -> OpenRun | None:
        """The earlier start that alone has workers, of several that go on together; a
        worker's first line shows neither its engine nor its model, mostly how many there
        are."""
        name = record.process or ""
        if not name.startswith(WORKERS):
            return None
        # It has the name of its groups before its server is ready, and may print nothing then.
        is_new = not is_grouped(name)
        starts = [*self.earlier, current]
        found = [
            run for run in starts
            if run.ranks.has_processes and not run.tracker.failures.is_over
            and not (run.is_ready and is_new)
        ]  # fmt: skip
        named = [] if matched is None else matched.made
        worlds = [m.world_size for m in named if isinstance(m, RankNamed)]
        if len(found) > 1 and worlds:
            found = [run for run in found if run.ranks.waits_for_worker(worlds[0])]
        return found[0] if len(found) == 1 and found[0] is not current else None

    @property
    def is_shared(self) -> bool:
        """Whether several starts go on at the same time: a bar may be of any of them, as
        each draws over the line that another one began."""
        return any(
            run.has_late_lines and not (run.is_ready or run.tracker.failures.is_over)
            for run in self.earlier
        )

    def begin_next(self, time: float | None) -> list[OpenRun]:
        """Another start begins: the current one may go on; those that must end now."""
        current, self.run = self.run, None
        if current is None:
            return []
        is_over = current.is_over_at(time, LEAP_S)
        if is_over or (current.is_excerpt and current.has_cache):
            # The next one may have processes of the same numbers.
            return [current]
        if current.tracker.failures.has_ended or (
            current.has_engine and not current.pids
        ):
            ended = [current]
        else:
            self.earlier.append(current)
            ended = self.earlier[:-MAX_EARLIER]
            del self.earlier[:-MAX_EARLIER]
        for run in ended:
            self.ended_pids.update(dict.fromkeys(run.pids, run.pids))
        return ended

    def end_all(self) -> list[OpenRun]:
        """No line of these comes any more: all starts, the current one last."""
        ended = [*self.earlier, *([] if self.run is None else [self.run])]
        self.earlier, self.run = [], None
        return ended

    def begin_start(self, pid: int) -> list[OpenRun]:
        """A process that begins a start has this number: earlier starts that had one of it
        are over; those that must end now."""
        return self._replace(pid, lambda run: pid in run.pids)

    def _replace(self, pid: int, is_over: Callable[[OpenRun], bool]) -> list[OpenRun]:
        """Another process has this number: that of a start that is over printed its last
        line, and the others of it may have their numbers again (in a container all have the
        same)."""
        over = self.ended_pids.get(pid, set())
        for each in over:
            if self.ended_pids.get(each) is over:
                del self.ended_pids[each]
        ended = [run for run in self.earlier if is_over(run)]
        self.earlier = [run for run in self.earlier if run not in ended]
        return ended
