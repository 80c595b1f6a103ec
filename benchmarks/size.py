"""How large the product is, and how much of it one log goes through.

    python benchmarks/size.py [LOG]

Prints lines and modules of each package, circles of imports between modules, and the
product's functions and modules that `ingest LOG` enters in one process (without LOG:
the sample `made_tp2_defrag.log`), counted with `sys.setprofile`: no lambdas, no
comprehensions, and no bodies of classes, which run once, at the import.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import CodeType, FrameType

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
PACKAGES = ("warmup_insights", "parsers", "dashboard")
SAMPLE = next((ROOT / "sample_logs").rglob("made_tp2_defrag.log"), None)


def modules() -> dict[str, Path]:
    """Dotted name to file."""
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


def print_sizes(found: dict[str, Path]) -> None:
    lines: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for name, path in found.items():
        parts = name.split(".")
        deep = parts[0] == "warmup_insights" and path.parent != ROOT / parts[0]
        package = ".".join(parts[:2]) if deep else parts[0]
        lines[package] += len(path.read_text(encoding="utf-8").splitlines())
        counts[package] += 1
    for package in sorted(lines):
        print(f"{package:32} {lines[package]:7,} lines {counts[package]:5} modules")
    print(f"{'all':32} {lines.total():7,} lines {counts.total():5} modules")


def imports(path: Path, known: dict[str, Path]) -> set[str]:
    """The product's modules that a module imports, also inside functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found.add(whole if whole in known else node.module)
    return found & known.keys()


def print_circle(found: dict[str, Path]) -> None:
    graph = {name: imports(path, found) - {name} for name, path in found.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        print("import circle:", " <- ".join(error.args[1]))
    else:
        print("import circles: none")


def print_entered(log: Path) -> None:
    entered: dict[str, set[CodeType]] = defaultdict(set)
    roots = tuple(f"{ROOT / package}/" for package in PACKAGES)

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        is_ours = code.co_filename.startswith(roots)
        is_function = (
            code.co_flags & inspect.CO_NEWLOCALS
            and code.co_flags & inspect.CO_OPTIMIZED
        )
        if event == "call" and is_ours and is_function and code.co_name[0] != "<":
            entered[code.co_filename].add(code)

    from warmup_insights.cli import cli

    with tempfile.TemporaryDirectory() as folder:
        threading.setprofile(note)
        sys.setprofile(note)
        try:
            command = ["ingest", str(log), "--db", f"{folder}/runs.db", "--jobs", "1"]
            cli(command, standalone_mode=False)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]
    functions = sum(map(len, entered.values()))
    print(f"`ingest {log.name}` enters {functions} functions in {len(entered)} modules")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("log", nargs="?", type=Path, default=SAMPLE)
    log = arguments.parse_args().log
    found = modules()
    print_sizes(found)
    print_circle(found)
    if log is not None:
        print_entered(log)


if __name__ == "__main__":
    main()
