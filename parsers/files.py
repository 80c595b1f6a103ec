"""A whole source: read, recognised, parsed, hashed, in one pass of bounded memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import tzinfo
from functools import lru_cache
from itertools import chain, islice
from typing import BinaryIO

from parsers import DIALECTS, all_rules
from parsers.base import Dialect
from parsers.engine.dispatch import (
    Dispatcher,
    Selector,
    count_lines,
    lines_at,
    make_selector,
    regex_selector,
    text_of,
)
from parsers.engine.envelope import clean
from parsers.engine.lines import LineParser
from parsers.engine.stamps import Clock
from parsers.engine.wrapping import (
    is_escaped,
    margin_of,
    of_lines,
    unescaped,
    without_margin,
)
from parsers.formats import collect_env, otlp_spans, profiler_events, vllm_json
from parsers.formats.collect_env import EnvironmentInLog
from parsers.formats.documents import DOCUMENTS, MAX_BYTES, Document
from parsers.formats.otlp_spans import looks_like_spans, read_spans
from parsers.formats.profiler_events import looks_like_events, read_events
from parsers.formats.vllm_json import looks_like_vllm_json
from parsers.report import ParseReport
from parsers.source import (
    CHUNK,
    TextBlocks,
    content_of,
    no_text,
)
from warmup_insights.model.events import Event

Batch = list[tuple[int, list[Event]]]
"""Ordinals of runs with their events, in the order of the source."""

HEAD_LIMIT = 4096
SMALL_BYTES = CHUNK - 8192
"""A file that ends sooner is read before hyperscan has compiled its literals."""
LARGE_BYTES = 64 << 20
"""A file that is larger is worth the time that importing NumPy takes."""
LOOKED_AT = 1 << 15
"""Bytes in which what stands in front of all lines is looked for before they are read."""
BATCH = 5000
"""Events that are given at once."""


@lru_cache(maxsize=1)
def dispatcher() -> Dispatcher:
    """The rules of all dialects."""
    return Dispatcher(all_rules())


@lru_cache(maxsize=2)
def _selectors(*, is_small: bool) -> tuple[Selector, Selector]:
    """For the lines that matter while a server runs, and for its statistics."""
    statistics = dispatcher().statistics
    others = set(dispatcher().literals).difference(statistics)
    make = regex_selector if is_small else make_selector
    return make(sorted(others)), regex_selector(statistics)


class LogReader:
    """Reads one source; iterating gives batches of events.

    Args:
        file: the raw bytes, compressed or not.
        name: how to call it in messages.
        not_after: when it was last written, seconds since the epoch.
        year: year of the first timestamp; None to take it from `not_after`.
        zone: time zone of the timestamps; None when unknown, read as UTC.
        timezone: the zone's name, for the record.

    After the last batch `report`, `num_runs`, `digest`, `head_digest` and `size` are final.
    """

    def __init__(
        self,
        file: BinaryIO,
        name: str,
        *,
        not_after: float | None = None,
        year: int | None = None,
        zone: tzinfo | None = None,
        timezone: str | None = None,
    ) -> None:
        self.report = ParseReport()
        self.num_runs = 0
        self.size = 0
        self.head_digest = ""
        self._name = name
        self._blocks = TextBlocks(file, name, self.report)
        self._clock = Clock(year=year, not_after=not_after, zone=zone)
        self._timezone = timezone
        self._hash = hashlib.sha256()

    @property
    def digest(self) -> str:
        """Hash of all text, the same whether it was compressed or not."""
        return self._hash.hexdigest()

    def __iter__(self) -> Iterator[Batch]:
        """Batches of events, in the order of the source."""
        blocks = self._hashed(self._blocks)
        first = next(blocks, b"")
        if not first:
            self.report.add_problem(f"{self._name} is empty")
            return
        whole: Iterator[bytes] = chain([first], blocks)
        text = first.decode("utf-8", "replace")
        if margin := margin_of(text):
            whole = without_margin(whole, margin)
        if is_escaped(first):
            whole = unescaped(whole)
            text = b"".join(unescaped([first])).decode("utf-8", "replace")
        self._clock.look_at(clean(text))
        document = next((each for each in DOCUMENTS if each.is_this(first)), None)
        if looks_like_events(first):
            events = read_events(whole, self.report)
            yield from self._runs([events], profiler_events.DIALECT)
        elif looks_like_spans(first):
            yield from self._runs(read_spans(whole, self.report), otlp_spans.DIALECT)
        elif looks_like_vllm_json(first):
            yield from self._vllm_json(whole)
        elif document is not None:
            yield from self._document(whole, document)
        elif problem := no_text(first):
            self.report.add_problem(f"{self._name} {problem}")
            for _ in whole:
                pass
        else:
            yield from self._lines(of_lines(whole, text))
        self._finish(first)

    def _hashed(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        for block in blocks:
            if self.size == 0:
                self.head_digest = _head_digest(block)
            self._hash.update(block)
            self.size += len(block)
            yield block

    def _lines(self, blocks: Iterable[bytes]) -> Iterator[Batch]:
        parser = LineParser(
            dispatcher(),
            report=self.report,
            clock=self._clock,
            timezone=self._timezone,
        )
        number = 0
        environment = EnvironmentInLog()
        for block in _whole_lines(blocks):
            if self.size > LARGE_BYTES:
                import numpy  # noqa: F401 - `count_lines` is faster with it
            if number == 0:
                parser.look_at(block[:LOOKED_AT].decode("utf-8", "replace"))
            environment.add_block(block, number)
            is_small = self.size < SMALL_BYTES
            number = feed_block(parser, block, number, is_small=is_small)
            if parser.num_waiting >= BATCH:
                yield parser.take()
        parser.close()
        self.num_runs = parser.num_runs
        self.report.lines = number
        batch = parser.take()
        found = environment.read()
        if found is not None:
            self.report.dialects[collect_env.DIALECT.name] += 1
            batch += [(ordinal, [found]) for ordinal in range(self.num_runs)]
            self.report.events += self.num_runs
        if batch:
            yield batch

    def _runs(
        self, runs: Iterable[Iterable[Event]], dialect: Dialect
    ) -> Iterator[Batch]:
        """The runs of a file that has no lines of a log."""
        for ordinal, run in enumerate(runs):
            self.num_runs = ordinal + 1
            events = iter(run)
            while batch := list(islice(events, BATCH)):
                self.report.events += len(batch)
                yield [(ordinal, batch)]
        if self.num_runs:
            self.report.dialects[dialect.name] += 1

    def _vllm_json(self, blocks: Iterable[bytes]) -> Iterator[Batch]:
        data = self._all_of(blocks, vllm_json.MAX_BYTES, "a JSON file of vLLM")
        if data is None:
            return
        events = vllm_json.read_vllm_json(data)
        if events is None:
            # Not one of these after all: its lines may still hold a log.
            yield from self._lines([data])
            return
        self.report.matched["vllm_json"] += 1
        self.report.lines = data.count(b"\n") + 1
        yield from self._runs([events], vllm_json.DIALECT)

    def _all_of(self, blocks: Iterable[bytes], limit: int, what: str) -> bytes | None:
        """The whole content; None, and a problem in the report, where it is too long."""
        data = b""
        for block in blocks:
            if len(data) + len(block) > limit:
                self.report.add_problem(
                    f"{self._name} is {what} of more than {limit >> 20} MiB; "
                    "save its log output as a text file"
                )
                return None
            data += block
        return data

    def _document(self, blocks: Iterable[bytes], document: Document) -> Iterator[Batch]:
        data = self._all_of(blocks, MAX_BYTES, document.what)
        if data is None:
            return
        text = document.text_of(data)
        # What is not a whole document after all may still hold lines of a log.
        yield from self._lines([data if text is None else text.encode()])
        if text is not None and document.note and self.num_runs:
            self.report.add_problem(f"{self._name} {document.note}")

    def _finish(self, first: bytes) -> None:
        self.report.dialects.update(_dialects_of(self.report))
        if not self.num_runs and not self.report.problems:
            self.report.add_problem(
                f"{self._name} holds no line of an engine's start-up and looks like "
                f"{content_of(first)}; `warmup-insights dialects` lists what can be read"
            )


def _whole_lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The blocks without the rest of a line that was too long for one block."""
    is_rest = False
    for block in blocks:
        if is_rest:
            end = block.find(b"\n") + 1
            if end == 0:
                continue
            block = block[end:]
        is_rest = not block.endswith(b"\n")
        if block:
            yield block


def _dialects_of(report: ParseReport) -> dict[str, int]:
    """Dialects by the rules that matched, each rule counted for those that have it.

    A dialect whose every matched rule also belongs to one with more is left out.
    """
    matched = report.matched.keys() | report.ignored.keys()
    seen = {
        dialect.name: matched & {rule.name for rule in dialect.rules}
        for dialect in DIALECTS
    }
    return {
        name: len(rules)
        for name, rules in seen.items()
        if rules and not any(rules < other for other in seen.values())
    }


def feed_block(
    parser: LineParser, block: bytes, number: int, *, is_small: bool = False
) -> int:
    """Give a block of lines to the parser; the number of lines so far."""
    if parser.reads_all:
        return _feed_all(parser, block, number)
    index, behind = -1, 0
    for index, begin, behind in _candidates(parser, block, is_small=is_small):
        line = number + index + 1
        parser.feed(text_of(block, begin, behind), line)
        if parser.reads_all:
            # A new start-up began: from here on ordinary lines matter again.
            return _feed_all(parser, block[behind:], line)
    return number + index + 1 + count_lines(block, behind)


def _candidates(
    parser: LineParser, block: bytes, *, is_small: bool
) -> Iterator[tuple[int, int, int]]:
    """The lines of a block that matter to a ready server, as `lines_at` gives them, less
    the statistics that the parser counts: those between two others at once."""
    select, select_statistics = _selectors(is_small=is_small)
    index, behind = -1, 0
    for line in chain(lines_at(block, select(block)), [None]):
        begin = len(block) if line is None else line[1]
        if behind < begin and not parser.counts(piece := block[behind:begin]):
            for place, start, after in lines_at(piece, select_statistics(piece)):
                if not parser.counts(piece[start:after]):
                    yield index + 1 + place, behind + start, behind + after
        if line is not None:
            index, _, behind = line
            yield line


def _feed_all(parser: LineParser, block: bytes, number: int) -> int:
    lines = block.decode("utf-8", "replace").split("\n")
    if lines and not lines[-1]:
        lines.pop()
    feed = parser.feed
    for index, line in enumerate(lines, number + 1):
        feed(line, index)
    return number + len(lines)


def _head_digest(block: bytes) -> str:
    head = block[:HEAD_LIMIT].partition(b"\n")[0]
    return hashlib.blake2b(head, digest_size=20).hexdigest()


def head_digest(file: BinaryIO, name: str) -> str:
    """Hash of the first line of a source."""
    return _head_digest(next(iter(TextBlocks(file, name, ParseReport())), b""))


def digests(
    file: BinaryIO, name: str, sizes: Sequence[int] = ()
) -> tuple[str, dict[int, str]]:
    """Hash of a whole source, and of its beginnings of these sizes."""
    whole = hashlib.sha256()
    found: dict[int, str] = {}
    wanted = sorted(sizes)
    done = 0
    for block in TextBlocks(file, name, ParseReport()):
        start = 0
        while wanted and wanted[0] <= done + len(block):
            cut = wanted.pop(0) - done
            whole.update(block[start:cut])
            start = cut
            found[done + cut] = whole.hexdigest()
        whole.update(block[start:])
        done += len(block)
    return whole.hexdigest(), found
