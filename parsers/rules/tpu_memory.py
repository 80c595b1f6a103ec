"""vLLM on TPU: loading, and what is on the devices.

Source: tpu-inference `worker/tpu_worker.py`, `runner/tpu_runner.py`,
`runner/kv_cache_manager.py`, `models/jax/utils/weight_utils.py`.
"""

from __future__ import annotations

import math
import re

from parsers.base import (
    NO_LEVEL,
    LineRule,
    Made,
    Sample,
    line_rule,
    phase_end,
    phase_start,
)
from parsers.engine.convert import text_of
from parsers.engine.signals import DevicesSeen, FailureLine, HbmLoaded, HbmSums
from parsers.rules.of_device import tpu_note, tpu_rule
from warmup_insights.model.events import (
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


_SHAPE = re.compile(r"(?:\b|_)shape=\(num_blocks, \(([\d, ]{1,80})\)")
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
    shape = _SHAPE.search(match.string)
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


MEMORY_RULES: tuple[LineRule, ...] = (
    tpu_rule(
        "tpu_load_started",
        "Init worker | ",
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
        "Init model | ",
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
        "Init mesh | ",
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
        "Initialized sharding configuration",
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
        "Memory statistics | ",
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
        ("kv-cache | ", "KV cache delete complete"),
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
        "for FP8 KV cache on TPU",
        # The FP8 that there would be, printed at each import: it makes no cache FP8.
        r"Automatically using fp8_\w{1,12} for FP8 KV cache on TPU \S{1,20}",
        None,
        "INFO 09-12 02:14:54 [tpu_platform.py:177] Automatically using fp8_e5m2 for "
        "FP8 KV cache on TPU v6e.",
        engine="tpu-inference",
    ),
    tpu_rule(
        "tpu_allocation",
        "That was not possible. There are ",
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
    ),
    phase_start(
        "tpu_download",
        "Downloading weights from HF",
        r"Downloading weights from HF \S{1,200}$",
        "download",
        "INFO 10-21 20:56:15 [weight_utils.py:100] Downloading weights from HF o/m",
    ),
    line_rule(
        "tpu_weights_file",
        "Loading weights from ",
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
        ("Total time to load model weights", "Loading dummy weights took"),
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
        "Using KV cache block size: ",
        r"Using KV cache block size: (?P<size>\d{1,9})",
        lambda match: ConfigRecorded(settings={"block_size": int(match["size"])}),
        Sample(
            "INFO 04-30 16:54:44 [tpu_platform.py:301] Using KV cache block size: 64",
            {"settings": {"block_size": 64}},
        ),
    ),
    tpu_rule(
        "tpu_states_kept",
        "Compact-mamba KV cache",
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
        "Init kv-cache | ",
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
