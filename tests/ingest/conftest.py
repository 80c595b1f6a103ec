"""Fixtures of the tests that read many logs."""

from __future__ import annotations

from tests.postgres import postgres_server, postgres_url  # noqa: F401 - fixtures
