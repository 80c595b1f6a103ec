"""The errors this project raises on purpose; each message is one sentence for a person."""

from __future__ import annotations


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


class DeviceError(WarmupInsightsError, RuntimeError):
    """A device is missing, too small, or failed."""
