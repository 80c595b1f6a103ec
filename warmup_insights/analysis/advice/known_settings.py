"""Settings that an engine refused, and the values that follow from its message."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from warmup_insights.analysis.advice.change import Way
from warmup_insights.analysis.advice.known_texts import KnownError, rows
from warmup_insights.analysis.plan.planning import MAX_UTILIZATION
from warmup_insights.analysis.sentences import count_of

_FULLER = "each device holds more of the weights and of the KV cache"
MOST_RANKS = 1025
ON_HOST = 0.9
"""Of the memory that is free on a host: what a KV cache there may take."""


def _ranks_on_nodes(match: re.Match[str]) -> Iterable[Way]:
    """vLLM `v1/executor/ompmultiprocessing.py`: a node for each worker, unless bound."""
    nodes = len(re.findall(r"\d+", match[1]))
    if nodes:
        yield Way.that_sets(
            "the weights lie on fewer nodes", tensor_parallel_size=nodes
        )
    yield Way(
        "VLLM_CPU_OMP_THREADS_BIND with the cores of each worker, such as 0-7|8-15",
        "workers on one node share its memory and bandwidth",
    )


def _with_alibi(match: re.Match[str]) -> Iterable[Way]:
    """vllm-gaudi `extension/features.py`: prefix caching turns contiguous blocks off."""
    if match[1] == "FusedSDPA":
        yield Way.that_sets("slower prompts", VLLM_PROMPT_USE_FUSEDSDPA="false")
    elif match[1] == "Flex Attention":
        yield Way.that_sets("slower prompts", VLLM_PROMPT_USE_FLEX_ATTENTION="false")
    else:
        yield Way(
            "--no-enable-prefix-caching, and VLLM_CONTIGUOUS_PA unset",
            "prompts that begin alike are computed anew",
        )


def _cache_on_host(match: re.Match[str]) -> Iterable[Way]:
    """vLLM `v1/worker/cpu_worker.py determine_available_memory`: the size that was set, or
    the rest of a share of the memory, is not free on the node."""
    free, total, requested = (float(match[number]) for number in (1, 2, 3))
    if match[4] is None:
        fits = math.floor(ON_HOST * free)
        if fits >= 1:
            yield Way.that_sets(
                f"a cache of {fits} instead of {requested:g} GiB",
                " (GiB; or --kv-cache-memory-bytes)",
                VLLM_CPU_KVCACHE_SPACE=fits,
            )
    elif requested > free and total:
        share = (
            math.floor(100 * (float(match[4]) - requested + ON_HOST * free) / total)
            / 100
        )
        if share > 0:
            yield Way.that_sets(
                "a smaller KV cache",
                ", which is a share of the host's memory",
                gpu_memory_utilization=share,
            )
    else:
        yield Way(
            "a higher --gpu-memory-utilization, which is a share of the host's memory",
            "less of it for others; the process holds more than its share before the cache",
        )
    yield Way("other processes on the host ended, or a larger limit of the container")


def _divisors(number: int, below: int) -> list[int]:
    """The numbers of ranks below another one that divide a size; none of a size of 0."""
    return [n for n in range(1, min(below, MOST_RANKS)) if number and number % n == 0]


def _fewer_ranks(match: re.Match[str]) -> Iterable[Way]:
    """The ranks among which so many heads divide: a power of two first.

    Other sizes of a model have to divide too, and most are multiples of a power of two: the
    vocabulary is padded to one of 64 (vLLM `layers/vocab_parallel_embedding.py`).
    """
    heads, ranks = (int(text) for text in match.groups() if text)
    fitting = _divisors(heads, ranks)
    if not fitting:
        return
    even = [number for number in fitting if number & (number - 1) == 0][-1]
    most = even if even > 1 else fitting[-1]
    yield Way.that_sets(
        f"{heads:,} divide among {', '.join(map(str, fitting[-8:]))} ranks; each "
        "device holds more of the weights then",
        tensor_parallel_size=most,
    )
    if ranks % most == 0:
        yield Way.that_sets(
            "the same number of devices; the stages run one after the other",
            tensor_parallel_size=most,
            pipeline_parallel_size=ranks // most,
        )
    if fitting[-1] != most:
        yield Way(
            f"--tensor-parallel-size {fitting[-1]}, where the padded vocabulary and the widths of "
            "the layers divide by it as well",
            "the next size may not divide",
        )


def _shorter_model(match: re.Match[str]) -> Iterable[Way]:
    """The length that the model was made for."""
    length = math.floor(float(match[1]))
    yield Way.that_sets(
        f"requests of more than {length:,} tokens are refused", max_model_len=length
    )
    yield Way(
        "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1, or a scaling of the positions that the model card "
        "gives (--hf-overrides)",
        "wrong answers, or invalid memory accesses, beyond the length the model was made for",
    )


def _within_bounds(match: re.Match[str]) -> Iterable[Way]:
    """The value of each of two settings with which it keeps the bound of the other."""
    first, value, relation, second, bound = match.groups()
    is_most = re.search(
        r"<=|must be less|should be less|larger|cannot be greater|is greater", relation
    )
    is_first_lowered = is_most is not None
    for name, other, is_lowered in (
        (first, bound, is_first_lowered),
        (second, value, not is_first_lowered),
    ):
        if name in _PRICES and int(other):
            more = " or less" if is_lowered else " or more"
            yield Way.that_sets(_PRICES[name][is_lowered], more, **{name: int(other)})


def _higher_limit(match: re.Match[str]) -> Iterable[Way]:
    """The utilisation that holds more than the weights, where one does: some must be left
    (tpu-inference `tpu_worker.py determine_available_memory`), and both are rounded."""
    used, limit, share = (float(text) for text in match.groups())
    exact = share * (used + 0.005) / (limit - 0.005) if limit > 0.01 else 1.0
    needed = (math.floor(1000 * exact) + 1) / 1000
    if needed <= MAX_UTILIZATION:
        yield Way.that_sets(
            "less margin; the KV cache has only what is above it",
            gpu_memory_utilization=needed,
        )
    yield Way(
        "weights of fewer bits, or more devices",
        "accuracy and another checkpoint, or devices",
    )
    if needed > MAX_UTILIZATION:
        yield Way(
            f"--gpu-memory-utilization {needed:g} alone",
            f"does not help: {MAX_UTILIZATION:g} is the most; the weights are loaded "
            "whatever it is",
            kind="no help",
        )


def _larger_rank(match: re.Match[str]) -> Iterable[Way]:
    """The next rank that vLLM allows (`config/lora.py`, `MaxLoRARanks`)."""
    rank = int(match[1])
    allowed = [n for n in (8, 16, 32, 64, 128, 256, 320, 512) if n >= rank]
    if allowed:
        yield Way.that_sets(
            "memory for each adapter that may be loaded", max_lora_rank=allowed[0]
        )


def _fewer_chips(match: re.Match[str]) -> Iterable[Way]:
    """As many ranks as JAX has devices; one may be the processor, where it found no TPU."""
    there = int(match[1] or match[2])
    if there > 1:
        yield Way.that_sets(_FULLER, tensor_parallel_size=there)
    yield Way(
        "`python -c 'import jax; print(jax.devices())'`: CpuDevice means that no TPU was found; "
        "TPU_VISIBLE_CHIPS and the devices of the container or session otherwise"
    )


def _as_many_states(match: re.Match[str]) -> Iterable[Way]:
    """As many requests as states fit (vLLM `config/compilation.py`)."""
    blocks = int(match[1])
    if blocks:
        yield Way.that_sets(
            f"at most {count_of(blocks, 'request')} at once", max_num_seqs=blocks
        )
    yield Way(
        "a higher --gpu-memory-utilization, as far as memory is free at the start",
        "less margin; how much a state takes the message does not hold",
    )


def _dividing_context(match: re.Match[str]) -> Iterable[Way]:
    """The most ranks of a context that divide those of tensor parallelism."""
    fitting = _divisors(int(match[1]), int(match[2]))
    if fitting:
        yield Way.that_sets(
            "each rank holds more of the KV cache",
            decode_context_parallel_size=fitting[-1],
        )


def _dividing_experts(match: re.Match[str]) -> Iterable[Way]:
    """Experts beside those of the model, or ranks that divide them (vLLM `distributed/eplb/`,
    `model_executor/layers/fused_moe/layer.py`)."""
    experts, ranks = int(match[1]), int(match[2])
    if not experts or not ranks:
        return
    yield Way(
        f"num_redundant_experts larger by {-experts % ranks} in --eplb-config, with "
        "--enable-eplb",
        "memory for these experts on some ranks",
    )
    fitting = _divisors(experts, ranks)
    if fitting:
        yield Way(
            f"{fitting[-1]} ranks, which divide {experts}: they are those of "
            "--tensor-parallel-size times --data-parallel-size",
            "each device holds more experts",
        )


def _multiples(value: int, part: int) -> list[int]:
    """The whole multiples of a part below and above a value, without zero."""
    found = (value // part * part, -(-value // part) * part) if part else ()
    return [each for each in found if each]


def _whole_chunks(match: re.Match[str]) -> Iterable[Way]:
    """Steps of whole Mamba chunks, below and above the value given."""
    tokens = int(match[1])
    for value in _multiples(tokens, int(match[2])):
        yield Way.that_sets(
            "prompts run in slightly more pieces"
            if value <= tokens
            else "more memory for activations",
            max_num_batched_tokens=value,
        )


def _whole_drafts(match: re.Match[str]) -> Iterable[Way]:
    """Drafts of whole passes of the draft layers, below and above the value given."""
    for value in _multiples(int(match[1]), int(match[2])):
        yield Way(
            f"num_speculative_tokens {value} in --speculative-config",
            f"{value:,} tokens are drafted in a step",
            {"num_speculative_tokens": value},
        )


_LATER = {
    "--task": "--runner pooling for embeddings, scores and rewards, with --convert embed or "
    "classify for a generative model; nothing for generation",
    "--speculative-model": "--speculative-config with the keys method, model and "
    "num_speculative_tokens",
    "--num-speculative-tokens": "num_speculative_tokens in --speculative-config",
    "--rope-scaling": '--hf-overrides with "rope_scaling" or "rope_parameters", as the '
    "transformers of the release names it",
    "--rope-theta": "--hf-overrides, as the transformers of the release names it",
    "--enable-reasoning": "--reasoning-parser alone",
    "--guided-decoding-backend": "--structured-outputs-config with the key backend",
    "--disable-log-requests": "nothing: requests are logged with --enable-log-requests only",
    "--num-scheduler-steps": "nothing: the V1 engine has no such steps",
    "--device": "nothing: the build of vLLM or its plugin decides",
    "--max-seq-len-to-capture": "--max-cudagraph-capture-size, which counts tokens of a batch",
    "--cuda-graph-sizes": "--cudagraph-capture-sizes",
    "--swap-space": "nothing: the V1 engine has no such space",
    "--use-v2-block-manager": "nothing: it is the only one",
    "--override-pooler-config": "--pooler-config",
    "--disable-mm-preprocessor-cache": "--mm-processor-cache-gb 0",
}
"""Arguments of earlier releases to what vLLM 0.19 has for them (`engine/arg_utils.py`)."""


_OF_REQUESTS = (
    "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty",
    "frequency_penalty", "max_tokens", "max_new_tokens",
)  # fmt: skip
"""Parameters of a request (vLLM `sampling_params.py`)."""


def _later_name(match: re.Match[str]) -> Iterable[Way]:
    """What later releases have for an argument; it may be one of later releases itself."""
    later = _LATER.get(match[1])
    if later is not None:
        yield Way(
            f"{later} (instead of {match[1]})", "none; releases before take the old one"
        )
        return
    name = match[1].removeprefix("--").replace("-", "_")
    if name in _OF_REQUESTS:
        yield Way(
            f"no {match[1]}, which each request states for itself; a default for all: "
            f"--override-generation-config with the key {name}"
        )
        return
    yield Way(
        f"`vllm serve --help=all` of this version for what {match[1]} is called, or remove it; "
        "an argument of a later release needs that release"
    )


_CONNECTORS = {
    "LMCacheConnector": "LMCacheConnectorV1", "LMCacheConnectorV1": "LMCacheConnector",
    "SharedStorageConnector": "ExampleConnector", "ExampleConnector": "SharedStorageConnector",
}  # fmt: skip
"""Names of one connector in releases and engines (vLLM `kv_connector/factory.py`)."""


def _other_connector(match: re.Match[str]) -> Iterable[Way]:
    """The name of a connector in other releases; a package may bring one of its own."""
    other = _CONNECTORS.get(match[1])
    if other is not None:
        yield Way(
            f"kv_connector {other} in --kv-transfer-config",
            "none; the name of another release or engine",
        )
    yield Way(
        "a kv_connector that this version has, or kv_connector_module_path with the module of "
        f"{match[1]}, where a package brings it"
    )
    yield Way(
        "a vLLM whose documentation of the connector names this version",
        "another image",
    )


_ORDERED_RANGE = Way(
    "VLLM_PROMPT_... and VLLM_DECODE_..._BUCKET_MIN at most their _MAX: the lines `bucket "
    "config` above list (min, step, max); an unset _MAX follows from max_num_seqs, "
    "max_model_len and max_num_batched_tokens"
)
_POSITIVE_STEP = Way(
    "VLLM_PROMPT_... and VLLM_DECODE_..._BUCKET_STEP at least 1, or unset"
)
_NO_SKIP = Way(
    "VLLM_SKIP_WARMUP=true, as the message proposes",
    "does not help in use: each shape compiles when a request needs it",
    kind="no help",
)


_RANKS = r"(?:tensor[ _-](?:model[ _-])?parallel(?:ism)?(?:[ _](?:world[ _])?size)?|\w{0,12}tp_size|TP size)"
_PRICES = {
    "max_num_batched_tokens": ("more memory for activations", "prompts run in more pieces"),
    "max_model_len": ("more KV cache for one request", "longer requests are refused"),
    "max_num_seqs": ("more memory for activations", "fewer requests at once"),
    "max_num_active_seqs": ("more memory for states", "fewer requests at once"),
    "max_cpu_loras": ("memory of the host", "fewer adapters are kept on the host"),
    "max_loras": ("memory for each adapter", "fewer adapters in one batch"),
    "data_parallel_size": ("more devices", "fewer copies of the engine"),
    "data_parallel_size_local": ("more devices of this node", "fewer copies on this node"),
    "offload_group_size": ("fewer layers are moved", "more layers are moved"),
    "offload_num_in_group": ("more layers are moved", "fewer layers are moved"),
    "long_prefill_token_threshold": ("fewer prompts count as long", "more prompts count as long"),
    "max_num_partial_prefills": ("more prompts at once", "fewer prompts at once"),
    "max_long_partial_prefills": ("more long prompts at once", "fewer long prompts at once"),
}  # fmt: skip
"""Settings of vLLM (`config/`) that bound each other: the price of more and of less."""
_BOUNDED = "|".join(_PRICES)


ROWS: tuple[KnownError, ...] = (
    *rows(
        "host_limit",
        (r"Available memory on node \d{1,5} \(([\d.]{1,12})/([\d.]{1,12}) GiB\) on kv cache "
         r"allocation is less than requested memory for kv "
         r"\((-?[\d.]{1,12})(?:/([\d.]{1,12}))? GiB\)",
         "The KV cache that was requested does not fit into the memory of the host",
         _cache_on_host),
    ),
    *rows(
        "setting_refused",
        # vLLM `utils/jit_monitor.py`, with --jit-monitor-mode error.
        (r"JIT compilation during inference: ",
         "A kernel had to be compiled while serving, and the run forbids that",
         (Way.that_sets("requests wait while a kernel is compiled", jit_monitor_mode="warn"),
          Way("a newer vLLM, whose warm-up may run this kernel", "another image"))),
        (r"Not? enough allowed NUMA nodes to bind threads of \d{1,6} (?:local )?CPUWorkers\. Allowed "
         r"NUMA nodes are \[([\d, ]{0,200})\]",
         "There are fewer nodes of memory than workers on the CPU",
         _ranks_on_nodes),
        (r"(?:[Ww]orld[ _]size|set tensor_parallel_size) \((\d{1,6})\) (?:is larger than the number of "
         r"available GPUs|must be less than or equal to the number of visible devices|to less than "
         r"max local gpu count) \((\d{1,6})\)|replica size \((\d{1,6})\) exceeds the number of visible "
         r"\w{1,10} devices \((\d{1,6})\)|local_world_size \((\d{1,6})\) exceeds "
         r"assigned_physical_gpu_ids count \((\d{1,6})\)",
         "There are fewer devices than ranks",
         (Way.that_sets(_FULLER, tensor_parallel_size="{2}{4}{6}"),
          Way("{1}{3}{5} devices for the container or process (--gpus, CUDA_VISIBLE_DEVICES, the "
              "resource limit of the pod)", "it has {2}{4}{6} now"),
          Way("--distributed-executor-backend ray, with the devices of several nodes",
              "a Ray cluster; every node needs the same image and the weights"))),
        (r"local[ _]rank \d{1,6} is out of bounds|local range: \[\d{1,6}, \d{1,6}\) base value|"
         r"(?:visible device ordinal|device_id) \d{1,6} is out of range for",
         "There are fewer devices than the engines of this node need",
         (Way("a smaller --data-parallel-size-local: times --tensor-parallel-size and "
              "--pipeline-parallel-size at most the devices that the process sees",
              "fewer copies of the engine on this node"),
          Way("more devices for the container or process (CUDA_VISIBLE_DEVICES, --gpus, the resource "
              "limit of the pod)", "more devices"))),
        (r"partitions?\)=.{1,80} does not match num_hidden_layers|Invalid partition string",
         "The layers are not divided among the stages as VLLM_PP_LAYER_PARTITION states",
         (Way("VLLM_PP_LAYER_PARTITION with as many numbers as stages, whose sum is the layers of the "
              "model, or unset"),)),
        (r"(?:Unknown|Invalid) attention backend: '?([\w.]{1,60})",
         "There is no attention backend of this name",
         (Way("one of the names in the message instead of {1} for --attention-backend "
              "(VLLM_ATTENTION_BACKEND in older versions), or a newer vLLM that has it"),)),
        (r"Backend \w{1,40} is not supported for vit attention",
         "The encoder of images has no attention of this name",
         (Way("no --mm-encoder-attn-backend, or one of those in the message"),)),
        (r"platform \S{1,20} does not support ray",
         "Ray does not run workers on this kind of device",
         (Way.that_sets("devices of one node", distributed_executor_backend="mp"),)),
        (r"backend only supports V1\b",
         "This kind of device runs on the engine V1 alone",
         (Way.that_sets("none: the V0 engine has none for it", VLLM_USE_V1="1"),)),
        (r"Unknown vLLM environment variable detected: (\w{1,80})",
         "The environment has a variable that this version does not read",
         (Way("{1} unset, or the name that this version has for it"),
          Way("no --fail-on-environ-validation", "such variables are left alone"))),
        (r"Load format [`']?(\w{1,40})[`']? is not supported",
         "There is no load format of this name",
         (Way.that_sets("the engine picks one", load_format="auto"),
          Way("a newer vLLM, or the package that brings {1}", "another image"))),
        (r"[Cc]apture size larger than (\d{1,6}) is not supported",
         "The attention backend records no whole graph of so large a batch",
         (Way("no cudagraph_capture_sizes above {1}: --max-cudagraph-capture-size {1} "
              "(--cuda-graph-sizes in older versions)", "larger batches run without graphs"),
          Way('--compilation-config \'{{"cudagraph_mode": "PIECEWISE"}}\'',
              "attention runs outside of graphs"))),
        (r"Hidden Size \d{1,6} (?:not in supported list|is greater than the maximum supported)",
         "The kernels that were chosen for exchanging tokens have none for this hidden size",
         (Way("no --all2all-backend (VLLM_ALL2ALL_BACKEND in older versions), or another one: "
              "deepep_high_throughput has no such list",
              "slower decoding than with kernels for low latency"),)),
        (r"number of CPU id list .{1,1500}match local world size (\d{1,6})",
         "Another number of lists of cores than workers",
         (Way("VLLM_CPU_OMP_THREADS_BIND with {1} lists, separated by |, or auto"),)),
        (r"VLLM_CPU_NUM_OF_RESERVED_CPU \((\d{1,6})\) should (?:be )?less than (\d{1,6})",
         "No core is left for the workers",
         (Way("VLLM_CPU_NUM_OF_RESERVED_CPU of less than {2}", "less for other processes"),
          Way("more cores for the container or process, where it has {2}", "cores"))),
        (r"attention backends share no supported KV cache block size \((.{1,300})\)",
         "The attention backends of this model have no size of blocks in common",
         (Way("no --attention-backend (VLLM_ATTENTION_BACKEND in older versions) of your own, and no "
              "--block-size, where they are set: {1}", "the engine picks those that fit, where there are some"),)),
        (r"Number of devices (\d{1,6}) must be >= the product of mesh_shape|"
         r"Insufficient devices for 2D mesh: found (\d{1,6}),",
         "There are fewer devices than ranks",
         _fewer_chips),
        (r"Pipeline parallelism is not supported for this model|"
         r"assert intermediate_tensors is not None",
         "This version does not divide the model into stages",
         (Way("no --pipeline-parallel-size; the devices by --tensor-parallel-size, as far as the "
              "attention heads divide among them",
              "each layer lies on all devices, which exchange more"),
          Way("a newer vLLM or plugin, whose model has stages (`SupportsPP`)", "another image"))),
        (r"new_spec\.page_size_bytes == max_page_size|page size (?:of the layer )?is not divisible by "
         r"the\s{1,3}maximum page size",
         "Blocks of the KV cache have sizes for several kinds of layers that do not divide one "
         "another",
         (Way("no --speculative-config: the layers of a draft model share the cache",
              "no speculative decoding", where={"speculative_config": True}),
          Way("--kv-cache-dtype auto and no --block-size", "a cache of 16 bits",
              where={"kv_cache_dtype": True}),
          Way("no --speculative-config, or --kv-cache-dtype auto, for one start where they are "
              "set: a draft model or another type changes the sizes", "what they set"),
          Way("a newer vLLM, which pads such blocks", "another image"))),
        (r"Resource axis: (\w{1,40}) of PartitionSpec.{0,300}is not found in mesh",
         "The model divides its tensors along an axis that the mesh of the devices does not have",
         (Way("NEW_MODEL_DESIGN=1: tpu-inference makes a mesh with more axes ({1} was wanted)",
              "another division of the model", {"NEW_MODEL_DESIGN": "1"}),
          Way("another MODEL_IMPL_TYPE, whose model needs fewer axes", "another implementation"))),
        (r"Unsupported mxfp4_backend for Mxfp4MoEMethod: Mxfp4MoeBackend\.(\w{1,60})",
         "The weights cannot be laid out for the kernel of experts that was chosen",
         (Way("--moe-backend marlin, or triton where the device has it: {1} was chosen",
              "slower experts than with a kernel made for the device"),
          Way("a newer vLLM, whose choice fits the weights", "another image"))),
        (r"assert self\.page_size_padded >= ",
         "A block of the KV cache is smaller than the state of a Mamba layer, which it has to hold",
         (Way("no --block-size: the engine picks one whose blocks hold a state, unless the plugin "
              "of a device keeps its own"),
          Way("--kv-cache-dtype auto: blocks of the same length are twice as large", "a cache of "
              "16 bits", where={"kv_cache_dtype": True}),
          Way("vLLM and the plugin of the device of one release, or a newer one: they divide the "
              "cache of such models between them", "another image"))),
        (r"no attribute '(?:set_aux_hidden_state_layers|get_eagle3\w{1,60})'|"
         r"does not support (?:the )?EAGLE3 interface",
         "The model does not give out what a draft model of EAGLE3 needs",
         (Way("a newer vLLM, whose model does, or no --speculative-config of eagle3",
              "another image, or no speculative decoding"),)),
        (r"must be divisible by hash_block_size",
         "Blocks that prefix caching tells apart do not divide those of the KV cache",
         (Way("no --block-size, and none in --kv-transfer-config: the engine chooses sizes that fit",
              "what it set"),
          Way("--no-enable-prefix-caching, which does without them", "each prompt runs whole",
              {"enable_prefix_caching": False}),
          Way("a newer vLLM", "another image"))),
        (r"has no attribute '((?:nv|mx)fp4\w{0,20}|fp8\w{0,20}|turboquant\w{0,20}|int[48]_\w{1,30})'",
         "An attention backend does not know the type of the KV cache that was asked for",
         (Way.that_sets("twice the memory of a cache of 4 bits", kv_cache_dtype="fp8"),
          Way.that_sets("a cache of 16 bits", kv_cache_dtype="auto"),
          Way("a newer vLLM and FlashInfer, where they hold {1} on this device",
              "another image"))),
        (r"Hybrid KV cache manager is disabled but failed to convert",
         "Layers of several kinds cannot share one KV cache, as it was asked for",
         (Way("no --kv-transfer-config, or --no-disable-hybrid-kv-cache-manager with it, where "
              "the connector can do with several groups of layers: a connector turns the "
              "manager of such caches off", "KV cache is not passed on, without a connector"),
          Way("no --disable-hybrid-kv-cache-manager"))),
        (r"n_physical_experts=(\d{1,6}) must be divisible by ep_size=(\d{1,6})",
         "The experts do not divide among the ranks", _dividing_experts),
        (r"[Nn]umber of experts in the model must be greater than 0|"
         r"(?i:expert[ _-]parallel).{0,80}\b(?:no experts|dense models?)\b",
         "Experts are to be divided among the ranks, and the model, or its draft model, has none",
         (Way("no --enable-expert-parallel", "none for a model without experts; one with them has a "
              "part of every expert on each rank"),
          Way("no draft model without experts in --speculative-config, where the model itself has "
              "them", "slower decoding", where={"speculative_config": True}))),
        (r"Unsupported connector type: (\w{1,80})",
         "This version has no KV connector of this name",
         _other_connector),
        (r"issubclass\(connector_cls, KVConnectorBase\)",
         "The KV connector is none of the V0 engine, which this run has",
         (Way("the V1 engine: VLLM_USE_V1 unset or 1, and nothing that it does not have"),
          Way("another kv_connector in --kv-transfer-config", "how caches are passed on"))),
        (r"issubclass\(connector_cls, KVConnectorBase_V1\)",
         "The KV connector is none of the V1 engine, which this run has",
         (Way("a kv_connector of the V1 engine in --kv-transfer-config: LMCacheConnectorV1 for "
              "LMCacheConnector, or that of another module",
              "how caches are passed on"),
          Way("VLLM_USE_V1=0, where the release still has the V0 engine", "the older engine"))),
        (r"Expected at least (\d{1,9}) dummy tokens for profiling, but (?:found|got:?) (\d{1,9})",
         "The profiling run makes fewer tokens of images than its prompt has",
         (Way("--max-num-batched-tokens and --max-model-len of at most {2}: a prompt of the "
              "profiling run follows from them", "longer requests are refused"),
          Way("another number of images in --limit-mm-per-prompt", "requests with more are refused"),
          Way("a newer vLLM, whose profiling run fills the prompt", "another image"))),
        (r"currently only supports block size (\d{1,6})",
         "The attention backend takes no blocks of this size",
         (Way.that_sets("none", block_size="{1}"),
          Way("no --attention-backend (VLLM_ATTENTION_BACKEND in older versions) of your own",
              "the engine picks one that fits"))),
        (r"Unsupported block size: \d|does not support block size \d",
         "The attention backend takes no blocks of this size",
         (Way("no --block-size, for one that the backend takes"),)),
        (r"(?:Block|block)[_ ]size must be (?:a multiple of|divisible by) (\d{1,6})",
         "The attention backend takes no blocks of this size",
         (Way("--block-size {1} or a multiple of it, or none", "none", {"block_size": "{1}"}),)),
        (r"Invalid value '(.{0,60}?)' (?:for|in) (VLLM_\w{1,80})",
         "A variable has a value that does not exist",
         (Way("{2} unset, or with one of the values that the message lists: an empty one, as "
              "Compose makes it of a variable that is not there, counts as a value"),)),
        (r"Model ?Runner ?V2 (?:supports|does not|is not)",
         "The newer model runner does not do this yet",
         (Way.that_sets("the model runner before", VLLM_USE_V2_MODEL_RUNNER="0"),
          Way("a newer vLLM", "another image"))),
        (r"Model ?Runner ?V1 (?:supports|does not|is not)",
         "The older model runner does not do this",
         (Way.that_sets("the newer model runner", VLLM_USE_V2_MODEL_RUNNER="1"),
          Way("what the message names left out", "what it does"))),
        (r"environment variable [`'\"]?([A-Z][A-Z\d_]{2,60})[`'\"]? (?:is )?not set",
         "A variable that the engine reads is not set",
         (Way("{1} set in the environment of the engine"),)),
        (r"(?:from|in) (?:the )?env(?:ironment)? var(?:iable)? [`'\"]?([A-Z][A-Z\d_]{2,60})",
         "A variable has a value that the engine or a library of it refuses",
         (Way("{1} unset, or with a value as the message requires it"),)),
        (r"(\w{2,80}): failed to process environment variable",
         "A variable has a value that cannot be read",
         (Way("{1} unset, or with a value of its kind: the error above this one names what is wrong"),)),
        (r"(?:Prefill with )?(FusedSDPA|Flex Attention|Non-contiguous PA) not supported with alibi",
         "This attention on Gaudi has no ALiBi, which the model needs", _with_alibi),
        (r"FusedSDPA slic|Invalid max query padding",
         "The slicing of long prompts on Gaudi does not fit the other settings",
         (Way.that_sets("more memory for long prompts", VLLM_HPU_FSDPA_SLICE_ENABLED="false"),
          Way("VLLM_BUCKETING_STRATEGY=pad, and VLLM_HPU_FSDPA_SLICE_SEQ_LEN_THLD and "
              "VLLM_HPU_FSDPA_SLICE_CHUNK_SIZE unset or as the message requires them"))),
        (r"pad_percent must be between (\d{1,3}) and (\d{1,3})",
         "A bucket may be padded by another share",
         (Way("VLLM_PROMPT_... and VLLM_DECODE_..._BUCKET_PAD_PERCENT from {1} to {2}, or unset"),)),
        (r"Unexpected extra config keys for|[Ll]oader extra config is not supported",
         "The loader has no such key",
         (Way("no --model-loader-extra-config, or only the keys that this --load-format has"),)),
        (r"block_size \((\d{1,9})\) must be <= max_num_batched_tokens",
         "A step takes fewer tokens than a block of the Mamba layers' cache",
         (Way.that_sets("more memory for activations", " or more", max_num_batched_tokens="{1}"),
          Way("--no-enable-prefix-caching, which needs these blocks",
              "prompts that begin alike are computed anew"))),
        (r"exceeds available Mamba cache blocks \((\d{1,9})\)",
         "Fewer states of the Mamba layers fit than requests may run",
         _as_many_states),
        (r"VLLM_PORT '.{1,100}' appears to be a URI|base 10: '(?:tcp|udp)://",
         "Kubernetes set a variable for a service: VLLM_PORT for one that is named vllm",
         (Way("enableServiceLinks: false in the pod, or another name for the service"),
          Way("VLLM_PORT with a number in the pod"))),
        (r"Offline data parallel mode is not supported",
         "A program that is no server runs no copies of a dense model",
         (Way("no data_parallel_size: a program for each rank, each with devices of its own "
              "(CUDA_VISIBLE_DEVICES), or `vllm serve`", "the program divides its prompts"),)),
        (r"tp_size=(\d{1,6}) must be divisible by dcp_size=(\d{1,6})",
         "The ranks of a context do not divide those of tensor parallelism",
         _dividing_context),
        (r"Tensor parallel size \d{1,6} is greater than the number of experts (\d{1,6})",
         "There are fewer experts than ranks",
         (Way.that_sets(_FULLER, tensor_parallel_size="{1}"),)),
        (r"max_num_batched_tokens \((\d{1,9})\) must be divisible by mamba_chunk_size "
         r"\((\d{1,6})\)",
         "A step does not take whole chunks of a Mamba layer",
         _whole_chunks),
        (r"num_speculative_tokens:\s?(\d{1,6}) must be divisible by n_predict=(\d{1,6})",
         "The tokens drafted in a step are no multiple of those of the draft layers",
         _whole_drafts),
        (r"max_num_batched_tokens=(\d{1,9}) and (?:scheduled_token_delta|num_lookahead_tokens)="
         r"(\d{1,9})",
         "A step takes fewer tokens than drafts are set aside for",
         (Way("--max-num-batched-tokens of more than {2}", "more memory for activations"),
          Way("fewer requests or drafted tokens: a smaller --max-num-seqs or num_speculative_tokens",
              "fewer requests at once, or slower decoding"))),
        (r"Microbatching currently only supports the (\w{1,60}) and (\w{1,60}) all2all backend",
         "Two batches at once (--enable-dbo) run on other kernels between the experts only",
         (Way("--all2all-backend {1}, or {2}, with the DeepEP kernels in the image",
              "none", {"all2all_backend": "{1}"}),
          Way("no --enable-dbo", "communication is not hidden behind computation"))),
        (r"MoE [Bb]ackend '?[\w./-]{1,60}'? does not support the deployment configuration"
         r"(?: since (.{1,200}))?",
         "The kernels that were chosen for the experts do not run in this configuration",
         (Way("no choice of your own: --moe-backend auto, and no VLLM_USE_FLASHINFER_MOE_... or "
              "VLLM_FLASHINFER_MOE_BACKEND", "the engine picks kernels that run here"),
          Way("what the reason in the message needs; an activation format follows from "
              "--all2all-backend (deepep_low_latency makes the batched one)",
              "other communication between the experts"))),
        (r"not supported for runtime scale patching",
         "The scaling of this FP8 model cannot be patched at run time",
         (Way.that_sets("graphs are compiled for each scale", RUNTIME_SCALE_PATCHING="0"),)),
        (r"Attempted to assign .{1,120}? = (\d{1,9}) .{1,40}?tokens to (\d{1,9}) placeholders",
         "An image or video makes another number of tokens than the prompt has room for",
         (Way("--max-model-len and --max-num-batched-tokens of more than {1}, where the prompt "
              "was cut to {2}", "more memory for activations"),
          Way("fewer or smaller images (--limit-mm-per-prompt, --mm-processor-kwargs)",
              "requests with more of them are refused, or detail"),
          Way("vLLM and transformers of one release, where their processors count in another "
              "way", "another image"))),
        (r"bucket_step must be positive",
         "A bucket range has no step",
         (_POSITIVE_STEP,)),
        (r"(?:Min\. batch size|bucket_min) cannot be greater than",
         "A bucket range ends before it begins",
         (_ORDERED_RANGE, _NO_SKIP)),
        (r"Generated 0 (prompt|decode) buckets",
         "The ranges and limits leave no bucket",
         (Way("the variables VLLM_..._BUCKET_... of {1} unset, or ranges that hold a block and "
              "do not begin above max_model_len or max_num_batched_tokens",
              "other buckets"),)),
        (r"No common block size for (\d{1,6})(?: \((.{1,300})\))?",
         "No attention backend takes blocks of this size",
         (Way("no --block-size, for one that all backends take, or one of their list: {2}"),)),
        (r"port must be 0-65535",
         "There is no such port",
         (Way("--port of 1 to 65535"),)),
        (r"Unknown level: '(.{1,60}?)'",
         "There is no such level of logging",
         (Way("VLLM_LOGGING_LEVEL=DEBUG, INFO, WARNING or ERROR instead of {1}"),)),
        (r"Invalid bucketing strategy: (\S{0,40})",
         "This bucketing strategy does not exist",
         (Way("VLLM_BUCKETING_STRATEGY=exp, lin or pad"),)),
        (r"Sleep mode can only be used for one instance per process",
         "Two engines with sleep mode run in one process",
         (Way("a process for each engine, or no --enable-sleep-mode"),)),
        (r"Invalid (?:count range .{1,40} in )?(VLLM_\w{1,80}) entry|"
         r"(VLLM_\w{1,80}): failed to process environment variable",
         "A variable has a value that cannot be read",
         (Way("{1}{2} in the form that the message gives, or of its kind where it gives none (a whole "
              "number, true or false), or unset"),)),
        (r"model type '?([\w.-]{1,60})'? does not support float16",
         "This model needs the range of bfloat16",
         (Way.that_sets("a device that has it (compute capability 8.0)", dtype="bfloat16"),
          Way.that_sets("twice the memory, slower", dtype="float32"),
          Way("another build of the model, where its quantisation runs in float16 alone (awq)",
              "another checkpoint"))),
        (r"invalid (tool call|reasoning) parser: (\S{1,80})",
         "There is no parser of this name",
         (Way("one of the names in the message instead of {2}, or a newer vLLM that has it"),)),
        (r"(?:tool_parser:|reasoning_parser_name=)'?([^\s']{1,80})'? (?:which )?has not been registered|"
         r"(?:Tool|Reasoning) parser '([^']{1,80})' not found",
         "There is no parser of this name",
         (Way("a name of this version instead of {1}{2} (`vllm serve --help=all` lists them), or a newer "
              "vLLM that has it"),
          Way("--tool-parser-plugin or --reasoning-parser-plugin with the file that registers it"))),
        (r"(?:input|output)_size_per_partition|not aligned with the quantized weight shape|"
         r"not divisible by weight quantization|\bsize_[kn] must (?:be )?divisible by|"
         r"\bsize_[kn] = \d{1,9},? is not divisible by|Invalid thread config: thread_m_blocks",
         "A kernel of quantised weights does not take the part of a layer that a rank has",
         (Way("a smaller --tensor-parallel-size", "each device holds more of the weights"),
          Way("--enable-expert-parallel with several ranks, where the layer is one of experts: each rank "
              "holds whole ones", "another division of the work between ranks"),
          Way("another kind of quantisation, of larger or no groups", "another checkpoint"),
          Way("a newer vLLM, which may pad such layers", "another image"))),
        (r"[Tt]arget and draft model should have the same voca",
         "The draft model has another vocabulary than the model",
         (Way("a draft model that was made for this model", "another checkpoint"),
          Way("no --speculative-config", "slower decoding"))),
        (r"chat template string \((.{1,200}?)\) appears path-like",
         "The chat template is not there",
         (Way("{1} mounted into the container, as an absolute path"),)),
        (rf"(\d{{1,9}})\)? (?:must be|is not|to be) (?:evenly )?divisible by (?:the )?{_RANKS}"
         r"\s{0,2}[=(:]?\s{0,2}(\d{1,6})|"
         rf"divisible by (?:the )?{_RANKS}[.:,]? (?:[Gg]ot )?[\w.]{{1,60}}=(\d{{1,9}})(?: and|,) "
         rf"{_RANKS}=(\d{{1,6}})|^AssertionError: (\d{{1,9}}) is not divisible by (\d{{1,6}})",
         "A size of the model does not divide among the ranks",
         _fewer_ranks),
        (rf"assert .{{0,120}}% (?:self\.)?(?:{_RANKS}|tp_world_size|world_size)\)? == 0|"
         rf"divisible by (?:the )?(?:{_RANKS}|TP|world_size)\b|(?i:{_RANKS} must divide)|"
         rf"must divide the {_RANKS}",
         "A size of the model does not divide among the ranks",
         (Way("a smaller --tensor-parallel-size, which divides the size that the error names",
              "each device holds more of the weights and of the KV cache"),)),
        (r"(?:could not locate|couldn't find) .{0,80}tokens? .{0,40}in (?:the )?tokenizer|"
         r"cannot be used with the tokenizer of",
         "The parser that was chosen reads tokens that the tokenizer of this model does not have",
         (Way("--tool-call-parser or --reasoning-parser of the family of this model, as its card "
              "names it"),
          Way("no --tool-call-parser with --enable-auto-tool-choice, or no --reasoning-parser",
              "tool calls or thoughts stay in the text"))),
        (r"Only one platform plugin can be activated, but got: (.{1,200})",
         "Plugins for several devices are installed",
         (Way("VLLM_PLUGINS with the name of one alone, or the other uninstalled: {1}"),)),
        (r"greater than the derived max_model_len \(\w{1,60}=([\d.]{1,16})",
         "--max-model-len is beyond what the model was made for",
         _shorter_model),
        (rf"\b({_BOUNDED})\s?[=(]\s?(\d{{1,9}})\)? (must be <=|must be >=|(?:must|should) be "
         r"(?:less|greater) than or equal to|cannot be (?:greater|larger|less|smaller) than|is (?:larger|"
         rf"greater|smaller|less) than)(?: the)? ({_BOUNDED})\s?[=(]\s?(\d{{1,9}})",
         "Two settings do not fit together",
         _within_bounds),
        (r"max_tokens_per_mm_item \((\d{1,9})\) is larger than max_num_batched_tokens",
         "A step takes fewer tokens than one image or video",
         (Way.that_sets("more memory for activations, and larger shapes to compile",
                        max_num_batched_tokens="{1}"),
          Way("smaller images or videos (--mm-processor-kwargs), or fewer kinds of input "
              "(--limit-mm-per-prompt)", "detail; requests with such input are refused"))),
        (r"total_hbm_used_gb=([\d.]{1,12})\s?Gi?B exceeds total_hbm_limit_cap_gb=([\d.]{1,12})"
         r"\s?Gi?B.{0,200}?gpu-memory-utilization from ([\d.]{1,8}\d)",
         "The weights take more than the utilisation allows",
         _higher_limit),
        (r"LoRA rank (\d{1,6}) is greater than max_lora_rank",
         "An adapter has a higher rank than was allowed",
         _larger_rank),
        (r"error: the following arguments are required: (.{1,100})",
         "The command lacks an argument",
         (Way("{1} on the command line; the model of `vllm serve` is its first word: "
              "`vllm serve NAME ...`"),)),
        (r"api_server\.py: error: unrecognized arguments?: (?:serve )?([^\s-]\S{0,200})",
         "This entry point takes the name of the model by an option",
         (Way("--model {1}, without the word `serve`: it is of the command `vllm` alone, and an image "
              "whose entry point is the server has it already"),
          Way("`vllm serve {1}`"))),
        (r"unrecognized arguments?: (--[a-z-]{1,60}|\S{1,80})",
         "This version does not know an argument", _later_name),
        (r"JAX compilation occurred but was forbidden",
         "A shape came that no warm-up had compiled, and compilation was forbidden",
         (Way("VLLM_XLA_CHECK_RECOMPILATION=0, the default: the shape is compiled when it comes",
              "the first request of each such shape waits for its compilation",
              {"VLLM_XLA_CHECK_RECOMPILATION": "0"}),
          Way("requests as the warm-up foresees them (the frames above the line name the part: "
              "log-probabilities, samplers), or a newer tpu-inference", "what they do"))),
        (r"provide the model as a positional argument|should be provided as the first positional",
         "The name of the model is not where this version reads it",
         (Way("`vllm serve NAME ...`, the name first and no --model"),)),
        (r"validation errors? for (\w{0,40}Config)[;\s]{1,9}([\w.]{1,120})[;\s]{1,9}"
         r"(?i:unexpected keyword argument|extra inputs are not permitted)",
         "This version does not know a setting",
         (Way("no {2} in {1}, or what this version calls it", "what it does"),)),
        (r"validation errors? for (\w{0,40}Config)[;\s]{1,9}([\w.]{1,120})[;\s]{1,9}"
         r"(Input should be [^\[]{1,200}?)(?: \[|$)",
         "The engine refuses a value",
         (Way("another value for {2} of {1}; the message: {3}"),)),
        (r"validation errors? for (\w{0,40}Config)[;\s]{1,9}(Input should be [^\[]{1,200}?)(?: \[|$)",
         "The engine refuses a value",
         (Way("another value for the {1}, such as a JSON object with its fields; the message: {2}"),)),
        (r"validation errors? for (\w{0,40}Config)",
         "The engine refused its configuration",
         (Way("the lines below this one name the setting of {1} and what it must be",
              "the first line of the error does not hold it"),)),
        (r"error: argument (--[a-z-]{1,80})[^:]{0,20}: Value .{1,200} cannot be converted to <function loads",
         "The value of an option is no JSON",
         (Way("{1} with a JSON object that the shell passes on whole: '{{\"key\": 1}}' in single "
              "quotes (Windows: \"{{\\\"key\\\": 1}}\"), or {1}.key 1"),)),
        (r"error: argument (--[a-z-]{1,80})[^:]{0,20}: invalid choice: .{1,100} \(choose from (.{1,300})\)",
         "An option has a value that this version does not have",
         (Way("{1} with one of {2}"),)),
        (r"expert parallel group is not initialized",
         "A model with experts is made beside a configuration of one without",
         (Way("no --speculative-config, or a draft model without experts for a model without",
              "decoding without a draft", where={"speculative_config": True}),
          Way("a newer vLLM", "another image"))),
        (r"^socket\.gaierror",
         "A name or an address of a host is not known on this machine",
         (Way("--host with an address of this machine (0.0.0.0 for all); between nodes --master-addr, "
              "MASTER_ADDR and VLLM_HOST_IP with names that `getent hosts` finds here, or addresses"),)),
        (r"(?:error|ArgumentError): argument ([^\s:]{1,80})",
         "An argument has a value that this version refuses",
         (Way("{1} as `vllm serve --help=all` lists its values"),)),
    ),
)  # fmt: skip
