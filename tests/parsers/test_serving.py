"""What a server does first after ready, and which graphs its steps run in, from a log."""

from __future__ import annotations

import pytest

from tests.helpers import events, folded, read, summary_of
from warmup_insights.model.figures import BY_NAME

K8S = "2026-07-16T19:47:{:02d}.000000000Z stdout F "
READY = "(APIServer pid=1) INFO:     Application startup complete.\n"
ROUTES = (
    "(APIServer pid=1) INFO 07-16 19:47:00 [launcher.py:29] Available routes are:\n"
)
CONFIG = "(APIServer pid=1) INFO 07-16 19:40:00 [api_server.py:1] vLLM API server version 0.20.0\n"
HEALTH = '(APIServer pid=1) INFO:     10.0.0.1:1 - "GET /health HTTP/1.1" 200 OK\n'
TOKENS = (
    "(APIServer pid=1) INFO 07-16 19:47:{:02d} [loggers.py:250] Engine 000: Avg prompt "
    "throughput: {} tokens/s, Avg generation throughput: {} tokens/s, Running: 1 reqs, "
    "Waiting: 0 reqs, GPU KV cache usage: 0.1%, Prefix cache hit rate: 0.0%\n"
)


def post(path: str = "/v1/chat/completions", status: str = "200 OK") -> str:
    return f'(APIServer pid=1) INFO:     10.0.0.1:1 - "POST {path} HTTP/1.1" {status}\n'


def serving(text: str):
    runs, report = read(text.encode(), "a.log")
    (run,) = runs.values()
    assert report.unknown == 0
    return folded(run).summary.serving


def figure(text: str, name: str) -> float | None:
    runs, _ = read(text.encode(), "a.log")
    (run,) = runs.values()
    return BY_NAME[name].read(folded(run).summary)


def stamped(*lines: tuple[int, str]) -> str:
    return "".join(K8S.format(second) + line for second, line in lines)


def test_the_first_response_to_a_request_for_inference_counts():
    text = stamped(
        (0, READY), (1, HEALTH), (2, post(status="404 Not Found")), (3, post("/tokenize")),
        (4, post("/v1/load_lora_adapter")), (5, post()), (9, post()),
    )  # fmt: skip
    assert figure(text, "first_response_s") == 5.0
    assert figure(text, "first_tokens_s") is None
    assert figure(text, "first_request_s") is None


@pytest.mark.parametrize(
    "path",
    ["/v1/completions", "/v1/embeddings?x=1", "/generate", "/openai/v1/responses"],
)
def test_every_way_of_asking_counts(path):
    assert figure(stamped((0, READY), (7, post(path))), "first_response_s") == 7.0


def test_an_access_line_without_a_stamp_gives_no_time():
    assert figure(CONFIG + ROUTES + READY + post(), "first_response_s") is None


def test_statistics_give_the_first_tokens():
    text = (
        CONFIG + ROUTES + READY + TOKENS.format(10, 0.0, 0.0) + TOKENS.format(20, 9.1, 0.0)
        + TOKENS.format(40, 0.0, 2.5) + TOKENS.format(50, 0.0, 7.5)
    )  # fmt: skip
    assert figure(text, "first_tokens_s") == 40.0


def test_the_time_of_the_first_request_is_that_between_its_own_lines():
    def arrived(second: int, name: str) -> str:
        return (
            f"(APIServer pid=1) INFO 07-16 19:47:{second:02d} [logger.py:49] Received "
            f"request {name}: params: SamplingParams(n=1), lora_request: None.\n"
        )

    def done(second: int, name: str, how: str = "") -> str:
        return (
            f"(APIServer pid=1) INFO 07-16 19:47:{second:02d} [logger.py:80] Generated "
            f"response {name}{how}: output: 'Hi', finish_reason: stop\n"
        )

    text = (
        CONFIG + ROUTES + READY + arrived(3, "a") + arrived(4, "b") + post()
        + done(9, "b", " (streaming delta)") + done(37, "b", " (streaming complete)")
        + done(38, "a")
    )  # fmt: skip
    assert figure(text, "first_request_s") == 33.0


def test_a_late_first_request_is_none_of_the_start():
    idle = "".join(K8S.format(1) + HEALTH for _ in range(2100))
    text = stamped((0, READY)) + idle + stamped((9, post()))
    assert figure(text, "first_response_s") is None


def test_lines_before_ready_and_of_other_programs_count_for_nothing():
    runs, _ = read(stamped((0, post()), (1, post())).encode(), "a.log")
    assert runs == {}
    found = serving(stamped((0, CONFIG), (1, post()), (2, READY)))
    assert found is not None
    assert found.first_response_s is None


def test_compilations_while_serving_have_a_place_after_ready():
    late = (
        "(EngineCore pid=2) WARNING 07-16 19:47:12 [jit_monitor.py:140] Triton kernel JIT "
        "compilation during inference: _fwd_kernel (runtime_shapes={'x': 64}). This causes "
        "a latency spike; consider extending warmup to cover this shape/config.\n"
    )
    found = serving(CONFIG + ROUTES + READY + late)
    assert found is not None
    (row,) = found.jit
    assert (row.kernel, row.after_ready_s) == ("_fwd_kernel", 12.0)
    assert row.detail == "runtime_shapes={'x': 64}"


def test_tables_of_graph_use_add_up():
    head = "(APIServer pid=1) INFO 07-16 19:47:{:02d} [cuda_graph.py:123] "
    table = (
        "**CUDAGraph Config Settings:**", "", "- Mode: FULL_AND_PIECEWISE",
        "- Capture sizes: [1, 2, 4, 8]", "", "**CUDAGraph Stats:**", "",
        "| Unpadded Tokens | Padded Tokens | Num Paddings | Runtime Mode | Count |",
        "|-----------------|---------------|--------------|--------------|-------|",
        "| 6               | 8             | 2            | FULL         | 30    |",
        "| 415             | 415           | 0            | NONE         | 10    |", "",
    )  # fmt: skip
    text = CONFIG + ROUTES + READY
    text += "".join(head.format(s) + line + "\n" for s in (10, 20) for line in table)
    found = serving(text)
    assert found is not None
    assert [(u.num_tokens, u.padded_tokens, u.mode, u.count) for u in found.graph_uses] == [
        (6, 8, "FULL", 60), (415, 415, "NONE", 20),
    ]  # fmt: skip
    assert figure(text, "graph_steps_percent") == 75.0
    assert figure(text, "graph_padding_percent") == 25.0


def test_a_table_of_another_program_counts_for_nothing():
    row = "| 6               | 8             | 2            | FULL         | 30    |\n"
    found = serving(CONFIG + ROUTES + READY + row)
    assert found is not None
    assert found.graph_uses == []


def test_a_log_that_begins_while_the_engine_serves_has_no_start():
    line = (
        "INFO 07-16 10:0{}:04 [loggers.py:122] Engine 000: Avg prompt throughput: 0.0 "
        "tokens/s, Avg generation throughput: 703.2 tokens/s, Running: 12 reqs, Waiting: 0 "
        "reqs, GPU KV cache usage: 28.2%, Prefix cache hit rate: 6.1%\n"
    )
    text = "".join(line.format(minute) for minute in range(4)) + (
        "INFO 07-16 10:04:54 [launcher.py:80] Shutting down FastAPI HTTP server.\n"
    )
    summary = summary_of(events(text))
    assert summary["status"] == "finished"
    assert (summary["time"]["wall_s"], summary["time"]["ready_at"]) == (None, None)
    assert summary["time"]["gaps"] == []
    assert summary["serving"]["end"]["kind"] == "shutdown"


def test_a_log_that_begins_while_the_server_answers_shows_no_start():
    """As `kubectl logs --tail` gives it: what follows is none of a start-up."""
    head = "(APIServer pid=1) INFO 06-03 07:0"
    found = read(
        f"{head}9:24 [launcher.py:46] Route: /tokenize, Methods: POST\n"
        f'{head}9:25 [logger.py:1] Received request cmpl-1-0: prompt: "x"\n'
        f"{head}9:35 [loggers.py:123] Engine 000: Avg prompt throughput: 1.0 tokens/s, "
        "Avg generation throughput: 1.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, "
        "GPU KV cache usage: 1.0%, Prefix cache hit rate: 0.0%\n"
        "(EngineCore pid=2) ERROR 06-03 07:09:44 [core.py:9] EngineCore encountered a "
        "fatal error.\n"
        "(EngineCore pid=2) ERROR 06-03 07:09:44 [core.py:9] RuntimeError: it broke\n"
    )[0]
    summary = summary_of(found[0])
    assert (summary["status"], summary["failure"]) == ("finished", None)
    assert summary["serving"]["end"]["message"] == "RuntimeError: it broke"
    assert summary["time"]["wall_s"] is None


def test_how_long_it_served_is_unknown_where_no_line_states_an_end():
    """Statistics go on for as long as it serves; only the first is an event."""
    text = CONFIG + ROUTES + READY + TOKENS.format(10, "5.0", "1.0")
    text += TOKENS.format(59, "5.0", "1.0")
    found = serving(text)
    assert (found.first_tokens_s, found.duration_s, found.end) == (10.0, None, None)


def test_an_engine_that_slept_was_made():
    """Lines of an engine that serves, without those of its start."""
    head = "(EngineCore_DP0 pid=5) INFO 11-25 03:26:"
    lines = [
        f"{head}13 [abstract.py:306] It took 0.052879 seconds to fall asleep.",
        f"{head}13 [abstract.py:324] It took 0.067806 seconds to wake up tags ['weights'].",
        f"{head}13 [gpu_model_runner.py:3436] Reloading weights inplace...",
        f"{head}14 [default_loader.py:308] Loading weights took 0.23 seconds",
    ]
    summary = folded(events("\n".join(lines) + "\n")).summary
    assert (summary.status, summary.time.phases) == ("finished", [])
