"""A process that reads logs for another one, which stores them.

Started by `child.Child`. It ends when its standard input does, so it never outlives the
process that started it; a file that ends it costs nothing but that file.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import BinaryIO

import msgspec

from parsers.files import digests, head_digest
from parsers.source import modified_at, open_path
from warmup_insights.errors import InputError
from warmup_insights.ingest.garbage import rare_collections
from warmup_insights.ingest.log import ReadLog
from warmup_insights.ingest.messages import (
    Advanced,
    Answer,
    Begun,
    Known,
    Parsed,
    Question,
    Read,
    Refused,
    Same,
    Started,
    pack_batch,
    read_frame,
    read_question,
    send,
    write_frame,
)
from warmup_insights.ingest.opening import Watched, open_log, source_name
from warmup_insights.ingest.outcome import Options
from warmup_insights.model.run import RunRecord

TELL_BYTES = 4 << 20
"""Progress is told this often."""


class Worker:
    """Answers one `Read` after the other."""

    def __init__(self, options: Options, inbound: BinaryIO, outbound: BinaryIO) -> None:
        self._options = options
        self._in = inbound
        self._out = outbound
        self._untold = 0

    def run(self) -> None:
        """Work until the other side has gone."""
        while (question := self._next()) is not None:
            if isinstance(question, Read):
                self._say(self._answer(question.path))

    def _answer(self, path: str) -> Same | Parsed | Refused:
        try:
            with open_path(Path(path)) as file, rare_collections():
                return self._read(path, file)
        except InputError as error:
            return Refused(str(error))

    def _next(self) -> Question | None:
        frame = read_frame(self._in)
        return None if frame is None else read_question(frame[1])

    def _say(self, answer: Answer | Parsed) -> None:
        send(self._out, answer)

    def _read(self, path: str, file: BinaryIO) -> Same | Parsed:
        name = source_name(path)
        self._say(Begun(head_digest(file, name)))
        known = self._next()
        beginnings: dict[int, str] = {}
        if isinstance(known, Known) and known.sizes:
            file.seek(0)
            whole, beginnings = digests(file, name, known.sizes)
            if whole in known.digests:
                return Same(whole)
        file.seek(0)
        watched, modified = Watched(file, self._tell), modified_at(Path(path))
        log = open_log(watched, name, self._options, not_after=modified)
        started: set[int] = set()
        for batch in log.batches():
            for ordinal in sorted({ordinal for ordinal, _ in batch} - started):
                started.add(ordinal)
                self._say(Started(ordinal, *log.start_of(ordinal)))
            write_frame(self._out, *pack_batch(batch))
        return self._parsed(log, beginnings)

    def _parsed(self, log: ReadLog, beginnings: dict[int, str]) -> Parsed:
        summaries = {}
        for ordinal in log.ordinals():
            # Id and label are up to the one who stores it.
            run = RunRecord(
                run_id="", source_kind="log", source_name=log.name, ordinal=ordinal,
                synthetic=self._options.synthetic,
            )  # fmt: skip
            result = log.summary(ordinal, run)
            summaries[ordinal] = (result.summary, result.bucket_rows)
        return Parsed(
            digest=log.digest, head_digest=log.head_digest, size=log.size,
            beginnings=beginnings, summaries=summaries, report=log.report,
            starts={ordinal: log.start_of(ordinal) for ordinal in log.ordinals()},
            kept_lines=log.kept_lines,
        )  # fmt: skip

    def _tell(self, count: int) -> None:
        self._untold += count
        if self._untold >= TELL_BYTES or (count == 0 and self._untold):
            self._say(Advanced(self._untold))
            self._untold = 0


def main() -> None:
    """Read logs for the process at the other end of standard input and output.

    The options are the first argument. Whatever prints does so on standard error.
    """
    inbound, outbound = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    options = msgspec.json.decode(sys.argv[-1], type=Options)
    with contextlib.suppress(BrokenPipeError):
        Worker(options, inbound, outbound).run()
    os._exit(0)  # nothing to clean up, and nobody to tell


if __name__ == "__main__":
    main()
