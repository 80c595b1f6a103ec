"""Logs that the reference engine of this project writes in the wording of others.

Source: `warmup-insights run --log-format`, whose first line names the program and the
device; without it a simulated run would pass for a real one.
"""

from __future__ import annotations

import re

from parsers.base import Dialect, Made, Sample, line_rule
from parsers.engine.convert import text_of
from warmup_insights.model.events import RunStarted

ENGINE = "reference"


def _origin(match: re.Match[str]) -> Made:
    is_simulated = match["how"] == "simulated"
    return RunStarted(
        engine=ENGINE,
        version=text_of(match["version"]),
        device_name=text_of(match["device"]),
        device_kind="simulated" if is_simulated else match["kind"],
        synthetic=is_simulated,
    )


DIALECT = Dialect(
    name=ENGINE,
    title="the reference engine of warmup-insights",
    versions="any",
    source="warmup_insights/runner/log_format.py",
    rules=(
        line_rule(
            "reference_origin",
            r"(?:# )?written by the reference engine of warmup-insights "
            r"(?P<version>\S{1,40}), (?P<how>measured|simulated) on "
            r"(?:(?P<kind>cpu|cuda|hpu): )?(?P<device>.{1,100})",
            _origin,
            Sample(
                "# written by the reference engine of warmup-insights 0.1.0, "
                "simulated on Gaudi 2",
                {"engine": "reference", "synthetic": True, "device_name": "Gaudi 2"},
            ),
            Sample(
                "# written by the reference engine of warmup-insights 0.2.0, "
                "measured on cuda: NVIDIA H200",
                {"device_kind": "cuda", "device_name": "NVIDIA H200"},
            ),
            engine=ENGINE,
            starts=1,
        ),
    ),
)
