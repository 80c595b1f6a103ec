"""`warmup-insights dashboard`."""

from __future__ import annotations

import errno
import importlib.util
import os
import socket

import click

from warmup_insights.cli.options import IntegerRange, db_option
from warmup_insights.errors import WarmupInsightsError
from warmup_insights.storage import EventStore
from warmup_insights.storage.engine import check_path
from warmup_insights.storage.location import database_path, shown_location


@click.command()
@db_option
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address to listen on."
)
@click.option(
    "--port", type=IntegerRange(1, 65535), default=8501, show_default=True,
    help="Port to listen on.",
)  # fmt: skip
@click.option(
    "--allow-paths",
    is_flag=True,
    help="Let visitors name files of this machine, to follow a growing log.",
)
@click.option(
    "--max-upload-mb",
    type=IntegerRange(1),
    default=400,
    show_default=True,
    help="Largest file that can be uploaded, in megabytes.",
)
@click.option(
    "--allow-host",
    "allow_hosts",
    multiple=True,
    metavar="NAME",
    help="Another host name of this server, as behind a proxy.",
)
@click.option("--no-browser", is_flag=True, help="Do not open a browser.")
def dashboard(
    db: str,
    host: str,
    port: int,
    allow_paths: bool,
    max_upload_mb: int,
    allow_hosts: tuple[str, ...],
    no_browser: bool,
) -> None:
    """Runs appear in it while they are still being recorded."""
    for package in ("streamlit", "plotly"):
        if importlib.util.find_spec(package) is None:
            raise WarmupInsightsError(
                f"The dashboard needs {package}; install it with "
                "pip install 'warmup-insights[dashboard]'"
            )
    path = database_path(db)
    if path is not None:  # a server may be reached later, a file is wrong at once
        check_path(path, read_only=False)
        if path.exists():
            EventStore(db, read_only=True).close()
        else:
            click.echo(
                f"There is no database {shown_location(db)} yet; it is made when the first "
                "run is added",
                err=True,
            )
    _check_port(host, port)
    from dashboard import server

    if host not in server.LOCAL:
        click.echo(
            f"Warning: listening on {host} without a password; everyone who reaches this "
            "address can read, upload, edit and delete runs",
            err=True,
        )
    click.echo(f"Dashboard of {shown_location(db)}: http://{host}:{port}", err=True)
    arguments = server.options(
        host=host,
        port=port,
        max_upload_mb=max_upload_mb,
        open_browser=not no_browser,
        allow_hosts=allow_hosts,
    )
    env = server.environment(os.environ, database=db, allow_paths=allow_paths)
    server.serve(arguments, env)


def _check_port(host: str, port: int) -> None:
    """Raise for an address that cannot be listened on: the server would end after its address
    was printed, without a remedy."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise WarmupInsightsError(
                f"Port {port} is taken; choose another with --port"
            ) from None
        reason = str(error.strerror).partition(" (while ")[0]
        raise WarmupInsightsError(
            f"{host}:{port} cannot be listened on: {reason}; choose another with --host "
            "and --port"
        ) from None
