"""The audit of an engine's sources: what it finds, and what it calls wrong."""

from __future__ import annotations

import json

import pytest

from parsers.base import LineRule
from tests.audit.__main__ import COVERAGE, coverage, rows_of, wrong
from tests.audit.judgements import Judgement, load, store
from tests.audit.reading import Reader, Reading, _understood, numbers_of
from tests.audit.rendering import NEWEST, head_of, render
from tests.audit.statements import statements_of
from warmup_insights.model.events import (
    BucketMiss,
    KVCacheAllocated,
    MemoryBudgetSet,
    MemoryMeasured,
    PhaseMarked,
)

SOURCE = """
import warnings
from tqdm import tqdm

def load(size, seconds):
    logger.info("Model loading took %.2f GiB memory and %.6f seconds", size, seconds)
    msg = f"Available KV cache memory: {format_gib(size)} GiB"
    msg += " or so"
    logger.debug_once(msg)
    print("nothing", size)
    warnings.warn("Old setting")
    for _ in tqdm(range(2), desc="Capturing CUDA graphs"):
        pass
    logger.info("loaded " + ("twice" if size else "once"))
    raise ValueError(f"No available memory for the cache blocks: {size}")
"""
LOGGER = '_FORMAT = f"{PREFIX}%(levelname)s %(asctime)s [%(filename)s:%(lineno)d] %(message)s"\n'


@pytest.fixture
def tree(tmp_path):
    package = tmp_path / "vllm"
    package.mkdir()
    (package / "worker.py").write_text(SOURCE)
    (package / "logger.py").write_text(LOGGER)
    (package / "broken.py").write_text("def (:")
    return tmp_path


def wordings(tree):
    return [(s.call, s.wording) for s in statements_of(tree)]


def test_every_kind_of_statement_is_found_with_its_wordings(tree):
    assert wordings(tree) == [
        ("info", "Model loading took {} GiB memory and {} seconds"),
        ("debug_once", "Available KV cache memory: {} GiB or so"),
        ("print", "nothing {}"),
        ("warnings.warn", "Old setting"),
        ("tqdm", "Capturing CUDA graphs{}"),
        ("info", "loaded twice"),
        ("info", "loaded once"),
        ("raise", "ValueError: No available memory for the cache blocks: {}"),
    ]


def test_the_head_is_that_of_the_tree_or_the_newest(tree, tmp_path_factory):
    first = next(iter(statements_of(tree)))
    line = head_of(tree).line(first, "x")
    assert line == "INFO 11-20 07:32:00 [worker.py:100] x"
    assert head_of(tmp_path_factory.mktemp("empty")) == NEWEST


def test_a_fingerprint_follows_the_wording_and_not_the_place(tree):
    before = {s.wording: s.fingerprint for s in statements_of(tree)}
    (tree / "vllm" / "worker.py").rename(tree / "vllm" / "moved.py")
    after = {s.wording: s.fingerprint for s in statements_of(tree)}
    moved = {wording for wording in before if before[wording] != after[wording]}
    assert moved == {"nothing {}", "Old setting", "loaded twice", "loaded once"}


def test_known_values_come_back_in_their_fields(tree):
    reader = Reader(head_of(tree))
    made = [reader.read(s) for s in statements_of(tree)]
    assert [(r.outcome, r.rule) for r in made[:2]] == [
        ("understood", "model_loaded"),
        ("understood", "kv_cache_memory"),
    ]
    assert made[0].reads == "MemoryMeasured stage=weights delta_bytes=#1 duration_s=#2"
    assert made[4].reads.startswith(
        "BarUpdate name=Capturing CUDA graphs done=#2 total=#3"
    )
    assert made[7].reads == "FailureLine kind=no_kv_cache"
    assert all(reading.wrong == [] for reading in made)
    assert made[2].outcome == "silent"


def test_values_differ_from_each_other_and_can_be_below_zero(tree):
    parts = next(iter(statements_of(tree))).parts
    assert render(parts, "guess") == (
        "Model loading took 15.85 GiB memory and 19.345678 seconds"
    )
    assert "took -15.85 GiB memory and 19.3" in render(parts, "guess", negative=True)


def test_numbers_have_the_unit_behind_them():
    found = numbers_of("(12.5/16 GiB) in 3 secs, 7 tokens, 45%|█| 4/9 [05:10<05:58]")
    assert [(n.number, n.unit) for n in found[:4]] == [
        (12.5, "GiB"), (16.0, "GiB"), (3.0, "secs"), (7.0, None),
    ]  # fmt: skip
    assert (310.0, "s") in [(n.number, n.unit) for n in found]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (MemoryMeasured(stage="weights", delta_bytes=12 * 1024**2), ["delta_bytes"]),
        (MemoryMeasured(stage="weights", delta_bytes=-12 * 1024**3), ["delta_bytes"]),
        (MemoryMeasured(stage="weights", duration_s=12.0), ["duration_s"]),
        (KVCacheAllocated(num_blocks=13), ["num_blocks"]),
        (PhaseMarked(name="load_model", edge="end", duration_s=5.0), []),
    ],
    ids=["unit", "sign", "field", "invented", "right"],
)
def test_a_figure_that_the_line_does_not_print_so_is_wrong(made, said):
    rule = LineRule("made", "x")
    reading = _understood(rule, [made], "Prompt took 12 GiB in 5 seconds")
    assert [text.split(".")[1].split("=")[0] for text in reading.wrong] == said


@pytest.mark.parametrize("usable", [12, 13])
def test_what_is_usable_may_follow_from_the_share(usable):
    budget = MemoryBudgetSet(
        total_bytes=16 * 1024**3,
        usable_bytes=usable * 1024**3,
        gpu_memory_utilization=0.75,
    )
    reading = _understood(
        LineRule("made", "x"), [budget], "total=16GiB, gpu_memory_utilization=0.75"
    )
    assert bool(reading.wrong) == (usable == 13)


def test_a_phase_that_the_line_does_not_name_is_wrong():
    reading = _understood(
        LineRule("made", "x"),
        [BucketMiss(phase="decode", shape=(1, 2))],
        "prompt (1, 2) missed",
    )
    assert reading.wrong == ["BucketMiss.phase=decode is not in the line"]


def test_totals_and_changed_readings(tree, tmp_path, monkeypatch):
    table = tmp_path / "judgements.tsv"
    statements = {s.wording: s.fingerprint for s in statements_of(tree)}
    kept = [
        (statements["Model loading took {} GiB memory and {} seconds"], "A", "other"),
        (statements["nothing {}"], "A", ""),
        (statements["loaded twice"], "B", ""),
    ]
    store((Judgement(key, rank, "w:f", "x", reads) for key, rank, reads in kept), table)
    judged = load(table)
    monkeypatch.setattr("tests.audit.__main__.load", lambda: judged)
    rows = rows_of(tree)
    assert coverage(rows, "A") == (1, 2)
    assert coverage(rows, "AB") == (1, 3)
    assert [text.split(": ")[1][:6] for text in wrong(rows)] == ["reads "]
    assert all(row.statement.call != "raise" for row in rows)
    assert rows_of(tree, since=tree) == []


def test_nothing_read_is_not_understood():
    assert Reading().outcome == "silent"


def test_judgements_hold_fingerprints_and_no_sentences():
    rows = load().values()
    assert {row.rank for row in rows} == {"A", "B", "C", "-"}
    assert all(len(row.fingerprint) == 10 and " " not in row.where for row in rows)
    assert all(row.fact or row.rank == "-" for row in rows)


def test_stored_coverage_is_what_is_aimed_at():
    kept = json.loads(COVERAGE.read_text(encoding="utf-8"))
    for release, row in kept.items():
        assert row["a"][0] >= 0.95 * row["a"][1], release
        assert row["ab"][0] >= 0.85 * row["ab"][1], release
        assert row["wrong"] == 0, release
