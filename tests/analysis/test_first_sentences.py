"""The first sentence about every start-up in the real logs, as judged by reading them."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from tests.helpers import REAL_LOGS
from warmup_insights.analysis.sentences import start_sentences
from warmup_insights.ingest.log import LogEnd, read_log
from warmup_insights.ingest.outcome import Options

TABLE = json.loads(Path(__file__).with_name("first_sentences.json").read_text("utf-8"))
LOGS = sorted([*REAL_LOGS.glob("*.log"), *REAL_LOGS.glob("fresh/*.log")])


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.stem)
def test_what_became_of_the_start(log):
    parts = read_log(io.BytesIO(log.read_bytes()), log.name, Options(year=2026))
    (end,) = (part for part in parts if isinstance(part, LogEnd))
    for ordinal, folded in end.runs.items():
        name = f"{log.stem}#{ordinal + 1}"
        if name in TABLE:
            assert start_sentences(folded.summary)[0].startswith(TABLE[name])
