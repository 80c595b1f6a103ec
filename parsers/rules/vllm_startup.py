"""Upstream vLLM: arguments, processes, loading, compilation.

Source: vLLM `entrypoints/`, `engine/llm_engine.py`, `v1/engine/core.py`,
`model_executor/model_loader/`, `compilation/backends.py`, `compilation/monitor.py`.
"""

from __future__ import annotations

import re

from parsers.base import NO_LEVEL, LineRule, Made, Sample, line_rule
from parsers.engine.convert import int_of, model_of, settings_of, text_of
from parsers.engine.signals import ModelNamed, RankNamed
from warmup_insights.model.events import ConfigRecorded, Note, PhaseMarked, ServerReady


def _namespace(match: re.Match[str]) -> list[Made]:
    """All arguments with their defaults: what is unset or off is left out."""
    settings = {
        key: value
        for key, value in settings_of(match["rest"]).items()
        if value not in (None, False, "", "None") and value != []
    }
    return [
        ConfigRecorded(settings=settings, model=_model(settings.get("model"))),
        PhaseMarked(name="configure", edge="start"),
    ]


def _auto_fit(match: re.Match[str]) -> list[Made]:
    fitted = match["fitted"] or match["whole"] or match["derived"]
    return [
        ConfigRecorded(settings={"max_model_len": int(fitted)}),
        Note(topic="auto_fit", text=text_of(match[0])),
    ]


def _arguments(match: re.Match[str]) -> list[Made]:
    settings = settings_of(match["rest"])
    model = settings.get("model") or settings.get("model_tag")
    device = settings.get("device")
    # ROCm is `cuda` here as well.
    kind = _device_kind(device)
    is_whole = match["rest"].rstrip().endswith("}")
    recorded = ConfigRecorded(
        settings=settings, model=_model(model),
        device_kind=None if kind == "cuda" else kind,
        arguments=list(settings) if is_whole else None,
    )  # fmt: skip
    return [recorded, PhaseMarked(name="configure", edge="start")]


def _engine(match: re.Match[str]) -> list[Made]:
    settings = settings_of(match["rest"].removesuffix(" ..."))
    if "max_seq_len" in settings:
        settings["max_model_len"] = settings.pop("max_seq_len")
    model, device = settings.get("model"), settings.get("device_config")
    recorded = ConfigRecorded(
        settings=settings,
        version=match["version"],
        model=_model(model),
        device_kind=_device_kind(device),
    )
    made: list[Made] = [recorded, PhaseMarked(name="start_engine", edge="start")]
    sizes = [settings.get(f"{kind}_parallel_size") for kind in ("tensor", "pipeline")]
    if "V1" not in match["kind"] and set(sizes) <= {1, None} and sizes[0] == 1:
        # The only worker is in this process, which has imported everything, and sets up the
        # tokenizer, the device and the group of its rank (`engine/llm_engine.py`, `__init__`).
        made.append(PhaseMarked(name="init_worker", edge="start"))
    return made


def _stated(match: re.Match[str]) -> list[Made]:
    """What an engine is that was made; verl prints it when its server takes requests
    (`vllm_async_server.py run_server`)."""
    recorded = _engine(match)[0]
    return [recorded] if match["version"] else [recorded, ServerReady()]


def _banner(match: re.Match[str]) -> list[Made]:
    banner = ConfigRecorded(version=match["version"] or match["other"])
    model = match["model"]
    return [banner] if model is None else [banner, ModelNamed(model_of(model))]


_PLUGINS = {"torchtpu": "tpu"}
"""Names of plugins that are none of a device."""


def _platform(match: re.Match[str]) -> list[Made]:
    """The first import of vLLM finds the platform; what follows are further imports.

    A device that vLLM has no platform for has the name of its plugin.
    """
    name = match["built_in"] or _PLUGINS.get(match["plugin"], match["plugin"])
    name = _device_kind(name) or name
    # What the plugins and the platforms of the source tree are, on HPU.
    own = "vllm-gaudi" if match["plugin"] else "vllm-fork"
    found = ConfigRecorded(device_kind=name, engine=own if name == "hpu" else None)
    return [found, PhaseMarked(name="import", edge="start")]


def _rank(match: re.Match[str]) -> list[Made]:
    if match["rank"] is None:
        named = RankNamed(int(match["own"]), int(match["size"]))
        return [
            named,
            PhaseMarked(name="distributed_init", edge="end"),
            PhaseMarked(name="init_worker", edge="start"),
        ]
    size, local = int(match["world_size"]), match["local"]
    device = None if local is None else int(local)
    return [
        RankNamed(int(match["rank"]), size, device, match["address"]),
        PhaseMarked(name="distributed_init", edge="start"),
    ]


def _setting_rule(key: str, pattern: str, line: str, value: int | str) -> LineRule:
    """A line that states a setting; `value` is that of the sample `line`."""

    def build(match: re.Match[str]) -> Made:
        text = match["value"]
        stated = int_of(text) if isinstance(value, int) else text_of(text)
        return ConfigRecorded(settings={key: stated})

    return line_rule(key, pattern, build, Sample(line, {"settings": {key: value}}))


_DEVICES = {
    **{name: name for name in ("hpu", "cuda", "rocm", "xpu", "cpu", "tpu", "neuron")},
    "npu": "ascend",
}
"""What `device_config` and platforms are called, to the name here: plugins for the Ascend
call theirs what torch_npu does."""


def _device_kind(value: object) -> str | None:
    """The device of that name; None for another text, or none."""
    return _DEVICES.get(value) if isinstance(value, str) else None


def _model(value: object) -> str | None:
    """The name of a model; None for what is no text."""
    return model_of(value) if isinstance(value, str) else None


CONFIG_RULES: tuple[LineRule, ...] = (
    line_rule(
        "banner_version",
        # A source tree that was not installed is `dev` (`version.py`).
        r"[▀-▟\s]{0,60}(?:vLLM (?:API|gRPC) server )?version "
        # `entrypoints/common/startup.py`, instead of the logo.
        r"(?P<version>\d[\w.+-]{0,80}|dev)\s*$|"
        r"vLLM server version (?P<other>\d[\w.+-]{0,80}|dev), serving model "
        r"(?P<model>\S{1,300})\s*$",
        _banner,
        Sample(
            "(APIServer pid=148236) INFO 07-16 19:52:39 [api_utils.py:458]  ▄▄ ▄█ "
            "█     █     █ ▀▄▀ █  version dev",
            {"version": "dev"},
        ),
        Sample(
            "(APIServer pid=148236) INFO 07-16 19:52:39 [api_utils.py:345]  ▄▄ ▄█ "
            "█     █     █ ▀▄▀ █  version 0.23.1rc1.dev1201+gd08eebad1",
            {"version": "0.23.1rc1.dev1201+gd08eebad1"},
        ),
        Sample(
            "(APIServer pid=7) INFO 03-24 03:50:29 [utils.py:297] vLLM server version 0.18.0, "
            "serving model a/b",
            {"version": "0.18.0"},
        ),
        starts=1,
        hint=(" version ", "vLLM API server version"),
    ),
    line_rule(
        "device_of_dtype",
        # `config/model.py _get_and_verify_dtype`; that of a CPU has no capability, and no name.
        r"Your device '(?P<device>[^'\n]{1,100})' \(with compute capability \d{1,2}\.\d\) "
        r"doesn't support torch\.",
        lambda match: ConfigRecorded(device_name=text_of(match["device"])),
        Sample(
            "(APIServer pid=5332) WARNING 01-12 06:14:26 [model.py:1682] Your device 'Tesla "
            "T4' (with compute capability 7.5) doesn't support torch.bfloat16. Falling back "
            "to torch.float16 for compatibility.",
            {"device_name": "Tesla T4", "device_kind": None},
        ),
        startup_only=True,
    ),
    line_rule(
        "arguments",
        r"non-default args: (?P<rest>\{.*)",
        _arguments,
        Sample(
            "(APIServer pid=1) INFO 07-16 19:52:39 [api_utils.py:273] non-default "
            "args: {'model': 'a/b', 'max_model_len': 4096, 'api_key': 'x'}",
            {
                "model": "a/b",
                "settings": {"model": "a/b", "max_model_len": 4096, "api_key": "***"},
            },
        ),
        starts=2,
    ),
    line_rule(
        "arguments_namespace",
        # The latter by what runs engines itself: RunPod's worker, Ray Serve.
        r"(?:args: Namespace|.{0,120}?[Ee]ngine args: AsyncEngineArgs)\("
        r"(?P<rest>.*)",
        _namespace,
        Sample(
            "INFO 04-12 18:36:11 [api_server.py:1035] args: Namespace(port=8000, "
            "api_key=None, model='a/b', gpu_memory_utilization=0.5)",
            {
                "model": "a/b",
                "settings": {
                    "port": 8000,
                    "model": "a/b",
                    "gpu_memory_utilization": 0.5,
                },
            },
        ),
        Sample(
            "engine.py :27   2025-08-21 15:04:25,163 Engine args: AsyncEngineArgs(model="
            "'a/b', served_model_name=None)",
            {"model": "a/b", "settings": {"model": "a/b"}},
        ),
        starts=2,
    ),
    line_rule(
        "engine_config",
        r"Initializing an? (?P<kind>LLM engine|(?:V[01] )?LLM engine \(v(?P<version>[^\s)]{1,80})\))"
        # A page states the version and leaves the rest out.
        r"(?: with config: |(?<=\))(?: ?(?:\.{3}|…) ?|$))(?P<rest>.*)",
        _engine,
        Sample(
            "INFO 11-20 07:31:58 [core.py:116] Initializing a V1 LLM engine (v0.26.0) "
            "with config: model='/m', max_seq_len=1024, device_config=hpu",
            {"version": "0.26.0", "model": "/m", "device_kind": "hpu"},
        ),
        Sample(
            "INFO 01-11 15:51:02 llm_engine.py:70] Initializing an LLM engine with "
            "config: model='a/b', max_seq_len=4096, tensor_parallel_size=1",
            {"version": None, "model": "a/b"},
        ),
        Sample(
            "INFO 08-28 16:49:33 [core.py:121] Initializing a V1 LLM engine (v0.27.1) ... "
            "device_config=cpu, enable_prefix_caching=True ...",
            {"version": "0.27.1", "device_kind": "cpu"},
        ),
        starts=3,
        hint=("LLM engine (v", "LLM engine with config"),
    ),
    line_rule(
        "engine_config_stated",
        # Printed when a step fails (`logging_utils/dump_input.py`).
        r"(?P<kind>(?:Dumping input data for )?V1 LLM engine \(v(?P<version>[^\s)]{1,80})\)|"
        r"Initializing a V1 LLM engine) with config: (?P<rest>.*)",
        _stated,
        Sample(
            "(EngineCore pid=7) ERROR 11-20 07:31:58 [dump_input.py:72] Dumping input "
            "data for V1 LLM engine (v0.26.0) with config: model='/m', device_config=hpu",
            {"version": "0.26.0", "model": "/m", "device_kind": "hpu"},
        ),
    ),
    line_rule(
        "headless_version",
        # `entrypoints/cli/serve.py run_headless`: the engine is on another host.
        r"Launching vLLM \(v(?P<version>[^\s)]{1,80})\) headless multiproc executor",
        ConfigRecorded,
        Sample(
            "INFO 07-22 22:51:57 [serve.py:212] Launching vLLM (v0.25.2) headless multiproc "
            "executor, with head node address 10.0.0.1:25000 for torch.distributed process "
            "group.",
            {"version": "0.25.2"},
        ),
        startup_only=True,
    ),
    line_rule(
        "libraries_of_rocm",
        r"(?:(?:Loading|Found) nccl from library \S{0,200}librccl\.so|"
        r"Using ROCmFlashAttention backend)",
        None,
        "INFO 04-16 23:49:56 pynccl.py:58] Loading nccl from library librccl.so.1",
        "INFO 04-16 23:50:04 selector.py:38] Using ROCmFlashAttention backend.",
        device="rocm",
        startup_only=True,
    ),
    line_rule(
        "platform",
        r"(?:Automatically detected platform (?P<built_in>[a-z]\w{0,19})\.|"
        r"Platform plugin (?P<plugin>[a-z]\w{0,19}) is activated)",
        _platform,
        Sample(
            "INFO 04-12 18:36:10 [__init__.py:239] Automatically detected platform "
            "rocm.",
            {"device_kind": "rocm"},
        ),
        Sample(
            "INFO 11-20 07:31:54 [__init__.py:237] Platform plugin hpu is activated",
            {"device_kind": "hpu", "engine": "vllm-gaudi"},
        ),
    ),
    line_rule(
        "pin_memory",
        r"Pin memory is not supported on (?P<device>XPU|Neuron)\.",
        lambda match: ConfigRecorded(device_kind=match["device"].lower()),
        Sample(
            "WARNING 09-29 10:06:47 utils.py:564] Pin memory is not supported on XPU.",
            {"device_kind": "xpu"},
        ),
    ),
    _setting_rule(
        "max_model_len",
        r"Using max model len (?P<value>[\d,]{1,16})",
        "INFO 11-20 07:31:58 [model.py:1788] Using max model len 1024",
        1024,
    ),
    line_rule(
        "max_model_len_fitted",
        r"Auto-fit max_model_len: (?:reduced from \d{1,12} to (?P<fitted>\d{1,12}) |"
        r"full model context length (?P<whole>\d{1,12}) fits |"
        r"attention-free model, using derived max_model_len=(?P<derived>\d{1,12})"
        r").{0,200}",
        _auto_fit,
        Sample(
            "INFO 09-16 20:02:46 [kv_cache_planning.py:1404] Auto-fit max_model_len: "
            "reduced from 262144 to 65536 to fit in available KV cache memory (8.72 "
            "GiB GPU)",
            {"settings": {"max_model_len": 65536}},
        ),
    ),
    _setting_rule(
        "max_num_batched_tokens",
        r"Chunked prefill is enabled with max_num_batched_tokens=(?P<value>\d{1,12})",
        "INFO 11-20 07:31:58 [scheduler.py:252] Chunked prefill is enabled with "
        "max_num_batched_tokens=1024.",
        1024,
    ),
    _setting_rule(
        "task",
        r"This model supports multiple tasks: .{1,300}?\. Defaulting to '(?P<value>\w{1,40})'",
        "INFO 02-21 07:31:58 [config.py:549] This model supports multiple tasks: "
        "{'score', 'embed', 'generate'}. Defaulting to 'generate'.",
        "generate",
    ),
    _setting_rule(
        "architecture",
        r"Resolved architecture: (?P<value>[\w.-]{1,120})",
        "INFO 11-20 07:31:58 [model.py:623] Resolved architecture: LlamaForCausalLM",
        "LlamaForCausalLM",
    ),
    line_rule(
        "nccl_variable",
        # NCCL `src/misc/param.cc`, with NCCL_DEBUG=INFO.
        r".{0,300}? NCCL INFO (?P<key>NCCL_[A-Z\d_]{2,40}) set by environment to "
        r"(?P<value>[\w,:=^/-]{1,80})\.?\s{0,4}$",
        lambda match: ConfigRecorded(environment={match["key"]: match["value"]}),
        Sample(
            "node1:7:7 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1",
            {"environment": {"NCCL_P2P_DISABLE": "1"}},
        ),
        levels=(NO_LEVEL,),
        startup_only=True,
    ),
    line_rule(
        "nccl_log",
        r".{0,300}? NCCL INFO (?P<text>Bootstrap ?: Using .{1,200})",
        # NCCL `src/bootstrap.cc`: with NCCL_DEBUG of INFO or more.
        lambda match: Note(topic="nccl_log", text=text_of(match["text"])),
        Sample(
            "node1:7:7 [0] NCCL INFO Bootstrap: Using lo:127.0.0.1<0>",
            {"topic": "nccl_log"},
        ),
        levels=(NO_LEVEL,),
        startup_only=True,
    ),
    line_rule(
        "world_size",
        r"world_size=(?P<world_size>\d{1,6}) rank=(?P<rank>\d{1,6}) "
        r"local_rank=(?:(?P<local>-?\d{1,6})(?: distributed_init_method="
        r"(?P<address>\S{1,200}))?)?|"
        r"rank (?P<own>\d{1,6}) in world size (?P<size>\d{1,6}) is assigned as ",
        _rank,
        Sample(
            "(Worker pid=149114) INFO 07-16 19:53:12 [parallel_state.py:1615] "
            "world_size=4 rank=1 local_rank=5 distributed_init_method=tcp://x "
            "backend=nccl",
            {"rank": 1, "world_size": 4, "local_rank": 5, "address": "tcp://x"},
        ),
        Sample(
            "INFO 11-24 14:52:34 [parallel_state.py:1425] rank 2 in world size 4 is "
            "assigned as DP rank 2, PP rank 0, PCP rank 0, TP rank 0, EP rank 2",
            {"rank": 2, "world_size": 4},
        ),
    ),
)
