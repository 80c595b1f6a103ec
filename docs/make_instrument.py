"""Writes the tables of docs/instrument-vllm.md from the code of the plugin.

`python docs/make_instrument.py` rewrites what stands between the markers; `--check`
exits 1 when the page is not current.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from warmup_insights.vllm_plugin.check import versions_of
from warmup_insights.vllm_plugin.hooks import Hook
from warmup_insights.vllm_plugin.settings import VARIABLES
from warmup_insights.vllm_plugin.table import FORK, GAUDI, UPSTREAM

PAGE = Path(__file__).with_name("instrument-vllm.md")


def variables() -> Iterator[str]:
    """The environment variables of the plugin."""
    yield "| variable | what it does |\n|---|---|"
    for name, text in VARIABLES.items():
        yield f"| `{name}` | {text} |"


def hooks(rows: Iterable[Hook]) -> Iterator[str]:
    """What is seen, and through which call."""
    yield "| what | call | versions |\n|---|---|---|"
    for hook in rows:
        yield f"| {hook.topic} | `{hook.target}` | {versions_of(hook)} |"


BLOCKS = {
    "variables": variables(),
    "vllm-gaudi": hooks(GAUDI),
    "vllm": hooks(UPSTREAM),
    "vllm-fork": hooks(FORK),
}


def filled(text: str) -> str:
    """The page with every block written anew."""
    for name, lines in BLOCKS.items():
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        before, found, rest = text.partition(begin)
        _, also_found, after = rest.partition(end)
        if not found or not also_found:
            raise SystemExit(f"{PAGE} has no block {name}")
        block = "\n".join(lines)
        text = f"{before}{begin}\n{block}\n{end}{after}"
    return text


def main() -> None:
    """Rewrite the page, or compare."""
    text = PAGE.read_text(encoding="utf-8")
    new = filled(text)
    if "--check" in sys.argv[1:]:
        if new != text:
            raise SystemExit(f"{PAGE} is not current: run `python {__file__}`")
    else:
        PAGE.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
