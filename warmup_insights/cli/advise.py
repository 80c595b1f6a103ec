"""`advise`: what to change, with the numbers behind it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from warmup_insights.cli.options import db_option, json_option

if TYPE_CHECKING:
    from warmup_insights.analysis.advice_facts import RunFacts
    from warmup_insights.model.run import RunRecord
    from warmup_insights.storage import EventStore

MAX_HISTORY = 200


@click.command()
@click.argument("run", required=False)
@click.option("--rules", "list_rules", is_flag=True, help="List the rules instead.")
@click.option("--markdown", is_flag=True, help="Print Markdown.")
@db_option
@json_option
def advise(
    run: str | None, list_rules: bool, markdown: bool, db: str, as_json: bool
) -> None:
    """Say what to change about a run, with the numbers behind it.

    RUN is a run id, the unique start of one, a label, or `latest`. Other runs of the
    same model on the same device are looked at for how long a start takes.
    """
    if list_rules:
        _print_rules(as_json)
        return
    if run is None:
        raise click.UsageError("Name a RUN, or use --rules.")
    if markdown and as_json:
        raise click.UsageError("Choose one of --json and --markdown.")
    from warmup_insights.analysis.advice import advise as find_advice
    from warmup_insights.analysis.advice import findings_json
    from warmup_insights.export.findings import finding_lines, findings_markdown

    facts = load_facts(db, run)
    findings = find_advice(facts)
    run_id = str(facts.summary["run_id"])
    if as_json:
        click.echo(json.dumps(findings_json(run_id, findings), indent=2))
    elif markdown:
        click.echo(findings_markdown(run_id, findings), nl=False)
    elif not findings:
        click.echo("Nothing to advise from what this run tells.")
    else:
        for finding in findings:
            for line in finding_lines(finding):
                click.echo(line)
            click.echo()


def load_facts(db: str, run: str) -> RunFacts:
    """The facts of a run from the store. Raises StoreError when there is none."""
    from warmup_insights.analysis.advice_facts import collect_facts
    from warmup_insights.cli.loading import load_run
    from warmup_insights.storage import EventStore

    with EventStore(db, read_only=True) as store:
        record = store.find_run(run)
        loaded = load_run(store, record)
        return collect_facts(
            loaded.summary,
            loaded.bucket_rows,
            store.events(record.run_id),
            _history(store, record),
        )


def _history(store: EventStore, record: RunRecord) -> list[dict[str, Any]]:
    """Summaries of the newest other runs of the same engine, model and device."""
    if record.model is None or record.device_kind is None:
        return []
    others = store.runs(
        limit=MAX_HISTORY,
        model=record.model,
        device_kind=record.device_kind,
        engine=record.engine,
        synthetic=record.synthetic,
    )
    ids = [
        other.run_id
        for other in others
        if other.run_id != record.run_id and other.device_name == record.device_name
    ]
    return list(store.summaries(ids).values())


def _print_rules(as_json: bool) -> None:
    from warmup_insights.analysis.advice_rules import RULES
    from warmup_insights.cli.printing import print_tables
    from warmup_insights.export.findings import rules_table

    rows = [(rule.name, rule.speaks_when, rule.needs) for rule in RULES]
    if as_json:
        keys = ("rule", "speaks_when", "needs")
        answer = [dict(zip(keys, row, strict=True)) for row in rows]
        click.echo(json.dumps({"rules": answer}, indent=2))
        return
    print_tables([rules_table(rows)])
