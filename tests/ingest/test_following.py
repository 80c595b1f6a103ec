"""A log that grows: the state at every moment of it, and the command that waits for ready."""

from __future__ import annotations

import io
import re
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from tests.helpers import REAL_LOGS
from warmup_insights.analysis.remaining import remaining
from warmup_insights.analysis.summary import Folded
from warmup_insights.cli import cli, following
from warmup_insights.ingest.log import LogEnd, read_log
from warmup_insights.ingest.outcome import Options

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "sample_logs"
REPLAYED = [
    SAMPLES / "vllm-gaudi" / "made_v0_26_bars.log",
    SAMPLES / "vllm-gaudi" / "made_tp2_defrag.log",
    SAMPLES / "vllm-fork" / "warmup_doc_capture.log",
    SAMPLES / "vllm" / "made_v1_2026_tp2.log",
    *(
        REAL_LOGS / name
        for name in (
            "simdev_gaudi_0.26.0_contiguous_pa_defrag.log",
            "simdev_gaudi_0.26.0_tp2.log", "fresh/c07_cuda_v0.19.1_phi3.log",
            "fresh/c05_cuda_v0.11.0_l4.log", "fresh/r01_rocm_v0.17.0_qwen25.log",
        )
        if (REAL_LOGS / name).is_file()
    ),
]  # fmt: skip
MOMENTS = 20
"""So many beginnings of each log, the bars among them."""
_BAR = re.compile(
    rb"(Prompt warmup processing|Decode warmup processing|Capturing CUDA graphs[^:\r\n]{0,60}"
    rb"|Loading safetensors checkpoint shards):[^\r\n]{0,300}?(\d+)/(\d+) \["
)
_STAGE = {
    b"Prompt": "prompt_warmup", b"Decode": "decode_warmup",
    b"Captur": "graph_capture", b"Loadin": "load_weights",
}  # fmt: skip
ORDER = [
    "load_weights", "kv_cache", "prompt_warmup", "decode_warmup", "warmed_up", "ready",
]  # fmt: skip


def beginnings(text: bytes) -> list[int]:
    """Ends of pieces as a terminal shows them: of lines and of states of a bar."""
    ends = [match.end() for match in re.finditer(rb"[\r\n]+", text)]
    bars = [end for end in ends if _last_bar(text[:end])]
    some = ends[:: max(1, len(ends) // MOMENTS)] + bars[:: max(1, len(bars) // MOMENTS)]
    return sorted({*some, len(text)})


def _last_bar(text: bytes) -> re.Match[bytes] | None:
    """The bar that is the last thing of a text and is alone in its piece."""
    piece = re.split(rb"[\r\n]+", text[-3000:].rstrip(b"\r\n"))[-1]
    found = list(_BAR.finditer(piece))
    return found[0] if len(found) == 1 and piece.count(b"/") < 12 else None


def folded(text: bytes, name: str) -> Folded | None:
    """The newest start-up in a text that is still being written."""
    parts = read_log(io.BytesIO(text), name, Options(year=2026, is_growing=True))
    (end,) = (part for part in parts if isinstance(part, LogEnd))
    return end.runs[max(end.runs)] if end.runs else None


@pytest.mark.long
@pytest.mark.parametrize("log", REPLAYED, ids=lambda path: path.stem)
def test_the_state_is_right_at_every_moment(log):
    text = log.read_bytes()
    seen: list[str] = []
    last = (0, "")
    for end in beginnings(text):
        now = folded(text[:end], log.name)
        if now is None:
            continue
        here = now.summary.progress
        assert (here.index or 0) <= (here.total or here.index or 0)
        left = remaining(now, None)
        assert left is None or left.seconds >= 0
        if here.stage == last[1] and here.phase is not None:
            assert (here.index or 0) >= last[0], text[:end][-200:]
        last = (here.index or 0, here.stage)
        if here.stage in ORDER and here.stage not in seen[-1:]:
            seen.append(here.stage)
        bar = _last_bar(text[:end])
        if bar is not None and here.stage != "ready":
            name, done, total = bar[1], int(bar[2]), int(bar[3])
            if 0 < done < total:
                assert here.stage == _STAGE[name[:6]], bar[0]
                # The line of the next bucket may come before the bar is drawn.
                assert here.total == total, bar[0]
                assert here.index in (done, done + here.is_in_step), bar[0]
    assert seen == sorted(seen, key=ORDER.index)


@pytest.mark.parametrize("log", REPLAYED[:4], ids=lambda path: path.stem)
def test_a_log_read_piece_by_piece_gives_what_it_gives_at_once(log, tmp_path):
    from warmup_insights.ingest.single import ingest_path
    from warmup_insights.storage import EventStore

    text, grown = log.read_bytes(), tmp_path / log.name
    with EventStore(tmp_path / "grown.db") as store:
        for end in beginnings(text)[::6]:
            grown.write_bytes(text[:end])
            ingest_path(store, str(grown), Options(year=2026, is_growing=True))
        grown.write_bytes(text)
        outcome = ingest_path(store, str(grown), Options(year=2026))
        summaries = [store.summary(run_id) for run_id in outcome.run_ids]
    with EventStore(tmp_path / "whole.db") as store:
        outcome = ingest_path(store, str(log), Options(year=2026))
        whole = [store.summary(run_id) for run_id in outcome.run_ids]
    assert [msgspec.structs.replace(each, run_id="") for each in summaries if each] == [
        msgspec.structs.replace(each, run_id="") for each in whole if each
    ]


def follow(tmp_path, monkeypatch, pieces, *more):
    """Run the command on a file that grows by a piece during each of its pauses."""
    log = tmp_path / "server.log"
    rest = iter(pieces)
    if "--until-ready" not in more:  # else the file may not be there yet
        log.write_bytes(next(rest))
    clock = [0.0]

    def sleep(seconds):
        clock[0] += max(seconds, 30.0)
        with log.open("ab") as file:
            file.write(next(rest, b""))

    monkeypatch.setattr(following.time, "sleep", sleep)
    monkeypatch.setattr(following.time, "monotonic", lambda: clock[0])
    return CliRunner().invoke(
        cli, ["ingest", str(log), "--follow", "--db", str(tmp_path / "f.db"), *more]
    )


def cut(text: bytes, count: int) -> list[bytes]:
    lines = text.splitlines(keepends=True)
    step = max(1, len(lines) // count)
    return [b"".join(lines[n : n + step]) for n in range(0, len(lines), step)]


def test_it_ends_with_0_when_the_server_is_ready(tmp_path, monkeypatch):
    text = (SAMPLES / "vllm-gaudi" / "made_v0_26_bars.log").read_bytes()
    result = follow(tmp_path, monkeypatch, cut(text, 12), "--until-ready")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()[1:]
    assert lines[-1].partition(": ")[2].startswith("Ready after")
    assert any("bucket" in line and " of " in line for line in lines[:-1])
    assert len(set(lines)) == len(lines)


def test_it_ends_with_1_and_the_cause_when_the_start_failed(tmp_path, monkeypatch):
    text = (SAMPLES / "vllm-gaudi" / "made_v0_10_out_of_memory.log").read_bytes()
    result = follow(tmp_path, monkeypatch, cut(text, 12), "--until-ready")
    assert result.exit_code == 1
    assert "out of memory" in result.output.splitlines()[-1]


def test_it_ends_with_1_when_the_file_ends_early(tmp_path, monkeypatch):
    text = (SAMPLES / "vllm-gaudi" / "made_v0_26_bars.log").read_bytes()
    pieces = cut(text, 12)[:5]
    result = follow(tmp_path, monkeypatch, pieces, "--until-ready")
    assert result.exit_code == 1
    assert "neither ready nor failed; the file has not grown for 1 h" in result.output
    result = follow(
        tmp_path, monkeypatch, pieces, "--until-ready", "--timeout", "90s"
    )  # fmt: skip
    assert result.exit_code == 1
    assert "1 min 30 s are over" in result.output


def test_only_what_changed_is_printed(tmp_path, monkeypatch):
    text = (SAMPLES / "vllm-gaudi" / "made_v0_26_bars.log").read_bytes()
    pieces = [text[: len(text) // 2], *[b"\n"] * 5]
    result = follow(tmp_path, monkeypatch, pieces)
    states = [line for line in result.output.splitlines() if ": Running" in line]
    assert len(states) == 1


def test_waiting_needs_a_file_that_is_followed(tmp_path):
    result = CliRunner().invoke(cli, ["ingest", "x.log", "--until-ready"])
    assert result.exit_code == 2
