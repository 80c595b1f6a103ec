"""One thread that has files read by one process, and gets over its death."""

from __future__ import annotations

import contextlib

from warmup_insights.ingest.alike import Alike
from warmup_insights.ingest.board import Board, ClosedError, Result
from warmup_insights.ingest.child import Child, ChildDiedError
from warmup_insights.ingest.held import Slip
from warmup_insights.ingest.messages import (
    MESSAGE,
    PARSED,
    Advanced,
    Begun,
    Known,
    Read,
    Refused,
    Started,
    read_answer,
)
from warmup_insights.ingest.outcome import Options
from warmup_insights.ingest.write import digests_in
from warmup_insights.model.run import SourceRecord

ATTEMPTS = 2


class Lane:
    """Reads files of the board, one after the other, until there is none."""

    def __init__(
        self, board: Board, alike: Alike, files: list[str], options: Options
    ) -> None:
        self._board = board
        self._alike = alike
        self._files = files
        self._options = options
        self._child: Child | None = None

    def run(self) -> None:
        """Work until there is nothing to do, or the board is closed."""
        with contextlib.suppress(ClosedError):
            try:
                while True:
                    index = self._board.next_file()
                    self._board.put(index, self._read(index))
            finally:
                self._dismiss()

    def _dismiss(self) -> None:
        if self._child is not None:
            self._board.dismiss(self._child)
        self._child = None

    def _read(self, index: int) -> Result:
        path, how = self._files[index], ""
        for _ in range(ATTEMPTS):
            try:
                return self._try(index, path)
            except ChildDiedError as death:
                self._dismiss()
                self._board.check()
                how = str(death)
        return Result(
            Refused(
                f"{path} could not be read: the process that read it {how}, "
                f"{ATTEMPTS} times; free some memory, or read it alone with --jobs 1"
            )
        )

    def _try(self, index: int, path: str) -> Result:
        if self._child is None:
            self._child = self._board.hire(lambda: Child(self._options))
        frames: list[tuple[bytes, Slip]] = []
        with contextlib.ExitStack() as unless_done:
            unless_done.callback(self._drop, frames)
            result = self._listen(index, path, self._child, frames)
            unless_done.pop_all()
            return result

    def _drop(self, frames: list[tuple[bytes, Slip]]) -> None:
        for _, slip in frames:
            self._board.held.drop(slip)

    def _listen(
        self, index: int, path: str, child: Child, frames: list[tuple[bytes, Slip]]
    ) -> Result:
        """Have a file read; the frames of its events go to the list."""
        result = Result(frames=frames)
        child.send(Read(path))
        while True:
            kind, body = child.receive()
            if kind != MESSAGE:
                frames.append((kind, self._board.held.add(body)))
                if kind == PARSED:
                    return result
                continue
            answer = read_answer(body)
            if isinstance(answer, Begun):
                result.head = answer.head
                self._board.begins(index, answer.head)
                child.send(_known(self._alike.sources(answer.head)))
            elif isinstance(answer, Advanced):
                self._board.advance(index, answer.count)
            elif not isinstance(answer, Started):  # `Parsed` says it, too
                result.answer = answer
                return result


def _known(sources: list[SourceRecord]) -> Known:
    return Known(
        digests=sorted({d for source in sources for d in digests_in(source)}),
        sizes=[source.size_bytes for source in sources],
    )
