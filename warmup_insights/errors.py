"""The errors this project raises on purpose; each message is one sentence for a person."""

from __future__ import annotations

import re


class WarmupInsightsError(Exception):
    """Something the user can act on: what happened, where, and what to try."""


class InputError(WarmupInsightsError, ValueError):
    """A file, a line or a value given by the user cannot be used."""


class SettingError(InputError):
    """A setting has a value that cannot be used; the message names both."""


class StoreError(WarmupInsightsError):
    """The database cannot be opened, read or written."""


class StoreBusyError(StoreError):
    """Another program holds the database; trying again may help."""


class SeveralRunsError(StoreError):
    """What a user named stands for several runs; the message lists them."""


class DeviceError(WarmupInsightsError, RuntimeError):
    """A device is missing, too small, or failed."""


def no_file(path: object) -> InputError:
    """The error for a path that leads nowhere, or is the address of something."""
    # A path object has one slash less.
    text = re.sub(r"\A([a-z][a-z0-9+.]{1,9}):/(?=[^/])", r"\1://", str(path))
    if "://" in text:
        return InputError(
            f"{text} is an address and no file here; download it, or pipe it: "
            "`curl ADDRESS | warmup-insights ingest -`"
        )
    return InputError(f"There is no file {text}; check the path")


def cannot_read(path: object, error: Exception) -> InputError:
    """The error for a file or folder that cannot be read, with the reason."""
    return InputError(f"{path} cannot be read: {_reason(error)}; check the path")


def cannot_write(path: object, error: OSError) -> InputError:
    """The error for a file that cannot be written, with the reason."""
    return InputError(f"{path} cannot be written: {_reason(error)}; use another path")


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
