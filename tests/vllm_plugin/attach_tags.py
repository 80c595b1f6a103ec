"""By hand: which hooks attach to each version of vllm-gaudi, from a clone of its sources.

    python -m tests.vllm_plugin.attach_tags --git CLONE/.git

Sources are read out of the clone by their syntax trees; nothing is imported or checked
out. The table is written into `docs/instrument-vllm.md`. The exit status is 1 when a
version should have a call that it does not have.
"""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

from warmup_insights.vllm_plugin.check import ATTACHES, MISSING, check_source
from warmup_insights.vllm_plugin.facts import version_of
from warmup_insights.vllm_plugin.table import GAUDI

PAGE = Path(__file__).resolve().parents[2] / "docs" / "instrument-vllm.md"
BEGIN, END = "<!-- begin tags -->", "<!-- end tags -->"


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
    return check_source(GAUDI, source_of, version_of(revision) or newest)


def row(folder, revision):
    """A line of the table, and what is missing."""
    found = findings_of(folder, revision)
    attached = sum(finding.status == ATTACHES for finding in found)
    missing = [finding.target for finding in found if finding.status == MISSING]
    name = revision
    if revision == "HEAD":
        told = git(folder, "log", "-1", "--format=%h of %cs", "HEAD").decode().strip()
        name = f"main, {told}"
    shown = ", ".join(f"`{target}`" for target in missing) or "-"
    others = len(found) - attached - len(missing)
    return f"| {name} | {attached} | {others} | {shown} |", missing


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--git", type=Path, required=True)
    chosen = parser.parse_args()
    lines = [
        "| vllm-gaudi | attach | of other versions | missing |",
        "|---|---|---|---|",
    ]
    all_missing = []
    for revision in versions(chosen.git):
        line, missing = row(chosen.git, revision)
        lines.append(line)
        all_missing += missing
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    block = "\n".join([BEGIN, *lines, END])
    PAGE.write_text(f"{before}{block}{after}", encoding="utf-8")
    print("\n".join(lines))
    raise SystemExit(bool(all_missing))


if __name__ == "__main__":
    main()
