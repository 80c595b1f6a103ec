"""Which files a command line means: paths, folders, patterns, and fsspec addresses.

An address is `s3://bucket/logs` or `file:///data/a.log`. fsspec is imported when it is
needed; it comes with the extra `ray`.
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from warmup_insights.errors import InputError, cannot_read
from warmup_insights.ingest.outcome import file_size

SUFFIXES = (".log", ".txt", ".out", ".err", ".json", ".jsonl", ".ipynb", ".gz", ".zst",
            ".log.1", ".stdout", ".stderr")  # fmt: skip
"""Names of files in a folder that are taken for logs end like this."""


def find_files(paths: Iterable[str]) -> Iterator[str]:
    """The files that paths, folders and globs stand for; `-` is standard input.

    A folder gives the files below it that look like logs, symbolic links left out.
    After them, InputError is raised where a folder could not be read.
    """
    for text in paths:
        if not text:
            raise InputError("A path is empty; name a log, a folder or a pattern")
        is_folder = os.path.isdir(text)
        if text == "-" or not (is_folder or glob.has_magic(text)):
            yield text
        elif is_folder:
            yield from _files_below(Path(text))
        elif os.path.isfile(text):
            yield text
        else:
            matches = sorted(glob.glob(text, recursive=True))
            if not matches:
                raise InputError(f"Nothing matches {text}; check the pattern")
            yield from (match for match in matches if os.path.isfile(match))


def _files_below(folder: Path) -> Iterator[str]:
    unread: list[OSError] = []
    found = [
        str(Path(root) / name)
        for root, _, names in os.walk(folder, onerror=unread.append)
        for name in names
        if name.endswith(SUFFIXES) and _is_regular(Path(root) / name)
    ]
    yield from sorted(found)
    if unread:
        more = f" and {len(unread) - 1:,} more" if len(unread) > 1 else ""
        raise cannot_read(f"{unread[0].filename}{more}", unread[0])
    if not found:
        raise InputError(
            f"{folder} holds no log files ({', '.join(SUFFIXES[:4])}, ...); "
            "name the files themselves"
        )


def _is_regular(path: Path) -> bool:
    """Neither a link, nor a pipe that would never end, nor a device.

    What may not be looked at counts as one; reading it raises what is wrong.
    """
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except PermissionError:
        return True
    except OSError:
        return False


INSTALL = "pip install 'warmup-insights[ray]'"


class UnsteadyError(InputError):
    """A storage stopped giving bytes in the middle; trying again may help."""


@dataclass(frozen=True)
class RemoteFile:
    """One file: where to look, its name there, and how to call it.

    Where it lies on a disk `address` is None and `name` is its absolute path.
    """

    address: str | None
    name: str
    shown: str
    size_bytes: int = 0


def find_remote(paths: Iterable[str]) -> list[RemoteFile]:
    """The files that paths, folders and patterns stand for, as `find_files` does it.

    Raises InputError when there are none, or no driver for such an address.
    """
    return [file for text in paths for file in _find(text)]


def _find(text: str) -> Iterator[RemoteFile]:
    if text == "-":
        raise InputError(
            "Standard input cannot be read by other machines; "
            "leave --ray away, or give files that all of them see"
        )
    files, root = file_system(text)
    if "::" not in text and "file" in _protocols(files):
        local = find_files([root if "://" in text else text])
        for name in map(os.path.abspath, local):
            yield RemoteFile(None, name, name, file_size(name))
        return
    with _explained(text):
        found = list(_list(files, root))
    if not found:
        raise InputError(f"{text} holds no log files; check the address")
    for name, size in found:
        yield RemoteFile(text, name, _shown(files, name, text), size)


def _list(files: Any, root: str) -> Iterator[tuple[str, int]]:
    """Name and size of the files at a root, in order."""
    if glob.has_magic(root):
        details = files.glob(root, detail=True)
    elif files.isdir(root):
        listed = files.find(root, detail=True)
        details = {k: v for k, v in listed.items() if k.endswith(SUFFIXES)}
    else:
        details = {root: files.info(root)}
    for name in sorted(details):
        if details[name].get("type") == "file":
            yield name, int(details[name].get("size") or 0)


def _shown(files: Any, name: str, address: str) -> str:
    """The full address of a file that was found at an address."""
    chained = address.partition("::")[2]
    own = str(files.unstrip_protocol(name))
    return f"{own}::{chained}" if chained else own


def file_system(address: str) -> tuple[Any, str]:
    """The fsspec file system of an address, and the path there. Raises InputError."""
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise InputError(
            f"Addresses such as {address} need fsspec; {INSTALL} brings it"
        ) from None
    with _explained(address):
        files, root = url_to_fs(address)
    return files, str(root)


def _protocols(files: Any) -> tuple[str, ...]:
    protocol = files.protocol
    return (protocol,) if isinstance(protocol, str) else tuple(protocol)


@contextmanager
def _explained(address: str) -> Iterator[None]:
    """Turn what file systems raise into a sentence about an address."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"There is no file {address}; check the address") from None
    except ImportError as error:
        raise InputError(
            f"{address} cannot be read here: {error}; install that on every machine"
        ) from None
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise UnsteadyError(f"{address} cannot be read: {error}; try again") from None


@contextmanager
def open_remote(file: RemoteFile) -> Iterator[tuple[BinaryIO, float | None]]:
    """A file, open for reading, and when it was last written.

    Raises InputError; UnsteadyError when it breaks off in the middle.
    """
    assert file.address is not None
    files, _ = file_system(file.address)
    with _explained(file.shown):
        opened = files.open(file.name, "rb")
    with opened:
        yield Steady(opened, file.shown), _modified_at(files, file.name)  # type: ignore[misc]


def _modified_at(files: Any, name: str) -> float | None:
    try:
        when = files.modified(name)
    except (NotImplementedError, OSError, KeyError):
        return None
    return when.timestamp() if isinstance(when, datetime) else None


class Steady:
    """A file whose end is its end: what breaks off in the middle is an error.

    The parsers keep what could be read of a damaged file; bytes that only a network
    withheld are no damage.
    """

    def __init__(self, file: BinaryIO, shown: str) -> None:
        self._file = file
        self._shown = shown

    def read(self, size: int = -1) -> bytes:
        """Read from the file. Raises UnsteadyError."""
        with _explained(self._shown):
            return self._file.read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a place in the file."""
        return self._file.seek(offset, whence)

    def seekable(self) -> bool:
        """Always."""
        return True
