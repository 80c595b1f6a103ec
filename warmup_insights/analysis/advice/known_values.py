"""Ways out of an error whose values are computed from the figures of its text."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from warmup_insights.analysis.advice.finding import Way, count_of
from warmup_insights.analysis.plan.planning import MAX_UTILIZATION


def fewer_ranks(match: re.Match[str]) -> Iterable[Way]:
    """The most ranks among which so many heads divide."""
    heads, ranks = int(match[1]), int(match[2])
    fitting = [n for n in range(1, ranks) if heads % n == 0] if heads else []
    if not fitting:
        return
    most = fitting[-1]
    yield Way(
        f"--tensor-parallel-size {most}",
        f"{heads:,} divide among {', '.join(map(str, fitting[-8:]))} ranks; each "
        "device holds more of the weights then",
        {"tensor_parallel_size": most},
    )
    if ranks % most == 0:
        yield Way(
            f"--tensor-parallel-size {most} --pipeline-parallel-size {ranks // most}",
            "the same number of devices; the stages run one after the other",
            {"tensor_parallel_size": most, "pipeline_parallel_size": ranks // most},
        )


def shorter_model(match: re.Match[str]) -> Iterable[Way]:
    """The length that the model was made for."""
    length = math.floor(float(match[1]))
    yield Way(
        f"--max-model-len {length}",
        f"requests of more than {length:,} tokens are refused",
        {"max_model_len": length},
    )
    yield Way(
        "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1, or a scaling of the positions that the model card "
        "gives (--hf-overrides)",
        "wrong answers, or invalid memory accesses, beyond the length the model was made for",
    )


def larger_step(match: re.Match[str]) -> Iterable[Way]:
    """A step as long as the longest prompt, or prompts as short as the step."""
    tokens, length = int(match[1]), int(match[2])
    yield Way(
        f"--max-num-batched-tokens {length}",
        "more memory for activations; or leave chunked prefill on, which needs no such step",
        {"max_num_batched_tokens": length},
    )
    yield Way(
        f"--max-model-len {tokens}",
        f"requests of more than {tokens:,} tokens are refused",
        {"max_model_len": tokens},
    )


def fewer_requests(match: re.Match[str]) -> Iterable[Way]:
    """As many requests as a step takes tokens, or the reverse."""
    tokens, requests = int(match[1]), int(match[2])
    price = f"at most {count_of(tokens, 'request')} at once"
    yield Way(f"--max-num-seqs {tokens}", price, {"max_num_seqs": tokens})
    yield Way(
        f"--max-num-batched-tokens {requests}", "more memory for activations",
        {"max_num_batched_tokens": requests},
    )  # fmt: skip


def whole_item(match: re.Match[str]) -> Iterable[Way]:
    """A step that takes one image or video whole."""
    item = int(match[1])
    yield Way(
        f"--max-num-batched-tokens {item}",
        "more memory for activations, and larger shapes to compile",
        {"max_num_batched_tokens": item},
    )
    yield Way(
        "smaller images or videos (--mm-processor-kwargs), or fewer kinds of input "
        "(--limit-mm-per-prompt)",
        "detail; requests with such input are refused",
    )


def higher_limit(match: re.Match[str]) -> Iterable[Way]:
    """The utilisation that holds the weights, where one does."""
    used, limit, share = (float(text) for text in match.groups())
    needed = math.ceil(1000 * share * used / limit) / 1000 if limit else 1.0
    if needed <= MAX_UTILIZATION:
        yield Way(
            f"--gpu-memory-utilization {needed:g}", "less margin",
            {"gpu_memory_utilization": needed},
        )  # fmt: skip
    yield Way(
        "weights of fewer bits, or more devices",
        "accuracy and another checkpoint, or devices",
    )
    if needed > MAX_UTILIZATION:
        yield Way(
            f"--gpu-memory-utilization alone would have to be {needed:g}",
            f"does not help: {MAX_UTILIZATION:g} is the most; the weights are loaded "
            "whatever it is",
        )


def larger_rank(match: re.Match[str]) -> Iterable[Way]:
    """The next rank that vLLM allows (`config/lora.py`, `MaxLoRARanks`)."""
    rank = int(match[1])
    allowed = [n for n in (8, 16, 32, 64, 128, 256, 320, 512) if n >= rank]
    if allowed:
        yield Way(
            f"--max-lora-rank {allowed[0]}", "memory for each adapter that may be loaded",
            {"max_lora_rank": allowed[0]},
        )  # fmt: skip


def visible_ranks(match: re.Match[str]) -> Iterable[Way]:
    """As many ranks as devices are visible, or the devices for the ranks."""
    requested, there = int(match[1]), int(match[2])
    if there:
        yield Way(
            f"--tensor-parallel-size {there}",
            "each device holds more of the weights and of the KV cache",
            {"tensor_parallel_size": there},
        )
    yield Way(
        f"{requested} devices for the container or process (--gpus, CUDA_VISIBLE_DEVICES, the "
        "resource limit of the pod)",
        f"it has {there} now",
    )
    yield Way(
        "--distributed-executor-backend ray, with the devices of several nodes",
        "a Ray cluster; every node needs the same image and the weights",
    )


def dividing_context(match: re.Match[str]) -> Iterable[Way]:
    """The most ranks of a context that divide those of tensor parallelism."""
    tensor, context = int(match[1]), int(match[2])
    fitting = [n for n in range(1, min(context, 1025)) if tensor % n == 0]
    if not fitting:
        return
    value = fitting[-1]
    yield Way(
        f"--decode-context-parallel-size {value}",
        "each rank holds more of the KV cache",
        {"decode_context_parallel_size": value},
    )


def at_most_experts(match: re.Match[str]) -> Iterable[Way]:
    """As many ranks as there are experts."""
    experts = int(match[1])
    if not experts:
        return
    yield Way(
        f"--tensor-parallel-size {experts}",
        "each device holds more of the weights and of the KV cache",
        {"tensor_parallel_size": experts},
    )


def whole_chunks(match: re.Match[str]) -> Iterable[Way]:
    """Steps of whole Mamba chunks, below and above the value given."""
    tokens, chunk = int(match[1]), int(match[2])
    if not chunk:
        return
    for value, price in (
        (tokens // chunk * chunk, "prompts run in slightly more pieces"),
        (-(-tokens // chunk) * chunk, "more memory for activations"),
    ):
        if value:
            yield Way(
                f"--max-num-batched-tokens {value}",
                price,
                {"max_num_batched_tokens": value},
            )


def whole_drafts(match: re.Match[str]) -> Iterable[Way]:
    """Drafts of whole passes of the draft layers, below and above the value given."""
    tokens, part = int(match[1]), int(match[2])
    if not part:
        return
    for value in (tokens // part * part, -(-tokens // part) * part):
        if value:
            yield Way(
                f"num_speculative_tokens {value} in --speculative-config",
                f"{value:,} tokens are drafted in a step",
                {"num_speculative_tokens": value},
            )


def room_for_drafts(match: re.Match[str]) -> Iterable[Way]:
    """Steps that hold what drafts take beside the tokens they check."""
    yield Way(
        f"--max-num-batched-tokens of more than {int(match[2])}",
        "more memory for activations",
    )
    yield Way(
        "fewer requests or drafted tokens: a smaller --max-num-seqs or num_speculative_tokens",
        "fewer requests at once, or slower decoding",
    )
