"""One start-up of a file: what was read of it, and what shows that a line is of another."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from msgspec import structs

from parsers.base import LineRule, Made, module_of
from parsers.dialects.reference import ENGINE as REFERENCE
from parsers.engine.dispatch import Matched
from parsers.engine.envelope import OF_VLLM, Record
from parsers.engine.evidence import (
    CONFIG_STATED,
    ENGINE_CONFIG,
    IMPORTING,
    PARTED,
    PLATFORM,
    Evidence,
    Imports,
    imports_unnamed,
)
from parsers.engine.ranks import RANK_ACTOR, WORKERS, RankTable
from parsers.engine.signals import (
    ConfigLine,
    FailureLine,
    Origin,
    RankNamed,
    ShutdownLine,
    StepLine,
    is_cause,
    is_foreign,
    stamped,
)
from parsers.engine.tracker import RunTracker
from parsers.report import shown_text
from warmup_insights.model.events import (
    BucketMiss,
    BucketRangesConfigured,
    BucketsGenerated,
    CompileFinished,
    ConfigRecorded,
    DefragStep,
    DefragWarmup,
    EngineInitialized,
    Event,
    GapSeen,
    GraphMemoryEstimated,
    GraphsCaptured,
    KVCacheAllocated,
    MemoryBudgetSet,
    MemoryMeasured,
    Note,
    PhaseMarked,
    SamplerConfig,
    SamplerStep,
    SamplerWarmup,
    ServerReady,
    WarmupFinished,
    WarmupStep,
)

_Opening = tuple[int, str | None]
_Front = tuple[str | None, float | None, int]
_OF_VLLM = re.compile(rf"{OF_VLLM.pattern}|(?:Ray)?Worker(?:Proc|Wrapper|_|\b)")
"""Processes of vLLM, and actors of Ray that it starts."""
FRONT = ("APIServer", "ApiServer", "MainProcess")
"""Names of processes that configure an engine and start it in another one."""
_UNNAMED = ""
"""Stands for the name of one that has none and printed its last line."""
_SINGLE = re.compile(r"APIServer|EngineCore(?:_(?:DP)?\d{1,4})?")
_WITH_BUCKETS = (BucketsGenerated, EngineInitialized, WarmupFinished, WarmupStep)
_MEASURED = (MemoryMeasured, MemoryBudgetSet, KVCacheAllocated)
_FOLLOWED = {
    *_WITH_BUCKETS, *_MEASURED, ServerReady, ConfigRecorded, BucketMiss, PhaseMarked,
}  # fmt: skip
_STARTUP = (
    BucketRangesConfigured, BucketsGenerated, ConfigRecorded, DefragWarmup,
    GraphMemoryEstimated, GraphsCaptured, MemoryBudgetSet, MemoryMeasured,
    SamplerWarmup, WarmupStep, StepLine, ConfigLine, WarmupFinished,
)  # fmt: skip
_BEFORE_READY = (
    *_STARTUP, CompileFinished, DefragStep, EngineInitialized, KVCacheAllocated,
    PhaseMarked, SamplerConfig, SamplerStep,
)  # fmt: skip
"""A ready server makes some of these as well, when it wakes up, loads weights or compiles."""
_CHILDREN = ("EngineCore", *WORKERS)
_OF_CHILDREN = (
    "core.py", "engine.py", "multiproc_executor.py", "multiproc_worker_utils.py",
    "worker_base.py",
)  # fmt: skip
"""Modules that log what ends an engine's process or a worker (vLLM `v1/engine/`,
`engine/multiprocessing/`, `v1/executor/`, `executor/`, `worker/`)."""
_OF_SEVERAL = re.compile(r"EngineCore(?:_DP([1-9]\d{0,3}))?")
"""An engine that has none beside it, or is not the first of them (since vLLM 0.16; before,
the name of one that is alone had a number too)."""
_SHARED = ("max_model_len", "tensor_parallel_size", "pipeline_parallel_size")
_ONE = {"tensor_parallel_size": 1, "pipeline_parallel_size": 1}
"""Settings that a server prints where they are another value only."""
LEAP_S = 6 * 3600.0
"""No step of a start-up takes longer; between such lines lies another start-up."""
BACK_S = 3600.0
ZONES_S = 26 * 3600.0
"""The clocks of two hosts, each in its zone, differ by no more."""
EARLIER_S = 30.0
"""Lines of one start are mixed up by less: its engine does not begin before them."""
IDLE_S = 600.0
"""Of two lines that lie further apart, where no rule reads them, the second is another
program's or the next start's."""
IMPORT_S = 120.0
"""The engine core of a program is spawned sooner after the import of the program."""
GAP_S = 2.0
"""Shorter steps between lines are not kept: timestamps have a resolution of a second."""
MAX_GAPS = 2000
BEGINS_HERE = "The lines before are of other programs that imported vLLM"
TYPED = "The program imported vLLM before, and waited for what a person typed"
_PROMPTS = (">>> ", "In [")
"""Of Python and IPython."""
_CONFIGURING = ("config.py", "arg_utils.py")
"""Modules that print nothing before a program makes the configuration of an engine (vLLM
`config.py`, `engine/arg_utils.py`, `transformers_utils/config.py`)."""
MIXED = "lines of several engines are mixed, and no name shows of which one a line is"
_HEARTBEATS = (
    *(f"Waiting for {digit}" for digit in "123456789"),
    "Waiting for creating a placement group", "Waiting for removing a placement group",
    "Waiting for new requests", "Waiting for output from",
    "No available shared memory broadcast block found in",
)  # fmt: skip
"""Lines that come again while nothing happens (vLLM `v1/engine/utils.py
wait_for_engine_startup`, `v1/executor/ray_utils.py`, `engine/multiprocessing/client.py`,
`distributed/device_communicators/shm_broadcast.py`). `Waiting for init message from
front-end.` is none: it is the first line of an engine's process."""
_COORDINATOR = "Started DP Coordinator process"
"""It is started, and waited for, right before the data parallel engines (vLLM
`v1/engine/utils.py launch_core_engines`)."""
_OVERRIDES = "env_override.py"
"""A process that inherits what its parent set for NCCL imports vLLM (until v0.10)."""
_CORE = "Initializing a V1 LLM engine"
STOPPING = "[shutdown] "
"""How lines begin of a server that stops its engine's process, and of that process (vLLM
`v1/utils.py shutdown`, `v1/engine/core.py`)."""
_COMPILED = ("Compilation Successfully Completed for ", "Compiler status PASS")
"""What AWS Neuron's compiler ends with, for each module. It prints dots while it compiles, and
has begun at the line before, of another program; the second line has no time (libneuronxla
`neuron_cc_wrapper.py`; neuronx-cc)."""
STARTUP_LINES = 50_000
"""After so many lines without a ready server only candidate lines are read."""
NEAR_LINES = 5
"""Dots further below the lines of a start-up are those of another program."""
FIRST_LINES = 2000
"""So many lines of a file are read for the first request to a ready server."""
GAP_TEXT = 160
MAX_OPENINGS = 1000


def _version(made: Iterable[Made]) -> str | None:
    versions = (item.version for item in made if isinstance(item, ConfigRecorded))
    return next((version for version in versions if version is not None), None)


def _has_several(settings: dict[str, Any]) -> bool:
    """Whether the settings are those of several engines or API servers."""
    counts = (settings.get("data_parallel_size"), settings.get("api_server_count"))
    return any(isinstance(count, int) and count > 1 for count in counts)


def _shared_settings(event: ConfigRecorded) -> dict[str, Any]:
    """Settings that a server prints of itself and of its engine; -1 stands for a length
    that the engine finds."""
    settings = event.settings
    shared = {key: settings[key] for key in _SHARED if settings.get(key, -1) != -1}
    if event.model is not None:
        shared["model"] = event.model
    return shared


def begins_inside(matched: Matched) -> bool:
    """Whether a line is of a process that an engine or its server starts, and not the
    first one that it prints of its engine (vLLM `v1/engine/utils.py`, `v1/executor/
    multiproc_executor.py`), or states that one is ready: where it is the first of a log,
    the head is missing."""
    record = matched.record
    if any(isinstance(item, ServerReady) for item in matched.made):
        return True
    is_child = record.pid is not None and record.actor is None
    is_child = is_child and (record.process or "").startswith(_CHILDREN)
    return is_child and not matched.rule.starts


@dataclass(eq=False, slots=True)
class OpenRun:
    """What the engine keeps of the run that is being read, and what shows that a line
    is of another one."""

    ordinal: int
    """Which start-up of the file, from 0."""
    tracker: RunTracker = field(default_factory=RunTracker)
    ranks: RankTable = field(default_factory=RankTable)
    evidence: Evidence = field(default_factory=Evidence)
    lines: int = 0
    gaps: int = 0
    timed_line: int | None = None
    """Number of the last line that has a time."""
    ready_line: int | None = None
    last_time: float | None = None
    last_line: int = 0
    last_text: str = ""
    waited: tuple[float, int, str] | None = None
    """Time, number and text of the last line that states only that something waits."""
    pids: set[int] = field(default_factory=set)
    """Of the processes that printed its lines."""
    actor: int | None = None
    """Pid of the Ray actor that the engine is in."""
    model: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    """Of those that a server and its engine both print."""
    above_engine: set[str] = field(default_factory=set)
    """Rules of the lines above the engine's first one."""
    has_engine: bool = False
    """The engine core has printed its configuration."""
    is_loading: bool = False
    has_weights: bool = False
    has_measured: bool = False
    """Weights are loaded, or the memory is divided."""
    has_cache: bool = False
    is_ready: bool = False
    has_buckets: bool = True
    """False from the engine's first line until its buckets exist."""
    has_several: bool = False
    """The server has other processes that may still import vLLM."""
    has_other_server: bool = False
    """Another web server than vLLM's, without a name either, got ready."""
    has_late_lines: bool = False
    """It printed lines behind the beginning of a later start."""
    is_left_behind: bool = False
    """A process of another program or start printed the last line."""
    _gaps: list[GapSeen] = field(default_factory=list)
    """Those that end with lines which may be of the next start."""
    _is_shipped: bool = False
    """A log shipper puts a time before its lines."""
    _shown_until: float = -math.inf
    """The last time of a line that is not of another program."""
    _before_gaps: tuple[float | None, int, str] | None = None
    """Time, number and text of the last line before `_gaps`."""
    _front: _Front | None = None
    """Name of the process that has the engine's settings, with time and number of its
    last line, until another one prints."""
    _openings: dict[_Opening, tuple[int | None, float | None, str]] = field(
        default_factory=dict
    )
    """Lines that open a start-up, by their place and process: pid, time and text."""
    _imports: Imports = field(default_factory=Imports)
    _is_typed: bool = False
    """A person typed something behind the imports of the program."""
    _is_configured: bool = False
    """A module printed that makes the configuration, above any line of the engine."""
    _has_compiled: bool = False
    """A compiler that ended was the last to print, in a line without a time."""
    _version: str | None = None
    _only_pids: dict[str, int] = field(default_factory=dict)
    """Of processes that exist once per engine."""
    _names: set[str | None] = field(default_factory=set)
    """Of processes that printed lines of the engine; None for one without a name."""
    _has_devices: bool = False
    """A line stated of how many devices the engine is."""
    _is_parted: bool = False
    """One process makes several engines."""
    _address: str | None = None
    """Where the ranks of an engine without names meet."""
    _blocks: int | None = None
    """Of the KV cache of an engine of V0, which states them once."""
    _is_mixed: bool = False
    _has_failed_child: bool = False
    """The process of an engine or a worker logged an error."""

    def is_configured_as(self, matched: Matched) -> bool:
        """Whether an engine states the model and the settings of this server."""
        stated: dict[str, Any] = {}
        for item in matched.made:
            if isinstance(item, ConfigRecorded):
                stated |= _shared_settings(item)
        known = {**_ONE, **self.settings}
        number = _OF_SEVERAL.fullmatch(matched.record.process or "")
        if number is not None and (number[1] is None) == self.has_several:
            return False
        return stated.get("model") == self.model and all(
            stated[key] == value for key, value in known.items() if key in stated
        )

    @property
    def is_import(self) -> bool:
        """Whether all lines so far are of a process without a name that imports vLLM."""
        return self.has_imports_alone and not self.pids

    @property
    def has_imports_alone(self) -> bool:
        """Whether all lines so far are of processes that import vLLM."""
        is_begun = self.has_engine or self._openings
        return not is_begun and self.above_engine <= IMPORTING

    @property
    def is_excerpt(self) -> bool:
        """Whether no line so far opens a start-up."""
        return not self._openings

    def is_server(self, record: Record) -> bool:
        """Whether a line is of a server, not of a program with an engine of its own."""
        return self.tracker.is_server or (record.process or "").startswith(FRONT[:2])

    def is_of(self, actor: int | None) -> bool:
        """Whether the engine is in this Ray actor."""
        return actor is not None and self.actor == actor

    def is_other(self, actor: int | None) -> bool:
        """Whether the engine is in a Ray actor, and in another one than this."""
        return None not in (actor, self.actor) and self.actor != actor

    def is_of_other_server(self, made: object, record: Record) -> bool:
        """Whether a web server gets ready before vLLM's has an engine or behind the failure
        of one that was being made, or goes down and may be another one than vLLM's: uvicorn
        names none, and more than one got ready.

        vLLM's lists its routes first (`launcher.py serve_http`), or has a prefix. A program
        with a web server of its own can do without an engine.
        """
        is_named = record.process is not None
        if isinstance(made, ShutdownLine):
            is_bare = not is_named and record.stamp is None
            return self.has_other_server and is_bare and record.level == "INFO"
        if not isinstance(made, ServerReady):
            return False
        has_engine = self.has_engine or self.has_measured or is_named
        is_other = self.tracker.waits_for_engine and not has_engine
        is_other |= self.tracker.failures.is_of_start and not is_named
        is_second = self.is_ready and not is_named
        self.has_other_server = self.has_other_server or is_other or is_second
        return is_other

    def with_origin(
        self, made: FailureLine, record: Record, *, is_quoted: bool
    ) -> FailureLine:
        """An error without a logger, with a mark where another actor of Ray printed it
        than those with lines of the engine, or the program that started them, and where a
        page names it below the log of a start that captured its graphs (`is_quoted`). That a
        process which an engine starts logged it is kept."""
        name = record.process
        self._has_failed_child |= record.is_error and (
            (name or "").startswith(_CHILDREN) or module_of(record.file) in _OF_CHILDREN
        )
        if made.is_bare and is_quoted and self.tracker.is_made:
            return structs.replace(made, is_elsewhere=True)
        if not made.is_bare or made.kind is not None or is_cause(made):
            return made
        if not self._names or name in self._names:
            return made
        others = [name] if name is not None else self._names
        is_own = any(other is None or _OF_VLLM.match(other) for other in others)
        return made if is_own else structs.replace(made, is_elsewhere=True)

    def continues(self, matched: Matched) -> bool:
        """Cheap answer for most lines: of a known process, shortly after the last one, or
        of none and without an event."""
        time, last, pid = matched.time, self.last_time, matched.record.pid
        if matched.rule.starts or matched.rule.name in IMPORTING or self.is_left_behind:
            return False
        if self.has_cache and self.is_excerpt and matched.made:
            return False
        if pid is None and not matched.made:
            return True
        is_head = matched.rule.name in self.above_engine
        return (
            time is not None
            and last is not None
            and -EARLIER_S <= time - last <= (IDLE_S if is_head else LEAP_S)
            and self._before_gaps is None
            and (pid is None or pid in self.pids)
            and not self.tracker.failures.has_ended
        )

    def mixed(self, made: RankNamed, record: Record) -> Iterator[Note]:
        """What states that another engine prints here whose processes have no names either:
        the ranks of one meet at the same address."""
        is_named = record.process is not None or record.pid is not None
        if is_named or made.address is None:
            return
        yield from self._note_mixed(self._address not in (None, made.address))
        self._address = made.address

    def mixed_blocks(self, made: KVCacheAllocated, record: Record) -> Iterator[Note]:
        """What states that an engine of V0 without a name has another KV cache than before."""
        blocks = made.num_blocks
        if record.process is not None or made.num_host_blocks is None or blocks is None:
            return
        yield from self._note_mixed(self._blocks not in (None, blocks))
        self._blocks = blocks

    def _note_mixed(self, is_mixed: bool) -> Iterator[Note]:
        if is_mixed and not self._is_mixed:
            self._is_mixed = True
            yield Note(topic="mixed", text=MIXED)

    def is_followed_by(self, matched: Matched) -> bool:
        """Whether a record belongs to another, later start-up."""
        rule, made, record = matched.rule, matched.made, matched.record
        if rule.name == CONFIG_STATED or self._is_part(matched):
            return self.is_restarted(record)
        later = self.since_last(matched.time)
        # Processes that were being started while the engine was stopped go on to print.
        name = record.process or ""
        is_child = _OF_VLLM.match(name) is not None and not name.startswith(FRONT)
        # Libraries print their variables late, too (NCCL with NCCL_DEBUG).
        is_config = any(
            isinstance(item, ConfigRecorded) and not item.environment for item in made
        )
        is_first = imports_unnamed(rule, record) or rule.starts == ENGINE_CONFIG
        if self.tracker.failures.has_ended and (
            (not is_child and is_config) or (later > EARLIER_S and is_first)
        ):
            return True
        is_bare = record.process is None and rule.name not in IMPORTING
        if self.is_left_behind and is_config and is_bare:
            return True
        if not is_child and self._states_again(matched):
            return True
        if self.is_excerpt and self._is_excerpt_followed(matched, later):
            return True
        if rule.starts and (self._is_copy(matched) or self._is_rank(matched)):
            return False
        if rule.starts and self._repeats_opening(rule, record):
            return True
        if self.is_restarted(record) and not is_foreign(made):
            return True
        if rule.starts == ENGINE_CONFIG and self._is_another_engine(later, made):
            return True
        is_near = later >= -BACK_S and self._since_own(matched.time) <= LEAP_S
        steps = _STARTUP if self.is_ready else _BEFORE_READY
        return not is_near and any(isinstance(item, steps) for item in made)

    def _states_again(self, matched: Matched) -> bool:
        """Whether a line long after the last one states what one stated above the engine:
        a ready server may note it again."""
        if not self.has_engine or self._since_own(matched.time) <= IDLE_S:
            return False
        kinds = ConfigRecorded if self.is_ready else ConfigRecorded | Note
        is_statement = any(isinstance(item, kinds) for item in matched.made)
        return is_statement and matched.rule.name in self.above_engine

    def _is_excerpt_followed(self, matched: Matched, later: float) -> bool:
        """Whether another program begins in an excerpt that has no line which opens a
        start-up: without names of processes, which import vLLM themselves, it imports vLLM
        after weights were loaded or long after the last line; or it loads weights while
        there is a KV cache. Or a line opens a start-up below the error of a process that one
        had started before."""
        pid, name = matched.record.pid, matched.record.process or ""
        if self._has_failed_child and matched.rule.starts:
            is_beside = name.startswith(_CHILDREN) and later <= EARLIER_S
            return not is_beside
        if imports_unnamed(matched.rule, matched.record) and pid is None:
            is_next = self.has_weights or later > IMPORT_S
            return is_next and not self.pids
        # Of several engines one may have its cache while another loads its model.
        is_of_several = "DP" in name and pid in self.pids
        return (
            self.has_cache
            and not is_of_several
            and any(
                isinstance(item, MemoryMeasured) and item.stage == "weights"
                for item in matched.made
            )
        )

    def is_after_end(self, matched: Matched) -> bool:
        """Whether a process that has no name yet imports vLLM after this start-up failed,
        was stopped or got ready, has its KV cache, loads its model, which all its workers
        do together, or long after its last line: it is of the next one, or of another
        program. Ray repeats late what the workers of this one printed."""
        is_import = imports_unnamed(matched.rule, matched.record)
        if not is_import or matched.record.is_repeated:
            return False
        failures = self.tracker.failures
        is_end = failures.has_causes and not self._openings
        is_far = self.since_last(matched.time) > IDLE_S
        is_late = (self.is_loading or self.has_cache) and not self.has_several
        has_all = is_late and bool(self._openings)
        return failures.is_ready or failures.is_over or is_end or has_all or is_far

    def note_front(self, rule: LineRule, record: Record) -> None:
        """Keep which process has the settings of an engine that it starts next.

        Where processes have no names, another one is known by the platform, which each
        prints once, when it imports vLLM (`platforms/__init__.py`).
        """
        name, front = record.process, self._front
        if rule.name == PLATFORM:
            if front is not None and front[0] is None and not self.has_engine:
                self._front = (_UNNAMED, *front[1:])
            return
        is_front = record.actor is None and (name is None or name.startswith(FRONT))
        if is_front and not self.has_engine:
            self._front = (name, None, 0)

    def note_opening(self, matched: Matched) -> None:
        """Keep of a line what shows that another one is of another start-up."""
        rule, record = matched.rule, matched.record
        self._is_parted |= rule.name == PARTED
        if self._is_part(matched):
            self.ranks.add_part(record)
        if rule.starts == ENGINE_CONFIG:
            self._version = _version(matched.made)
        if rule.starts:
            self.actor = record.actor
            if len(self._openings) < MAX_OPENINGS:
                opened = (record.pid, matched.time, record.message)
                self._openings[rule.starts, record.process] = opened
        name, pid = record.process, record.pid
        if is_foreign(matched.made):
            return
        if (name or pid is None) and len(self._names) < MAX_OPENINGS:
            self._names.add(name)
        if name and pid and _SINGLE.fullmatch(name):
            self._only_pids[name] = pid

    def moved(self, matched: Matched) -> Iterator[Event]:
        """What states that the start-up begins in another process than its first line, or
        long after it in a program that does other things first."""
        actor, time = matched.record.actor, matched.time
        if self._openings:
            return
        if not self._imports.move(matched.rule, actor, time) and not (
            self._imports.is_far(matched.rule, matched.line)
        ):
            return
        began = self._imports.began
        begun = Origin(began or time, None, matched.line)
        self.last_time = None
        yield stamped(Note(topic="begins_here", text=BEGINS_HERE), begun)
        if began is not None:
            yield stamped(PhaseMarked(name="import", edge="start"), begun)

    def _is_part(self, matched: Matched) -> bool:
        """Whether a line begins the next engine of several in one process, which makes one
        for prompts and one for decoding (tpu-inference `core_tpu.py DisaggEngineCore`)."""
        return self._is_parted and matched.rule.starts == ENGINE_CONFIG

    def _is_copy(self, matched: Matched) -> bool:
        """Whether a line that opened this start-up is there once more, of the same process
        at the same time, or with the same text where processes have no names: the log was
        written twice, line by line, or its first lines were pasted twice."""
        record, time = matched.record, matched.time
        opened = self._openings.get((matched.rule.starts, record.process))
        if opened is None or time is None or self.is_ready:
            return False
        is_same = record.pid is not None or opened[2] == record.message
        return is_same and opened[:2] == (record.pid, time)

    def _is_rank(self, matched: Matched) -> bool:
        """Whether an engine core of another data parallel rank begins."""
        record = matched.record
        opened = self._openings.get((matched.rule.starts, record.process))
        is_actor = RANK_ACTOR.fullmatch(record.process or "") is not None
        is_other = opened is not None and opened[0] != record.pid
        return is_actor and is_other and not self.is_ready

    def _repeats_opening(self, rule: LineRule, record: Record) -> bool:
        has_engine = any(name.startswith("EngineCore") for name in self._only_pids)
        is_server = rule.starts < ENGINE_CONFIG
        if self.is_excerpt and (self.has_cache or (self.has_measured and is_server)):
            return True  # what opens a start-up stands above what it measures
        return (
            (rule.starts, record.process) in self._openings
            or any(rule.starts < place for place, _ in self._openings)
            or self.is_ready
            or (is_server and has_engine)
        )

    def _is_another_engine(self, later: float, made: Iterable[Made]) -> bool:
        """An engine of another version, or one that began before the last line."""
        if not self._openings:
            return False
        if self._version is not None and _version(made) not in (self._version, None):
            return True
        return later < -EARLIER_S

    def is_restarted(self, record: Record) -> bool:
        """A process that exists once per engine appears with another pid."""
        if record.process is None or record.pid is None:
            return False
        known = self._only_pids.get(record.process)
        return known is not None and known != record.pid

    def reads_all(self, line: int) -> bool:
        """Whether lines without a literal matter here: those that bound the gaps of a
        start-up, those of the first request, and those of a failure's traceback."""
        if self.is_ready:
            is_near = self.tracker.failures.is_traceback_near(line)
            return is_near or self.waits_for_request(line)
        return self.lines < STARTUP_LINES

    def waits_for_request(self, line: int) -> bool:
        """Whether a ready server has answered none yet, a little below its ready line."""
        is_near = self.ready_line is not None and line - self.ready_line <= FIRST_LINES
        return is_near and self.tracker.usage.is_waited_for

    def is_near(self, time: float) -> bool:
        """Whether a line of this time can go on with the run without what lies between: what
        an engine prints that failed follows soon."""
        last = self.last_time
        limit = EARLIER_S if self.tracker.failures.has_ended else IDLE_S
        return last is not None and -EARLIER_S <= time - last <= limit

    def since_last(self, time: float | None) -> float:
        """How long after the last line a time is, in seconds; 0 without both times."""
        last = self.last_time
        return 0.0 if time is None or last is None else time - last

    def _since_own(self, time: float | None) -> float:
        """The same, from the last line that is shown to be of this start-up."""
        if time is None or self._before_gaps is None:
            return self.since_last(time)
        return time - (self._before_gaps[0] or time)

    def is_over_at(self, time: float | None, limit_s: float) -> bool:
        """Whether this start-up did not get ready and printed nothing for long: what its
        processes seem to print is of the next one, which in a container has processes of
        the same numbers."""
        return not self.is_ready and self.since_last(time) > limit_s

    def is_long_before(self, matched: Matched) -> bool:
        """Whether an end was printed days before the last line of a start-up that has its KV
        cache: it is that of another one, pasted below."""
        time, last = matched.time, self.last_time
        is_end = any(isinstance(m, FailureLine | ShutdownLine) for m in matched.made)
        may_serve = self.has_cache or self.is_ready
        if not (is_end and may_serve) or time is None or last is None:
            return False
        return last - time > ZONES_S

    def is_beside(self, line: int) -> bool:
        """Whether no line of the run with a time stands far above a line."""
        return self.timed_line is None or line - self.timed_line <= NEAR_LINES

    def add_line(
        self, time: float | None, line: int, record: Record, *, is_own: bool
    ) -> tuple[Event, ...]:
        """Count a line; the stretches of time before it in which nothing was printed, and
        what it shows of the start: the engine's process, or what follows the imports.

        `is_own`: a rule shows that it is of this start. Gaps before others wait for one.
        """
        self.is_left_behind = False
        self.lines += 1
        if time is not None:
            self.timed_line = line
        if self.is_ready:
            self.tracker.usage.is_waited_for = self.waits_for_request(line)
            return ()
        text = record.message
        if time is None:
            self._is_typed |= self.is_import and text.startswith(_PROMPTS)
            self._has_compiled |= text.startswith(_COMPILED)
            return self._gaps_before() if is_own else ()
        if text.startswith(_HEARTBEATS):
            self.waited = (time, line, text)
            return ()
        front = self._front
        marks: tuple[Event, ...] = ()
        if front is not None:
            marks = self._spawned(front, time, line, record)
        if not is_own and record.pid in self.pids:
            # The first lines of the next start are of a server, or of a process without a name.
            is_child = not (record.process or FRONT[0]).startswith(FRONT)
            is_own = is_child and not self.is_over_at(time, IDLE_S)
        marks = (*marks, *self._behind_import(time, line, record))
        marks = (*marks, *self._compiled_until(time, line, text))
        gap = self._gap_until(time, line, text)
        if gap is not None and not is_own:
            before = self.last_time, self.last_line, self.last_text
            self._before_gaps = self._before_gaps or before
        if self.last_time is None or time >= self.last_time:
            self.last_time, self.last_line, self.last_text = time, line, text
        self.waited = None
        self._note_until(time, record, is_own=is_own)
        if gap is not None:
            self._gaps.append(gap)
        has_gaps = self._gaps or self._before_gaps is not None
        return (*marks, *self._gaps_before()) if is_own and has_gaps else marks

    def _note_until(self, time: float, record: Record, *, is_own: bool) -> None:
        """Keep the time of a line that is not of another program: what has a date in front
        and no head is, unless a log shipper puts one before every line."""
        is_dated = record.outer is not None
        self._is_shipped |= is_dated and record.is_headed
        if is_own or self._is_shipped or record.is_headed or not is_dated:
            self._shown_until = max(self._shown_until, time)

    def _behind_import(self, time: float, line: int, record: Record) -> Iterator[Event]:
        """What a program without a server does behind its imports: nothing until a person
        typed it, and the configuration from the first line of the modules that make it."""
        if self._is_typed:
            self._is_typed, self.last_time = False, None
            yield Note(topic="begins_here", text=TYPED, time=time, line=line)
        is_first = not (self._is_configured or self._openings or self.has_engine)
        is_named = self.pids or record.process is not None or record.pid is not None
        if is_first and not is_named and module_of(record.file) in _CONFIGURING:
            self._is_configured = True
            yield PhaseMarked(name="configure", edge="start", time=time, line=line)

    def _compiled_until(self, time: float, line: int, text: str) -> Iterator[Event]:
        """The compilation that a compiler's last line ends."""
        has_compiled = self._has_compiled or text.startswith(_COMPILED)
        self._has_compiled = False
        if has_compiled and self.last_time is not None and self.last_time <= time:
            began = Origin(self.last_time, None, self.last_line)
            yield stamped(PhaseMarked(name="compile", edge="start"), began)
            yield stamped(
                PhaseMarked(name="compile", edge="end"), Origin(time, None, line)
            )

    def _gaps_before(self) -> tuple[GapSeen, ...]:
        """The gaps that waited for a line of this start."""
        gaps, self._gaps, self._before_gaps = tuple(self._gaps), [], None
        return gaps

    def end_before_gaps(self) -> None:
        """Another start follows: the lines behind a gap were its first ones, where no rule
        shows that they were of this one."""
        if self._before_gaps is not None:
            self.last_time, self.last_line, self.last_text = self._before_gaps
            self._gaps, self._before_gaps = [], None

    def _spawned(
        self, front: _Front, time: float, line: int, record: Record
    ) -> tuple[PhaseMarked, ...]:
        """The start of the engine's process, behind the last line of the one that had all
        settings, now that another one prints (vLLM `v1/engine/utils.py
        CoreEngineProcManager`: it is spawned and imports vLLM anew)."""
        process = record.process
        configured_by, last, number = front
        is_launch = last is not None and (
            record.message.startswith(_COORDINATOR)
            or (record.file or "").startswith(_OVERRIDES)
            or self._is_of_core(record)
        )
        if process == configured_by and record.message.startswith(STOPPING):
            # No line of the engine's process is there.
            self._front = None
            return (PhaseMarked(name="configure", edge="end", time=last, line=number),)
        if process == configured_by and not is_launch:
            # Torch prints lines in C++, of any process, without its name.
            if record.is_headed or process is not None:
                self._front = (process, time, line)
            return ()
        self._front = None
        return (PhaseMarked(name="start_engine", edge="start", time=last, line=number),)

    def _is_of_core(self, record: Record) -> bool:
        """Whether a line without a process, as where prefixes were taken off, is of the
        engine of a server: that of V1 is in a process of its own (`v1/engine/core_client.py
        make_async_mp_client`)."""
        is_core = record.message.startswith(_CORE)
        return is_core and record.process is None and self.tracker.is_server

    def _gap_until(self, time: float, line: int, text: str) -> GapSeen | None:
        last = self.last_time
        if last is None or time - last < GAP_S or self.gaps >= MAX_GAPS:
            return None
        self.gaps += 1
        return GapSeen(
            time=last, line=self.last_line, duration_s=time - last,
            next_line=line, before=shown_text(self.last_text, GAP_TEXT),
            after=shown_text(text, GAP_TEXT),
        )  # fmt: skip

    def identified(self) -> Iterator[Event]:
        """Engine, device and number of ranks, now that all lines were read; what was
        waited for when they ended."""
        # Behind the last line of the engine only another program went on.
        yield from (g for g in self._gaps if (g.time or 0.0) < self._shown_until)
        waited = None if self.is_ready else self.waited
        if waited is not None and (gap := self._gap_until(*waited)) is not None:
            yield gap
        engine, device = self.evidence.engine(), self.evidence.device()
        ranks = self.ranks.count(is_one_process_each=device not in ("tpu", "neuron"))
        if ranks is None and self.evidence.is_of_errors:
            # Unknown: where nothing is stated an engine is one rank otherwise.
            ranks = 0
        is_unstated = not self.ranks.are_shown and engine != REFERENCE
        if (engine, device, ranks) != (None, None, None):
            yield ConfigRecorded(
                engine=engine, device_kind=device, num_ranks=ranks,
                device_guessed=self.evidence.is_guess(),
                ranks_guessed=is_unstated and (self.is_excerpt or ranks is None),
            )  # fmt: skip
        if (contradiction := self.evidence.contradiction()) is not None:
            yield Note(topic="contradiction", text=contradiction)

    def as_meant(self, event: Event) -> Event:
        """The event as it is meant at this place of the run."""
        if type(event) not in _FOLLOWED:
            return event
        if isinstance(event, _WITH_BUCKETS):
            self.has_buckets = True
        elif isinstance(event, _MEASURED):
            self.has_measured = True
            self.has_cache |= isinstance(event, KVCacheAllocated)
        elif isinstance(event, PhaseMarked):
            self.is_loading |= event.name in ("load_model", "load_weights")
            self.has_weights |= (event.name, event.edge) == ("load_weights", "end")
        elif isinstance(event, ServerReady):
            self.is_ready = self.has_buckets = True
            self._before_gaps = None
            self.ready_line = self.ready_line or event.line
        elif isinstance(event, ConfigRecorded):
            if "total_devices" in event.settings and self._has_devices:
                # An engine that was made looks at its configuration again, without the data
                # parallel ranks that it took over (tpu-inference `tpu_platform.py`).
                kept = {k: v for k, v in event.settings.items() if k != "total_devices"}
                event = structs.replace(event, settings=kept)
            self._has_devices |= "total_devices" in event.settings
            self.ranks.set_sizes(event.settings)
            self.has_several |= _has_several(event.settings)
            self.settings |= _shared_settings(event)
            self.model = event.model or self.model
        elif isinstance(event, BucketMiss) and not self.has_buckets:
            # The profile run of the engine itself, with a shape of its own.
            text = f"{event.phase} {event.shape} ran before there were buckets"
            return Note(
                topic="profile_run", text=text, values={"shape": list(event.shape)},
                time=event.time, rank=event.rank, line=event.line,
            )  # fmt: skip
        return event
