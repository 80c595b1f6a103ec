"""A PostgreSQL server of the tests' own, and databases on it.

Uses the binaries of the machine (Debian: `apt-get install postgresql`), never a server
that runs already: `initdb` into a temporary folder, then a server on a Unix socket
there, without a network port. As root it runs under another user, as PostgreSQL wants.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
import sqlalchemy as sa

_numbers = count(1)


@dataclass(frozen=True)
class PostgresServer:
    """A running server; `new_database` gives the URL of an empty database."""

    socket_folder: Path
    start: Callable[[], None]
    stop: Callable[[], None]
    """At once, as when its machine fails; what it had committed is there afterwards."""

    def url(self, database: str) -> str:
        return f"postgresql://insights@/{database}?host={self.socket_folder}"

    def new_database(self) -> str:
        name = f"test_{os.getpid()}_{next(_numbers)}"
        admin = self.url("postgres").replace("postgresql", "postgresql+psycopg", 1)
        engine = sa.create_engine(admin, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(sa.text(f"CREATE DATABASE {name}"))
        engine.dispose()
        return self.url(name)


def find_binaries() -> Path | None:
    """The folder with `initdb`, `pg_ctl` and `postgres`; None where there is none."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    names = ("initdb", "pg_ctl", "postgres")
    return next((f for f in folders if all((f / n).exists() for n in names)), None)


def _user() -> pwd.struct_passwd | None:
    """Who shall run the server; None for the user of this process."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    return names.get("postgres") or names["nobody"]


@contextmanager
def running_server(binaries: Path) -> Iterator[PostgresServer]:
    """A server that lives as long as the block."""
    user = _user()
    folder = Path(tempfile.mkdtemp(prefix="wi-pg-"))
    identity = {}
    if user is not None:
        os.chown(folder, user.pw_uid, user.pw_gid)
        identity = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}

    def call(program, *arguments):
        subprocess.run(
            [binaries / program, "-D", folder / "data", *arguments],
            cwd=folder,
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **identity,
        )

    settings = f"-k {folder} -c listen_addresses= -c max_connections=200 -F"

    def start():
        call("pg_ctl", "-w", "-l", folder / "log", "-o", settings, "start")

    def stop():
        call("pg_ctl", "-m", "immediate", "stop")

    try:
        call("initdb", "-U", "insights", "-A", "trust", "-E", "UTF8", "--no-sync")
        start()
        try:
            yield PostgresServer(folder, start, stop)
        finally:
            stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_server():
    """The server of this test run; skips where PostgreSQL or its driver is missing."""
    pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server binaries (initdb, pg_ctl) on this machine")
    with running_server(binaries) as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server):
    """The URL of an empty database."""
    return postgres_server.new_database()
