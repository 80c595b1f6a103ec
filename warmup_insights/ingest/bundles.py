"""Archives of logs: .zip, .tar, .tar.gz and .tar.zst, as support tools and clusters make them.

The files in them that look like logs are copied into a folder that is gone in the end,
within the limits of compressed logs. Links, devices and archives in archives are left out.
"""

from __future__ import annotations

import os
import re
import tarfile
import time
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO

import zstandard

from parsers.source import MAX_RATIO, MAX_UNPACKED, RATIO_FROM, open_path
from warmup_insights.errors import InputError
from warmup_insights.ingest.find import SUFFIXES
from warmup_insights.ingest.outcome import Outcome, temporary_folder

ENDINGS = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.zst")
MAX_MEMBERS = 100_000
_COPY = 1 << 20
_DAMAGED = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, zstandard.ZstdError, EOFError, OSError,
    RuntimeError, NotImplementedError,
)  # fmt: skip
"""What readers of archives raise; RuntimeError is an encrypted zip."""
_POD = re.compile(
    r"(?P<namespace>[^_/]{1,253})_(?P<pod>[^_/]{1,253})_[0-9a-f-]{8,64}/"
    r"(?P<container>[^/]{1,253})/(?P<restart>\d{1,6})\.log$"
)
"""The folders of Kubernetes below /var/log/pods (kubelet, `BuildPodLogsDirectory`)."""


@dataclass(frozen=True)
class Unpacked:
    """A log of an archive: where it lies for now, and what to call it."""

    path: str
    """Empty where `problem` states why there is nothing to read."""
    shown: str
    problem: str | None = None

    def outcome(self, done: Mapping[str, Outcome]) -> Outcome:
        """What came of it, under the name that it is shown by; `done` is by path."""
        if self.path:
            return done[self.path].named(self.shown)
        return Outcome(self.shown, state="failed", error=self.problem)


@dataclass(frozen=True)
class _Member:
    """A regular file of an archive."""

    name: str
    modified_at: float | None
    stream: IO[bytes]


def is_bundle(path: str) -> bool:
    """Whether a file has the name of an archive."""
    return path.lower().endswith(ENDINGS)


@contextmanager
def unpacked(paths: Sequence[str]) -> Iterator[list[Unpacked]]:
    """The files, with the logs of archives in place of these, and what is wrong there."""
    if not any(map(is_bundle, paths)):
        yield [Unpacked(path, path) for path in paths]
        return
    with temporary_folder() as folder:
        found: list[Unpacked] = []
        for number, path in enumerate(paths):
            if not is_bundle(path):
                found.append(Unpacked(path, path))
                continue
            try:
                with open_path(Path(path)) as file:
                    found += unpack(file, path, Path(folder, str(number)))
            except InputError as error:
                found.append(Unpacked("", path, str(error)))
        yield found


def unpack(file: BinaryIO, name: str, folder: Path) -> list[Unpacked]:
    """Copy the logs of an open, seekable archive into a folder.

    They are called as in the archive. Of a damaged or far too large one the logs before
    that place are copied; the last entry names the problem.
    """
    packed = file.seek(0, 2)
    file.seek(0)
    logs: list[Unpacked] = []
    num_members, problem = 0, None
    room = min(MAX_UNPACKED, max(RATIO_FROM, MAX_RATIO * packed))
    try:
        for member in _members(file, name):
            num_members += 1
            if num_members > MAX_MEMBERS or room < 0:
                problem = f"{name} unpacks to far more than a bundle of logs; the rest was not read"
                break
            if member.name.endswith(SUFFIXES) and not is_bundle(member.name):
                target = folder / str(len(logs)) / _file_name(member.name)
                room -= _copy(member, target, room)
                inside = member.name.removeprefix("./")
                logs.append(Unpacked(str(target), f"{name}/{inside}"))
    except _DAMAGED as error:
        what = "what could be unpacked" if logs else "nothing"
        problem = f"{name} is damaged ({error}); {what} was read"
    if not logs and problem is None:
        problem = (
            f"{name} holds {num_members:,} files, none of them named like a log "
            f"({', '.join(SUFFIXES[:4])}, ...)"
        )
    logs.sort(key=lambda log: log.shown)
    return logs if problem is None else [*logs, Unpacked("", name, problem)]


def _copy(member: _Member, target: Path, room: int) -> int:
    """Copy a file, at most a little more than `room` bytes of it; its size."""
    target.parent.mkdir(parents=True)
    written = 0
    with open(target, "wb") as out:
        while written <= room and (chunk := member.stream.read(_COPY)):
            written += out.write(chunk)
    # The year of timestamps without one follows from it.
    if member.modified_at is not None:
        with suppress(OSError, OverflowError, ValueError):
            os.utime(target, (member.modified_at, member.modified_at))
    return written


def _members(file: BinaryIO, name: str) -> Iterator[_Member]:
    """Every regular file of an archive, one after the other."""
    if name.lower().endswith(".zip"):
        with zipfile.ZipFile(file) as archive:
            for info in archive.infolist():
                if not info.is_dir():
                    with archive.open(info) as stream:
                        yield _Member(info.filename, _zip_time(info), stream)
        return
    is_zstd = name.lower().endswith(".zst")
    source = zstandard.ZstdDecompressor().stream_reader(file) if is_zstd else file
    # Read once from front to back: a member is never looked up by its place.
    with tarfile.open(fileobj=source, mode="r|" if is_zstd else "r|*") as tar:
        for member in tar:
            content = tar.extractfile(member) if member.isreg() else None
            if content is not None:
                yield _Member(member.name, member.mtime, content)


def _zip_time(info: zipfile.ZipInfo) -> float | None:
    try:
        return time.mktime((*info.date_time, 0, 0, -1))
    except (ValueError, OverflowError):
        return None


def _file_name(member: str) -> str:
    """The name of the copy: of pods with namespace, pod, container and restart."""
    pod = _POD.search(member)
    if pod is not None:
        return (
            f"{pod['namespace']}_{pod['pod']}_{pod['container']}_{pod['restart']}.log"
        )
    return PurePosixPath(member.replace("\\", "/")).name[-200:]
