"""Time: years that are not printed, zones that are not known, collectors' clocks."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from parsers.engine.stamps import Clock, full_stamp, outer_stamp, year_in, zone_of
from tests.helpers import ROOT, events, of, read
from warmup_insights.errors import SettingError
from warmup_insights.model.events import (
    CaptureProgress,
    GapSeen,
    MemoryMeasured,
    PhaseMarked,
    RunStarted,
)


def utc(*parts: int) -> float:
    return datetime(*parts, tzinfo=timezone.utc).timestamp()


def test_year_is_the_one_before_the_file_was_written():
    assert Clock(not_after=utc(2026, 3, 1)).seconds("02-28 10:00:00") == utc(
        2026, 2, 28, 10
    )
    assert Clock(not_after=utc(2026, 3, 1)).seconds("12-31 10:00:00") == utc(
        2025, 12, 31, 10
    )


def test_given_year_wins():
    clock = Clock(year=2024, not_after=utc(2026, 3, 1))
    assert clock.seconds("08-02 17:37:44") == utc(2024, 8, 2, 17, 37, 44)


def test_new_year_inside_a_log():
    clock = Clock(year=2025)
    assert clock.seconds("12-31 23:59:59") == utc(2025, 12, 31, 23, 59, 59)
    assert clock.seconds("01-01 00:00:01") == utc(2026, 1, 1, 0, 0, 1)
    assert clock.seconds("12-31 23:59:59") == utc(2025, 12, 31, 23, 59, 59)
    assert clock.seconds("01-01 00:00:02") == utc(2026, 1, 1, 0, 0, 2)


def test_start_across_new_year_has_the_right_length():
    path = ROOT / "sample_logs" / "vllm" / "made_two_starts_new_year.log"
    runs, _ = read(path.read_bytes(), year=2025)
    first = [e.time for e in runs[0] if e.time is not None]
    assert max(first) - min(first) == 32.0


def test_leap_day_takes_a_leap_year():
    clock = Clock(not_after=utc(2026, 3, 1))
    assert clock.seconds("02-29 10:00:00") == utc(2024, 2, 29, 10)


def test_impossible_stamp_is_unknown():
    assert Clock(year=2026).seconds("13-45 10:00:00") is None


def test_zone_of_names_and_offsets():
    clock = Clock(year=2026, zone=zone_of("Europe/Berlin"))
    assert clock.seconds("07-01 12:00:00") == utc(2026, 7, 1, 10)
    assert Clock(year=2026, zone=zone_of("-05:30")).seconds("07-01 12:00:00") == utc(
        2026, 7, 1, 17, 30
    )


def test_unknown_zone_gets_a_sentence():
    with pytest.raises(SettingError, match="Nowhere/Land"):
        zone_of("Nowhere/Land")


def test_unknown_zone_is_said_so():
    line = "INFO 07-01 12:00:00 [x.py:1] Model loading took 2.0 GiB and 1.0 seconds\n"
    assert of(RunStarted, events(line))[0].timezone is None
    known = events(line, timezone="Europe/Berlin")
    assert of(RunStarted, known)[0].timezone == "Europe/Berlin"
    assert of(MemoryMeasured, known)[0].time == utc(2026, 7, 1, 10)


@pytest.mark.parametrize(
    "line",
    [
        "2026-07-01T10:00:00.5Z {}",
        '{{"timestamp": "2026-07-01T12:00:00+02:00", "textPayload": "{}"}}',
        '{{"timestamp": "2026-07-01T10:00:00Z", "level": "INFO", "message": "{}"}}',
    ],
)
def test_a_shipper_that_states_its_zone_states_that_of_the_log(line):
    text = line.format("Model loading took 2.0 GiB and 1.0 seconds") + "\n"
    assert of(RunStarted, events(text))[0].timezone == "UTC"
    known = events(text, timezone="Europe/Berlin")
    assert of(RunStarted, known)[0].timezone == "Europe/Berlin"


def test_collector_with_a_zone_is_the_better_clock():
    line = (
        "2026-05-01T21:13:17.500000000Z stdout F INFO 05-01 23:13:17 [x.py:1] Model "
        "loading took 2.0 GiB and 1.0 seconds\n"
    )
    assert of(MemoryMeasured, events(line))[0].time == utc(2026, 5, 1, 21, 13, 17) + 0.5


def test_viewer_in_local_time_is_shifted_to_the_engine():
    """The viewer shows UTC+2 around stamps in UTC; bars have only the viewer's time."""
    lines = (
        "2026-05-01 23:13:17.078 | INFO 05-01 21:13:17 [x.py:1] Loading weights took 4.12 "
        "seconds\n"
        "2026-05-01 23:13:20.078 | [Warmup][Prompt][1/2] batch_size:1 query_len:128 "
        "num_blocks:0 free_mem:9 GiB\n"
    )
    step = next(e for e in events(lines) if type(e).__name__ == "WarmupStep")
    assert step.time == pytest.approx(utc(2026, 5, 1, 21, 13, 20) + 0.078)


def test_other_loggers_stamp_is_not_a_collectors():
    assert outer_stamp("2026-07-16 20:03:57,095 - INFO - autotuner.py:651 - x") is None


@pytest.mark.parametrize(
    "text", ["2026-01-21 08:28:33,853", "2026-01-21T08:28:33.853Z", "1768984113.853",
             "1768984113853", "1768984113853000000"],
)  # fmt: skip
def test_stamps_of_json_logs(text):
    found = full_stamp(text)
    assert found is not None
    assert found.seconds == pytest.approx(utc(2026, 1, 21, 8, 28, 33) + 0.853)


@pytest.mark.parametrize(
    "text", ["1768984113.853", "1768984113853", "1.768984113853e+18"]
)
def test_numbers_of_json_logs_that_are_epochs_are_stamps(text):
    found = full_stamp(text)
    assert found is not None
    assert found.seconds == pytest.approx(utc(2026, 1, 21, 8, 28, 33) + 0.853)


@pytest.mark.parametrize(
    "text", ["17689e5", "1768_984_113", "123456789", "6530112364123456", "0x696f8a31",
             "-1768984113", "17e8", "inf", "9" * 400, "1.7e+9000"],
)  # fmt: skip
def test_other_numbers_are_none(text):
    """In hexadecimal, since the machine was started, or of anything."""
    assert full_stamp(text) is None
    line = f'{{"timestamp": "{text}", "level": "INFO", "message": "{MESSAGE}"}}\n'
    assert started(line).time is None


MESSAGE = "Model loading took 2.0 GiB and 1.0 seconds"


def test_gap_names_the_two_lines_that_bound_it():
    lines = (
        "INFO 07-01 12:00:00 [x.py:1] Starting to load model a\n"
        "INFO 07-01 12:00:01 [x.py:1] something else\n"
        "INFO 07-01 12:01:01 [x.py:1] and again\n"
    )
    (gap,) = of(GapSeen, events(lines))
    assert (gap.line, gap.next_line, gap.duration_s) == (2, 3, 60.0)
    assert (gap.before, gap.after) == ("something else", "and again")


def test_gaps_stand_before_a_bar_without_a_time():
    lines = (
        "INFO 07-01 12:00:00 [x.py:1] Starting to load model a\n"
        "INFO 07-01 12:00:01 [x.py:1] something else\n"
        "INFO 07-01 12:01:01 [x.py:1] and again\n"
        "Loading safetensors checkpoint shards: 100% Completed | 2/2 [00:20<00:00, 10.0s/it]\n"
        "INFO 07-01 12:01:31 [x.py:1] Using default LoRA kernel configs\n"
    )
    found = [e for e in events(lines) if isinstance(e, GapSeen) or e.line == 4]
    assert [(type(e), e.line) for e in found] == [
        (GapSeen, 2), (PhaseMarked, 4), (GapSeen, 3)
    ]  # fmt: skip


NATIVE = (
    "[rank0]:[W701 12:{} ProcessGroupX.cpp:12] Warning: something slow",
    "(EngineCore pid=7) [W701 12:{}345 socket.cpp:752] [c10d] not bound",
    "I0701 12:{} 1234 engine.cpp:12] slept",
    "W20260701 12:{} 1234 lib/engine.cc:12] slept",
    "(EngineCore pid=7) I0701 12:{} 399 torch/_dynamo/utils.py:845] traced",
)
AROUND = (
    "(EngineCore pid=7) INFO 07-01 12:00:00 [x.py:1] Starting to load model a\n"
    "{}\n{}\n(EngineCore pid=7) INFO 07-01 12:05:00 [x.py:1] and again\n"
)


@pytest.mark.parametrize("line", NATIVE)
def test_lines_of_libraries_in_the_zone_of_the_engine_have_a_time(line):
    text = AROUND.format(line.format("00:01.500000"), line.format("03:00.250000"))
    gaps = of(GapSeen, events(text))
    assert [(gap.line, gap.duration_s) for gap in gaps] == [(2, 179.0), (3, 120.0)]


@pytest.mark.parametrize("line", NATIVE)
def test_lines_of_libraries_in_another_zone_have_none(line):
    other = line.replace("12:{}", "13:{}")
    text = AROUND.format(other.format("00:01.500000"), other.format("03:00.250000"))
    assert [(gap.line, gap.duration_s) for gap in of(GapSeen, events(text))] == [
        (1, 300)
    ]


def test_a_line_of_a_library_shows_its_zone_by_the_next_of_the_engine():
    clock = Clock(year=2026)
    line = "[W701 12:{} x.cpp:1] a"
    assert clock.native(line.format("00:00.000")) is None
    clock.time_of(None, "07-01 12:00:00")
    assert clock.native(line.format("02:30.000")) is None
    clock.time_of(None, "07-01 12:03:00")
    assert clock.native(line.format("10:00.250")) == utc(2026, 7, 1, 12, 10)
    assert clock.native("[W631 12:11:00.250 x.cpp:1] a") is None
    assert clock.native("W20250701 12:10:00.250000 7 x.cpp:1] a") is None
    assert clock.native("I0701 12:10:00.250000 1 main.go:1] a") is None


def test_a_stamp_of_glog_with_a_year_shows_that_of_the_log():
    other = "W20250821 09:51:17.123456 7 x.cpp:1] a\n"
    run = started(LINE + other, not_after=LATER)
    assert (year_of(run), run.year_from) == (2025, "log")


LINE = "INFO 08-21 09:51:16 [core.py:1] init engine (profile, create kv cache, warmup model) took 2.6 s\n"


def started(text: str, **options: object) -> RunStarted:
    return of(RunStarted, events(text, year=None, **options))[0]


def year_of(run: RunStarted) -> int:
    return datetime.fromtimestamp(run.time, timezone.utc).year


def test_the_year_follows_from_a_full_stamp_of_another_logger():
    other = "2025-08-21 09:51:16,919 - INFO - autotuner.py:651 - flashinfer.jit: x\n"
    run = started(LINE + other, not_after=LATER)
    assert (year_of(run), run.year_from) == (2025, "log")


@pytest.mark.parametrize(
    "date",
    ["Tue Apr 28 11:13:24 UTC 2026", "Tue Apr 28 11:13:24 AM CEST 2026",
     "Tue Apr 28 11:13:24 2026", "Mon Apr 27 23:13:24 EDT 2026"],
)  # fmt: skip
def test_the_year_follows_from_what_date_prints(date):
    line = "INFO 04-28 11:13:35 [utils.py:299] x"
    assert year_in(f"{date}: Starting vLLM\n{line}\n") == (2026, "log")


def test_colours_between_level_and_time_hide_no_year():
    line = "{}INFO{} 08-21 08:29:36 [core.py:112] Initializing a V1 LLM engine (v0.9.2) with config:"
    other = "2025-08-21 08:29:37,123 - a.b - INFO - connected"
    for colours in (("", ""), ("\x1b[32m", "\x1b[0m"), ("^[[32m", "^[[0m")):
        text = line.format(*colours) + f" model='a/b'\n{other}\n"
        assert events(text)[0].time == utc(2025, 8, 21, 8, 29, 36)


def test_a_full_stamp_of_another_day_shows_no_year():
    other = "created 2023-02-01 00:00:00\n"
    run = started(f"(EngineCore pid=7) {LINE}{other}", not_after=LATER)
    assert (year_of(run), run.year_from) == (2026, "file")


def test_a_log_is_not_older_than_the_build_of_the_engine():
    build = (
        "INFO 08-21 09:51:16 [core.py:1] Initializing a V1 LLM engine "
        "(v0.23.1rc1.dev1+gd08e.d20240901) with config: model='a/b'\n"
    )
    run = started(build, not_after=LATER)
    assert (year_of(run), run.year_from) == (2025, "build")


VERSION = "INFO {} 09:51:16 [core.py:1] Initializing a V1 LLM engine (v{}) with config: model='a/b'\n"


@pytest.mark.parametrize(
    ("day", "version", "year"),
    [
        ("08-16", "0.10.0", 2025),
        ("06-16", "0.10.2", 2026),
        ("06-19", "0.4.2", 2024),
        ("10-14", "0.11.1rc6.dev113+g0976711f3", 2025),
        ("01-04", "0.14.0rc1.dev5+gabc", 2026),
        ("02-13", "0.16.0", 2026),
        ("11-03", "0.33.0", 2026),
        ("11-03", "0.40.0", 2026),
    ],
)
def test_a_log_is_not_older_than_the_release_of_the_engine(day, version, year):
    run = started(VERSION.format(day, version), not_after=LATER)
    assert (year_of(run), run.year_from) == (year, "release")


@pytest.mark.parametrize(
    ("line", "year"),
    [
        ("ERROR 06-30 13:53:19 [core.py:515] EngineCore failed to start.", 2025),
        ("(VllmWorker rank=1 pid=7) ERROR 01-20 13:53:19 [x.py:5] no", 2026),
        ("ERROR 06-22 15:12:27 [engine.py:458] no", 2025),
        ("(EngineCore_DP0 pid=7) INFO 11-21 09:39:52 [backends.py:648] no", 2025),
        (
            "(EngineCore_0 pid=7) INFO 05-19 07:06:33 [gpu_model_runner.py:2721] no",
            2026,
        ),
        (
            "(VllmWorkerProcess pid=7) INFO 04-24 08:27:56 [model_runner.py:1456] no",
            2025,
        ),
        (
            "INFO 04-09 00:49:01 llm_engine.py:431] init engine (profile, create) took 3 s",
            2025,
        ),
        ("INFO 05-28 03:29:33 executor_base.py:110] # HPU blocks: 1974", 2025),
        ("INFO 10-16 05:10:11 selector.py:224] Cannot use FlashAttention-2", 2024),
        (
            "INFO 01-31 10:13:08 __init__.py:183] Automatically detected platform cuda.",
            2025,
        ),
    ],
)
def test_a_log_without_a_version_is_as_old_as_the_form_of_its_lines(line, year):
    assert year_in(f"{line}\n") == (year, "release")


def test_a_version_that_collect_env_states_shows_the_year():
    text = (
        "Is debug build: False\nvLLM Version                 : 0.8.2.dev78+gf68\n"
        "INFO 03-31 10:13:08 [api_server.py:1] Started server process [1]\n"
    )
    assert year_in(text) == (2025, "release")


def test_the_name_of_a_dump_of_inputs_has_the_year():
    text = (
        "INFO 01-29 20:00:47 model_runner_base.py:120] Writing input of failed execution to "
        "/tmp/err_execute_model_input_20240129-200047.pkl...\n"
    )
    assert year_in(text) == (2024, "log")


@pytest.mark.parametrize(("day", "version"), [("01-10", "0.19.0"), ("06-01", "0.33.0")])
def test_a_log_is_not_younger_than_its_file(day, version):
    run = started(VERSION.format(day, version), not_after=LATER)
    assert (year_of(run), run.year_from) == (2026, "file")


def test_a_file_written_soon_after_its_first_line_shows_the_year():
    run = started(VERSION.format("11-18", "0.10.0"), not_after=LATER)
    assert (year_of(run), run.year_from) == (2026, "file")


def test_a_viewer_whose_clock_goes_back_gives_a_bare_line_no_time():
    found = events(
        "2026-03-02 19:00:03.078 | INFO 03-02 09:00:04 [core.py:116] Initializing a V1 LLM "
        "engine (v0.26.0) with config: model='a/b'\n"
        "2026-03-02 19:00:12.078 | INFO 03-02 09:00:37 [gpu_worker.py:415] Available KV cache "
        "memory: 62.1 GiB\n"
        "2026-03-02 11:05:00.100 | Capturing CUDA graphs (decode, FULL): 100%|##| 2/2 "
        "[00:01<00:00,  1.56it/s]\n"
    )
    assert {event.time for event in of(CaptureProgress, found)} == {None}


def test_a_year_that_was_given_is_no_guess():
    run = of(RunStarted, events(LINE, year=2024))[0]
    assert (year_of(run), run.year_from) == (2024, None)


LATER = datetime(2026, 11, 21, tzinfo=timezone.utc).timestamp()


def test_a_full_date_in_the_log_counts_more_than_the_year_given():
    text = (
        "2025-11-28T15:27:14.5Z starting\n"
        "INFO 11-28 15:27:15 [api_server.py:1839] vLLM API server version 0.11.2\n"
    )
    run = of(RunStarted, events(text, year=2026))[0]
    assert run.year_from == "log"
    assert datetime.fromtimestamp(run.time, timezone.utc).year == 2025


def test_a_guessed_year_is_marked_where_the_first_line_has_no_stamp():
    text = (
        "Loading safetensors checkpoint shards: 100% Completed | 2/2 [00:13<00:00,  6.5s/it]\n"
        "INFO 08-26 18:58:02 [default_loader.py:430] Loading weights took 13.26 seconds\n"
    )
    (started,) = of(RunStarted, events(text, year=None, not_after=utc(2026, 9, 1)))
    assert started.year_from == "file"


def test_a_fraction_of_a_second_is_kept_without_a_year_too():
    assert (
        Clock(year=2025).seconds("06-14 15:01:20.25")
        == utc(2025, 6, 14, 15, 1, 20) + 0.25
    )


def test_clock_of_a_logger_in_the_engine_is_the_engines_behind_a_shipper():
    lines = (
        "2026-06-03 14:00:01.120 | (EngineCore pid=41) INFO 06-03 12:00:01 "
        "[gpu_worker.py:440] Available KV cache memory: 7.5 GiB\n"
        "2026-06-03 14:00:04.902 | (EngineCore pid=41) 2026-06-03 12:00:04,901 - INFO - "
        "autotuner.py:457 - flashinfer.jit: [Autotuner]: Autotuning process starts ...\n"
    )
    (begun,) = of(PhaseMarked, events(lines))
    assert begun.name == "kernel_warmup"
    assert begun.time == utc(2026, 6, 3, 12, 0, 4) + 0.901
