"""Fuzz the parsers for a while; exit 1 when something broke.

`python -m tests.fuzz --seconds 60`. Half the time goes to whole files, half to single
lines. What breaks is written to tests/fuzz/findings, where a test replays it.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import tempfile
from pathlib import Path

from tests.fuzz import findings
from tests.fuzz.hunting import Hunt, hunt_guided, hunt_unguided
from tests.fuzz.properties import TARGETS


def main(arguments: list[str] | None = None) -> int:
    """Fuzz, print what was done; 1 when there are findings."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--corpus", type=Path, help="folder that is kept between runs")
    parser.add_argument("--json", action="store_true", help="print counts as JSON")
    options = parser.parse_args(arguments)
    is_guided = importlib.util.find_spec("atheris") is not None
    if not is_guided:
        print("Atheris has no wheel for this Python: Hypothesis looks instead, which "
              "is not guided by coverage.", file=sys.stderr)  # fmt: skip
    hunts = [
        _hunt(target, options.seconds // len(TARGETS), options.corpus, is_guided)
        for target in TARGETS
    ]
    if options.json:
        print(json.dumps({hunt.target: hunt.as_dict() for hunt in hunts}))
    else:
        print("\n".join(map(str, hunts)))
    return int(any(hunt.faults for hunt in hunts))


def _hunt(target: str, seconds: int, corpus: Path | None, is_guided: bool) -> Hunt:
    with tempfile.TemporaryDirectory() as folder:
        if is_guided:
            return hunt_guided(target, seconds, corpus or Path(folder), findings.FOLDER)
        return hunt_unguided(target, seconds, findings.FOLDER)


if __name__ == "__main__":
    sys.exit(main())
