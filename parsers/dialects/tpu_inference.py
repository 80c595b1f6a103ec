"""vLLM on TPU: tpu-inference, and the backend that was in vLLM's tree up to 0.12.

It pads to buckets and compiles a graph for each before it serves.
Source: tpu-inference `runner/compilation_manager.py`, `runner/utils.py`,
`runner/kv_cache_manager.py`, `runner/tpu_runner.py`, `worker/tpu_worker.py`,
`models/jax/utils/weight_utils.py`; vLLM `v1/worker/tpu_model_runner.py`.
"""

from __future__ import annotations

import math
import re

from parsers.base import (
    NO_LEVEL,
    Dialect,
    LineRule,
    Made,
    Sample,
    line_rule,
    note_rule,
    phase_end,
    phase_start,
    tpu_note,
    tpu_rule,
)
from parsers.engine.convert import ints_of, text_of
from parsers.engine.evidence import PARTED
from parsers.engine.signals import (
    DevicesSeen,
    FailureLine,
    HbmLoaded,
    HbmSums,
    PaddingListed,
    PaddingsBegun,
    PrecompileFinished,
    PrecompileStarted,
    ShapeBegun,
)
from warmup_insights.model.events import (
    BucketsGenerated,
    CompileFinished,
    ConfigRecorded,
    KVCacheAllocated,
    Note,
    PhaseMarked,
)
from warmup_insights.units import gib

_NUM = r"[\d.]{1,16}"
_HBM = (
    rf"(?P<hbm>\((?P<used>{_NUM}), (?P<total>{_NUM})\)[\d., ()]{{0,60000}})"
    r"(?P<closed>\])?"
)
"""Of each device that the process drives, in pods all of them; without its end the line
was cut."""


def _used(match: re.Match[str]) -> tuple[int, ...]:
    """Bytes in use on each device."""
    return tuple(gib(each) for each in re.findall(rf"\(({_NUM}),", match["hbm"]))


def _worker_made(match: re.Match[str]) -> list[Made]:
    begun = PhaseMarked(name="load_model", edge="start")
    return [begun] if match["closed"] is None else [begun, DevicesSeen(_used(match))]


def _model_made(match: re.Match[str]) -> list[Made]:
    """Of the engine, nothing but the weights is there yet (`tpu_runner.py load_model`)."""
    ended = PhaseMarked(name="load_model", edge="end")
    if match["closed"] is None:
        return [ended]
    return [ended, HbmLoaded(_used(match), gib(match["total"]))]


_BLOCK_SHAPE = re.compile(r"(?:\b|_)shape=\(num_blocks, \(([\d, ]{1,80})\)")
_MESH = re.compile(
    r"mesh=Mesh\((?P<axes>'\w{1,20}': \d{1,5}(?:, '\w{1,20}': \d{1,5}){0,9})"
)
_OF_HEADS = 4
"""Dimensions of a block that has keys and values of heads (`kernels/ragged_paged_attention`);
one of latents has fewer (`kernels/mla`)."""


def _blocks(match: re.Match[str]) -> list[Made]:
    """One number for each layer. Layers with a state instead of a cache may have fewer, one
    for each request (`_maybe_set_compact_mamba_num_blocks_override`)."""
    each = map(int, re.findall(r"(?<![a-z\d])\d{1,12}", match["blocks"]))
    made: list[Made] = [KVCacheAllocated(num_blocks=max(each))]
    shape = _BLOCK_SHAPE.search(match.string)
    if shape is not None and shape[1].count(",") + 1 < _OF_HEADS:
        made.append(ConfigRecorded(settings={"use_mla": True}))
    mesh = _MESH.search(match.string)
    return made if mesh is None else [*made, *_mesh(mesh)]


_SHARDS = ("data", "attn_dp", "attn_dp_expert")
"""Axes of a mesh over which requests are divided (`layers/common/sharding.py`, `BATCH`)."""


def _mesh(match: re.Match[str]) -> list[Made]:
    """Of how many devices an engine is, and into how many shards it divides its requests: each
    has its own KV blocks."""
    found = re.findall(r"'(\w{1,20})': (\d{1,5})", match["axes"])
    sizes = {axis: int(size) for axis, size in found}
    shards = math.prod(sizes.get(axis, 1) for axis in _SHARDS)
    settings = {"total_devices": math.prod(sizes.values())}
    if shards > 1:
        settings["total_dp_size"] = shards
    return [ConfigRecorded(settings=settings)]


def _sharding(match: re.Match[str]) -> Made:
    return ConfigRecorded(settings={"total_devices": int(match["devices"])})


def _states_kept(match: re.Match[str]) -> list[Made]:
    """The engine itself sets the number of blocks, to fill what layers with a state leave
    (`kv_cache_manager.py _maybe_set_compact_mamba_num_blocks_override`)."""
    blocks = int(match["num_blocks"])
    note = Note(topic="tpu", text=text_of(match[0]), values={"num_blocks": blocks})
    if match["states"] is None:
        return [note]
    settings = {"mamba_num_blocks": int(match["states"])}
    return [note, ConfigRecorded(settings=settings)]


def _weights_file(match: re.Match[str]) -> list[Made]:
    """One line for each file, in order: with the first the download is over.

    Source: tpu-inference `models/jax/utils/weight_utils.py`.
    """
    name = match["path"].rpartition("/")[2]
    first = re.fullmatch(r"model(?:-0{0,8}1-of-\d{1,8}[\w.-]{0,80})?", name)
    if first is None:
        return []
    return [
        PhaseMarked(name="download", edge="end"),
        PhaseMarked(name="load_weights", edge="start"),
    ]


_DIMENSIONS = {"token": "num_tokens", "request": "num_reqs", "attn request": "num_reqs"}


def _paddings(match: re.Match[str]) -> Made:
    kind = match["kind"]
    values = ints_of(match["list"])
    return BucketsGenerated(
        phase=f"{kind.replace(' ', '_')}s", count=len(values),
        buckets=[(value,) for value in values], dimensions=[_DIMENSIONS[kind]],
    )  # fmt: skip


def _paddings_begun(match: re.Match[str]) -> Made:
    if match["requests"]:
        return PaddingsBegun("requests", "num_reqs")
    return PaddingsBegun("tokens", "num_tokens")


def _shape(match: re.Match[str]) -> str:
    """The sizes of a graph, without its arrays."""
    shape = match["shape"] or f"{match['cut_shape'].rpartition(', ')[0] or '{'}}}"
    return text_of(shape)


def _started(match: re.Match[str]) -> Made:
    return PrecompileStarted(text_of(match["graph"]), _shape(match))


def _graph_started(match: re.Match[str]) -> list[Made]:
    """vLLM `v1/worker/tpu_model_runner.py`: a line for each shape follows."""
    is_model = match["graph"] == "the model"
    started = PrecompileStarted("backbone" if is_model else match["graph"], "")
    marked = PhaseMarked(name="compile", edge="start")
    return [marked, started] if is_model else [started]


def _compiled(match: re.Match[str]) -> Made:
    ended = re.search(_ENDED, match["rest"])
    if ended is None:  # a later line holds the end of its arrays
        return _started(match)
    # JAX's own cache may have answered: the line does not state it.
    return CompileFinished(
        what=text_of(match["graph"]), detail=_shape(match),
        duration_s=float(ended["duration_s"]), from_cache=None,
    )  # fmt: skip


_NAME = r"(?:worker\d{1,4} )?(?P<graph>[^>{]{1,80}) --> "
_SHAPE = r"(?:(?P<shape>\{[^}(]{0,300}\})|(?P<cut_shape>\{[^}(]{1,300})\()"
"""Up to its first array: those may go over several lines."""
_ENDED = rf" finished in (?:in )?(?P<duration_s>{_NUM}) \[secs\]"


_MEMORY: tuple[LineRule, ...] = (
    tpu_rule(
        "tpu_load_started",
        rf"Init worker \| rank=.{{0,300}}?hbm=\[{_HBM}",
        _worker_made,
        Sample(
            "INFO 10-21 20:56:14 [tpu_worker_jax.py:147] Init worker | rank=0 | "
            "node_id=0 | is_driver_worker=True | hbm=[(0.0, 31.25)]GiB",
            {"name": "load_model", "edge": "start"},
        ),
        engine="tpu-inference",
    ),
    tpu_rule(
        "tpu_load_ended",
        rf"Init model \| hbm=\[{_HBM}",
        _model_made,
        Sample(
            "INFO 10-21 20:57:32 [tpu_jax_runner.py:307] Init model | hbm=[(7.63, "
            "31.25)]GiB",
            {"name": "load_model", "edge": "end"},
        ),
        engine="tpu-inference",
    ),
    tpu_rule(
        "tpu_mesh",
        r"Init mesh \| mesh=Mesh\((?P<axes>'\w{1,20}': \d{1,5}(?:, '\w{1,20}': \d{1,5}){0,9})",
        _mesh,
        Sample(
            "INFO 10-21 20:56:14 [tpu_runner.py:885] Init mesh | mesh=Mesh('data': 2, "
            "'attn_dp': 3, 'model': 4, axis_types=(Auto, Auto, Auto))",
            {"settings": {"total_devices": 24, "total_dp_size": 6}},
        ),
        Sample(
            "INFO 10-21 20:56:14 [tpu_runner.py:885] Init mesh | mesh=Mesh('data': 1, "
            "'model': 8, axis_types=(Auto, Auto))",
            {"settings": {"total_devices": 8}},
        ),
        engine="tpu-inference",
    ),
    tpu_rule(
        "tpu_sharding",
        # `platforms/tpu_platform.py`, before there are devices.
        r"Initialized sharding configuration: ShardingConfigManager\(total_devices="
        r"(?P<devices>\d{1,5})\b",
        _sharding,
        Sample(
            "INFO 11-04 22:31:49 [tpu_jax.py:118] Initialized sharding configuration: "
            "ShardingConfigManager(total_devices=8, device_indexes=None)",
            {"settings": {"total_devices": 8}},
        ),
        engine="tpu-inference",
    ),
    tpu_rule(
        "tpu_memory",
        rf"Memory statistics \| total_hbm_limit_gb=(?P<total_gib>{_NUM})GiB \| "
        rf"(?:total_hbm_limit_cap_gb=(?P<usable_gib>{_NUM})GiB \| )?"
        rf"total_hbm_used_gb=(?P<used_gib>{_NUM})GiB \| "
        rf"total_hbm_avail_gb=(?P<available_gib>-?{_NUM})GiB",
        # Sums over the devices of the mesh (`tpu_worker.py determine_available_memory`).
        HbmSums,
        Sample(
            "INFO 10-21 20:57:32 [tpu_worker_jax.py:169] Memory statistics | "
            "total_hbm_limit_gb=249.97GiB | total_hbm_limit_cap_gb=237.47GiB | "
            "total_hbm_used_gb=61.03GiB | total_hbm_avail_gb=176.44GiB",
            {
                "total_bytes": gib(249.97),
                "usable_bytes": gib(237.47),
                "used_bytes": gib(61.03),
                "available_bytes": gib(176.44),
            },
        ),
        engine="tpu-inference",
    ),
    # Memory of the first device.
    tpu_note(
        "tpu_kv_cache_renewed",
        r"(?:Deleting kv-cache \| num_layers=\d{1,6} \| hbm_before|"
        r"KV cache delete complete \| hbm_after|Reinitializing kv-cache \| hbm_before)="
        rf"\[\((?P<used_gib>{_NUM}), (?P<total_gib>{_NUM})\).{{0,2000}}",
        "kv_cache",
        "INFO 08-21 20:57:35 [kv_cache_manager.py:1278] Deleting kv-cache | "
        "num_layers=32 | hbm_before=[(21.5, 31.25), (21.5, 31.25)]Gb",
        values={"used_bytes": gib(21.5), "total_bytes": gib(31.25)},
        engine="tpu-inference",
    ),
    tpu_rule(
        "tpu_fp8_kind",
        # The FP8 that there would be, printed at each import: it makes no cache FP8.
        r"Automatically using fp8_\w{1,12} for FP8 KV cache on TPU \S{1,20}",
        None,
        "INFO 09-12 02:14:54 [tpu_platform.py:177] Automatically using fp8_e5m2 for "
        "FP8 KV cache on TPU v6e.",
        engine="tpu-inference",
    ),
    tpu_rule(
        "tpu_allocation",
        # XLA, of errors E0100 and E0101: the line before it has no sizes.
        r"(?P<message>Error (?:loading program|allocating device buffer).{1,600})",
        FailureLine,
        Sample(
            "ERROR 08-07 23:27:17 [core.py:1349] Error loading program 'jit_step': "
            "Attempting to reserve 384.11M at the bottom of memory. That was not "
            "possible. There are 346.77M free, 0B reserved, and 346.77M reservable.",
            {
                "message": "Error loading program 'jit_step': Attempting to reserve "
                "384.11M at the bottom of memory. That was not possible. There are "
                "346.77M free, 0B reserved, and 346.77M reservable."
            },
        ),
        fixed={"kind": "out_of_memory", "is_detail": True},
        levels=("ERROR", NO_LEVEL),
        hint="That was not possible. There are ",
    ),
    phase_start(
        "tpu_download",
        r"Downloading weights from HF \S{1,200}$",
        "download",
        "INFO 10-21 20:56:15 [weight_utils.py:100] Downloading weights from HF o/m",
    ),
    line_rule(
        "tpu_weights_file",
        r"Loading weights from (?P<path>\S{1,400})\.safetensors$",
        _weights_file,
        Sample(
            "INFO 10-21 20:57:13 [weight_utils.py:122] Loading weights from "
            "/hub/models--o--m/snapshots/9216/model-00001-of-00017.safetensors",
            {"name": "download", "edge": "end"},
        ),
        "INFO 08-08 22:59:21 [weight_utils.py:106] Loading weights from "
        "o/m/model-00002-of-00004.safetensors",
    ),
    phase_end(
        "tpu_weights_loaded",
        r"(?:Total time to load model weights from storage to TPU: |"
        r"Loading dummy weights took )(?P<duration_s>[\d.]{1,16}) seconds",
        "load_weights",
        Sample(
            "INFO 04-30 16:59:04 [vllm_model_wrapper.py:265] Total time to load model "
            "weights from storage to TPU: 254.05 seconds.",
            {"duration_s": 254.05},
        ),
        Sample(
            "INFO 04-30 16:59:04 [weight_utils.py:1230] Loading dummy weights took "
            "31.50 seconds.",
            {"duration_s": 31.5},
        ),
        device="tpu",
    ),
    tpu_rule(
        "tpu_block_size",
        r"Using KV cache block size: (?P<size>\d{1,9})",
        lambda match: ConfigRecorded(settings={"block_size": int(match["size"])}),
        Sample(
            "INFO 04-30 16:54:44 [tpu_platform.py:301] Using KV cache block size: 64",
            {"settings": {"block_size": 64}},
        ),
    ),
    tpu_rule(
        "tpu_states_kept",
        r"Compact-mamba KV cache(?: .{1,60}?)?: "
        r"num_gpu_blocks_override=(?P<num_blocks>\d{1,12}) "
        r"(?:\(attn\), _mamba_num_blocks=(?P<states>\d{1,9}))?.{1,400}",
        _states_kept,
        Sample(
            "INFO 05-31 20:53:09 [kv_cache_manager.py:443] Compact-mamba KV cache: "
            "num_gpu_blocks_override=38805 (attn), _mamba_num_blocks=264. HBM split: "
            "attn=16 layers × 38805 blocks × 262144 B = 151.58 GiB; ...",
            {"topic": "tpu", "values": {"num_blocks": 38805}},
        ),
        engine="tpu-inference",
    ),
    tpu_rule(
        "tpu_kv_cache",
        r"Init kv-cache \| .{1,200}? \| num_blocks=(?P<blocks>[^|]{1,6000})",
        _blocks,
        Sample(
            "INFO 10-21 20:57:35 [kv_cache_manager.py:218] Init kv-cache | "
            "num_layers=64 | shape=(num_blocks, (128, 8, 2, 128)) | num_blocks=[5645, "
            "5645]",
            {"num_blocks": 5645},
        ),
        Sample(
            "INFO 05-31 20:53:09 [kv_cache_manager.py:903] Init kv-cache | "
            "num_total_layers=4 | num_blocks=[np.int64(520), np.int64(520), "
            "np.int64(918904), np.int64(520)] | regular_attn_layers=1",
            {"num_blocks": 918904},
        ),
        engine="tpu-inference",
    ),
)
"""Loading, and what is on the devices."""

_COMPILATION: tuple[LineRule, ...] = (
    tpu_rule(
        "tpu_paddings",
        r"Prepared (?P<kind>token|request|attn request) paddings: (?P<list>\[[\d, ]{1,20000}\])",
        _paddings,
        Sample(
            "INFO 10-21 20:56:14 [utils.py:93] Prepared token paddings: [16, 32, 64]",
            {
                "phase": "tokens",
                "count": 3,
                "buckets": [(16,), (32,), (64,)],
                "dimensions": ["num_tokens"],
            },
        ),
        engine="tpu-inference",
    ),
    tpu_rule(
        "tpu_precompile",
        rf"Precompile {_NAME}{_SHAPE}",
        _started,
        Sample(
            "INFO 10-21 20:57:35 [compilation_manager.py:58] Precompile backbone --> "
            "{'num_tokens': 16}",
            {"graph": "backbone", "shape": "{'num_tokens': 16}"},
        ),
        Sample(
            "INFO 08-07 23:14:42 [compilation_manager.py:137] Precompile worker0 "
            "backbone --> {'num_tokens': 32, 'num_reqs': 256, "
            "'shared_attention_metadata': "
            "SharedAttentionMetadata(input_positions=Array([1, 1, 1, 1,",
            {"graph": "backbone", "shape": "{'num_tokens': 32, 'num_reqs': 256}"},
        ),
    ),
    tpu_rule(
        "tpu_graph_compiled",
        rf"Compilation of {_NAME}{_SHAPE}(?P<rest>.{{0,8000}})",
        _compiled,
        Sample(
            "INFO 06-25 23:55:52 [compilation_manager.py:167] Compilation of worker0 "
            "sample --> {'num_reqs': 8, 'do_sampling': True} finished in 0.02 [secs].",
            {
                "what": "sample",
                "detail": "{'num_reqs': 8, 'do_sampling': True}",
                "duration_s": 0.02,
            },
        ),
        Sample(
            "INFO 08-07 23:14:49 [compilation_manager.py:175] Compilation of worker0 "
            "backbone --> {'num_tokens': 64, 'num_reqs': 128, "
            "'shared_attention_metadata': "
            "SharedAttentionMetadata(input_positions=Array([1, 1, 1, 1,",
            {"graph": "backbone", "shape": "{'num_tokens': 64, 'num_reqs': 128}"},
        ),
    ),
    tpu_rule(
        "tpu_compiled",
        rf"(?:Compilation|\)\}}){_ENDED}",
        PrecompileFinished,
        Sample(
            "INFO 10-21 20:58:15 [compilation_manager.py:68] Compilation finished in "
            "39.64 [secs].",
            {"duration_s": 39.64},
        ),
        Sample(
            "INFO 08-07 23:14:49 [compilation_manager.py:175]        1, 1, 1], "
            "dtype=int32), padded_num_reqs=128)} finished in 7.25 [secs].",
            {"duration_s": 7.25},
        ),
        anywhere=True,
        hint="[secs]",
    ),
    tpu_rule(
        "tpu_stage_compiled",
        r"(?:(?:\s{1,8}-- )?Compilation for )?(?P<what>prefill|prefix prefill|decode|"
        r"Multimodal .{1,40}? Encoder|KV cache swap) (?:done|(?:pre-)?compilation finished) "
        r"in (?:in )?(?P<duration_s>[\d.]{1,16}) (?:s|\[secs\])",
        CompileFinished,
        Sample(
            "INFO 04-21 20:58:15 [tpu_model_runner.py:303] Compilation for prefill "
            "done in 12.50 s.",
            {"what": "prefill", "duration_s": 12.5},
        ),
        Sample(
            "INFO 02-21 20:58:15 tpu_model_runner.py:891]     -- Compilation for "
            "prefix prefill done in 17.25 [secs].",
            {"what": "prefix prefill", "duration_s": 17.25},
        ),
        Sample(
            "INFO 09-11 20:57:35 [tpu_model_runner.py:1348] Multimodal image Encoder "
            "compilation finished in in 7.25 [secs].",
            {"what": "Multimodal image Encoder", "duration_s": 7.25},
        ),
        fixed={"from_cache": None},
        hint=(
            "Compilation for ",
            "Encoder compilation finished",
            "pre-compilation finished",
        ),
    ),
    tpu_rule(
        "tpu_graph_started",
        r"Compiling (?P<graph>[a-z_][a-z0-9_ ]{0,60}?) with different input shapes",
        _graph_started,
        Sample(
            "INFO 04-21 20:57:35 [tpu_model_runner.py:1397] Compiling compute_logits "
            "with different input shapes.",
            {"graph": "compute_logits", "shape": ""},
        ),
    ),
    tpu_rule(
        "tpu_paddings_begun",
        r"(?P<requests>Preparing request paddings)|"
        r"Using (?:exponential|incremental) (?:token )?paddings:",
        _paddings_begun,
        Sample(
            "INFO 04-21 20:57:35 [tpu_model_runner.py:1392] Using exponential token "
            "paddings:",
            {"phase": "tokens", "dimension": "num_tokens"},
        ),
        Sample(
            "INFO 04-06 20:57:35 [tpu_model_runner.py:1018] Using incremental paddings:",
            {"phase": "tokens", "dimension": "num_tokens"},
        ),
        Sample(
            "INFO 04-21 20:57:35 [tpu_model_runner.py:1358] Preparing request "
            "paddings:",
            {"phase": "requests", "dimension": "num_reqs"},
        ),
        hint=(
            "Preparing request paddings",
            "Using exponential token",
            "Using incremental token",
            "Using exponential paddings",
            "Using incremental paddings",
        ),
    ),
    line_rule(
        "tpu_padding",
        r"\s{1,8}(?P<size>\d{1,7})\s*$",
        PaddingListed,
        Sample("INFO 04-21 20:57:35 [tpu_model_runner.py:1365]     16", {"size": 16}),
        files=("tpu_model_runner.py",),
        startup_only=True,
        hint="    ",
    ),
    line_rule(
        "tpu_shape",
        r"\s{0,8}-- num_tokens: (?P<num_tokens>\d{1,9})\s*$",
        ShapeBegun,
        Sample(
            "INFO 04-21 20:57:36 [tpu_model_runner.py:1018]   -- num_tokens: 32",
            {"num_tokens": 32},
        ),
        files=("tpu_model_runner.py",),
    ),
    phase_start(
        "tpu_precompile_started",
        r"Precompile all the subgraphs",
        "compile",
        "INFO 10-21 20:57:35 [compilation_manager.py:73] Precompile all the subgraphs "
        "with possible input shapes.",
        device="tpu",
    ),
    phase_end(
        "tpu_warmup_pass",
        r"Warm-up call pass finished in (?P<duration_s>[\d.]{1,16}) \[secs\]",
        "model_warmup",
        Sample(
            "INFO 08-21 20:58:15 [compilation_manager.py:228] Warm-up call pass "
            "finished in 4.50 [secs] over 12 tasks.",
            {"duration_s": 4.5},
        ),
        device="tpu",
    ),
    phase_end(
        "tpu_encoder_profiled",
        r"Multimodal Encoder profiling finished in (?:in )?(?P<duration_s>[\d.]{1,16}) "
        r"\[secs\]",
        "encoder_profile",
        Sample(
            "INFO 09-11 20:57:35 [tpu_model_runner.py:1548] Multimodal Encoder "
            "profiling finished in 7.25 [secs].",
            {"duration_s": 7.25},
        ),
    ),
    tpu_note(
        PARTED,
        r"Creating DisaggEngineCore(?:Proc)? with slice_sizes .{1,200}",
        "tpu",
        "INFO 08-21 20:56:35 [core_tpu.py:647] Creating DisaggEngineCoreProc with "
        "slice_sizes [4, 4]...",
        engine="tpu-inference",
    ),
    note_rule(
        "tpu_graphs_added",
        r"Add new (?P<num_graphs>\d{1,7}) compiled XLA graphs due to .{1,100}|"
        r"Warmup drafter_propose: num_reqs=(?P<num_reqs>\d{1,7})|"
        r"Compact-mamba sizing skipped: .{1,300}|"
        r"Hybrid KV cache: padding every layer spec to .{1,400}|"
        r"No memory stats available for devices .{1,400}|"
        r"Memory stats unavailable for \d{1,5} of \d{1,5} devices .{1,200}",
        "tpu",
        "INFO 09-11 20:57:35 [tpu_model_runner.py:316] Add new 12 compiled XLA graphs "
        "due to backbone",
        values={"num_graphs": 12},
    ),
    note_rule(
        "tpu_note",
        r"Compiling Multimodal .{1,50} with different input shapes\.|"
        r"Compiling (?:select_from_array|gather_logprobs|dflash) (?!with different ).{1,80}|"
        r"Precompiling (?:DFlash|continue_decode) .{1,200}|Pre-warming \w{1,40} for .{1,200}|"
        r"Enabling JAX compile cache\.|Parallel AOT compilation enabled .{1,80}|"
        r"AOT lower skipped for .{1,200}|Failed to lower .{1,80} with compile_only=True.{0,200}|"
        r"Skipping precompilation of .{1,300}|.{1,60} precompilation skipped since .{1,200}|"
        r"Skipping decode-heavy step .{1,60}|Precompile slice and insert for .{1,60}|"
        r"max_num_reqs must be supported .{1,200}",
        "tpu",
        "INFO 08-21 20:57:35 [compilation_manager.py:120] Parallel AOT compilation "
        "enabled (NUM_PRECOMPILE_WORKERS=8).",
        startup_only=True,
    ),
)

DIALECT = Dialect(
    name="tpu-inference",
    title="vLLM on TPU: tpu-inference, and in the tree",
    versions="2025-04 to 2026-10",
    source="tpu_inference/runner/, tpu_inference/worker/; vllm/v1/worker/tpu_model_runner.py",
    rules=(*_MEMORY, *_COMPILATION),
)
