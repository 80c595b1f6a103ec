"""From a message to the rule that matches it: literals first, then one pattern."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from parsers.base import LineRule
from parsers.engine.select import any_of

_HEAD = 14
Matcher = Callable[[str], "re.Match[str] | None"]

# Words that make a line look as if it were about start-up. A line with one of them
# that no rule matches is counted and shown.
RELEVANT = (
    "armup", "arming up", "arm-up", "warmed", "aptur", "bucket", "Bucket", "HPUGraph",
    "HPU Graph", "CUDA graph", "cudagraph", "CUDAGraph", "KV cache", "kv cache",
    "free_mem", "efrag", "device memory", "evice memory", "GPU blocks", "HPU blocks",
    "hpu blocks", "cuda blocks", "Maximum concurrency", "took", "weights", "compil",
    "out of memory", "OutOfMemory", "init engine", "LLM engine", "startup complete",
    "profil", "num_blocks", "non-default args", "STARTUP", "Benchmark", "server on http",
    "server 0 on http", "bytecode", "asleep", "wake up", "autotun", "startup plan",
    "Warmed", "Compilation", "paddings", "ready to accept", "failed to start",
    "Prefetching", "page cache",
)  # fmt: skip


# The same for text that no logger printed: only what cannot be anything else.
BARE = ("[Warmup]", "was not warmed-up", "warmup processing", "captured:", "free_mem:",
        "Benchmark Result", "Capturing CUDA graph", "warmup completed")  # fmt: skip

# A traceback continues a record with source code, whatever words are in it.
_TRACEBACK = re.compile(r"\s*(?:File \"|\^+\s*$|~+)|\s{2,}|Traceback|\(")


class Dispatcher:
    """Finds the rule for a message; rules are tried only when their literal is there."""

    def __init__(self, rules: Sequence[LineRule]) -> None:
        by_hint: dict[str, list[LineRule]] = {}
        for rule in rules:
            for hint in rule.hints:
                by_hint.setdefault(hint, []).append(rule)
        # A longer literal hides the shorter ones inside it, so it tries their rules too.
        self._by_hint = {
            hint: [
                rule
                for other in sorted(by_hint, key=len, reverse=True)
                if other in hint
                for rule in by_hint[other]
            ]
            for hint in by_hint
        }
        ordered = sorted(by_hint, key=len, reverse=True)
        self._hints = re.compile(any_of(ordered))
        self._relevant = re.compile(any_of(RELEVANT))
        self._bare = re.compile(any_of(BARE))
        # Head of a message to the rule that knew the last one like it.
        self._last: dict[str, tuple[LineRule, bool, Matcher]] = {}
        self.literals: tuple[str, ...] = tuple(
            sorted({h for r in rules if r.matters_while_serving for h in r.hints})
        )

    def find(
        self, message: str, level: str | None = None, file: str | None = None
    ) -> tuple[LineRule, re.Match[str]] | None:
        """The rule that matches and its match, or None."""
        head = message[:_HEAD]
        last = self._last.get(head)
        if last is not None:
            rule, is_open, matcher = last
            if is_open or rule.admits(level, file):
                match = matcher(message)
                if match is not None:
                    return rule, match
        return self._search(message, head, level, file)

    def _search(
        self, message: str, head: str, level: str | None, file: str | None
    ) -> tuple[LineRule, re.Match[str]] | None:
        tried: set[str] = set()
        for hint in self._hints.findall(message):
            if hint in tried:
                continue
            tried.add(hint)
            for rule in self._by_hint[hint]:
                if not rule.admits(level, file):
                    continue
                match = rule.match(message)
                if match is not None:
                    if len(self._last) > 2048:
                        self._last.clear()
                    is_open = not rule.levels and not rule.files
                    self._last[head] = (rule, is_open, rule.match)
                    return rule, match
        return None

    def looks_relevant(self, message: str, level: str | None) -> bool:
        """Whether a message without a rule should be counted as unknown."""
        if level is None:
            return self._bare.search(message) is not None
        if _TRACEBACK.match(message) is not None:
            return False
        return self._relevant.search(message) is not None
