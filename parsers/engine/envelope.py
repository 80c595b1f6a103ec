"""What stands around a message: log shippers, processes, level, timestamp, file.

`peel` takes one physical line and gives the records in it: records are glued to
progress bars, process prefixes nest, and log shippers put their own text in front.
Every pattern here is bounded, so no line takes more than linear time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any
from zlib import crc32

import msgspec
from msgspec.structs import replace

from parsers.engine.fronts import Fronts, Writer
from parsers.engine.stamps import Outer, full_stamp, outer_stamp

LEVELS = "DEBUG|INFO|WARNING|ERROR|CRITICAL"

# rsyslog writes the escape character as `#033`, others as its symbol or as Python does, and
# what is copied from a web console lacks it.
_ANSI = re.compile(
    r"(?:\x1b|\^\[|[\u241b\ufffd]|#033|\\(?:x1[bB]|033|u001[bB]))"
    r"(?:\[[0-9;?]{0,32}[A-Za-z]|\][^\x07]{0,200}\x07)|"
    r"\[(?:[0-9]{1,2};){0,2}(?:[01]|[39][0-9])m(?!\])"
)
# vLLM itself prints the heads of its tables between the same marks.
_EMPHASIS = re.compile(r"\*\*(\d[\d.,]{0,30}(?: \w{1,12})?)\*\*")
# The end of a line of Windows or of a terminal, in caret notation or as rsyslog writes it.
_WRITTEN_CR = re.compile(r"\^M|#015(?=\"?\s*$)")

# LEVEL MM-DD HH:MM:SS [file.py:LINE] message; the opening bracket is younger.
_HEAD = (
    rf"(?P<level>{LEVELS}) (?P<stamp>\d\d-\d\d \d\d:\d\d:\d\d|hh:mm:ss) "
    r"\[?(?P<file>[^\s\]]{1,240}?:[\d#]{1,7}):?(?:\]|(?=\s)) ?"
)
# Ray prints `(pid=N)` until its actor has a name; vLLM 0.10 has the groups of a worker behind
# a space.
_PROCESS = (
    r"\((?:(?P<name>[A-Za-z_][\w.:-]{0,60}(?: (?:(?:DP|PP|TP|EP)\d{1,4}_?){1,4})?) )?"
    r"(?:rank=(?P<rank>\d{1,5}) )?pid=(?P<pid>\d{1,9})(?:, ip=(?P<host>[^)]{0,60}))?\)"
)
OF_VLLM = re.compile(
    r"MainProcess|A[Pp][Ii]Server|\w{0,40}EngineCore|(?:Vllm)?Worker(?:\b|_)"
)
"""Processes that vLLM forks itself (`set_process_title`, `decorate_logs`)."""
_SERVER_ACTOR = "vLLMHttpServer"
"""An actor of Ray with a server and its engine, of which a trainer has several (verl
`workers/rollout/vllm_rollout/vllm_async_server.py`)."""
_OWN_HEAD = re.compile(rf"(?:{_PROCESS} )?{_HEAD}")
_LONGEST_HEAD = 512
"""More characters than `_OWN_HEAD` takes; what is longer is not kept."""
_RECORD = re.compile(_HEAD)
_PROCESS_RE = re.compile(_PROCESS + r" ?")
# Where the numbers that differ between starts were taken out.
_UNNUMBERED = re.compile(
    r"\((?P<name>(?:APIServer|EngineCore|(?:Vllm)?Worker)(?:[_ ][\w.-]{1,60})?)\) "
    rf"(?=(?:{LEVELS})\b)"
)
# Formats of the standard library, as `VLLM_LOGGING_CONFIG_PATH` sets them for vLLM's loggers.
_TIME = r"[\[(]?(?P<stamp>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)"
_BETWEEN = r"[\]\[)(|: -]{1,12}"
_LOGGER = r"(?P<file>(?:vllm|tpu_inference)[\w.]{0,160})"
_BEFORE_TEXT = r" {0,8}\]? ?[|:-]? ?"
# vLLM's own where the time or the line of the module was taken out, at the front of a line;
# the heads of loggers of their own: flashinfer's, the root logger's as aiter sets it, NIM's,
# those of neuronx-distributed, libneuronxla and verl; then those formats.
_OTHER_HEADS = (
    re.compile(
        rf"(?P<level>{LEVELS}) (?:(?P<stamp>\d\d-\d\d \d\d:\d\d:\d\d) |\.{{3}} )?"
        r"\[(?P<file>[\w./-]{1,160}\.py(?::\d{1,7})?)\] "
    ),
    re.compile(rf"(?P<level>{LEVELS})(?P<stamp>)(?P<file>) \.{{3}} "),
    re.compile(
        r"(?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) - "
        rf"(?P<level>{LEVELS}) - (?P<file>[\w./]{{1,100}}:\d{{1,7}}) - [\w.]{{1,100}}: "
    ),
    re.compile(
        r"\[(?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\] "
        rf"(?P<level>{LEVELS}) (?P<file>[\w.]{{1,100}}:\d{{1,7}}): "
    ),
    re.compile(
        rf"(?P<level>{LEVELS}) (?P<stamp>(?:\d{{4}}-)?\d\d-\d\d \d\d:\d\d:\d\d\.\d{{1,6}}) "
        r"(?P<file>[\w./-]{1,100}:\d{1,7})\] "
    ),
    re.compile(
        r"\[(?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{1,6}): (?P<level>[DIWEC]) "
        r"(?P<file>[\w./-]{1,160}:\d{1,7})\] "
    ),
    # Its six digits of a fraction are milliseconds.
    re.compile(
        r"(?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\.\d{6}: {1,4}\d{1,9} {1,4}"
        rf"\[(?P<level>{LEVELS})\]:(?P<file>) "
    ),
    re.compile(
        rf"(?P<level>{LEVELS}):"
        r"(?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}):(?P<file>)"
    ),
    re.compile(
        rf"{_TIME}{_BETWEEN}{_LOGGER}{_BETWEEN}(?P<level>{LEVELS}){_BEFORE_TEXT}"
    ),
    re.compile(
        rf"{_TIME}{_BETWEEN}(?P<level>{LEVELS}){_BETWEEN}{_LOGGER}(?::\w{{1,100}}:\d{{1,7}})?"
        rf"{_BEFORE_TEXT}"
    ),
    re.compile(rf"(?P<stamp>)(?P<level>{LEVELS}):{_LOGGER}: ?"),
    # The rest of vLLM's own, where a copy begins within it.
    re.compile(
        r"(?P<level>)(?P<stamp>)(?:[A-Z]{0,8}[ \d:-]{1,16})?"
        r"\[(?P<file>[\w./-]{1,160}\.py:\d{1,7})\] "
    ),
)
_LEVEL_OF = {level[0]: level for level in LEVELS.split("|")}
# The end of a progress bar; what follows on the line is another text.
_BAR_END = re.compile(r"\[\d{1,4}:\d\d(?::\d\d)?<[^\]]{1,160}\](?=[ ]{0,200}[A-Z\[(])")
_REPEATED = re.compile(
    r"\s?\[repeated (\d{1,9})x across cluster\](?: \(Ray deduplicates logs[^)]{0,300}\))?\s*$"
)
_UVICORN = re.compile(r"(?P<level>INFO|WARNING|ERROR|CRITICAL):     ")
_COMPOSE = re.compile(rf"(?!(?:{LEVELS})\b)(?P<source>[\w.@-]{{1,120}})\s{{1,40}}\| ?")
_POD = re.compile(r"\[pod/(?P<source>[\w./-]{1,200})\] ?")
# An engine of several behind one server (vllm-omni `entrypoints/omni_stage.py` sets
# VLLM_LOGGING_PREFIX).
_STAGE = re.compile(r"\[(Stage-\d{1,4})\] ")
_UNIT = (
    r"[\w.-]{1,80} (?P<source>[\w.@/:+-]{1,80})\[(?P<writer>\d{1,9})\]: "
    r"(?=(?P<named>(?:\([^()]{1,120}\) ?){0,4}))"
)
_PID = re.compile(r"\bpid=(\d{1,9})\b")
_JOURNAL = re.compile(rf"\S{{2,14}} {{1,3}}\d{{1,2}} \d\d:\d\d:\d\d {_UNIT}")
_JOURNAL_ISO = re.compile(_UNIT)
_CRI = re.compile(r"(?:stdout|stderr) (?P<tag>[FP]) ?")
# Fluentd's files: the tag, and what its input gave.
_FLUENTD = re.compile(r"[\w.@/:-]{1,200}\t(?=\{)")
# TorchServe's `log4j2.xml`: what a worker of a model prints.
_TORCHSERVE = re.compile(
    r"\[(?:TRACE|DEBUG|INFO|WARN|ERROR) {0,2}\] (?P<source>W-\d{1,5}-[\w.:-]{1,80}?)"
    r"-std(?:out|err) [A-Z_]{1,40} - ?"
)
# ai-dynamo's `lib/runtime/src/logging.rs`: level, flushed right to five columns, module and
# function of what a Python logger prints, and lines of other programs.
_DYNAMO = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(?:\d{3})?(?:Z|[+-]\d\d:\d\d) "
    r"(?:(?P<level> INFO| WARN|TRACE|DEBUG|ERROR) "
    r"(?P<module>\w{1,80})\.(?:\w{1,80}|<\w{1,40}>)|"
    r"(?: INFO| WARN|TRACE|DEBUG|ERROR) dynamo_run::subprocess): "
)
_BOX = re.compile(r"\s{0,3}[│┃║] ?")
_BOXES = ("│", "┃", "║")
_BOX_END = re.compile(r"\s{0,400}[│┃║]\s{0,3}$")
_COMMENT = re.compile(r"# {1,3}(?=[A-Z(\[])")
_SIGNALLED = re.compile(r"\*\*\* SIG[A-Z]{2,8} received by PID (\d{1,9}) ")
"""absl's `failure_signal_handler.cc` states the process, and no prefix does."""
_CANCELLED = re.compile(
    r"(?:slurmstepd|srun)[^\s:]{0,80}: (?:error: )?\*{3} [^*]{1,120} CANCELLED AT "
    r"(?P<stamp>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)"
)
"""Slurm's step daemon states the time at the end of its line."""
_NESTED_RANK = re.compile(r"\[(?:default|rank)(\d{1,5})\]:\s?")


class Record(msgspec.Struct, gc=False):
    """One message and what stood around it."""

    message: str
    level: str | None = None
    stamp: str | None = None
    """The timestamp as written, `MM-DD HH:MM:SS` or with a year from JSON logs."""
    file: str | None = None
    process: str | None = None
    """Name of the process, such as `Worker_TP1` or `EngineCore`."""
    pid: int | None = None
    """Its number; one that no process has where the prefix names a host."""
    actor: int | None = None
    """Pid of the Ray actor that started the process or is it; None without one."""
    rank: int | None = None
    """Only when the prefix states it as `rank=N`."""
    stage: str | None = None
    """The engine of several behind one server, or the server of several, that it is of."""
    outer: Outer | None = None
    """Timestamp of the log shipper."""
    source: str | None = None
    """Container, pod or unit that a log shipper names in front of the line."""
    writer: Writer | None = None
    """The process that wrote a line of a unit, as journald states it."""
    is_repeated: bool = False
    """True when Ray marks that it was printed by other processes too."""
    is_json: bool = False
    """True when it came out of a JSON object."""
    partial: bool = False
    """True when the log shipper marks that the rest of the line follows."""

    @property
    def is_headed(self) -> bool:
        """Whether a logger or a process that has a name or a number printed it."""
        return self.file is not None or self.process is not None or self.pid is not None

    @property
    def is_error(self) -> bool:
        """Whether a logger printed it as an error."""
        return self.level in ("ERROR", "CRITICAL")


def clean(line: str) -> str:
    """The line without colours, in real or caret notation, without Ctrl-C as a terminal shows
    it, and without the marks by which who quotes it in Markdown points to a figure."""
    # Lines with a colour end it: vLLM by `[0;0m`, others by `[0m`.
    if "\x1b" in line or "^" in line or "0m" in line or "#015" in line:
        line = _WRITTEN_CR.sub("", _ANSI.sub("", line))
    if "\x00" in line:
        line = line.replace("\x00", "")
    line = line.removeprefix("^C")
    if "**" in line:
        line = _EMPHASIS.sub(r"\1", line)
    return line


def begins_with_head(line: str) -> bool:
    """Whether a line begins with a head of vLLM's own."""
    return _OWN_HEAD.match(line) is not None


def peel(line: str, fronts: Fronts | None = None) -> list[Record]:
    """The records in one physical line, in their order; at least one unless empty.

    Nearly all begin with vLLM's own head, which many lines share; from the rest prefixes
    are taken off one by one, and `fronts`, what the lines before have shown to be one.
    """
    if line.endswith(_BOXES):
        line = _BOX_END.sub("", line)
    end = line.find("] ") + 2
    head = _own_head(line[:end]) if end <= _LONGEST_HEAD else None
    if head is not None and _glued(message := line[end:]) is None:
        record = Record(message, *head)
        if "across cluster]" in message:
            _drop_repeat(record)
        return [record]
    return _peel_line(line, Record(message=""), fronts)


def _peel_line(line: str, base: Record, fronts: Fronts | None) -> list[Record]:
    rest, base = _peel_named(line, base, fronts)
    if fronts is not None and (shorter := fronts.without(rest)) is not None:
        rest, base = _peel_front(shorter, base)
    if rest.startswith("{"):
        whole = _json_record(rest, base)
        if whole is not None:
            text = clean(whole.message)
            return _redrawn(
                text, lambda piece: _peel_inside(replace(whole, message=piece), fronts)
            )
    return _split_records(rest, base, fronts)


def _peel_named(line: str, base: Record, fronts: Fronts | None) -> tuple[str, Record]:
    """The line without its prefixes, the pod and container that `stern` prints included."""
    rest, base = _peel_front(line, base)
    if fronts is not None and (named := fronts.source_of(rest)) is not None:
        base.source = named
        rest, base = _peel_front(rest[len(named) + 1 :], base)
    return rest, base


@lru_cache(maxsize=4096)
def _own_head(text: str) -> tuple[Any, ...] | None:
    """The fields of a `Record` from its level on; None for no head of vLLM's own."""
    match = _OWN_HEAD.match(text)
    if match is None or match.end() != len(text):
        return None
    name, rank, pid, host, level, stamp, file = match.groups()
    base = Record("")
    if pid is not None:
        _set_process(base, name, rank, pid, host)
    return (
        level, stamp, file, base.process, base.pid, base.actor, base.rank, base.stage,
    )  # fmt: skip


def _glued(message: str) -> re.Match[str] | None:
    """The next record inside a message, if any: it has a date and a level."""
    if "-" not in message or not (
        "INFO " in message
        or "WARNING " in message
        or "ERROR " in message
        or "DEBUG " in message
        or "CRITICAL " in message
    ):
        return None
    start = 0
    while True:
        match = _RECORD.search(message, start)
        if match is None or match["stamp"] != "hh:mm:ss":
            return match
        start = match.end()


def _drop_repeat(record: Record) -> None:
    """Without Ray's mark that other processes printed the message too."""
    match = _REPEATED.search(record.message)
    if match is not None:
        record.message, record.is_repeated = record.message[: match.start()], True


def _peel_inside(record: Record, fronts: Fronts | None) -> list[Record]:
    """The records in the text of a JSON line: a line as it was printed, where a log shipper
    wrote it, else the message of a logger, which may be a whole line too."""
    if record.level is None and record.stamp is None:
        return _peel_line(record.message, record, fronts)
    if _RECORD.search(record.message) is None:
        match = _PROCESS_RE.match(record.message)
        if match is not None:
            _set_process(record, *match.group(*_PARTS))
            record.message = record.message[match.end() :]
        return [record]
    return _split_records(record.message, record) or [record]


def _peel_front(rest: str, base: Record) -> tuple[str, Record]:
    """The line without the prefixes at its front, and what they state."""
    for _ in range(8):
        shorter = _peel_one(rest, base)
        if shorter is None:
            break
        rest = shorter
    return rest, base


def _peel_one(rest: str, base: Record) -> str | None:
    """One prefix less, or None when there is none."""
    match = _PROCESS_RE.match(rest)
    if match is not None:
        _set_process(base, *match.group(*_PARTS))
        return rest[match.end() :]
    match = _UNNUMBERED.match(rest)
    if match is not None:
        base.process = match["name"]
        return rest[match.end() :]
    if _RECORD.match(rest) is not None:
        return None
    if (shorter := _peel_other_head(rest, base)) is not None:
        return shorter
    stamp = outer_stamp(rest)
    if stamp is not None:
        base.outer, end = stamp
        return _after_outer(rest, end, base)
    for pattern in (_JOURNAL, _COMPOSE, _POD):
        match = pattern.match(rest)
        if match is not None:
            _set_source(base, match)
            return rest[match.end() :]
    return _peel_mark(rest, base)


def _peel_mark(rest: str, base: Record) -> str | None:
    """Without what a program puts right before a message; None without any such."""
    match = _COMMENT.match(rest)
    if match is not None:
        return rest[match.end() :]
    match = _STAGE.match(rest)
    if match is not None:
        base.stage = match[1]
        return rest[match.end() :]
    match = _CANCELLED.match(rest)
    if match is not None:
        base.stamp = match["stamp"]
        return None
    match = _NESTED_RANK.match(rest)
    if match is not None:
        base.rank = int(match[1])
        return rest[match.end() :]
    match = _BOX.match(rest)
    if match is not None:
        return _BOX_END.sub("", rest[match.end() :])
    return None


def _peel_other_head(rest: str, base: Record) -> str | None:
    """Without the head of a logger with a format of its own; None without one."""
    for pattern in _OTHER_HEADS:
        match = pattern.match(rest)
        if match is not None:
            base.level = _LEVEL_OF.get(match["level"], match["level"]) or None
            base.stamp, file = match["stamp"] or None, match["file"] or None
            base.file = _file_of(file) if file and ":" not in file else file
            return rest[match.end() :]
    return None


def _file_of(logger: str) -> str:
    """The file, without a line, of the module that a logger has its name from or states."""
    return f"{logger.removesuffix('.py').rpartition('.')[2]}.py:"


def _after_outer(line: str, end: int, base: Record) -> str:
    """What follows the timestamp of a log shipper, which ends at `end`: a CRI stream, a
    journal unit, a logger, or a bar."""
    match = _DYNAMO.match(line)
    if match is not None:
        if (level := match["level"]) is not None:
            base.level = level.strip().replace("WARN", "WARNING")
            base.file = f"{match['module']}.py:"
        return line[match.end() :]
    rest = line[end:]
    match = _CRI.match(rest)
    if match is not None:
        base.partial = match["tag"] == "P"
        return rest[match.end() :]
    if (match := _FLUENTD.match(rest)) is not None:
        return rest[match.end() :]
    for pattern in (_JOURNAL_ISO, _TORCHSERVE):
        match = pattern.match(rest)
        if match is not None:
            _set_source(base, match)
            return rest[match.end() :]
    return rest[2:] if rest.startswith("| ") else rest


def _set_source(base: Record, match: re.Match[str]) -> None:
    """Take what a log shipper states of where a line comes from."""
    base.source, stated = match["source"], match.groupdict()
    if stated.get("writer") is not None:
        pids = _PID.findall(stated["named"])
        base.writer = Writer(int(stated["writer"]), [int(pid) for pid in pids])


_PARTS = ("name", "rank", "pid", "host")


def _set_process(
    base: Record, name: str | None, rank: str | None, pid: str, host: str | None
) -> None:
    """Take what the prefix of a process states; Ray names the host of one on another
    node, where the same number is another process."""
    base.process, base.pid = name, int(pid)
    if host:
        base.pid += (1 + crc32(host.encode())) << 32
    if base.actor is None and (name is None or OF_VLLM.match(name) is None):
        base.actor = base.pid
        if name == _SERVER_ACTOR:
            base.stage = f"{name} {base.pid}"
    if rank:
        base.rank = int(rank)


def _split_records(
    text: str, base: Record, fronts: Fronts | None = None
) -> list[Record]:
    """Records anywhere in a text, and the text before the first of them."""
    heads = list(_RECORD.finditer(text))
    records: list[Record] = []
    is_partial, base.partial = base.partial, False
    owner = base
    start = 0
    for head in heads:
        before, next_owner = _split_owner(text[start : head.start()], owner)
        if records:
            records[-1].message += before
        elif before.strip():
            records += [replace(owner, message=m) for m in _bars(before.rstrip())]
            if fronts is not None:
                fronts.add(before)
        owner = next_owner
        records.append(
            replace(
                owner, message="", level=head["level"],
                stamp=head["stamp"], file=head["file"],
            )
        )  # fmt: skip
        start = head.end()
    tail = text[start:]
    if records and heads:
        records[-1].message += tail
    elif tail.strip():
        *bars, last = _bars(tail)
        records = [replace(base, message=bar) for bar in bars]
        if bars:
            # Of a line that was printed over the bar.
            last, base = _peel_front(last.lstrip(), replace(base))
        base.message = last
        records.append(base)
    for record in records:
        _finish(record)
    if records:
        records[-1].partial = is_partial
    return records


def _bars(text: str) -> list[str]:
    """Progress bars and the bare text glued behind them, or the text as it is."""
    if "]" not in text or "<" not in text:
        return [text]
    ends = [match.end() for match in _BAR_END.finditer(text)]
    return [text[a:b] for a, b in zip([0, *ends], [*ends, len(text)], strict=True)]


def _split_owner(before: str, owner: Record) -> tuple[str, Record]:
    """A process prefix at the end of a text belongs to the record that follows."""
    matches = list(_PROCESS_RE.finditer(before))
    if not matches or before[matches[-1].end() :].strip():
        return before, owner
    changed = replace(owner)
    first = matches[-1]
    for match in reversed(matches):
        if before[match.end() : first.start()].strip():
            break
        first = match
    _set_process(changed, *matches[-1].group(*_PARTS))
    return before[: first.start()], changed


def _finish(record: Record) -> None:
    if "across cluster]" in record.message:
        _drop_repeat(record)
    message = record.message
    if message.startswith("*** SIG") and (match := _SIGNALLED.match(message)):
        record.pid = int(match[1])
    # A file field that was wrapped in escapes leaves a literal line break behind.
    if message.endswith("\\n"):
        record.message = message[:-2]
    if record.level is None:
        match = _UVICORN.match(record.message)
        if match is not None:
            record.level = match["level"]


_LINES = ("log", "line", "textPayload", "Log", "LogMessage", "LogEntry")
"""Where log shippers keep a line: Docker, Loki, Cloud Logging, Azure."""
_MESSAGES = ("message", "msg", *_LINES, "MESSAGE", "event", "text")
_TIMES = (
    "asctime", "timestamp", "time", "@timestamp", "ts", "TimeStamp", "TimeGenerated",
    "__REALTIME_TIMESTAMP", "date",
)  # fmt: skip
_DOCKER_PIECE = 16 << 10
"""Bytes of a line in one entry of Docker's `json-file`; more of them follow in the next."""


def _json_record(text: str, base: Record) -> Record | None:
    """The record in a JSON line, whatever the names of its keys."""
    if len(text) > 1_000_000:
        return None
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    payload = fields.get("jsonPayload")
    if isinstance(payload, dict):
        fields = {**fields, **payload}
    message, stamp = _first(fields, *_MESSAGES), _first(fields, *_TIMES)
    if message is None:
        return None
    source = _pod_of(fields.get("kubernetes")) or base.source
    record = replace(base, message=message.rstrip("\r\n"), is_json=True, source=source)
    record.level = _first(fields, "levelname", "level", "severity")
    is_line = message == _first(fields, *_LINES)
    if is_line or record.level is None:
        # A logger states its level; the time is that of a log shipper.
        record.level, record.outer = None, full_stamp(stamp or "") or base.outer
    else:
        record.stamp = stamp
    if is_line:
        is_piece = "stream" in fields and not message.endswith("\n")
        record.partial = (
            is_piece and len(message.encode(errors="replace")) >= _DOCKER_PIECE
        )
        return record
    where = _first(fields, "fileinfo", "filename", "pathname")
    record.file = f"{where}:{fields.get('lineno')}" if where else None
    logger = fields.get("name")
    if where is None and isinstance(logger, str) and logger.startswith("vllm."):
        record.file = _file_of(logger)
    owner = _first(fields, "vllm_process_name", "process_name", "processName")
    if owner is not None and owner != "MainProcess":
        record.process = owner
    pid = fields.get("process")
    record.pid = pid if isinstance(pid, int) else record.pid
    return record


def _pod_of(named: object) -> str | None:
    """The container that Fluentd's and Fluent Bit's filters for Kubernetes name."""
    if not isinstance(named, dict):
        return None
    parts = map(named.get, ("namespace_name", "pod_name", "container_name"))
    return "/".join(str(part) for part in parts if part) or None


def _first(fields: dict[str, object], *names: str) -> str | None:
    for name in names:
        value = fields.get(name)
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            return str(value)
    return None


def peel_redrawn(line: str, fronts: Fronts | None = None) -> list[Record]:
    """The records in a physical line that was drawn over itself, in their order."""
    return _redrawn(line, lambda piece: peel(piece, fronts), fronts)


def _redrawn(
    line: str,
    peel_piece: Callable[[str], list[Record]],
    fronts: Fronts | None = None,
) -> list[Record]:
    """The records in the pieces between carriage returns.

    A process prefix that stands alone before a carriage return owns what follows, and the
    container or pod of the line all that is in it. A log shipper's time is that of the end
    of the line, and the rest that follows is that of its last piece.
    """
    if "\r" not in line:
        return peel_piece(line)
    found: list[Record] = []
    owner: Record | None = None
    line_of = Record("")
    for piece in line.split("\r"):
        records = peel_piece(piece) if piece else []
        if piece and not records:
            _, named = _peel_named(piece, Record(""), fronts)
            owner = named if named.process is not None else owner
            line_of.source = line_of.source or named.source
            line_of.outer = line_of.outer or named.outer
            line_of.partial = line_of.partial or named.partial
        for record in records:
            record.source = line_of.source = record.source or line_of.source
            line_of.outer, record.outer = record.outer or line_of.outer, None
            line_of.partial, record.partial = record.partial or line_of.partial, False
            if owner is not None and record.pid is None:
                record.process, record.pid = owner.process, owner.pid
                record.actor, record.rank = owner.actor, owner.rank
        found += records
    if found:
        found[-1].outer, found[-1].partial = line_of.outer, line_of.partial
    return found
