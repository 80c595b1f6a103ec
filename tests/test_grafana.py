"""The dashboard for Grafana names metrics and labels that `export` writes."""

from __future__ import annotations

import json
import re

from prometheus_client.parser import text_string_to_metric_families

from tests.cli.decisions import invoke
from tests.helpers import ROOT
from warmup_insights.export.prometheus import metric_name
from warmup_insights.model.figures import FIGURES

BOARD = json.loads((ROOT / "docs" / "grafana.json").read_text(encoding="utf-8"))
LOG = ROOT / "sample_logs" / "vllm-fork" / "warmup_doc_capture.log"
UNITS = {"_seconds": "s", "_bytes": "bytes", "_ratio": "percentunit"}


def samples():
    text = invoke("export", LOG, "--format", "prometheus").stdout
    families = text_string_to_metric_families(text)
    return [sample for family in families for sample in family.samples]


def queries():
    targets = [(p, t["expr"]) for p in BOARD["panels"] for t in p["targets"]]
    named = [v for v in BOARD["templating"]["list"] if v["type"] == "query"]
    return targets + [(None, variable["query"]) for variable in named]


def test_every_query_names_metrics_that_are_written():
    names = {metric_name(figure) for figure in FIGURES}
    names |= {"vllm_startup_phase_seconds", "vllm_startup_status"}
    named = [
        re.findall(r"\bvllm_startup_\w+", re.sub(r"\{.*?\}", "", query))
        for _, query in queries()
    ]
    assert all(named)
    assert {name for found in named for name in found} <= names


def test_every_label_that_is_named_is_written():
    labels = {name for sample in samples() for name in sample.labels} | {"__name__"}
    for panel, query in queries():
        inside = "".join(re.findall(r"\{(.*?)\}", query))
        named = set(re.findall(r"(\w+)=", inside))
        for target in panel["targets"] if panel else ():
            named |= set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        named |= set(re.findall(r"label_values\(\w+, (\w+)\)", query))
        assert named
        assert named <= labels


def test_units_are_those_of_the_metrics():
    for panel in BOARD["panels"]:
        (name, *_) = re.findall(r"\bvllm_startup_\w+", panel["targets"][0]["expr"])
        unit = next(
            (u for ending, u in UNITS.items() if name.endswith(ending)), "short"
        )
        assert panel["fieldConfig"]["defaults"]["unit"] == unit, panel["title"]


def test_panels_do_not_overlap():
    cells = [
        (x, y)
        for panel in BOARD["panels"]
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
