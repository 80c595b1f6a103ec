"""The child that Atheris drives: `python -m tests.fuzz.guided TARGET FOLDER ARGUMENT...`.

It writes one input per kind of fault into FOLDER and goes on; libFuzzer's arguments
follow. The modules under test are imported only after Atheris can instrument them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris  # type: ignore[import-untyped,import-not-found,unused-ignore]

TESTED = ["parsers", "warmup_insights.analysis", "warmup_insights.units"]
MAX_FAULTS = 50
SLOWDOWN = 15


def main() -> None:
    """Fuzz one target until the arguments of libFuzzer say stop."""
    target, folder = sys.argv[1], Path(sys.argv[2])
    with atheris.instrument_imports(include=TESTED, enable_loader_override=False):
        from tests.fuzz import properties
        from tests.fuzz.findings import broken, keep
        from tests.fuzz.mutations import changed
    # Instrumented code is slower; the parent measures without.
    properties.LINE_LIMIT_S *= SLOWDOWN
    seen: set[str] = set()

    def one_input(data: bytes) -> None:
        fault = broken(target, data)
        if fault is not None and fault not in seen and len(seen) < MAX_FAULTS:
            seen.add(fault)
            keep(target, data, folder)

    def mutated(data: bytes, limit: int, seed: int) -> bytes:
        # Half the time a log that broke, half the time libFuzzer's own bytes and words.
        if seed % 2:
            return bytes(atheris.Mutate(data, limit))
        return changed(data, limit, seed)

    # libFuzzer sees its own arguments only.
    atheris.Setup([sys.argv[0], *sys.argv[3:]], one_input, custom_mutator=mutated)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
