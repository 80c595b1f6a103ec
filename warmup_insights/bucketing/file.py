"""Bucket files: one bucket, or one product of lists and ranges, on each line."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from warmup_insights.bucketing.base import Bucket, GeneratedBuckets
from warmup_insights.errors import InputError, cannot_read

MAX_LINE_LENGTH = 200_000
MAX_RANGE_ELEMENTS = 10_000  # the engine leaves longer ranges unread
MAX_BUCKETS_PER_LINE = 100_000
MAX_BUCKETS_PER_FILE = 500_000
MAX_VALUE = 1_000_000_000

_TOKEN = re.compile(
    r"\s*(?:(?P<number>[+-]?[0-9][0-9A-Za-z_]*)|(?P<mark>range\b|[()\[\],]))"
)
_MAX_DIGITS = 40  # of MAX_VALUE in binary, with underscores
_END = re.compile(r"\s*(?:#.*)?")
_FIELDS = ("batch size", "query length", "number of blocks")


@dataclass(frozen=True)
class BucketFile:
    """The buckets of one file: query length 1 is a decode bucket, all else a prompt.

    `prompt` and `decode` are sorted and hold no bucket twice.
    Source: `file_strategy.py`, `FileBucketingStrategy.get_buckets`, of vllm-gaudi.
    """

    name: str
    prompt: tuple[Bucket, ...]
    decode: tuple[Bucket, ...]


def read_bucket_file(path: str | Path) -> BucketFile:
    """The buckets of a file.

    Raises:
        InputError: the file cannot be read, or a line is not in the grammar.
    """
    return parse_bucket_lines(open_bucket_lines(path), str(path))


def open_bucket_lines(path: str | Path) -> Iterator[str]:
    """The lines of a file, none much longer than a bucket line may be.

    Raises:
        InputError: the file cannot be opened or is not text.
    """
    try:
        with open(path, encoding="utf-8") as stream:
            while line := stream.readline(MAX_LINE_LENGTH + 2):
                yield line
                # The rest of a line that is too long is no line of its own.
                while line and not line.endswith("\n"):
                    line = stream.readline(MAX_LINE_LENGTH)
    except UnicodeDecodeError:
        raise InputError(f"{path} is no text in UTF-8; convert it") from None
    except OSError as error:
        raise cannot_read(path, error) from error


def parse_bucket_lines(lines: Iterable[str], name: str) -> BucketFile:
    """The buckets of the lines of a file called `name` in errors.

    Raises:
        InputError: a line is not in the grammar, or there are too many buckets; the
            message starts with `name:line`.
    """
    found: set[Bucket] = set()
    total = 0
    for number, line in enumerate(lines, 1):
        buckets = parse_bucket_line(line, f"{name}:{number}")
        total += len(buckets)
        if total > MAX_BUCKETS_PER_FILE:
            raise InputError(
                f"{name}:{number}: the file has more than {MAX_BUCKETS_PER_FILE} "
                "buckets; use larger steps"
            )
        found.update(buckets)
    return make_bucket_file(name, found)


def make_bucket_file(name: str, distinct: Iterable[Bucket]) -> BucketFile:
    """The file that these buckets are in, each given once."""
    buckets = sorted(distinct)
    return BucketFile(
        name=name,
        prompt=tuple(bucket for bucket in buckets if bucket.query_len != 1),
        decode=tuple(bucket for bucket in buckets if bucket.query_len == 1),
    )


def parse_bucket_line(line: str, where: str) -> tuple[Bucket, ...]:
    """The buckets of one line: the product of its three fields; none in a comment.

    A field is a number, a list of numbers `[1, 2]`, or `range(start, stop[, step])`
    without `stop`, as in Python. `#` starts a comment.

    Raises:
        InputError: the line is not in this grammar, a number is out of bounds, or the
            product is larger than MAX_BUCKETS_PER_LINE.
    """
    if len(line) > MAX_LINE_LENGTH:
        raise InputError(
            f"{where}: the line is longer than {MAX_LINE_LENGTH} characters; divide it"
        )
    if is_blank_line(line):
        return ()
    fields = _LineReader(line.rstrip(), where).read_bucket()
    count = 1
    for values in fields:
        count *= len(values)
    if count > MAX_BUCKETS_PER_LINE:
        raise InputError(
            f"{where}: the line stands for {count} buckets, more than "
            f"{MAX_BUCKETS_PER_LINE}; use larger steps or several lines"
        )
    return tuple(Bucket(*values) for values in itertools.product(*fields))


def is_blank_line(line: str) -> bool:
    """Whether a line holds nothing but blanks and a comment."""
    return _END.fullmatch(line.rstrip()) is not None


class _LineReader:
    """Reads one line from left to right; there is nothing to nest, so no recursion."""

    def __init__(self, line: str, where: str) -> None:
        self._line = line
        self._where = where
        self._position = 0

    def read_bucket(self) -> tuple[list[int], list[int], list[int]]:
        """The values of the three fields, with or without parentheses around them."""
        in_parentheses = self._accept("(")
        batch_sizes = self._read_field(0)
        self._expect(",", "after the batch size")
        query_lens = self._read_field(1)
        self._expect(",", "after the query length")
        blocks = self._read_field(2)
        self._accept(",")
        if in_parentheses:
            self._expect(")", "after three fields")
        if not _END.fullmatch(self._line, self._position):
            self._fail(f"{self._rest()} follows after a complete bucket")
        return batch_sizes, query_lens, blocks

    def _read_field(self, index: int) -> list[int]:
        if self._accept("["):
            values = self._read_list()
        elif self._accept("range"):
            values = self._read_range()
        else:
            values = [self._read_number()]
        smallest = 0 if index == 2 else 1
        for value in values:
            if not smallest <= value <= MAX_VALUE:
                self._fail(
                    f"the {_FIELDS[index]} {value} is not within "
                    f"{smallest} to {MAX_VALUE}"
                )
        return values

    def _read_list(self) -> list[int]:
        values: list[int] = []
        while not self._accept("]"):
            if values:
                self._expect(",", "or ] in a list")
                if self._accept("]"):
                    break
            values.append(self._read_number())
        return values

    def _read_range(self) -> list[int]:
        self._expect("(", "after range")
        start = self._read_number(is_in_range=True)
        self._expect(",", "after the start of a range, which also needs a stop")
        stop = self._read_number(is_in_range=True)
        step = self._read_number(is_in_range=True) if self._accept(",") else 1
        self._expect(")", "at the end of a range")
        if step == 0:
            self._fail("the step of a range is 0")
        values = range(start, stop, step)
        if len(values) > MAX_RANGE_ELEMENTS:
            self._fail(
                f"a range has {len(values)} values, more than {MAX_RANGE_ELEMENTS}"
            )
        return list(values)

    def _read_number(self, *, is_in_range: bool = False) -> int:
        """A number as the engine takes it, by a pattern in ranges and by Python elsewhere."""
        match = _TOKEN.match(self._line, self._position)
        if match is None or match["number"] is None:
            self._fail(f"expected a whole number, found {self._rest()}")
        text = match["number"]
        if len(text) > _MAX_DIGITS:
            self._fail(f"the number {text[:12]}... is too large")
        is_read = not is_in_range or text.removeprefix("-").isdecimal()
        try:
            value = int(text, 10 if is_in_range else 0)
        except ValueError:
            is_read = False
        if not is_read:
            self._fail(f"the number {text} is written in a way that is not read")
        self._position = match.end()
        return value

    def _accept(self, mark: str) -> bool:
        match = _TOKEN.match(self._line, self._position)
        if match is None or match["mark"] != mark:
            return False
        self._position = match.end()
        return True

    def _expect(self, mark: str, place: str) -> None:
        if not self._accept(mark):
            self._fail(f"expected {mark} {place}, found {self._rest()}")

    def _rest(self) -> str:
        rest = self._line[self._position :].strip()
        if not rest:
            return "the end of the line"
        return repr(rest if len(rest) <= 20 else rest[:20] + "...")

    def _fail(self, problem: str) -> NoReturn:
        raise InputError(
            f"{self._where}: {problem}; a line is (batch size, query length, blocks) "
            "of numbers, [lists] or range(start, stop, step)"
        )


def generated_file(generated: GeneratedBuckets) -> str:
    """The text of a file from which an engine warms up what was generated: it multiplies
    for speculative decoding after reading, so the seeds are written.

    Raises:
        InputError: as `format_bucket_file`.
    """
    return format_bucket_file(generated.prompt, generated.seed_decode)


def format_bucket_file(prompt: Iterable[Bucket], decode: Iterable[Bucket]) -> str:
    """The text of a file that reads back as exactly these buckets.

    Raises:
        InputError: a prompt bucket has query length 1 or a decode bucket has another;
            the file format cannot keep the two phases apart then.
    """
    prompts, decodes = sorted(set(prompt)), sorted(set(decode))
    for phase, buckets, is_decode in (
        ("prompt", prompts, False),
        ("decode", decodes, True),
    ):
        for bucket in buckets:
            if (bucket.query_len == 1) is not is_decode:
                raise InputError(
                    f"The {phase} bucket {tuple(bucket)} cannot be written; a bucket "
                    "file takes query length 1, and nothing else, for decode"
                )
    lines = ["# (batch_size, query_len, num_blocks); query_len 1 is decode"]
    lines.append(f"# {len(prompts)} prompt buckets")
    lines.extend(str(tuple(bucket)) for bucket in prompts)
    lines.append(f"# {len(decodes)} decode buckets")
    lines.extend(str(tuple(bucket)) for bucket in decodes)
    return "\n".join(lines) + "\n"
