"""Timestamps of engines and log shippers, and the clock that gives them a year.

vLLM prints `MM-DD HH:MM:SS`: no year, no fraction, no zone. Log shippers print ISO 8601.
Libraries in C++ print `MMDD HH:MM:SS.ffffff` in the local time of their process.
"""

from __future__ import annotations

import re
from calendar import isleap
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from warmup_insights.errors import SettingError

_OUTER = re.compile(
    r"\[?(?P<date>\d{4}-\d\d-\d\d)[T ](?P<time>\d\d:\d\d:\d\d)(?:[.,](?P<frac>\d{1,9}))?"
    r"(?P<zone>Z|[+-]\d\d:?\d\d)?\]?(?P<end> \| | \|$|[ \t]|$)"
)
_DATED = re.compile(
    r"20([2-9]\d)(?:-(\d\d)-(\d\d)[T -]\d\d:\d\d:\d\d|"
    r"(\d\d)(\d\d)(?:-\d{6}\.pkl| \d\d:\d\d:\d\d\.\d{6} ))"
)
"""A full timestamp, that of a dump of inputs (vLLM V0, `worker/model_runner_base.py`) or
glog's with a year."""
_NATIVE = re.compile(
    r"\[?[IWEF](?P<date>\d{3,4}|20\d{6}) (?P<time>\d\d:\d\d:\d\d)\.\d{3,9} "
    r"(?: {0,7}\d{1,9} )?(?P<file>[^\s:\]]{1,240}):\d{1,7}\]"
)
"""torch's in C++ (`c10/util/Logging.cpp MessageLogger`), and glog's, which torch's loggers in
Python have as well (`torch/_logging/_internal.py`): all of `localtime`, as vLLM's own."""
_NATIVE_FILES = (".cpp", ".cc", ".c", ".hpp", ".h", ".cu", ".cuh", ".py")
"""Programs in Go print the same form, in the zone of their container."""
_DATE = re.compile(
    r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (?P<month>[A-Z][a-z]{2}) {1,2}(?P<day>\d{1,2}) "
    r"\d\d:\d\d:\d\d (?:[AP]M )?(?:[A-Z]{1,5} )?20(?P<year>[2-9]\d)\b"
)
"""What `date` and `time.ctime` print."""
_MONTHS = {name: str(number) for number, name in enumerate(
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"], 1
)}  # fmt: skip
_ENGINE_STAMP = re.compile(r"(?:INFO|DEBUG|WARNING|ERROR) (\d\d)-(\d\d) \d\d:\d\d:\d\d")
_BUILD = re.compile(r"\+\w{1,40}\.d(20[2-9]\d)(\d\d)(\d\d)(?!\d)")
_NUMBER = r"0\.(\d{1,2})\.(\d{1,2})(\.?(?:dev|rc))?"
_VERSIONS = (
    (("LLM engine (v0.", "API server version 0.", " version 0."),
     re.compile(rf"(?:LLM engine \(v|API server version |[█▀ ] version ){_NUMBER}")),
    (("vLLM Version",), re.compile(rf"vLLM Version {{0,40}}: ?{_NUMBER}")),
)  # fmt: skip
"""How the engine states its version, and how `collect_env` does."""
_RELEASED = {
    2: (2023, 9, 28), 3: (2024, 1, 31), 4: (2024, 3, 30), 5: (2024, 6, 11),
    6: (2024, 9, 4), 7: (2025, 1, 27), 8: (2025, 3, 18), 9: (2025, 5, 27),
    10: (2025, 7, 24), 11: (2025, 10, 2), 12: (2025, 12, 3), 13: (2025, 12, 18),
    14: (2026, 1, 20), 15: (2026, 1, 29), 16: (2026, 2, 26), 17: (2026, 3, 7),
    18: (2026, 3, 20), 19: (2026, 4, 3), 20: (2026, 4, 27), 21: (2026, 5, 15),
    22: (2026, 5, 29), 23: (2026, 6, 13), 24: (2026, 6, 30), 25: (2026, 7, 11),
    26: (2026, 7, 25), 27: (2026, 8, 10), 28: (2026, 8, 26), 29: (2026, 9, 9),
    30: (2026, 9, 22), 31: (2026, 10, 5), 32: (2026, 10, 18), 33: (2026, 11, 2),
}  # fmt: skip
"""When minor releases of vLLM came to the package index (its `upload-time`); later ones
are not older than the last."""
_STAMP = r"(?:INFO|WARNING|ERROR) \d\d-\d\d \d\d:\d\d:\d\d "
_WITHOUT_BRACKETS = rf"\b{_STAMP}\w{{1,60}}\.py:[1-3]?\d{{1,3}}\]"
"""No file of that time had 4,000 lines."""
_FORMS = tuple(
    (tuple(map(re.compile, patterns)), day)
    for patterns, day in (
        ((r"\(EngineCore_DP\d{1,4} pid=",), (2025, 9, 1)),
        ((r"\(EngineCore_\d{1,4} pid=",), (2025, 7, 10)),
        ((r"\(VllmWorker rank=\d",), (2025, 3, 18)),
        ((rf"(?<!\) )\b{_STAMP}\[(?:core|(?:gpu|hpu)_(?:model_runner|worker))\.py:",), (2025, 3, 1)),
        ((rf"\(VllmWorkerProcess pid=\d{{1,9}}\) {_STAMP}\[",), (2025, 2, 20)),
        ((rf"\b{_STAMP}\[(?:engine|async_llm_engine|executor_base|model_runner_base)\.py:",),
         (2025, 2, 20)),
        ((_WITHOUT_BRACKETS, r"init engine \(profile"), (2024, 11, 15)),
        ((_WITHOUT_BRACKETS, r"(?i:hpu|habana)"), (2024, 7, 1)),
        ((_WITHOUT_BRACKETS,), (2024, 3, 1)),
    )
)  # fmt: skip
"""Forms of lines that vLLM printed for about a year, and since when: names of processes (0.10.2,
0.10.0, 0.8), engines and workers of V1 without one (until 0.10.0), V0 with brackets around files
(0.7.3 to 0.10); without brackets longer, but few logs are older, and of Gaudi none."""
EARLY = timedelta(days=15)
"""An image or a candidate of a release can run that long before it is on the index."""
NEAR_S = 7 * 86400.0
"""A file that was last written so soon after its first line was written by the engine."""
LEAP_YEAR = 2024
_SHORT = re.compile(r"(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(\.\d{1,6})?")
_WHOLE = len("MM-DD HH:MM:SS")
_SECONDS = {f"{second:02}": float(min(second, 59)) for second in range(100)}
"""A leap second is read as the one before it."""

_NUMBER_OF_JSON = re.compile(r"\d{10,19}(?:\.\d{1,9})?|\d\.\d{1,17}e\+1\d")
"""A whole one or a fraction, and a large one as Python prints it; one in hexadecimal may hold
an `e` as well."""
_EPOCHS = 1672531200.0, 4102444800.0
"""Seconds from 2023, in which vLLM came out, until 2100: other numbers are none of a date,
such as those since a machine was started."""


@dataclass(frozen=True, slots=True)
class Outer:
    """A full timestamp: seconds since the epoch as if UTC, and whether it was."""

    seconds: float
    has_zone: bool


def outer_stamp(text: str) -> tuple[Outer, int] | None:
    """The ISO timestamp at the start of a text and where it ends; None without one."""
    if len(text) < 19 or not (text[0].isdigit() or text[0] == "["):
        return None
    match = _OUTER.match(text)
    if match is None:
        return None
    outer = _outer_of(match)
    if outer is None:
        return None
    # A timestamp of another logger inside the line keeps its dash: not a log shipper's.
    if text[match.end() : match.end() + 2] == "- ":
        return None
    return outer, match.end()


def full_stamp(text: str) -> Outer | None:
    """The time in the timestamp of a JSON log: ISO 8601, seconds, or milliseconds, micro- or
    nanoseconds since the epoch; None otherwise."""
    found = outer_stamp(text + " ")
    if found is not None:
        return found[0]
    if _NUMBER_OF_JSON.fullmatch(text) is None:
        return None
    seconds = float(text)
    while seconds >= _EPOCHS[1]:
        seconds /= 1000.0
    is_epoch = _EPOCHS[0] <= seconds < _EPOCHS[1]
    return Outer(seconds, has_zone=True) if is_epoch else None


def has_zone(outer: Outer | None, stamp: str | None) -> bool:
    """Whether the time of a line with these timestamps is known whatever the zone of the
    engine's clock is: a log shipper's states its zone, or that of a JSON log does."""
    if outer is None and stamp is not None:
        outer = full_stamp(stamp)
    return outer is not None and outer.has_zone


def _outer_of(match: re.Match[str]) -> Outer | None:
    try:
        stamp = datetime.fromisoformat(f"{match['date']}T{match['time']}+00:00")
    except ValueError:
        return None
    seconds = stamp.timestamp()
    if match["frac"]:
        seconds += float("0." + match["frac"])
    zone = match["zone"]
    if zone and zone != "Z":
        minutes = int(zone[1:3]) * 60 + int(zone[-2:])
        seconds -= (minutes if zone[0] == "+" else -minutes) * 60
    return Outer(seconds, has_zone=bool(zone))


def zone_of(name: str | None) -> tzinfo | None:
    """The time zone of a name (`Europe/Berlin`, `UTC`, `+02:00`); None stays None.

    Raises SettingError.
    """
    if name is None:
        return None
    match = re.fullmatch(r"([+-])(\d\d):?(\d\d)", name)
    if match is not None:
        minutes = int(match[2]) * 60 + int(match[3])
        return timezone(timedelta(minutes=-minutes if match[1] == "-" else minutes))
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise SettingError(
            f"--timezone {name!r} is not a known time zone; "
            "use a name such as Europe/Berlin, or an offset such as +02:00"
        ) from None


def year_in(text: str) -> tuple[int, str] | None:
    """The year of the first timestamp without one, and what in the text shows it.

    `log`: a full timestamp of another logger or log shipper, at most a day away. `build`: the
    date of the build in the engine's version; the log is not older than that. `release`:
    the first time after the release of that version, or of the one that first printed lines
    of this form, which is a guess, and none where the file was written before.
    """
    first = _ENGINE_STAMP.search(text)
    day = _day_of_year(first[1], first[2]) if first is not None else None
    if first is None or day is None:
        return None
    for year, other in _dates_in(text):
        if other is not None and abs(other - day) <= 1:
            return year, "log"
    built = _BUILD.search(text)
    if built is not None:
        is_later = (first[1], first[2]) >= (built[2], built[3])
        return int(built[1]) + (not is_later), "build"
    release = _release_in(text)
    if release is None:
        return None
    is_later = (int(first[1]), int(first[2])) >= release[1:]
    return release[0] + (not is_later), "release"


def _dates_in(text: str) -> Iterator[tuple[int, int | None]]:
    """The years and days of the year that full timestamps of a text state."""
    for match in _DATED.finditer(text):
        if not text[max(0, match.start() - 1) : match.start()].isdigit():
            day = _day_of_year(match[2] or match[4], match[3] or match[5])
            yield 2000 + int(match[1]), day
    for match in _DATE.finditer(text):
        month = _MONTHS.get(match["month"], "")
        yield 2000 + int(match["year"]), _day_of_year(month, match["day"])


def _release_in(text: str) -> tuple[int, int, int] | None:
    """The first day on which the version of vLLM that a text states can have run, or one that
    prints lines of its form."""
    found = (
        pattern.search(text)
        for marks, pattern in _VERSIONS
        if any(mark in text for mark in marks)
    )
    version = next((match for match in found if match), None)
    if version is None:
        return next(
            (day for forms, day in _FORMS if all(form.search(text) for form in forms)),
            None,
        )
    # A version between releases is older than the one that it is named after.
    minor = int(version[1]) - (version[2] == "0" and version[3] is not None)
    known = _RELEASED.get(min(minor, max(_RELEASED)))
    if known is None:
        return None
    first = datetime(*known, tzinfo=timezone.utc) - EARLY
    return first.year, first.month, first.day


def _day_of_year(month: str, day: str) -> int | None:
    try:
        return datetime(LEAP_YEAR, int(month), int(day)).timetuple().tm_yday
    except ValueError:
        return None


BACK_S = 60.0
"""Lines of several processes come that much out of order."""
LATE_S = 2.0
"""A log shipper's timestamp that is so close to the engine's is the finer one of the two."""


class Clock:
    """Gives `MM-DD HH:MM:SS` a year and a zone, across New Year.

    The year of the first timestamp is `year`, or the one that puts it closest before
    `not_after` (the time the file was last written); see also `look_at`. From there the
    year grows when the month falls by half a year or more.
    """

    def __init__(
        self,
        *,
        year: int | None = None,
        not_after: float | None = None,
        zone: tzinfo | None = None,
    ) -> None:
        self._year = year
        self._source = None if year is not None else "file"
        self._not_after = not_after
        self._zone = zone or timezone.utc
        self._month = 0
        self._lacks_year = False
        """Whether a timestamp in the first lines has none."""
        self._known: dict[str, float] = {}
        """Timestamps, and minutes of the month that was read last, to seconds."""
        self._shift: float | None = None
        self._latest = 0.0
        """The latest time of the engine's own in a line with a shipper's too."""
        self._offset: float | None = None
        """What the engine's clock lacks to that of a log shipper with a zone."""
        self._last: float | None = None
        """The engine's timestamp that was read last."""
        self._native: float | None = None
        """That of a library in C++."""
        self._has_one_zone = False
        """Whether one of each was within `BACK_S`: zones are further apart."""

    @property
    def year_from(self) -> str | None:
        """What the year of timestamps without one follows from: `log`, `build`, `release`
        or `file`. None when it was given, or when no timestamp lacked one.
        """
        return self._source if self._month or self._lacks_year else None

    def look_at(self, text: str) -> None:
        """Take the year from the first lines of a log.

        A full date beside the first timestamp is evidence, so it counts more than a year
        that was given; the date of a build does not.
        """
        found = year_in(text)
        self._lacks_year = _ENGINE_STAMP.search(text) is not None
        if found is None or found[0] == self._year:
            return
        if found[1] == "release" and not self._can_be(found[0], text):
            return
        if self._year is None or found[1] == "log":
            self._year, self._source = found

    def _can_be(self, year: int, text: str) -> bool:
        """Whether a text can begin in a year: its file is not older, and was not written
        soon after its first line, which shows the year as well."""
        first = _ENGINE_STAMP.search(text)
        if first is None or self._not_after is None:
            return True
        month, day = int(first[1]), int(first[2])
        latest = self._first_year(month, day)
        begun = self._stamp(latest, month, day, 0, 0, 0)
        is_near = begun is not None and self._not_after - begun < NEAR_S
        return year <= latest and not is_near

    def seconds(self, stamp: str) -> float | None:
        """Seconds since the epoch of an engine's timestamp; None when it is not a time."""
        begun, second = self._known.get(stamp[:-2]), _SECONDS.get(stamp[-2:])
        if begun is not None and second is not None:
            return begun + second  # no zone changes within a minute
        if (seconds := self._known.get(stamp)) is not None:
            return seconds
        seconds = self._read(stamp)
        if seconds is None:
            return None
        if len(self._known) > 4096:
            self._known.clear()
        is_short = len(stamp) == _WHOLE and _SHORT.fullmatch(stamp) is not None
        if is_short and second is not None and int(stamp[:2]) == self._month:
            self._known[stamp[:-2]] = seconds - second
        else:
            self._known[stamp] = seconds
        return seconds

    def time_of(self, outer: Outer | None, stamp: str | None) -> float | None:
        """Seconds since the epoch of a line with a log shipper's timestamp, an engine's or
        both; a shipper's is taken when it has a zone or stands alone.

        Where a shipper got a buffer of lines late, the engine's counts, in its zone.
        """
        inner = self.seconds(stamp) if stamp else None
        if inner is not None:
            self._last = inner
            self._look_at_zone()
        if outer is None:
            return inner
        if outer.has_zone and inner is not None:
            if self._offset is None:
                # A shipper is later than the engine; zones are quarters of hours apart.
                late = outer.seconds - inner + LATE_S
                self._offset = late // 900.0 * 900.0
            own = inner + self._offset
            return outer.seconds if abs(outer.seconds - own) <= LATE_S else own
        if inner is None:
            found = self._outer(outer)
            # A shipper that goes back behind what the engine printed has another clock.
            return None if found < self._latest - BACK_S else found
        self._latest = max(self._latest, inner)
        if self._shift is None:
            # How far a log shipper without a zone is from the engine's clock.
            self._shift = round((inner - outer.seconds) / 900.0) * 900.0
        return inner

    def native(self, text: str) -> float | None:
        """Seconds since the epoch of a line that a library in C++ printed in the engine's zone;
        None before such a line stood beside one of the engine's, and in another month.

        Whole ones, as the engine's are: a line that follows is not before it.
        """
        match = _NATIVE.match(text)
        if match is None or self._last is None or self._offset or self._year is None:
            return None
        year, date = divmod(int(match["date"]), 10_000)
        month, day = divmod(date, 100)
        is_other = month != self._month or year not in (0, self._year)
        if is_other or not match["file"].endswith(_NATIVE_FILES):
            return None
        clock = map(int, match["time"].split(":"))
        self._native = self._stamp(self._year, month, day, *clock)
        self._look_at_zone()
        if self._native is None or self._native < self._last - BACK_S:
            return None
        return self._native if self._has_one_zone else None

    def _look_at_zone(self) -> None:
        if self._native is not None and self._last is not None:
            is_near = abs(self._native - self._last) <= BACK_S
            self._has_one_zone = self._has_one_zone or is_near

    def _outer(self, outer: Outer) -> float:
        """Seconds since the epoch of a log shipper's timestamp."""
        if self._shift is not None and not outer.has_zone:
            return outer.seconds + self._shift
        return self._in_zone(outer)

    def _in_zone(self, full: Outer) -> float:
        """Seconds since the epoch of a full timestamp on the engine's clock."""
        if full.has_zone:
            return full.seconds
        naive = datetime.fromtimestamp(full.seconds, timezone.utc)
        return naive.replace(tzinfo=self._zone).timestamp()

    def _read(self, stamp: str) -> float | None:
        match = _SHORT.fullmatch(stamp)
        if match is None:
            full = full_stamp(stamp)
            return None if full is None else self._in_zone(full)
        month, day, hour, minute, second = map(int, match.groups()[:5])
        parts = month, day, hour, minute, second + float(match[6] or 0)
        if self._year is None:
            self._year = self._first_year(month, day)
        elif self._month - month >= 6:
            self._year += 1
        elif month - self._month >= 6 and self._month:
            # An interleaved line of the old year after the first of the new one.
            return self._stamp(self._year - 1, *parts)
        if month != self._month:
            self._known.clear()
        self._month = month
        return self._stamp(self._year, *parts)

    def _first_year(self, month: int, day: int) -> int:
        limit = datetime.fromtimestamp(self._not_after or 0.0, timezone.utc)
        if self._not_after is None:
            limit = datetime.now(timezone.utc)
        limit += timedelta(days=1)
        year = limit.year
        if (month, day) > (limit.month, limit.day):
            year -= 1
        while (month, day) == (2, 29) and not isleap(year):
            year -= 1
        return year

    def _stamp(
        self, year: int, month: int, day: int, hour: int, minute: int, second: float
    ) -> float | None:
        whole = min(int(second), 59)
        try:
            stamp = datetime(year, month, day, hour, minute, whole, tzinfo=self._zone)
        except ValueError:
            # 29 February in a year that has none: the year is wrong, not the line.
            return None
        return stamp.timestamp() + second % 1
