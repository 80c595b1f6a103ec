"""Everything that is wrong or useless in a bucket file, line by line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal, NamedTuple

from warmup_insights.bucketing.base import PHASES, Bucket
from warmup_insights.bucketing.file import (
    MAX_BUCKETS_PER_FILE,
    BucketFile,
    is_blank_line,
    make_bucket_file,
    parse_bucket_line,
)
from warmup_insights.bucketing.generate import offered
from warmup_insights.bucketing.settings import BucketingSettings
from warmup_insights.errors import InputError

Level = Literal["error", "warning"]


class Problem(NamedTuple):
    """What is wrong where: line 0 stands for the whole file.

    With an error the engine leaves the line out or refuses the file, by its version and by
    what stands there (vllm-gaudi `file_strategy.py`); with a warning it does neither.
    """

    line: int
    level: Level
    message: str


def lint_bucket_lines(
    lines: Iterable[str], name: str, settings: BucketingSettings | None = None
) -> tuple[BucketFile, list[Problem]]:
    """The buckets of the lines that can be read, and every problem, in line order.

    With settings, buckets that the engine would drop or change are warnings too.
    """
    problems: list[Problem] = []
    first_line: dict[Bucket, int] = {}
    for number, line in enumerate(lines, 1):
        try:
            buckets = parse_bucket_line(line, f"{name}:{number}")
        except InputError as error:
            problems.append(Problem(number, "error", str(error)))
            continue
        if len(first_line) + len(buckets) > MAX_BUCKETS_PER_FILE:
            message = f"{name}:{number}: more than {MAX_BUCKETS_PER_FILE} buckets."
            problems.append(Problem(number, "error", message))
            break
        if not buckets and not is_blank_line(line):
            message = f"{name}:{number}: the line stands for no bucket at all."
            problems.append(Problem(number, "warning", message))
        problems.extend(_repetitions(name, number, buckets, first_line))
    file = make_bucket_file(name, first_line)
    problems.extend(_missing_phases(file))
    if settings is not None:
        problems.extend(_drops(file, settings, first_line))
    return file, sorted(problems)


def _repetitions(
    name: str, number: int, buckets: tuple[Bucket, ...], first_line: dict[Bucket, int]
) -> list[Problem]:
    repeated = [bucket for bucket in buckets if bucket in first_line]
    seen = {bucket for bucket in buckets if bucket not in first_line}
    problems = []
    if repeated:
        first = repeated[0]
        problems.append(
            Problem(
                number,
                "warning",
                f"{name}:{number}: {len(repeated)} of its buckets are given before, "
                f"first {tuple(first)} in line {first_line[first]}.",
            )
        )
    if len(seen) + len(repeated) < len(buckets):
        message = f"{name}:{number}: a list holds the same number twice."
        problems.append(Problem(number, "warning", message))
    first_line.update(dict.fromkeys(seen, number))
    return problems


def _missing_phases(file: BucketFile) -> list[Problem]:
    return [
        Problem(0, "error", f"{file.name}: no {phase} bucket; {hint}.")
        for phase, buckets, hint in (
            ("prompt", file.prompt, "add one with a query length above 1"),
            ("decode", file.decode, "add one with query length 1"),
        )
        if not buckets
    ]


def _drops(
    file: BucketFile, settings: BucketingSettings, first_line: dict[Bucket, int]
) -> list[Problem]:
    problems = []
    settings = replace(settings, bucket_file=file)
    for phase in PHASES:
        for drop in offered(settings, phase).dropped():
            line = first_line[drop.bucket]
            result = "is dropped"
            if drop.replaced_by is not None:
                result = f"becomes {tuple(drop.replaced_by)}"
            message = f"{file.name}:{line}: {tuple(drop.bucket)} {result}: it breaks {drop.condition}."
            problems.append(Problem(line, "warning", message))
    return problems
