"""Upstream vLLM: arguments, processes, loading, compilation.

Source: vLLM `entrypoints/`, `engine/llm_engine.py`, `v1/engine/core.py`,
`model_executor/model_loader/`, `compilation/backends.py`, `compilation/monitor.py`.
"""

from __future__ import annotations

import re

from parsers.base import LineRule, Made, Sample
from parsers.config_text import settings_of
from parsers.convert import text_of
from parsers.signals import RankNamed
from warmup_insights.model.events import (
    CompileFinished,
    ConfigRecorded,
    MemoryMeasured,
    Note,
    PhaseMarked,
)
from warmup_insights.units import GIB, MIB


def _arguments(match: re.Match[str]) -> list[Made]:
    settings = settings_of(match["rest"])
    model = settings.get("model") or settings.get("model_tag")
    model = model if isinstance(model, str) else None
    return [
        ConfigRecorded(settings=settings, model=model),
        PhaseMarked(name="configure", edge="start"),
    ]


def _engine(match: re.Match[str]) -> list[Made]:
    settings = settings_of(match["rest"])
    if "max_seq_len" in settings:
        settings["max_model_len"] = settings.pop("max_seq_len")
    model, device = settings.get("model"), settings.get("device_config")
    recorded = ConfigRecorded(
        settings=settings,
        version=match["version"],
        model=model if isinstance(model, str) else None,
        device_kind=device if device in ("hpu", "cuda", "cpu") else None,
    )
    return [recorded, PhaseMarked(name="start_engine", edge="start")]


def _banner(match: re.Match[str]) -> Made:
    return ConfigRecorded(version=match["version"])


def _rank(match: re.Match[str]) -> list[Made]:
    return [
        RankNamed(int(match["rank"]), int(match["world_size"])),
        PhaseMarked(name="distributed_init", edge="start"),
    ]


def _setting(key: str, kind: type[int] | type[str] | type[bool]) -> object:
    def build(match: re.Match[str]) -> Made:
        text = match["value"]
        return ConfigRecorded(settings={key: kind(text.replace(",", ""))})

    return build


def _weights_gb(match: re.Match[str]) -> Made:
    seconds = match["seconds"]
    scale = MIB if match["unit"] == "MiB" else GIB
    return MemoryMeasured(
        stage="weights",
        delta_bytes=round(float(match["size"]) * scale),
        duration_s=float(seconds) if seconds else None,
    )


def _marked(name: str, edge: str) -> dict[str, str]:
    return {"name": name, "edge": edge}


def _phase(
    rule: str,
    hint: str | tuple[str, ...],
    pattern: str,
    name: str,
    edge: str,
    line: str,
) -> LineRule:
    """A line that only says that a phase begins or ends."""
    return LineRule(
        rule, hint, pattern, PhaseMarked, fixed=_marked(name, edge),
        samples=(Sample(line, {"name": name, "edge": edge}),),
    )  # fmt: skip


def _compile(
    rule: str,
    hint: str,
    pattern: str,
    what: str,
    sample: Sample,
    *,
    cached: bool = False,
) -> LineRule:
    return LineRule(
        rule, hint, pattern, CompileFinished,
        fixed={"what": what, "from_cache": cached}, samples=(sample,),
    )  # fmt: skip


SECONDS = r"(?P<duration_s>[\d.]{1,16})"

CONFIG_RULES: tuple[LineRule, ...] = (
    LineRule(
        "banner_version",
        (" version ", "vLLM API server version"),
        r"[▀-▟\s]{0,60}(?:vLLM API server )?version (?P<version>\d[\w.+-]{0,80})\s*$",
        build=_banner,
        starts=1,
        samples=(
            Sample(
                "(APIServer pid=148236) INFO 07-16 19:52:39 [api_utils.py:345]  ▄▄ ▄█ "
                "█     █     █ ▀▄▀ █  version 0.23.1rc1.dev1201+gd08eebad1",
                {"version": "0.23.1rc1.dev1201+gd08eebad1"},
            ),
        ),
    ),
    LineRule(
        "arguments",
        "non-default args: ",
        r"non-default args: (?P<rest>\{.*)",
        build=_arguments,
        starts=2,
        samples=(
            Sample(
                "(APIServer pid=1) INFO 07-16 19:52:39 [api_utils.py:273] non-default "
                "args: {'model': 'a/b', 'max_model_len': 4096, 'api_key': 'x'}",
                {
                    "model": "a/b",
                    "settings": {
                        "model": "a/b",
                        "max_model_len": 4096,
                        "api_key": "***",
                    },
                },
            ),
        ),
    ),
    LineRule(
        "engine_config",
        "LLM engine (v",
        r"Initializing an? (?:V[01] )?LLM engine \(v(?P<version>[^\s)]{1,80})\) with "
        r"config: (?P<rest>.*)",
        build=_engine,
        starts=3,
        samples=(
            Sample(
                "INFO 11-20 07:31:58 [core.py:116] Initializing a V1 LLM engine "
                "(v0.26.0) with config: model='/m', max_seq_len=1024, device_config=hpu",
                {"version": "0.26.0", "model": "/m", "device_kind": "hpu"},
            ),
        ),
    ),
    LineRule(
        "max_model_len",
        "Using max model len",
        r"Using max model len (?P<value>[\d,]{1,16})",
        build=_setting("max_model_len", int),  # type: ignore[arg-type]
        samples=(
            Sample(
                "INFO 11-20 07:31:58 [model.py:1788] Using max model len 1024",
                {"settings": {"max_model_len": 1024}},
            ),
        ),
    ),
    LineRule(
        "max_num_batched_tokens",
        "Chunked prefill is enabled",
        r"Chunked prefill is enabled with max_num_batched_tokens=(?P<value>\d{1,12})",
        build=_setting("max_num_batched_tokens", int),  # type: ignore[arg-type]
        samples=(
            Sample(
                "INFO 11-20 07:31:58 [scheduler.py:252] Chunked prefill is enabled with "
                "max_num_batched_tokens=1024.",
                {"settings": {"max_num_batched_tokens": 1024}},
            ),
        ),
    ),
    LineRule(
        "architecture",
        "Resolved architecture",
        r"Resolved architecture: (?P<value>[\w.-]{1,120})",
        build=_setting("architecture", text_of),  # type: ignore[arg-type]
        samples=(
            Sample(
                "INFO 11-20 07:31:58 [model.py:623] Resolved architecture: "
                "LlamaForCausalLM",
                {"settings": {"architecture": "LlamaForCausalLM"}},
            ),
        ),
    ),
    LineRule(
        "world_size",
        "world_size=",
        r"world_size=(?P<world_size>\d{1,6}) rank=(?P<rank>\d{1,6}) local_rank=",
        build=_rank,
        samples=(
            Sample(
                "(Worker pid=149114) INFO 07-16 19:53:12 [parallel_state.py:1615] "
                "world_size=4 rank=1 local_rank=1 distributed_init_method=tcp://x "
                "backend=nccl",
                {"rank": 1, "world_size": 4},
            ),
        ),
    ),
)

LOAD_RULES: tuple[LineRule, ...] = (
    _phase(
        "engine_processes",
        "DP group leader",
        r"DP group leader: node_rank=",
        "start_workers",
        "start",
        "(EngineCore pid=1) INFO 07-16 19:52:52 [multiproc_executor.py:140] DP group "
        "leader: node_rank=0, node_rank_within_dp=0",
    ),
    _phase(
        "plugins_loading",
        "Available plugins for group",
        r"Available plugins for group",
        "import",
        "start",
        "INFO 11-20 07:31:54 [__init__.py:52] Available plugins for group "
        "vllm.platform_plugins:",
    ),
    _phase(
        "load_started",
        ("tarting to load model", "oading model from scratch"),
        r"Starting to load model|Loading model from scratch",
        "load_model",
        "start",
        "INFO 11-20 07:31:58 [hpu_model_runner.py:4741] Starting to load model /m...",
    ),
    LineRule(
        "weights_loaded",
        "oading weights took",
        r"Loading weights took (?P<duration_s>[\d.]{1,16}) seconds",
        PhaseMarked,
        fixed=_marked("load_weights", "end"),
        samples=(
            Sample(
                "INFO 06-04 01:18:34 [default_loader.py:272] Loading weights took 4.12 "
                "seconds",
                {"name": "load_weights", "duration_s": 4.12},
            ),
        ),
    ),
    LineRule(
        "model_loaded",
        ("oading model weights took", "odel loading took"),
        r"(?:Loading model weights|Model loading) took (?P<size>-?[\d.]{1,16}) "
        r"(?P<unit>GB|GiB|MiB)(?: memory)?(?: and (?P<seconds>[\d.]{1,16}) seconds)?\s*$",
        build=_weights_gb,
        samples=(
            Sample(
                "INFO 01-30 11:53:52 model_runner.py:1115] Model loading took 7.5100 GB",
                {"stage": "weights", "delta_bytes": round(7.51 * GIB)},
            ),
            Sample(
                "(Worker_TP0 pid=1) INFO 07-16 19:59:51 [gpu_model_runner.py:5335] Model "
                "loading took 54.82 GiB memory and 389.427126 seconds",
                {"delta_bytes": round(54.82 * GIB), "duration_s": 389.427126},
            ),
        ),
    ),
    _phase(
        "block_size_chosen",
        "Setting kv cache block size",
        r"Setting kv cache block size to \d",
        "load_model",
        "end",
        "(Worker_TP1 pid=1) INFO 07-16 20:02:39 [interface.py:635] Setting kv cache "
        "block size to 64 for DEEPSEEK_V32_INDEXER backend.",
    ),
)

COMPILE_RULES: tuple[LineRule, ...] = (
    _compile(
        "compile_dynamo",
        "Dynamo bytecode transform time",
        rf"Dynamo bytecode transform time: {SECONDS} s",
        "dynamo",
        Sample(
            "INFO 07-16 20:02:46 [backends.py:1155] Dynamo bytecode transform time: "
            "7.06 s",
            {"what": "dynamo", "duration_s": 7.06},
        ),
    ),
    _compile(
        "compile_graph",
        "Compiling a graph for",
        rf"Compiling a graph for (?P<detail>[^\n]{{1,60}}?) takes {SECONDS} s",
        "graph",
        Sample(
            "INFO 07-16 20:03:18 [backends.py:393] Compiling a graph for compile range "
            "(1, 8192) takes 8.37 s",
            {"detail": "compile range (1, 8192)", "duration_s": 8.37},
        ),
    ),
    _compile(
        "compile_cached",
        "Directly load the compiled graph",
        rf"Directly load the compiled graph\(s\) for (?P<detail>[^\n]{{1,60}}?) from the "
        rf"cache, took {SECONDS} s",
        "graph",
        Sample(
            "INFO 08-01 20:03:18 [backends.py:393] Directly load the compiled graph(s) "
            "for dynamic shape from the cache, took 2.826 s",
            {"from_cache": True, "duration_s": 2.826},
        ),
        cached=True,
    ),
    _compile(
        "compile_total",
        "torch.compile t",
        rf"torch\.compile (?:takes|took) {SECONDS} s in total",
        "total",
        Sample(
            "INFO 07-16 20:03:40 [monitor.py:53] torch.compile took 52.05 s in total",
            {"what": "total", "duration_s": 52.05},
        ),
    ),
    LineRule(
        "profile_run_took",
        "Initial profiling/warmup run took",
        rf"Initial profiling/warmup run took {SECONDS} s",
        PhaseMarked,
        fixed=_marked("profile_run", "end"),
        samples=(
            Sample(
                "INFO 07-16 20:03:46 [monitor.py:81] Initial profiling/warmup run took "
                "5.85 s",
                {"name": "profile_run", "duration_s": 5.85},
            ),
        ),
    ),
    _phase(
        "compile_started",
        "for vLLM's torch.compile",
        r"Using cache directory: .{1,300} for vLLM's torch\.compile",
        "compile",
        "start",
        "INFO 07-16 20:02:46 [backends.py:1094] Using cache directory: /c for vLLM's "
        "torch.compile",
    ),
    _phase(
        "compile_saved",
        "saved AOT compiled function",
        r"saved AOT compiled function to ",
        "compile",
        "end",
        "INFO 07-16 20:03:40 [decorators.py:708] saved AOT compiled function to /c",
    ),
    LineRule(
        "compile_note",
        ("Compiling model again", "Cache the graph of", "loading from the cache"),
        r"(?P<text>Compiling model again due to a load failure.{0,200}|"
        r"Cache the graph of .{1,100})",
        Note,
        fixed={"topic": "compile"},
        samples=(
            Sample(
                "INFO 07-16 20:03:10 [backends.py:378] Cache the graph of compile range "
                "(1, 1) for later use",
                {"topic": "compile"},
            ),
        ),
    ),
)
