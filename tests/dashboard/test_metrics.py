"""The endpoint for Prometheus on the server of the dashboard."""

from __future__ import annotations

import urllib.error
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.cli.decisions import invoke
from tests.dashboard.browser import ROOT, serving

LOG = ROOT / "sample_logs" / "vllm-fork" / "warmup_doc_capture.log"

pytestmark = pytest.mark.long


def ask(address, **headers):
    """Status and text of an answer."""
    request = urllib.request.Request(f"{address}/metrics", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=600) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_it_has_what_export_writes_and_only_for_this_machine(tmp_path):
    database = tmp_path / "runs.db"
    assert invoke("ingest", LOG, "--db", database).exit_code == 0
    written = invoke("export", "--format", "prometheus", "--db", database).stdout
    with serving(database) as (address, _):
        status, text = ask(address)
        assert (status, text) == (200, written)
        assert len(list(text_string_to_metric_families(text))) > 20
        assert ask(address, Host="elsewhere.example")[0] == 400


def test_without_a_database_it_is_unavailable(tmp_path):
    with serving(tmp_path / "absent.db") as (address, _):
        status, text = ask(address)
    assert status == 503
    assert "absent.db" in text
