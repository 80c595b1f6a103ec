"""By hand: which hooks attach to each version of vllm-gaudi and of vLLM, from sources.

    python -m tests.vllm_plugin.attach_tags --git CLONE/.git --vllm FOLDER

Sources are read by their syntax trees; nothing is imported or checked out. `CLONE` is
one of vllm-gaudi, `FOLDER` has the unpacked source distributions of vLLM, each in a
folder `vllm-VERSION`. The tables are written into `docs/instrument-vllm.md`. The exit
status is 1 when a version should have a call that it does not have.
"""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

from warmup_insights.vllm_plugin.check import (
    ATTACHES,
    MISSING,
    Definitions,
    findings,
    status_of,
)
from warmup_insights.vllm_plugin.facts import version_of
from warmup_insights.vllm_plugin.table import GAUDI, UPSTREAM

PAGE = Path(__file__).resolve().parents[2] / "docs" / "instrument-vllm.md"


def git(folder, *arguments):
    """What a git command prints; None when it fails."""
    done = subprocess.run(
        ["git", f"--git-dir={folder}", *arguments], capture_output=True, check=False
    )
    return done.stdout if done.returncode == 0 else None


def versions(folder):
    """Tags in the order of versions, then the newest commit."""
    tags = git(folder, "tag").decode().split()
    known = [tag for tag in tags if version_of(tag) is not None]
    return [*sorted(known, key=version_of), "HEAD"]


def findings_of(folder, revision):
    """What would become of each hook in a revision; HEAD is later than any version."""

    def source_of(module):
        path = module.replace(".", "/")
        return next(
            (
                source
                for name in (f"{path}.py", f"{path}/__init__.py")
                if (source := git(folder, "show", f"{revision}:{name}")) is not None
            ),
            None,
        )

    newest = max(map(version_of, versions(folder)[:-1]))
    definitions, version = Definitions(source_of), version_of(revision) or newest
    return findings((hook, status_of(hook, definitions, version)) for hook in GAUDI)


def row(name, found):
    """A line of the table, and what is missing."""
    attached = sum(finding.status == ATTACHES for finding in found)
    missing = [finding.target for finding in found if finding.status == MISSING]
    shown = ", ".join(f"`{target}`" for target in missing) or "-"
    others = len(found) - attached - len(missing)
    return f"| {name} | {attached} | {others} | {shown} |", missing


def rows_of_gaudi(folder):
    """A row for each tag of vllm-gaudi and for its main branch."""
    for revision in versions(folder):
        name = revision
        if revision == "HEAD":
            log = git(folder, "log", "-1", "--format=%h of %cs", "HEAD")
            name = f"main, {log.decode().strip()}"
        yield row(name, findings_of(folder, revision))


def rows_of_vllm(folder):
    """A row for each source tree of vLLM; uvicorn, which serves it, is not among them."""
    hooks = [hook for hook in UPSTREAM if hook.module.startswith("vllm.")]
    trees = {version_of(path.name[5:]): path for path in folder.glob("vllm-*")}
    for version, tree in sorted(trees.items()):

        def source_of(module, tree=tree):
            path = tree.joinpath(*module.split("."))
            for place in (path.with_suffix(".py"), path / "__init__.py"):
                if place.is_file():
                    return place.read_bytes()
            return None

        definitions = Definitions(source_of)
        found = [(hook, status_of(hook, definitions, version)) for hook in hooks]
        yield row(f"v{version}", findings(found))


def write_block(name, head, rows):
    """Put a table into the page; the calls that are missing."""
    lines = [f"| {head} | attach | of other versions | missing |", "|---|---|---|---|"]
    all_missing = []
    for line, missing in rows:
        lines.append(line)
        all_missing += missing
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    block = "\n".join([begin, *lines, end])
    PAGE.write_text(f"{before}{block}{after}", encoding="utf-8")
    print("\n".join(lines))
    return all_missing


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--git", type=Path, help="clone of vllm-gaudi")
    parser.add_argument("--vllm", type=Path, help="folder of sources of vLLM")
    chosen = parser.parse_args()
    missing = []
    if chosen.git:
        missing += write_block("tags", "vllm-gaudi", rows_of_gaudi(chosen.git))
    if chosen.vllm:
        missing += write_block("vllm-tags", "vLLM", rows_of_vllm(chosen.vllm))
    raise SystemExit(bool(missing))


if __name__ == "__main__":
    main()
