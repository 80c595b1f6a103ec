"""Which files a command line means."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from warmup_insights.errors import InputError

SUFFIXES = (".log", ".txt", ".out", ".err", ".json", ".jsonl", ".ipynb", ".gz", ".zst",
            ".log.1", ".stdout", ".stderr")  # fmt: skip
"""Names of files in a folder that are taken for logs end like this."""


def find_files(paths: Iterable[str]) -> Iterator[str]:
    """The files that paths, folders and globs stand for; `-` is standard input.

    A folder gives the files below it that look like logs, symbolic links left out.
    """
    for text in paths:
        path = Path(text)
        if text == "-" or not (path.is_dir() or glob.has_magic(text)) or path.is_file():
            yield text
        elif path.is_dir():
            yield from _files_below(path)
        else:
            matches = sorted(glob.glob(text, recursive=True))
            if not matches:
                raise InputError(f"Nothing matches {text}; check the pattern")
            yield from (match for match in matches if os.path.isfile(match))


def _files_below(folder: Path) -> Iterator[str]:
    found = [
        str(Path(root) / name)
        for root, _, names in os.walk(folder)
        for name in names
        if name.endswith(SUFFIXES) and _is_regular(Path(root) / name)
    ]
    if not found:
        raise InputError(
            f"{folder} holds no log files ({', '.join(SUFFIXES[:4])}, ...); "
            "name the files themselves"
        )
    yield from sorted(found)


def _is_regular(path: Path) -> bool:
    """Neither a link, nor a pipe that would never end, nor a device."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False
