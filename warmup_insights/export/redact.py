"""Names of hosts and users, paths and addresses replaced, the same one by the same word.

Secrets are masked before anything is stored (`warmup_insights.secrets`); this is for
results that leave the house.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from warmup_insights.analysis.summary import Folded
from warmup_insights.export.runs import RunWithLines
from warmup_insights.model.summary import RunSummary

if TYPE_CHECKING:
    from warmup_insights.analysis.advice import Finding

# Every repetition has a bound, so no text takes more than linear time.
_ADDRESS = re.compile(
    r"\b[a-z][a-z0-9+.-]{1,20}://[^\s'\"<>,;)\]}]{1,400}"
    r"|\b[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){0,6}"
    r"|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?\b"
    r"|(?<![\w:])(?:[0-9a-f]{0,4}:){3,7}[0-9a-f]{1,4}(?![\w:])",
    re.I,
)
_HOST = re.compile(
    r"\b(?:[a-z0-9](?:[a-z0-9-]{0,62})\.){1,6}"
    r"(?:com|net|org|edu|gov|io|dev|cloud|local|localdomain|internal|intra|lan|corp|home"
    r"|svc|cluster|arpa|de|uk|fr|il|pl|cn|jp|in|us|eu)\b(?!\()",
    re.I,
)
_HOME = re.compile(r"/(?:home|Users)/([A-Za-z0-9._-]{1,64})")
_PATH = re.compile(
    r"(?<![\w./:-])~?(?:/[\w.@%+=~-]{1,255}){2,40}/?"
    r"|\b[A-Za-z]:\\[^\s'\"<>|]{1,400}"
)
_HOST_KEYS = frozenset(
    {"host", "hostname", "node", "nodename", "node_name", "pod", "pod_name", "namespace",
     "vllm_host_ip", "master_addr", "data_parallel_address"}
)  # fmt: skip
_USER_KEYS = frozenset({"user", "username", "logname"})
_FREE = frozenset(
    {"label", "model", "config", "defaults", "message", "before", "after", "reason",
     "benchmarks", "text", "detail", "kernel", "directory", "saved_to", "path", "evidence"}
)  # fmt: skip
"""Fields of a summary that hold the text of a log or of a user."""
_NO_NAMES = frozenset(
    {"", "localhost", "root", "none", "true", "false", "null", "auto"}
)
_LEAST = 3
"""A shorter name of a host or a user would be found inside other words."""


class Redactor:
    """Replacements that are the same in every text that it is given."""

    def __init__(self) -> None:
        self._words: dict[tuple[str, str], str] = {}
        self._names: dict[str, str] = {}

    def add_names_of(self, summary: RunSummary) -> None:
        """Find the names of hosts and users that a run states; of all runs before any text."""
        self._add_names(msgspec.to_builtins(summary))

    def folded(self, folded: Folded) -> Folded:
        """A run without names of hosts and users, paths and addresses in its free text.

        Words of fixed vocabularies (engine, status, phases, ...) stay as they are, also
        where a person has such a name.
        """
        self.add_names_of(folded.summary)
        content = msgspec.to_builtins(folded.summary)
        found = {key: self._free_text(value, key) for key, value in content.items()}
        found["source"]["name"] = self._replace(content["source"]["name"])
        return Folded(msgspec.convert(found, RunSummary), folded.rows)

    def runs(self, runs: Sequence[RunWithLines]) -> list[RunWithLines]:
        """Runs without them, in lines and findings too; the names of all are replaced in
        each."""
        for run in runs:
            self.add_names_of(run.summary)
        return [
            RunWithLines(
                self.folded(run.folded),
                {number: self.text(text) for number, text in run.lines.items()},
                [self.finding(finding) for finding in run.findings],
            )
            for run in runs
        ]

    def finding(self, finding: Finding) -> Finding:
        """A finding without them; which rules apply follows from the run as it was."""
        texts = {
            name: self._replace(getattr(finding, name))
            for name in ("title", "suggestion", "effect", "price")
        }
        return dataclasses.replace(
            finding,
            **texts,
            numbers=self._replace(dict(finding.numbers)),
            changes=self._replace(dict(finding.changes)),
            details=tuple(map(self.text, finding.details)),
            ways=tuple(
                dataclasses.replace(
                    way,
                    suggestion=self.text(way.suggestion),
                    price=self.text(way.price),
                )
                for way in finding.ways
            ),
        )

    def text(self, text: str) -> str:
        """One text, with the names of hosts and users that were seen so far."""
        for user in _HOME.findall(text):
            self._name("user", user)
        text = _ADDRESS.sub(lambda m: self._word("address", m[0]), text)
        text = _PATH.sub(lambda m: self._word("path", m[0].rstrip("/")), text)
        text = _HOST.sub(lambda m: self._word("host", m[0]), text)
        for name, word in self._names.items():
            if name in text:
                text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", word, text)
        return text

    def _add_names(self, value: Any, key: str = "") -> None:
        """Find the names of hosts and users that settings state."""
        if isinstance(value, dict):
            for inner, item in value.items():
                self._add_names(item, str(inner).lower())
        elif isinstance(value, list):
            for item in value:
                self._add_names(item, key)
        elif isinstance(value, str):
            if key in _HOST_KEYS:
                self._name("host", value)
            if key in _USER_KEYS:
                self._name("user", value)
            for user in _HOME.findall(value):
                self._name("user", user)

    def _name(self, kind: str, name: str) -> None:
        if len(name) >= _LEAST and name.lower() not in _NO_NAMES:
            self._names.setdefault(name, self._word(kind, name))

    def _word(self, kind: str, text: str) -> str:
        count = sum(1 for other, _ in self._words if other == kind)
        return self._words.setdefault((kind, text), f"{kind}-{count + 1}")

    def _free_text(self, value: Any, key: str) -> Any:
        """The value with what is free text in it replaced."""
        if key in _FREE:
            return self._replace(value)
        if isinstance(value, dict):
            return {
                inner: self._free_text(item, inner) for inner, item in value.items()
            }
        if isinstance(value, list):
            return [self._free_text(item, key) for item in value]
        return value

    def _replace(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self.text(str(k)): self._replace(v) for k, v in value.items()}
        if isinstance(value, list):
            return [self._replace(item) for item in value]
        return self.text(value) if isinstance(value, str) else value
