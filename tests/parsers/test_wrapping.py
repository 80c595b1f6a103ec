"""A copy of a terminal has rows instead of lines: they are read as the lines they were."""

from __future__ import annotations

import pytest

from parsers.engine.wrapping import (
    Width,
    cut_at,
    is_escaped,
    margin_of,
    unwrapped,
    width_of,
    with_colours,
    without_margin,
)
from tests.helpers import ROOT, events, folded, of, read, summary_of
from warmup_insights.model.events import ConfigRecorded, Failure

LOG = """\
(APIServer pid=1) INFO 06-07 13:18:43 [api_utils.py:345] vLLM API server version 0.26.0
(APIServer pid=1) INFO 06-07 13:18:43 [utils.py:233] non-default args: {'model_tag': \
'google/gemma-4-26B-A4B-it', 'host': '0.0.0.0', 'max_model_len': 8192}
(APIServer pid=1) WARNING 06-07 13:18:49 [cuda.py:233] Forcing --disable_chunked_mm_input for \
models with multimodal-bidirectional attention.
(APIServer pid=1) Traceback (most recent call last):
(APIServer pid=1)   File "/usr/local/lib/python3.12/dist-packages/vllm/entrypoints/cli/main.py", \
line 73, in main
(APIServer pid=1)     args.dispatch_function(args)
(APIServer pid=1)     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
(APIServer pid=1)   File "/usr/local/lib/python3.12/dist-packages/vllm/entrypoints/api_server.py", \
line 99, in main
(APIServer pid=1)     raise ValueError(
(APIServer pid=1) ValueError: Chunked MM input disabled but max_tokens_per_mm_item (2496) is \
larger than max_num_batched_tokens (2048). Please increase max_num_batched_tokens.
"""
LAST = "max_num_batched_tokens (2048). Please increase max_num_batched_tokens."


def rows(text: str, width: int, *, stripped: bool) -> str:
    cut = [
        line[start : start + width].rstrip(" " if stripped else "")
        for line in text.splitlines()
        for start in range(0, len(line), width)
    ]
    return "".join(f"{row}\n" for row in cut)


@pytest.mark.parametrize("width", [80, 90, 100, 120])
@pytest.mark.parametrize("stripped", [False, True])
def test_a_failure_in_rows_has_its_cause_and_settings(width, stripped):
    runs, report = read(rows(LOG, width, stripped=stripped))
    (failure,) = of(Failure, runs[0])
    assert failure.message.startswith("ValueError: Chunked MM input")
    assert failure.message.endswith(LAST)
    settings = [event.settings for event in of(ConfigRecorded, runs[0])]
    assert any(found.get("max_model_len") == 8192 for found in settings)
    assert report.lines == rows(LOG, width, stripped=stripped).count("\n")


TAIL = """\
(EngineCore pid=316)   File "/opt/venv/lib/python3.12/site-packages/vllm/v1/engine/core.py", line \
305, in _initialize_kv_caches
(EngineCore pid=316)     kv_cache_configs = get_kv_cache_configs(
(EngineCore pid=316)   File "/opt/venv/lib/python3.12/site-packages/vllm/v1/core/kv_cache_utils.py", \
line 758, in _check_enough_kv_cache_memory
(EngineCore pid=316)     raise ValueError(
(EngineCore pid=316) ValueError: To serve at least one request with the model's max seq len \
(90000), (4.26 GiB KV cache is needed, which is larger than the available KV cache memory \
(4.25 GiB). Based on the available memory, the estimated maximum model length is 88192.
"""


@pytest.mark.parametrize("width", [90, 119])
def test_the_end_of_a_traceback_in_rows_has_its_cause(width):
    (failure,) = of(Failure, read(rows(TAIL, width, stripped=False))[0][0])
    assert (failure.failure, failure.max_model_len) == ("no_kv_cache", 90_000)


def test_the_number_of_a_line_is_that_of_its_first_row():
    text = rows(LOG, 100, stripped=False)
    (failure,) = of(Failure, read(text)[0][0])
    begun = [n for n, row in enumerate(text.splitlines(), 1) if "ValueError: " in row]
    assert failure.line == begun[0]


def test_whole_lines_are_left_alone():
    assert width_of(LOG) is None


def test_text_of_a_page_around_the_rows_is_longer_than_they_are():
    prose = "The server does not start when `--max-model-len` is set, see the log. " * 9
    page = f"{prose}\n\n```\n{rows(LOG, 100, stripped=False)}```\n\n{prose}\nThanks!\n"
    runs, _ = read(page)
    (failure,) = of(Failure, runs[0])
    assert failure.message.endswith(LAST)
    whole = b"".join(unwrapped([page.encode()], Width(100))).decode()
    assert f"\n{prose}\nThanks!\n" in whole


@pytest.mark.parametrize("size", [1, 7, 400])
def test_rows_are_joined_across_blocks(size):
    text = rows(LOG, 100, stripped=False)
    lines = text.splitlines(keepends=True)
    blocks = ["".join(lines[n : n + size]).encode() for n in range(0, len(lines), size)]
    whole = b"".join(unwrapped(blocks, Width(100))).decode()
    assert [line for line in whole.splitlines() if line] == LOG.splitlines()
    assert whole.count("\n") == text.count("\n")


@pytest.mark.parametrize("indent", ["    ", "\t", " ", "> ", ">"])
def test_a_quotation_is_read_like_what_it_quotes(indent):
    bare = read(LOG)[0]
    quoted = "".join(f"{indent}{line}" for line in LOG.splitlines(keepends=True))
    assert read(f"\n{quoted}\n\n")[0] != []
    assert read(quoted)[0] == bare


@pytest.mark.parametrize("form", ["{:6}\t{}", "{}:{}"])
def test_numbers_of_lines_are_none_of_the_log(form):
    numbered = "".join(
        form.format(number, line)
        for number, line in enumerate(LOG.splitlines(keepends=True), 7)
    )
    assert read(numbered)[0] == read(LOG)[0]


def test_times_and_counts_in_front_of_lines_are_no_numbers_of_lines():
    assert margin_of("12:00:01 a\n13:00:02 b\n14:00:03 c\n") is None
    assert margin_of("1: a\n2: b\n3: c\n") is None
    assert margin_of("1:a\n3:b\n2:c\n") is None
    assert margin_of("1:a\n2:b\n") is None


def test_a_log_whose_first_lines_alone_are_indented_stays_as_it_is():
    assert margin_of("    at first\nINFO 06-07 13:18:43 then not\n") is None


def test_rows_of_a_page_that_counts_the_characters_of_colours_are_shorter():
    core = "[1;36m(EngineCore_0 pid=1257)[0;0m "
    ray = "[36m(RayWorkerWrapper pid=1384)[0m "
    cached = "Directly load the compiled graph(s) for dynamic shape from the cache, took {} s"
    text = "".join(
        (
            core
            + "INFO 09-03 04:36:47 [core.py:74] Initializing a V1 LLM engine (v0.10.1.1) "
            "with config: model='a/b', speculative_config=None, tokenizer='a/b'\n",
            core
            + ray
            + "INFO 09-03 04:41:47 [default_loader.py:262] Loading weights took "
            "194.90 seconds\n",
            core + f"INFO 09-03 04:42:32 [backends.py:161] {cached.format(10.729)}\n",
            core + f"INFO 09-03 04:42:33 [backends.py:161] {cached.format(11.766)}\n",
        )
    )
    shown = rows(text, 119, stripped=False)
    for code in ("[1;36m", "[0;0m", "[36m", "[0m"):
        shown = shown.replace(code, "")
    assert width_of(shown) == Width(119, with_colours)
    whole = b"".join(unwrapped([shown.encode()], Width(119, with_colours)))
    assert cached.format(10.729) in whole.decode()


def test_dots_of_a_person_are_no_part_of_the_line_above():
    """Three starts whose settings are as long state them in lines of one length."""
    rows = [
        f"(APIServer pid={n}) INFO 07-16 10:00:0{n} [utils.py:233] non-default args: "
        f"{{'model': 'a/b', 'max_model_len': {n}192}}"
        for n in range(1, 4)
    ]
    lines = "\n...\n".join([*rows, ""]).removesuffix("\n")
    assert width_of(lines) is None


CUT = (
    "(APIServer pid=1) INFO 06-07 13:18:43 [api_utils.py:345] vLLM API server version 0.26.0",
    "(APIServer pid=1) INFO 06-07 13:18:43 [utils.py:233] non-default args: {'model': "
    "'google/gemma-4-26B-A4B-it', 'max_model_len': 8192}",
    "(EngineCore pid=7) INFO 06-07 13:18:45 [core.py:116] Initializing a V1 LLM engine "
    "(v0.26.0) with config: model='google/gemma-4-26B-A4B-it', device_config=cuda",
    "(EngineCore pid=7) INFO 06-07 13:18:55 [gpu_model_runner.py:5250] Model loading took "
    "48.5 GiB memory and 455.900544 seconds",
    "(EngineCore pid=7) INFO 06-07 13:19:05 [kv_cache_utils.py:2235] GPU KV cache size: "
    "1,234,567 tokens",
    "(EngineCore pid=7) INFO 06-07 13:19:15 [gpu_model_runner.py:6094] Graph capturing finished "
    "in 45 secs, took 0.03 GiB",
    "(EngineCore pid=7) INFO 06-07 13:19:15 [core.py:298] init engine (profile, create kv "
    "cache, warmup model) took 125.81 s (compilation: 7.53 s)",
)


@pytest.mark.parametrize("length", range(84, 130))
def test_parts_of_words_in_lines_that_were_cut_state_nothing(length):
    """As of a window that does not wrap, or `cut -c`."""
    whole = _figures("\n".join(CUT))
    cut = _figures("\n".join(line[:length] for line in CUT))
    assert {name: value for name, value in cut.items() if value is not None} == {
        name: whole[name] for name, value in cut.items() if value is not None
    }


def _figures(text: str) -> dict[str, object]:
    (found,) = read(text)[0].values()
    summary = folded(found).summary
    memory, graphs = summary.memory_or_none, summary.graphs
    return {
        "model": summary.model, "version": summary.engine.version,
        "length": summary.setting("max_model_len"),
        "weights": memory.weights_bytes, "tokens": memory.kv_cache_tokens,
        "graphs": graphs and graphs.memory_bytes, "capture": graphs and graphs.duration_s,
        "init": summary.time.engine_init_s,
    }  # fmt: skip


def test_lines_of_one_length_that_differ_in_numbers_alone_are_whole():
    line = "(Worker_TP{0} pid=2{0}) INFO 06-07 13:19:15 [custom_all_reduce.py:216] Registering 24{0} addresses"
    assert cut_at("\n".join(line.format(n) for n in range(8))) is None


@pytest.mark.parametrize("quote", ["&#x27;", "&#39;"])
def test_characters_that_a_page_writes_as_entities_are_read(quote):
    whole = "\n".join(CUT).replace(
        "device_config=cuda", "mode=<Mode.FULL: (2, 1)>, a='b&c'"
    )
    page = whole
    for character, entity in (
        ("&", "&amp;"), ("'", quote), ("/", "&#x2F;"), ("<", "&lt;"), (">", "&gt;"),
    ):  # fmt: skip
        page = page.replace(character, entity)
    runs, report = read(page)
    assert _figures(page) == _figures(whole)
    found, expected = (
        of(ConfigRecorded, events[0]) for events in (runs, read(whole)[0])
    )
    assert [event.settings for event in found] == [event.settings for event in expected]
    assert report.lines == len(CUT)


@pytest.mark.parametrize("text", ["'a &amp; b'", "'a &lt; b'", "'a&#39;s'", "<b> &lt;"])
def test_an_entity_in_a_prompt_that_a_log_prints_is_as_it_is(text):
    lines = (
        "INFO 06-07 13:19:58 [core.py:1] mode=<CUDAGraphMode.FULL: (2, 1)>",
        f"INFO 06-07 13:20:00 [logger.py:39] Received request cmpl-1: prompt: {text}, "
        "params: SamplingParams(n=1), lora_request='a'",
    )
    assert not is_escaped("\n".join((*CUT, *lines)).encode())


def test_numbers_that_skip_show_lines_that_were_left_out():
    """As by `grep -n`: what was printed between the lines that are there is unknown."""
    head = "(EngineCore pid=7) INFO 06-07 13:1{}:15 [{}] {}\n"
    lines = [
        head.format(3, "core.py:116", "Initializing a V1 LLM engine (v0.26.0) with config: "
                    "model='a/b', device_config=cuda"),
        head.format(5, "gpu_model_runner.py:5250", "Model loading took 48.5 GiB memory and "
                    "81.455900 seconds"),
        head.format(6, "kv_cache_utils.py:2235", "GPU KV cache size: 1,234,567 tokens"),
        head.format(7, "gpu_model_runner.py:6094", "Graph capturing finished in 45 secs, took "
                    "0.03 GiB"),
    ]  # fmt: skip

    def facts(numbers):
        text = "".join(f"{n}:{line}" for n, line in zip(numbers, lines, strict=True))
        runs, report = read(text)
        assert report.lines == len(lines)
        summary = summary_of(runs[0])
        found = {phase["name"] for phase in summary["time"]["phases"]}
        return found, any(note["topic"] == "elided" for note in summary["notes"])

    (whole, _), (picked, is_cut) = facts((1, 2, 3, 4)), facts((4, 31, 62, 90))
    assert whole - picked == {"start_engine", "profile_run"}
    assert {"load_model", "graph_capture"} <= picked
    assert is_cut


def test_numbers_before_lines_with_an_indent_show_nothing_left_out():
    """Below the first block, which shows that lines have numbers."""
    margin = margin_of("1:a\n2:b\n3:c\n")
    block = b'4:d\n5:  File "x.py"\n6:12:00:01 e\n8:f\n'
    assert b"".join(without_margin([block], margin)) == (
        b'd\n  File "x.py"\n12:00:01 e\n...\rf\n'
    )


def test_a_line_cut_behind_a_word_does_not_end_there():
    """The budget of vllm-gaudi goes on where that of the fork ends."""
    head = "(EngineCore pid=7) INFO 05-12 09:00:0{} [hpu_worker.py:{}] "
    budget = (
        "Free device memory: 70 GiB, 63 GiB usable (gpu_memory_utilization=0.9), 6.3 GiB "
        "reserved for HPUGraphs (VLLM_GRAPH_RESERVED_MEM=0.1), 14 MiB reserved for KV cache "
        "dummy block 56 GiB reserved for usable KV cache"
    )
    begun = (
        head.format(0, 9)
        + "Initializing a V1 LLM engine (v0.26.0) with config: model='m'\n"
    )
    others = [
        f"Environment: {'a b c ' * 40}", f"Loading the model from a folder {'d e f ' * 40}",
        f"Features that are used here: {'g h i ' * 40}", f"User flags, as set: {'k l ' * 60}",
    ]  # fmt: skip
    lines = [head.format(n, n) + text for n, text in enumerate([*others, budget])]
    width = len(lines[-1].split("dummy")[0]) + 2
    cut = begun + "".join(line[:width] + "\n" for line in lines)
    memory = folded(events(cut)).summary.memory
    assert memory is None or memory.kv_cache_bytes is None


@pytest.mark.parametrize("mark", ["", ">", "…", "..."])
def test_a_number_is_not_read_to_the_edge_of_a_window(mark):
    """`less -S` ends a line that it cut with a mark."""
    lines = LOG.splitlines()
    width = lines[1].index("8192") + 2
    shown = [x[: width - len(mark)] + mark if len(x) >= width else x for x in lines]
    found = of(ConfigRecorded, read("\n".join(shown))[0][0])
    assert not any("max_model_len" in event.settings for event in found)


@pytest.mark.parametrize("width", [63, 76, 80, 84, 120])
def test_words_that_were_cut_are_no_models_and_no_settings(width):
    log = (ROOT / "sample_logs/vllm-gaudi/made_skip_warmup.log").read_text()
    cut = "".join(f"{line[:width]}\n" for line in log.splitlines())
    (found,) = read(cut)[0].values()
    summary = folded(found).summary
    dots = "\N{HORIZONTAL ELLIPSIS}"
    assert dots not in [summary.model, *summary.config.values()]


def test_rows_that_stand_twice_show_no_width():
    log = (ROOT / "sample_logs/vllm-hpu-plugin/made_2025_06.log").read_text()
    assert width_of(log) is None
    assert width_of(log * 3) is None
