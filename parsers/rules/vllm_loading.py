"""Upstream vLLM: processes, plugins, downloading and loading of the model.

Source: vLLM `v1/executor/`, `plugins/`, `model_executor/model_loader/`.
"""

from __future__ import annotations

import re

from parsers.base import (
    NUMBER,
    SECONDS,
    LineRule,
    Made,
    Sample,
    line_rule,
    note_rule,
    phase_end,
    phase_start,
)
from parsers.engine.convert import model_of, text_of
from parsers.engine.signals import ModelNamed, WeightsSought
from warmup_insights.model.events import MemoryMeasured, Note, PhaseMarked
from warmup_insights.units import GIB


def _load_started(match: re.Match[str]) -> list[Made]:
    marked = PhaseMarked(name="load_model", edge="start")
    named = match["model"]
    return [marked, ModelNamed(model_of(named))] if named else [marked]


def _load_stage(match: re.Match[str]) -> Made:
    name = next(
        (part for part in ("download", "init", "quantize", "partition") if match[part]),
        "reload",
    )
    names = {
        "init": "init_model", "reload": "reload_weights", "partition": "partition_model",
    }  # fmt: skip
    seconds = float(match["seconds"])
    return PhaseMarked(name=names.get(name, name), edge="end", duration_s=seconds)


def _weight_cache(match: re.Match[str]) -> Made:
    """Whether the weights of a daemon were mapped, or why they were read from disk."""
    values: dict[str, str] = {"outcome": "mapped"}
    if match["mapped"] is None:
        values = {
            "outcome": "fell back",
            "reason": text_of(match["reason"] or "failed"),
        }
    return Note(topic="weight_cache", text=text_of(match[0]), values=values)


def _ray_waits(match: re.Match[str]) -> list[Made]:
    """Ray has no place for all ranks yet (`executor/ray_utils.py _wait_until_pg_ready`)."""
    return [
        PhaseMarked(name="start_workers", edge="start"),
        Note(
            topic="ray_wait", text=text_of(match[0])[:300],
            values={"waited_s": int(match["seconds"])},
        ),
    ]  # fmt: skip


LOAD_RULES: tuple[LineRule, ...] = (
    phase_start(
        "ray_workers_made",
        # Printed when every worker has answered (`executor/ray_distributed_executor.py`).
        r"Copying the following environment variables to workers",
        "init_worker",
        "INFO 05-09 02:42:34 [ray_distributed_executor.py:354] Copying the following "
        "environment variables to workers: ['VLLM_USE_V1']",
    ),
    phase_start(
        "worker_made",
        # The queue of a worker's answers, which is made between its imports and the set-up of
        # its device (`executor/multiproc_executor.py WorkerProc.__init__`, sizes of
        # `shm_broadcast.py MessageQueue`); those of engine and groups have other sizes.
        r"vLLM message queue communication handle: Handle\(local_reader_ranks=\[0\], "
        r"buffer_handle=\(1, 10485760, 10,",
        "distributed_init",
        "(VllmWorker rank=1 pid=94) INFO 08-16 01:44:26 [shm_broadcast.py:289] vLLM message "
        "queue communication handle: Handle(local_reader_ranks=[0], buffer_handle=(1, "
        "10485760, 10, 'psm_3c3b2ea7'), local_subscribe_addr='ipc:///tmp/a')",
    ),
    phase_start(
        "nccl_connecting",
        # Each rank, before it meets the others (`distributed/device_communicators/
        # pynccl.py`); before 0.11 its first line of that.
        r"vLLM is using nccl==\d",
        "distributed_init",
        "(RayWorkerWrapper pid=1069) INFO 03-27 22:18:01 [pynccl.py:69] vLLM is using "
        "nccl==2.25.1",
        startup_only=True,
    ),
    phase_start(
        "engine_processes",
        r"DP group leader: node_rank=",
        "start_workers",
        "(EngineCore pid=1) INFO 07-16 19:52:52 [multiproc_executor.py:140] DP group "
        "leader: node_rank=0, node_rank_within_dp=0",
    ),
    line_rule(
        "ray_waits",
        r"Waiting for creating a placement group of specs for (?P<seconds>\d{1,6}) seconds\..*",
        _ray_waits,
        Sample(
            "INFO 05-26 18:54:23 [ray_utils.py:233] Waiting for creating a placement "
            "group of specs for 30 seconds. specs=[{'GPU': 1.0}, {'GPU': 1.0}]. Check "
            "`ray status` to see if you have enough resources",
            {"name": "start_workers", "edge": "start"},
        ),
    ),
    phase_start(
        "plugins_loading",
        r"Available plugins for group",
        "import",
        "INFO 11-20 07:31:54 [__init__.py:52] Available plugins for group "
        "vllm.platform_plugins:",
    ),
    line_rule(
        "plugin_listed",
        r"- warmup_insights -> warmup_insights\.vllm_plugin:register$",
        None,
        "DEBUG 11-29 13:55:22 [plugins/__init__.py:54] - warmup_insights -> "
        "warmup_insights.vllm_plugin:register",
        files=("__init__.py",),
    ),
    phase_start(
        "triton_looked_for",
        r"Triton (?:is installed(?:,| but) |not installed or not compatible)",
        "import",
        "INFO 08-28 16:47:19 [importing.py:95] Triton not installed or not "
        "compatible; certain GPU-related functions will not be available.",
        levels=("INFO", "WARNING"),
        hint=("Triton is installed", "Triton not installed"),
    ),
    phase_start(
        "engine_process_started",
        r"Started engine process with PID \d{1,9}",
        "start_engine",
        "INFO 09-11 14:13:01 [api_server.py:266] Started engine process with PID 45",
    ),
    line_rule(
        "load_started",
        # A name without the dots behind it may be cut.
        r"Starting to load model(?: (?P<model>\S{1,300}?)\.\.\.)?|"
        r"Loading model from scratch|Loading weights on \w{1,20}",
        _load_started,
        Sample(
            "INFO 11-20 07:31:58 [hpu_model_runner.py:4741] Starting to load model "
            "/m...",
            {"name": "load_model", "edge": "start"},
        ),
        Sample(
            "INFO 10-30 19:35:56 loader.py:284] Loading weights on hpu ...",
            {"name": "load_model", "edge": "start"},
        ),
    ),
    line_rule(
        "model_banner",
        r"[▀-▟\s]{0,60}  model   (?P<model>\S{1,300})\s*$",
        lambda match: ModelNamed(model_of(match["model"])),
        Sample(
            "(APIServer pid=2) INFO 08-01 18:02:54 [api_utils.py:339]   █▄█▀ █     "
            "█     █     █  model   a/b",
            {"model": "a/b"},
        ),
    ),
    line_rule(
        "load_stage_took",
        r"(?:(?P<download>Time (?:spent downloading|took to download) weights for .{1,300}?: )|"
        r"(?P<init>Initializing model took )|"
        r"(?P<quantize>Online quantization as part of model loading took )|"
        r"(?P<partition>Partition model took )|"
        r"Reloading and processing weights took )(?P<seconds>[\d.]{1,16}) seconds",
        _load_stage,
        Sample(
            "INFO 08-03 21:42:53 [weight_utils.py:537] Time spent downloading weights "
            "for a/b: 2389.490000 seconds",
            {"name": "download", "edge": "end", "duration_s": 2389.49},
        ),
        Sample(
            "INFO 03-03 21:42:53 weight_utils.py:272] Time took to download weights "
            "for a/b: 238.250000 seconds",
            {"name": "download", "edge": "end", "duration_s": 238.25},
        ),
        Sample(
            "INFO 09-16 21:42:53 [base_loader.py:82] Initializing model took 1.250000 "
            "seconds",
            {"name": "init_model", "duration_s": 1.25},
        ),
        Sample(
            "INFO 09-16 21:42:53 [base_loader.py:164] Online quantization as part of "
            "model loading took 3.50 seconds",
            {"name": "quantize", "duration_s": 3.5},
        ),
        Sample(
            "INFO 09-16 21:42:53 [inplace.py:113] Reloading and processing weights "
            "took 3.50 seconds",
            {"name": "reload_weights", "duration_s": 3.5},
        ),
    ),
    phase_start(
        "reload_started",
        # `gpu_model_runner.py reload_weights`, in an engine that was made.
        r"Reloading weights inplace\.\.\.",
        "reload_weights",
        "(EngineCore_DP0 pid=2) INFO 11-25 03:26:13 [gpu_model_runner.py:3436] Reloading "
        "weights inplace...",
        startup_only=True,
    ),
    line_rule(
        "weights_sought",
        # The index is looked for when the weights are there (`_prepare_weights`).
        r"Using model weights format |(?P<index>No \S{1,80}\.json found in remote\.)",
        lambda match: WeightsSought(are_there=match["index"] is not None),
        Sample(
            "INFO 07-16 19:53:31 [weight_utils.py:419] Using model weights format "
            "['*.safetensors']",
            {"are_there": False},
        ),
        Sample(
            "INFO 01-16 18:11:57 weight_utils.py:288] No model.safetensors.index.json found "
            "in remote.",
            {"are_there": True},
        ),
        startup_only=True,
    ),
    phase_end(
        "weights_loaded",
        r"Loading weights took (?P<duration_s>[\d.]{1,16}) seconds",
        "load_weights",
        Sample(
            "INFO 06-04 01:18:34 [default_loader.py:272] Loading weights took 4.12 "
            "seconds",
            {"duration_s": 4.12},
        ),
    ),
    line_rule(
        "model_loaded",
        r"(?:Loading model weights|Model loading) took "
        rf"(?:(?P<delta_gib>{NUMBER}) Gi?B|(?P<delta_mib>{NUMBER}) MiB)(?: memory)?"
        rf"(?: and {SECONDS} seconds)?\s*$",
        MemoryMeasured,
        Sample(
            "INFO 01-30 11:53:52 model_runner.py:1115] Model loading took 7.5100 GB",
            {"stage": "weights", "delta_bytes": round(7.51 * GIB)},
        ),
        Sample(
            "(Worker_TP0 pid=1) INFO 07-16 19:59:51 [gpu_model_runner.py:5335] Model "
            "loading took 54.82 GiB memory and 389.427126 seconds",
            {"delta_bytes": round(54.82 * GIB), "duration_s": 389.427126},
        ),
        fixed={"stage": "weights"},
    ),
    phase_end(
        "block_size_chosen",
        r"Setting kv cache block size to \d",
        "load_model",
        "(Worker_TP1 pid=1) INFO 07-16 20:02:39 [interface.py:635] Setting kv cache "
        "block size to 64 for DEEPSEEK_V32_INDEXER backend.",
    ),
    note_rule(
        "memory_external_weights",
        rf"Weights are held outside this process: of the (?P<usable_gib>{NUMBER}) GiB "
        rf"utilization budget, (?P<external_gib>{NUMBER}) GiB is externally held and "
        rf"(?P<own_gib>{NUMBER}) GiB remains.{{0,100}}",
        "memory",
        "INFO 09-16 20:04:12 [utils.py:751] Weights are held outside this process: of "
        "the 71.26 GiB utilization budget, 20.0 GiB is externally held and 51.26 GiB "
        "remains for the engine's own allocations.",
        values={
            "usable_bytes": round(71.26 * GIB),
            "external_bytes": 20 * GIB,
            "own_bytes": round(51.26 * GIB),
        },
    ),
    note_rule(
        "checkpoint",
        r"Filesystem type for checkpoints: (?P<filesystem>[\w.\-]{1,40})\. "
        rf"Checkpoint size: (?P<size_gib>{NUMBER}) GiB\. Available RAM: (?P<available_gib>{NUMBER}) GiB",
        "checkpoint",
        "INFO 07-16 19:53:31 [weight_utils.py:869] Filesystem type for checkpoints: "
        "GPFS. Checkpoint size: 361.06 GiB. Available RAM: 900.00 GiB.",
        values={
            "size_bytes": round(361.06 * GIB),
            "available_bytes": 900 * GIB,
            "filesystem": "GPFS",
        },
    ),
    line_rule(
        "weight_cache",
        r"(?P<mapped>Mapped \d{1,9} tensors from the weight cache daemon).{0,100}|"
        r"Weight cache (?:unusable \((?P<reason>.{1,500})\)|IPC loading failed); "
        r"falling back to disk loading",
        _weight_cache,
        Sample(
            "INFO 10-16 20:04:12 [ipc_loader.py:208] Mapped 291 tensors from the "
            "weight cache daemon (zero_copy mode)",
            {"topic": "weight_cache", "values": {"outcome": "mapped"}},
        ),
        Sample(
            "WARNING 10-16 20:04:12 [ipc_loader.py:139] Weight cache unusable "
            "(WeightCacheKey mismatch on fields: ['checkpoint']); falling back to "
            "disk loading",
            {
                "topic": "weight_cache",
                "values": {
                    "outcome": "fell back",
                    "reason": "WeightCacheKey mismatch on fields: ['checkpoint']",
                },
            },
        ),
    ),
    note_rule(
        "page_cache",
        r"Prefetching checkpoint files into page cache (?:finished|started) .{1,200}|"
        r"Prefetching checkpoint files: .{1,100}|(?:\w{1,20} )?EP weight filter: .{1,200}|"
        r"Released .{1,20} of checkpoint page cache .{1,200}|"
        r"(?:mm-encoder-only: s|S)kipped \d{1,7}/\d{1,7} safetensors shard\(s\).{1,200}|"
        r"safetensors_load_strategy='prefetch' .{1,300}|"
        r"(?:===== |Cannot (?:query|watch) the |Cannot query |Failed to ask the |"
        r"Waiting up to \S{1,20} for the )?[Ww]eight cache (?!unusable|IPC).{1,300}|"
        r"Auto-prefetch is disabled .{1,300}|"
        r"Network filesystem .{1,300}",
        "checkpoint",
        "INFO 07-16 19:53:31 [weight_utils.py:899] Auto-prefetch is disabled because "
        "the filesystem (EXT4) is not a recognized network FS (NFS/Lustre).",
    ),
)
