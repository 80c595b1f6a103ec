"""Requests for the serving run: made by rule, or read from a trace."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec

from warmup_insights.errors import InputError, SettingError, cannot_read
from warmup_insights.runner.engine import SamplingParams

MAX_TRACE_LINE = 1_000_000
GREEDY = SamplingParams()


MAX_WORK = 1_000_000
"""Requests, or tokens of one, at most."""


@dataclass(frozen=True)
class Request:
    """One request: when it comes, its tokens, and how many it generates."""

    request_id: int
    arrival_s: float
    prompt: tuple[int, ...]
    output_len: int
    sampling: SamplingParams = GREEDY


@dataclass(frozen=True, kw_only=True)
class WorkloadSettings:
    """How requests are made; lengths in tokens, the rate in requests per second.

    A rate of infinity sends all at once. A `sigma` above 0 draws lengths from a
    log-normal distribution whose median is the length; 0 means that exact length. With
    a `trace` the requests are read from that file instead.

    Raises:
        SettingError: a value cannot be used.
    """

    num_prompts: Annotated[int, "Requests"] = 50
    request_rate: Annotated[
        float, "Requests per second (Poisson arrivals); inf sends all at once"
    ] = math.inf
    input_len: Annotated[int, "Median prompt length in tokens"] = 96
    output_len: Annotated[int, "Median output length in tokens"] = 24
    sigma: Annotated[
        float, "Spread of the lengths (log-normal); 0 for fixed lengths"
    ] = 0.6
    temperature: Annotated[float, "Temperature of the sampling; 0 is greedy"] = 0.0
    seed: int = 0
    trace: Annotated[
        Path | None,
        "Requests from a JSONL file instead: objects with input_len, output_len, and "
        "optionally arrival_s and temperature",
    ] = None

    def __post_init__(self) -> None:
        for name in ("num_prompts", "input_len", "output_len"):
            value = getattr(self, name)
            if not 1 <= value <= MAX_WORK:
                raise SettingError(
                    f"{name}={value} cannot be used; use 1 to {MAX_WORK}"
                )
        if not self.request_rate > 0:
            raise SettingError(
                f"request_rate={self.request_rate:g} is not a rate; use a number above "
                "0, or inf for all at once"
            )
        if not 0 <= self.sigma <= 4:
            raise SettingError(f"sigma={self.sigma:g} is not a spread; use 0 to 4")
        if not 0 <= self.temperature <= 10:
            raise SettingError(
                f"temperature={self.temperature:g} is not usable; use 0 to 10"
            )

    def as_config(self) -> dict[str, Any]:
        """The workload as flat settings, for the record of a run."""
        if self.trace is not None:
            return {"serve_trace": self.trace.name}
        rate = self.request_rate
        return {
            "serve_num_prompts": self.num_prompts,
            "serve_request_rate": "inf" if math.isinf(rate) else rate,
            "serve_input_len": self.input_len,
            "serve_output_len": self.output_len,
            "serve_length_sigma": self.sigma,
            "serve_temperature": self.temperature,
        }


def load_requests(
    settings: WorkloadSettings, *, vocab_size: int, max_model_len: int
) -> list[Request]:
    """The requests of a workload, in order of arrival.

    Raises:
        InputError: its trace cannot be used.
    """
    if settings.trace is not None:
        return read_trace(
            settings.trace, vocab_size=vocab_size, max_model_len=max_model_len
        )
    return make_requests(settings, vocab_size=vocab_size, max_model_len=max_model_len)


def make_requests(
    settings: WorkloadSettings, *, vocab_size: int, max_model_len: int
) -> list[Request]:
    """Requests with Poisson arrivals; the same seed makes the same ones.

    Lengths are cut so that prompt and output fit `max_model_len` together.
    """
    generator = random.Random(settings.seed)
    requests, arrival = [], 0.0
    for request_id in range(settings.num_prompts):
        length = _length(
            generator, settings.input_len, settings.sigma, max_model_len - 1
        )
        room = max_model_len - length
        requests.append(
            Request(
                request_id,
                arrival,
                tuple(generator.randrange(vocab_size) for _ in range(length)),
                _length(generator, settings.output_len, settings.sigma, room),
                SamplingParams(settings.temperature),
            )
        )
        if math.isfinite(settings.request_rate):
            arrival += generator.expovariate(settings.request_rate)
    return requests


def _length(generator: random.Random, median: int, sigma: float, longest: int) -> int:
    drawn = median * math.exp(generator.gauss(0.0, sigma)) if sigma else median
    return max(1, min(longest, round(drawn)))


class _Line(msgspec.Struct):
    """A request of a trace."""

    input_len: Annotated[int, msgspec.Meta(gt=0)]
    output_len: Annotated[int, msgspec.Meta(gt=0)]
    arrival_s: Annotated[float, msgspec.Meta(ge=0, le=1e12)] = 0.0
    temperature: Annotated[float, msgspec.Meta(ge=0, le=10)] = 0.0


def read_trace(path: Path, *, vocab_size: int, max_model_len: int) -> list[Request]:
    """The requests of a JSONL trace, in order of arrival.

    Each line is an object with `input_len` and `output_len`, and optionally `arrival_s`
    (0) and `temperature` (0). Prompt tokens are made from the line number.

    Raises:
        InputError: the file cannot be read, or a line is no such object.
    """
    requests: list[Request] = []
    for number, text in _lines(path):
        where = f"{path}, line {number}"
        try:
            line = msgspec.json.decode(text, type=_Line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(
                f'{where}: {error}; write {{"input_len": 96, "output_len": 24}}'
            ) from error
        if line.input_len + line.output_len > max_model_len:
            raise InputError(
                f"{where}: {line.input_len} and {line.output_len} tokens are more than "
                f"max_model_len={max_model_len}; shorten them or raise it"
            )
        generator = random.Random(number)
        requests.append(
            Request(
                len(requests),
                line.arrival_s,
                tuple(generator.randrange(vocab_size) for _ in range(line.input_len)),
                line.output_len,
                SamplingParams(line.temperature),
            )
        )
    if not requests:
        raise InputError(f"{path} holds no request; each line is one JSON object")
    return sorted(requests, key=lambda request: request.arrival_s)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        with path.open(encoding="utf-8") as lines:
            number = 0
            while line := lines.readline(MAX_TRACE_LINE):
                number += 1
                if line.strip():
                    yield number, line
    except (OSError, UnicodeDecodeError) as error:
        raise cannot_read(path, error) from error
