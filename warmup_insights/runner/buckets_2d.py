"""Buckets of two dimensions, as the V0 engines had them until 1.17."""

from __future__ import annotations

from warmup_insights.bucketing.linear import linear_range
from warmup_insights.bucketing.overrides import read_overrides
from warmup_insights.errors import SettingError
from warmup_insights.events import (
    Bucket,
    BucketRangesConfigured,
    BucketsGenerated,
    BucketsOmitted,
)
from warmup_insights.runner.buckets import PHASES, BucketEvent, Found, Phase
from warmup_insights.runner.settings import RunSettings


class TwoDimensionalBuckets:
    """(batch size, sequence length), the scheme of vllm-fork 1.17.

    Source: `HabanaModelRunnerBase._setup_buckets` (`habana_model_runner.py`): linear
    ranges, prompts limited to the token budget.
    """

    contiguous = False

    def __init__(self, settings: RunSettings) -> None:
        overrides = read_overrides(settings.environment)
        block = settings.block_size
        self._budget = settings.max_num_batched_tokens
        defaults = {
            ("PROMPT", "BS"): (1, 32, min(settings.max_num_seqs, 64)),
            ("PROMPT", "SEQ"): (block, block, min(1024, settings.max_model_len)),
            ("DECODE", "BS"): (1, 128, settings.max_num_seqs),
            ("DECODE", "SEQ"): (block, block, min(2048, settings.max_model_len)),
        }
        self._ranges = {
            key: tuple(
                overrides.get(f"VLLM_{key[0]}_{key[1]}_BUCKET_{name}", value)
                for name, value in zip(("MIN", "STEP", "MAX"), values, strict=True)
            )
            for key, values in defaults.items()
        }
        self.notes: tuple[str, ...] = ()
        self._dropped: list[Bucket] = []
        self._buckets = {
            "prompt": self._product("PROMPT"),
            "decode": self._product("DECODE"),
        }
        if not self._buckets["prompt"]:
            raise SettingError(
                f"no prompt bucket fits into max_num_batched_tokens={self._budget}; "
                "raise it or lower VLLM_PROMPT_SEQ_BUCKET_MIN"
            )

    def _product(self, phase: str) -> list[Bucket]:
        sizes, lengths = (
            linear_range(*self._ranges[phase, name], name=f"VLLM_{phase}_{name}_BUCKET")
            for name in ("BS", "SEQ")
        )
        buckets: list[Bucket] = []
        for bucket in ((size, length) for size in sizes for length in lengths):
            too_long = phase == "PROMPT" and bucket[0] * bucket[1] > self._budget
            (self._dropped if too_long else buckets).append(bucket)
        return buckets

    def of(self, phase: Phase) -> list[Bucket]:
        """The generated buckets of a phase, sorted."""
        return list(self._buckets[phase])

    def find(self, phase: Phase, shape: Bucket) -> Found:
        """The smallest bucket that covers the shape; a miss runs as it is."""
        for bucket in self._buckets[phase]:
            if bucket[0] >= shape[0] and bucket[1] >= shape[1]:
                return Found(bucket, is_hit=True)
        return Found(shape, is_hit=False)

    @property
    def largest_prompt(self) -> Bucket:
        """The largest batch of the longest prompts, whether the budget allows it or not."""
        return self._ranges["PROMPT", "BS"][2], self._ranges["PROMPT", "SEQ"][2]

    def events(self, time: float) -> list[BucketEvent]:
        """Ranges, omitted and generated buckets of both phases."""
        found: list[BucketEvent] = []
        for phase in PHASES:
            key = phase.upper()
            found.append(
                BucketRangesConfigured(
                    phase=phase,
                    ranges={
                        "bs": list(self._ranges[key, "BS"]),
                        "seq": list(self._ranges[key, "SEQ"]),
                    },
                    parameters=["min", "step", "max"],
                    time=time,
                )
            )
            if phase == "prompt" and self._dropped:
                found.append(
                    BucketsOmitted(
                        phase=phase,
                        count=len(self._dropped),
                        reason="due to exceeded token budget "
                        f"(max_num_batched_tokens={self._budget})",
                        buckets=self._dropped,
                        time=time,
                    )
                )
            buckets = self._buckets[phase]
            found.append(
                BucketsGenerated(
                    phase=phase,
                    count=len(buckets),
                    buckets=buckets,
                    strategy="lin",
                    dimensions=["bs", "seq"],
                    time=time,
                )
            )
        return found
