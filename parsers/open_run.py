"""A start-up that is being read: what was found, and what must be remembered."""

from __future__ import annotations

from dataclasses import dataclass, field

from parsers.base import LineRule
from parsers.ranks import RankTable
from parsers.reference import ENGINE
from parsers.tracker import RunTracker


@dataclass
class ParsedRun:
    """One start-up found in a file."""

    ordinal: int
    first_line: int
    key: str
    """Text of the first record: names the run however the file grows."""
    engines: dict[str, int] = field(default_factory=dict)
    devices: dict[str, int] = field(default_factory=dict)

    def credit(self, rule: LineRule) -> None:
        """Count a line that only one engine, or one kind of device, prints."""
        if rule.engine is not None:
            self.engines[rule.engine] = self.engines.get(rule.engine, 0) + 1
        if rule.device is not None:
            self.devices[rule.device] = self.devices.get(rule.device, 0) + 1

    def identified(self) -> tuple[str | None, str | None]:
        """Engine and device by the lines that only one of them prints; a tie is None."""
        if ENGINE in self.engines:
            # It writes in the wording of others, of devices that were not there.
            return ENGINE, None
        device = None
        if self.devices:
            # Engines on HPU share lines of the upstream that speak of CUDA and GPU.
            device = "hpu" if "hpu" in self.devices else max(self.devices)
        names = sorted(self.engines, key=lambda name: -self.engines[name])
        if len(names) == 1 or (
            names and self.engines[names[0]] > self.engines[names[1]]
        ):
            return names[0], device
        return ("vllm" if device == "cuda" else None), device


class OpenRun:
    """What the engine keeps of the run that is being read."""

    def __init__(self, run: ParsedRun) -> None:
        self.run = run
        self.ordinal = run.ordinal
        self.tracker = RunTracker()
        self.ranks = RankTable()
        self.last_time: float | None = None
        self.last_line = 0
        self.last_text = ""
        self.gaps = 0
        self.lines = 0
        self.is_ready = False


class BeforeRun:
    """The first stamped line since the last run: a start-up begins with chatter."""

    LIMIT_S = 600.0

    def __init__(self) -> None:
        self.time: float | None = None
        self.last: float | None = None

    def see(self, time: float | None) -> None:
        """A line without a rule, before any run."""
        if time is None:
            return
        if self.last is None or time - self.last > self.LIMIT_S or time < self.last:
            self.time = time
        self.last = time

    def start(self, time: float | None) -> float | None:
        """When a run began whose first known line has this time."""
        first, last = self.time, self.last
        self.time = self.last = None
        if time is None or first is None or last is None:
            return time
        return first if 0 <= time - last <= self.LIMIT_S else time
