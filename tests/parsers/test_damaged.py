"""Damaged input gets a sentence and keeps what is good."""

from __future__ import annotations

import gzip
import io
import os
import zlib

import pytest

from parsers import source
from parsers.engine import lines
from parsers.engine.envelope import Record
from parsers.engine.joining import LIMIT, Joiner
from parsers.files import LogReader
from parsers.formats import otlp_spans, profiler_events
from parsers.source import open_path
from tests.helpers import ROOT, read, summary_of
from warmup_insights.errors import InputError
from warmup_insights.model.events import SamplerWarmup, WarmupStep
from warmup_insights.model.failure_text import figures_of

GOOD = (ROOT / "sample_logs" / "vllm-fork" / "warmup_doc_capture.log").read_bytes()


def test_empty_file_gets_a_sentence():
    runs, report = read(b"")
    assert runs == {}
    assert report.problems == ["test.log is empty"]


def test_binary_file_gets_a_sentence():
    runs, report = read(bytes(range(256)) * 200)
    assert runs == {}
    assert "not a text file" in report.problems[0]


def test_text_about_something_else_gets_a_sentence():
    runs, report = read("dear diary\n" * 100)
    assert runs == {}
    assert "no line of an engine's start-up" in report.problems[0]
    assert report.lines == 100


@pytest.mark.parametrize("size", [100, 1000, len(GOOD) // 2, len(GOOD) - 5])
def test_truncated_log_keeps_what_it_has(size):
    runs, report = read(GOOD[:size])
    assert report.failed == 0
    if size > 1000:
        assert summary_of(runs[0])["buckets"]["prompt"]["generated"] == 24


def test_log_cut_inside_a_number_of_a_step_line():
    line = b"INFO 07-07 19:15:38 [x.py:1] [Warmup][Graph/prompt][1/36] batch_size:4 query_len:1792 num_blocks:0 free_mem:14.93"
    runs, report = read(line)
    step = runs[0][-2]
    assert (step.bucket, step.free_before_bytes) == ((4, 1792, 0), None)
    assert report.failed == 0


@pytest.mark.parametrize(
    "cut",
    [
        "[Warmup][Prompt][1/36] batch_size:4 query_len:1792 num_blocks:1",
        "[Warmup][Prompt][1/36] batch_size:4 query_len:1792 num_blo",
        "[Warmup][Prompt][1/36] batch_size:4 query_len:17",
        "[Warmup][Prompt][1/24] batch_size:4 seq_len:10",
    ],
)
def test_step_line_that_was_cut_names_no_bucket(cut: str):
    whole = "INFO 07-07 19:15:38 [x.py:1] Free device memory: 9 GiB, 8 GiB usable\n"
    runs, _ = read(whole + f"INFO 07-07 19:15:38 [x.py:1] {cut}")
    steps = [event for event in runs[0] if isinstance(event, WarmupStep)]
    assert [(step.index, step.bucket) for step in steps] == [(1, None)]


def test_list_of_sampler_sizes_that_was_cut_is_unknown():
    line = "INFO 09-22 16:39:42 [x.py:1] Warming up sampler with batch sizes: [0, 1, 13"
    runs, _ = read(line)
    (begun,) = [event for event in runs[0] if isinstance(event, SamplerWarmup)]
    assert begun.batch_sizes is None


def test_size_in_an_error_that_was_cut_is_unknown():
    line = "RuntimeError: [Rank:0] FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed for size::4268"
    assert "needed_bytes" not in figures_of(line)
    assert figures_of(f"{line} (0)MB")["needed_bytes"] == 4268


def test_invalid_utf8_does_not_hide_the_rest():
    broken = GOOD.replace(b"Warmup finished", b"\xff\xfe\x80 Warmup finished", 1)
    runs, _ = read(b"\xc3\x28 broken\n" + broken)
    assert summary_of(runs[0])["memory"]["num_kv_blocks"] == 1519


def test_damaged_gzip_gives_what_could_be_unpacked():
    packed = gzip.compress(GOOD * 50, mtime=0)
    runs, report = read(packed[: len(packed) // 2])
    assert "damaged" in report.problems[0]
    assert len(runs) >= 1


def test_zip_bomb_is_stopped(monkeypatch):
    monkeypatch.setattr(source, "RATIO_FROM", 1 << 20)
    bomb = gzip.compress(b"0" * (64 << 20), mtime=0)
    runs, report = read(bomb)
    assert runs == {}
    assert any("unpacks to more than" in problem for problem in report.problems)


def test_limit_on_unpacked_size(monkeypatch):
    monkeypatch.setattr(source, "MAX_UNPACKED", 1 << 20)
    data = gzip.compress(GOOD + os.urandom(3 << 20).hex().encode(), mtime=0)
    runs, report = read(data)
    assert any("unpacks to more than" in problem for problem in report.problems)
    assert summary_of(runs[0])["memory"]["num_kv_blocks"] == 1519


class OneLongLine(io.RawIOBase):
    """A file of one line without an end, made while it is read."""

    def __init__(self, size: int) -> None:
        self.left = size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        count = min(len(buffer), self.left)
        buffer[:count] = b"x" * count
        self.left -= count
        return count


@pytest.mark.long
def test_file_of_one_endless_line_is_read_in_pieces():
    """1 GiB on one line: bounded memory is what lets this test end."""
    reader = LogReader(OneLongLine(1 << 30), "long.log", year=2026)  # type: ignore[arg-type]
    assert list(reader) == []
    assert "a line of more than" in reader.report.problems[0]
    assert reader.size == 1 << 30


def test_folder_missing_and_forbidden_files_get_sentences(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="is a folder"):
        open_path(tmp_path)
    with pytest.raises(InputError, match="There is no file"):
        open_path(tmp_path / "none.log")
    secret = tmp_path / "secret.log"
    secret.write_bytes(GOOD)

    def forbidden(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    # root may read everything, so the refusal is played.
    monkeypatch.setattr(type(secret), "open", forbidden)
    with pytest.raises(InputError, match="No permission to read"):
        open_path(secret)


def test_device_file_is_refused():
    with pytest.raises(InputError, match="neither a file nor a pipe"):
        open_path(type(ROOT)("/dev/null"))


def test_value_that_cannot_be_converted_is_counted():
    line = "INFO 07-07 19:15:38 [x.py:1] Warmup finished in 4.9.9 secs, allocated 1 GiB of device memory\n"
    _, report = read(line)
    assert report.failed == 1
    assert report.failed_lines[0][:2] == (1, "warmup_finished")


def test_unknown_relevant_line_is_counted_and_shown():
    line = "INFO 07-07 19:15:38 [x.py:1] HPUGraph frobnication took 4 GiB\n"
    _, report = read(GOOD + line.encode())
    assert report.unknown == 1
    assert report.unknown_lines == [
        (GOOD.count(b"\n") + 1, "HPUGraph frobnication took 4 GiB")
    ]


@pytest.mark.parametrize(
    "output",
    [
        "[1/11]  /usr/local/cuda/bin/nvcc -c took_weights.cu",
        "[1/11] c++ -c took_weights.cu",
        "[1/11] /opt/hipcc -c took_weights.cu",
        "/usr/local/cuda/bin/nvcc -c took_weights.cu",
        '100 errors detected in the compilation of "weights.cu".',
        "Compilation terminated.",
    ],
)
def test_a_line_of_a_build_that_failed_is_not_counted(output: str):
    """FlashInfer `jit/cpp_ext.py` raises the output of ninja with its error."""
    line = f"ERROR 07-07 19:15:38 [core.py:1] {output}\n"
    _, report = read(GOOD + line.encode())
    assert report.unknown == 0


@pytest.mark.parametrize(
    "hostile",
    [
        "(" * 100_000,
        "[Warmup][" * 20_000,
        "INFO 07-07 19:15:38 [x.py:1] Generated 9 prompt buckets: [" + "(1, " * 50_000,
        "\x1b[" * 50_000,
        "{" * 100_000,
        '{"message": ' * 5_000,
        "non-default args: {" + "{'a': " * 20_000,
        "INFO 07-07 19:15:38 [x.py:1] non-default args: {'a': '" + "\\" * 100_000,
        "Capturing CUDA graphs: " + " " * 100_000,
        " " * 300_000,
        "INFO " * 60_000,
        "(a pid=1) " * 30_000,
        "2026-01-01 00:00:00 " * 20_000,
        "Configuration: (" + "1, " * 60_000,
    ],
    ids=range(14),
)
def test_hostile_line_takes_linear_time(hostile):
    """Doubling a line must not take four times as long; a generous factor is allowed."""
    import time

    def seconds(text: str) -> float:
        begin = time.process_time()
        read(text)
        return time.process_time() - begin

    seconds(hostile[:1000])
    short = max(seconds(hostile[: len(hostile) // 4]), 0.002)
    assert seconds(hostile) < 40 * short


def test_zlib_error_is_no_traceback():
    packed = bytearray(gzip.compress(GOOD, mtime=0))
    packed[40] ^= 0xFF
    runs, report = read(bytes(packed))
    assert report.problems
    assert zlib is not None
    assert isinstance(runs, dict)


def test_a_profile_is_read_until_too_much_of_it_is_damaged():
    """Each damaged event may be searched to the end of its block."""
    head = '[{"ph": "X", "ts": 1, "name": "warmup", "dur": 1},'
    _, report = read(head + '{"a":1' * 400_000, "server_events_1.json")
    assert report.failed == profiler_events.MAX_DAMAGED
    assert "damaged" in report.problems[0]


def test_a_line_of_spans_that_never_ends_is_not_kept(monkeypatch):
    monkeypatch.setattr(otlp_spans, "MAX_WHOLE", 100)
    blocks = [b'{"resourceSpans": ' + b"1" * 50, *[b"2" * 50] * 9, b"3\n{}\n"]
    long, short = otlp_spans._lines(blocks)
    assert len(long) <= 200
    assert short == b"{}"


def test_an_object_that_never_ends_is_not_kept():
    joiner = Joiner()
    joiner.add(Record("{"), 1)
    for line in range(2, 5):
        joiner.add(Record("x" * (LIMIT // 2)), line)
    assert sum(map(len, joiner._json)) <= LIMIT


def test_starts_without_end_are_read_up_to_a_limit(monkeypatch):
    monkeypatch.setattr(lines, "MAX_STARTS", 3)
    line = (
        "(EngineCore pid={}) INFO 07-16 19:47:26 [core.py:93] Initializing a V1 LLM engine "
        "(v0.12.0) with config: model='m'\n"
    )
    runs, report = read("".join(map(line.format, range(1, 10))))
    assert len(runs) == 4
    assert "more than 3 start-ups" in report.problems[0]
