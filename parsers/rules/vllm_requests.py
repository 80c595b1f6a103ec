"""The first requests that a server answers, later ones are not looked for; use of graphs.

Source: vLLM `compilation/cuda_graph.py`, `entrypoints/logger.py`, V0 `engine/async_llm_engine.py`; uvicorn
`protocols/http/h11_impl.py` prints its access line when a response begins, so that of a
stream comes before its first token.
"""

from __future__ import annotations

from parsers.base import LineRule, Sample
from parsers.engine.signals import RequestLine, ResponseLine
from warmup_insights.model.events import GraphUsed

_PATHS = (
    r"(?:chat/completions|completions|embeddings|responses|messages|score|rerank|classify|"
    r"pooling|audio/\w{1,20}|generate|invocations)"
)
_ID = r"(?P<request>[\w.-]{1,200})"

REQUEST_RULES: tuple[LineRule, ...] = (
    LineRule(
        "request_answered",
        '"POST /',
        r'[^"]{0,100}"POST /(?:[\w.-]{1,40}/){0,4}'
        + _PATHS
        + r'(?:\?[^" ]{0,500})? HTTP/[\d.]{1,3}" 2\d\d\b',
        ResponseLine,
        startup_only=True,
        samples=(
            Sample(
                '(APIServer pid=1) INFO:     10.0.0.1:48804 - "POST /v1/chat/completions '
                'HTTP/1.1" 200 OK',
                {},
            ),
            Sample('INFO:     127.0.0.1:35008 - "POST /generate HTTP/1.1" 200 OK', {}),
        ),
    ),
    LineRule(
        "request_arrived",
        "Received request ",
        rf"Received request {_ID}: ",
        RequestLine,
        startup_only=True,
        files=("logger.py", "async_llm_engine.py"),
        samples=(
            Sample(
                "(APIServer pid=90458) INFO 02-13 11:33:33 [logger.py:49] Received request "
                "chatcmpl-a269fdcb7c6ce890: params: SamplingParams(n=1), lora_request: None.",
                {"request": "chatcmpl-a269fdcb7c6ce890", "is_end": False},
            ),
        ),
    ),
    LineRule(
        "request_finished",
        ("Generated response ", "Finished request "),
        rf"(?:Finished request {_ID}\.$|Generated response (?P<request2>[\w.-]{{1,200}})"
        r"(?! \(streaming delta\))(?: \(streaming complete\))?: output)",
        build=lambda found: RequestLine(found["request"] or found["request2"], True),
        startup_only=True,
        files=("logger.py", "async_llm_engine.py", "async_llm.py"),
        samples=(
            Sample(
                "INFO 02-24 19:47:26 [async_llm_engine.py:179] Finished request cmpl-7-0.",
                {"request": "cmpl-7-0", "is_end": True},
            ),
            Sample(
                "(APIServer pid=1) INFO 07-16 19:47:28 [logger.py:80] Generated response "
                "chatcmpl-9 (streaming complete): output: 'Hi', finish_reason: stop",
                {"request": "chatcmpl-9", "is_end": True},
            ),
        ),
    ),
    LineRule(
        "graph_use",
        ("| FULL", "| PIECEWISE", "| NONE"),
        r"\| (?P<num_tokens>\d{1,9}) {1,20}\| (?P<padded_tokens>\d{1,9}) {1,20}\| \d{1,9} "
        r"{1,20}\| (?P<mode>FULL|PIECEWISE|NONE) {1,20}\| (?P<count>\d{1,12}) {1,20}\|",
        GraphUsed,
        files=("cuda_graph.py",),
        samples=(
            Sample(
                "(APIServer pid=66) INFO 09-02 08:46:23 [compilation/cuda_graph.py:123] "
                "| 127             | 128           | 1            | PIECEWISE    | 116   |",
                {
                    "num_tokens": 127,
                    "padded_tokens": 128,
                    "mode": "PIECEWISE",
                    "count": 116,
                },
            ),
        ),
    ),
    LineRule(
        "graph_use_heading",
        ("CUDAGraph ", "- Capture sizes: "),
        r"\*\*CUDAGraph (?:Config Settings|Stats):\*\*|- Capture sizes: \[",
        files=("cuda_graph.py",),
        samples=(
            Sample(
                "(APIServer pid=66) INFO 09-02 08:46:23 [compilation/cuda_graph.py:108] "
                "**CUDAGraph Config Settings:**"
            ),
            Sample(
                "(APIServer pid=66) INFO 09-02 08:46:23 [compilation/cuda_graph.py:108] "
                "- Capture sizes: [1, 2, 4]"
            ),
        ),
    ),
)
