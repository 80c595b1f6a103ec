"""The commands of README.md, read from it: tests and CI run them.

`python docs/readme_commands.py` prints the ones that run on any machine, in order; with
`--setup` the two that set up an environment. A block is run when its fence says `sh` and
no comment `<!-- not run: reason -->` stands in front of it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"
_BLOCK = re.compile(
    r"(?:<!-- not run: (?P<reason>[^>]+) -->\n)?^```sh\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_REMARK = re.compile(r"\s+# .*$")


def commands(page: Path = README) -> list[str]:
    """What runs everywhere, in the order of the page."""
    return [c for reason, c in _all(page) if reason is None and "pip install" not in c]


def setups() -> list[str]:
    """The commands that start from nothing."""
    return [c for reason, c in _all() if reason is None and "pip install" in c]


def left_out() -> list[tuple[str, str]]:
    """What is not run, each with the reason the page gives."""
    return [(reason, command) for reason, command in _all() if reason is not None]


def _all(page: Path = README) -> Iterator[tuple[str | None, str]]:
    for block in _BLOCK.finditer(page.read_text(encoding="utf-8")):
        for line in block["text"].replace("\\\n", " ").splitlines():
            command = _REMARK.sub("", line).strip()
            if command:
                yield block["reason"], command


if __name__ == "__main__":
    found = setups() if "--setup" in sys.argv[1:] else commands()
    sys.stdout.write("".join(f"{command}\n" for command in found))
