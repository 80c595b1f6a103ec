"""Lookups per second against a plain scan, and the time to generate many buckets.

Run from the repository root: `python benchmarks/bucketing.py`. The scan is the engine's
own way: from the bisected place in the sorted list on, compare each bucket. Both are
measured in the same run on the same shapes, and must give the same answers.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from bisect import bisect_left

from warmup_insights.bucketing.base import Bucket
from warmup_insights.bucketing.generate import generate
from warmup_insights.bucketing.lookup import BucketIndex, BucketTable
from warmup_insights.bucketing.settings import settings_from_mapping

LINEAR = {"VLLM_BUCKETING_STRATEGY": "lin"}
INPUTS = {
    "max_num_seqs": 64,
    "max_num_prefill_seqs": 16,
    "block_size": 128,
    "max_num_batched_tokens": 16384,
    "max_model_len": 16384,
    "num_hpu_blocks": 4000,
}


def settings_for(num_buckets):
    """Linear settings whose prompt list is the first one that long."""
    for max_model_len in range(1024, 200_000, 512):
        settings = settings_from_mapping(
            {**INPUTS, "max_model_len": max_model_len}, LINEAR
        )
        generated = generate(settings)
        if len(generated.prompt) + len(generated.decode) >= num_buckets:
            return settings, generated
    raise SystemExit(f"no settings with {num_buckets} buckets")


def scan(buckets, shape):
    batch_size, query_len, num_blocks = shape
    for index in range(bisect_left(buckets, shape), len(buckets)):
        bucket = buckets[index]
        if (
            bucket[0] >= batch_size
            and bucket[1] >= query_len
            and bucket[2] >= num_blocks
        ):
            return bucket
    return None


def random_shapes(buckets, count, seed=1):
    """Shapes within the buckets' bounds: found ones, and such that nothing covers."""
    dice = random.Random(seed)
    most = [max(bucket[index] for bucket in buckets) for index in range(3)]
    return [
        Bucket(
            dice.randint(1, most[0]), dice.randint(1, most[1]), dice.randint(0, most[2])
        )
        for _ in range(count)
    ]


def steps_per_second(function, shapes):
    start = time.perf_counter()
    for shape in shapes:
        function(*shape)
    return len(shapes) / (time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--buckets", type=int, default=5000)
    parser.add_argument("--generate", type=int, default=20_000)
    parser.add_argument("--lookups", type=int, default=200_000)
    arguments = parser.parse_args()

    _, generated = settings_for(arguments.buckets)
    buckets = list(generated.prompt)[: arguments.buckets]
    index = BucketIndex(buckets)
    shapes = random_shapes(buckets, arguments.lookups)
    few = shapes[:2000]
    answers = [scan(buckets, shape) for shape in few]
    if answers != [index.find(*shape) for shape in few]:
        raise SystemExit("the index and the scan do not agree")
    index_rate = steps_per_second(index.find, shapes)
    scan_rate = steps_per_second(lambda *shape: scan(buckets, shape), few)

    covered = [shape for shape in shapes if index.find(*shape) is not None]
    settings, generated = settings_for(arguments.buckets)
    table = BucketTable(settings, generated)
    table_rate = steps_per_second(lambda *shape: table.lookup("prompt", shape), covered)
    decode_shapes = [
        (shape.batch_size, shape.batch_size + shape.num_blocks) for shape in shapes
    ]
    decode_rate = steps_per_second(
        lambda *shape: table.lookup("decode", shape), decode_shapes
    )

    settings, many = settings_for(arguments.generate)
    start = time.perf_counter()
    generate(settings)
    generate_s = time.perf_counter() - start
    print(
        json.dumps(
            {
                "buckets": len(buckets),
                "share_of_shapes_not_covered": answers.count(None) / len(answers),
                "index_lookups_per_s": round(index_rate),
                "scan_lookups_per_s": round(scan_rate),
                "index_to_scan_ratio": round(index_rate / scan_rate, 1),
                "prompt_lookups_per_s": round(table_rate),
                "decode_lookups_per_s": round(decode_rate),
                "generated_buckets": len(many.prompt) + len(many.decode),
                "dropped_candidates": len(many.dropped),
                "generate_s": round(generate_s, 3),
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
