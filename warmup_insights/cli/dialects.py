"""`dialects`: what can be read."""

from __future__ import annotations

import json

import click

from warmup_insights.cli.options import json_option


@click.command(short_help="List the log formats that can be read.")
@json_option
def dialects(as_json: bool) -> None:
    """List the log formats that can be read.

    Each with its versions, the place in the engine that prints it, and a sample line.
    """
    from parsers import DIALECTS

    if as_json:
        rows = [
            {
                "name": dialect.name,
                "title": dialect.title,
                "versions": dialect.versions,
                "source": dialect.source,
                "rules": [rule.name for rule in dialect.rules],
                "sample": dialect.sample_line,
            }
            for dialect in DIALECTS
        ]
        click.echo(json.dumps({"dialects": rows}, indent=2, ensure_ascii=False))
        return
    for dialect in DIALECTS:
        click.secho(dialect.name, bold=True, nl=False)
        click.echo(f"  {dialect.title}, {dialect.versions}")
        if dialect.rules:
            click.echo(f"  {len(dialect.rules)} wordings; from {dialect.source}")
        click.echo(f"  {dialect.sample_line}\n")
