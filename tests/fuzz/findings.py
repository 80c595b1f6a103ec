"""Inputs that once broke a property, one small file each; a test replays them."""

from __future__ import annotations

import hashlib
import traceback
from pathlib import Path

from tests.fuzz.properties import TARGETS

FOLDER = Path(__file__).with_name("findings")


def broken(target: str, data: bytes) -> str | None:
    """What an input breaks, the same text for the same fault; None when nothing."""
    try:
        TARGETS[target](data)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        where = frames[-1]
        what = str(error).partition("\n")[0] if type(error) is AssertionError else ""
        name = Path(where.filename).name
        return f"{type(error).__name__} {what} at {name}:{where.name}"
    return None


def keep(target: str, data: bytes, folder: Path = FOLDER) -> Path:
    """Write an input down, named after its target and its bytes."""
    name = f"{target}-{hashlib.blake2b(data, digest_size=6).hexdigest()}"
    path = folder / name
    path.write_bytes(data)
    return path


def kept(folder: Path = FOLDER) -> list[Path]:
    """All that was written down."""
    return sorted(path for path in folder.glob("*-*") if path.is_file())


def target_of(path: Path) -> str:
    """The target of a kept input."""
    return path.name.partition("-")[0]
