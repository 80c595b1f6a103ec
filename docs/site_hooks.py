"""What the site has besides the pages: the changelog, and a report of a sample log."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = "sample_logs/vllm-fork/warmup_doc_capture.log"
REPORT = "sample-report.html"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files that are made."""
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "changelog.md", content=changes))
    files.append(File.generated(config, REPORT, content=_report()))
    return files


def _report() -> str:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / REPORT
        subprocess.run(
            [sys.executable, "-m", "warmup_insights", "report", SAMPLE, "-o", str(out)],
            cwd=ROOT, check=True, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        return out.read_text(encoding="utf-8")
