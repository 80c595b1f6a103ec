"""`advise`: what to change, with the numbers behind it."""

from __future__ import annotations

import dataclasses

import click

from warmup_insights.analysis import advice
from warmup_insights.analysis.advice.facts import unjudged
from warmup_insights.cli.loading import open_run
from warmup_insights.cli.options import db_option, json_option
from warmup_insights.cli.printing import print_json, print_notes, print_tables
from warmup_insights.errors import InputError
from warmup_insights.export.findings import (
    finding_lines,
    findings_markdown,
    rule_markdown,
    rules_table,
)
from warmup_insights.runs import current
from warmup_insights.runs import findings as findings_of


@click.command()
@click.argument("run", default="latest")
@click.option("--rules", "list_rules", is_flag=True, help="List the rules instead.")
@click.option(
    "--explain", metavar="RULE", help="Print a rule: formula, margin, source, example."
)
@click.option("--markdown", is_flag=True, help="Print Markdown.")
@db_option
@json_option
def advise(
    run: str,
    list_rules: bool,
    explain: str | None,
    markdown: bool,
    db: str,
    as_json: bool,
) -> None:
    """RUN is a run id, its first 4 characters or more, a label, `latest` (the last to start; the
    default), or a log.

    How long a start takes is also read from other runs of the same model on the same
    device.
    """
    if list_rules:
        _print_rules(as_json)
        return
    if explain is not None:
        _explain(explain, as_json)
        return
    if markdown and as_json:
        raise click.UsageError("Choose one of --json and --markdown")
    with open_run(db, run) as (store, record):
        run_id = record.run_id
        folded = current(store, record)
        findings = findings_of(store, record, folded)
    if as_json:
        print_json(advice.findings_json(run_id, findings))
    elif markdown:
        click.echo(findings_markdown(run_id, findings), nl=False)
    else:
        if not findings:
            click.echo("No findings")
        for finding in findings:
            named = run_id if run == "latest" else run
            click.echo("\n".join(finding_lines(finding, named)) + "\n")
        note = unjudged(folded.summary)
        print_notes([] if note is None else [note])


def _explain(name: str, as_json: bool) -> None:
    rule = next((rule for rule in advice.RULES if rule.name == name), None)
    if rule is None:
        raise InputError(f"There is no rule {name!r}; `advise --rules` lists them")
    if as_json:
        fields = [
            field.name for field in dataclasses.fields(rule) if field.type == "str"
        ]
        print_json({field: getattr(rule, field) for field in fields})
    else:
        click.echo(rule_markdown(rule), nl=False)


def _print_rules(as_json: bool) -> None:
    rows = [(rule.name, rule.applies_when, rule.needs) for rule in advice.RULES]
    if as_json:
        answer = [
            {"rule": name, "applies_when": when, "speaks_when": when, "needs": needs}
            for name, when, needs in rows
        ]
        print_json({"rules": answer})
    else:
        print_tables([rules_table(rows)])
