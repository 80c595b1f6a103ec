"""`dialects`: what can be read."""

from __future__ import annotations

import click

from parsers import DIALECTS
from warmup_insights.cli.options import json_option
from warmup_insights.cli.printing import print_json, print_tables
from warmup_insights.export.tables import make_table


@click.command()
@json_option
def dialects(as_json: bool) -> None:
    """Each with its versions, the place in the engine that prints it, and a sample."""
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
        print_json({"dialects": rows})
        return
    formats = [
        (d.name, f"{d.title}, {d.versions}", str(len(d.rules)), d.source)
        for d in DIALECTS
    ]
    header = ("dialect", "versions", "wordings", "source")
    samples = [(d.name, d.sample_line) for d in DIALECTS]
    print_tables(
        [
            make_table("", header, formats, right=[2]),
            make_table("", ("dialect", "sample line"), samples),
        ]
    )
