"""The format for lnav: its levels and fields are those of the rules, in Debian's lnav."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess

import pytest

from parsers import all_rules
from parsers.engine.envelope import peel
from tests.helpers import ROOT

FORMAT = ROOT / "docs" / "lnav" / "vllm.json"
TABLES = json.loads(FORMAT.read_text(encoding="utf-8"))["vllm_log"]["search-table"]
LOGS = sorted((ROOT / "sample_logs").glob("vllm*/*.log"))
SHOWN = "vllm-gaudi/made_v0_26_developer_mode.log"
LEVELS = {"INFO": "info", "WARNING": "warning", "ERROR": "error", "DEBUG": "debug"}
LEVELS |= {"CRITICAL": "critical"}

pytestmark = pytest.mark.skipif(
    shutil.which("lnav") is None and "CI" not in os.environ, reason="no lnav"
)


@pytest.fixture
def lnav(tmp_path):
    """Runs commands of lnav on a file; gives the rows of each query."""
    formats = tmp_path / "home" / ".config" / "lnav" / "formats" / "own"
    formats.mkdir(parents=True)
    shutil.copy(FORMAT, formats)
    env = os.environ | {"HOME": str(tmp_path / "home"), "TZ": "UTC"}
    env.pop("XDG_CONFIG_HOME", None)

    def call(*arguments, **more):
        done = subprocess.run(
            ["lnav", *map(str, arguments)],
            env=env, capture_output=True, text=True, check=False, timeout=600, **more,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert "error" not in done.stderr, done.stderr
        return done.stdout

    def run(log, queries):
        script = tmp_path / "script.lnav"
        outs = [tmp_path / f"{number}.jsonl" for number in range(len(queries))]
        script.write_text(
            "".join(
                f";{query}\n:write-jsonlines-to {out}\n"
                for query, out in zip(queries, outs, strict=True)
            )
        )
        call("-n", "-f", script, log)
        return [
            [json.loads(line) for line in out.read_text("utf-8").splitlines()]
            if out.exists()
            else []
            for out in outs
        ]

    call("-C")
    run.call = call
    return run


def has_time(record):
    """Whether it has a time stamp; the page of the documentation has hh:mm:ss."""
    return re.search(r"\d:\d", record.stamp or "") is not None


def logged():
    """Samples of rules with a table, as vLLM's logger prints them, one in a line."""
    for rule in all_rules():
        for sample in rule.samples if f"vllm_{rule.name}" in TABLES else ():
            (first, *rest) = list(peel(sample.line))
            is_whole = not rest and "\n" not in sample.line
            if first.level and is_whole and has_time(first):
                yield rule, sample.line, first


def is_same(value, text):
    """Whether a value of lnav, which makes numbers of digits, is that text."""
    if isinstance(value, int | float):
        return value == float(text)
    return (value or "") == (text or "")


def in_order(lines):
    """The lines a second apart, for lnav sorts by time."""
    for number, (_, line, record) in enumerate(lines):
        time = f"07-16 00:{number // 60:02}:{number % 60:02}"
        yield line.replace(record.stamp, time)


@pytest.mark.long
def test_fields_are_those_of_the_rules(lnav, tmp_path):
    lines = list(logged())
    tables = {f"vllm_{rule.name}" for rule, *_ in lines}
    assert tables == set(TABLES)
    log = tmp_path / "samples.log"
    log.write_text("".join(f"{line}\n" for line in in_order(lines)), encoding="utf-8")
    levels, *found_rows = lnav(
        log,
        [
            "SELECT log_line, log_level, log_body FROM vllm_log",
            *(f"SELECT * FROM {table}" for table in sorted(tables)),
        ],
    )
    assert [row["log_level"] for row in levels] == [
        LEVELS[record.level] for _, _, record in lines
    ]
    found = {
        (table, row["log_line"]): row
        for table, rows in zip(sorted(tables), found_rows, strict=True)
        for row in rows
    }
    for number, (rule, line, record) in enumerate(lines):
        row = found[f"vllm_{rule.name}", number]
        match = rule.match(record.message)
        for name, text in match.groupdict().items():
            if name == "text":
                continue
            value = row[name] if name in row else row[f"{name}_"]
            assert is_same(value, text), f"{name} of {line}"


def test_levels_of_the_sample_logs(lnav, tmp_path):
    lines = [
        line for log in LOGS for line in log.read_text("utf-8", "replace").splitlines()
    ]
    expected = {}
    for line in lines:
        # What is glued to a progress bar is no line of its own in lnav.
        (record, *others) = list(peel(line)) or [None]
        if record and has_time(record) and record.level in LEVELS and not others:
            level = LEVELS[record.level]
            expected[level] = expected.get(level, 0) + 1
    assert len(expected) > 2
    whole = tmp_path / "whole.log"
    whole.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    query = (
        "SELECT log_level, count(*) AS n FROM vllm_log "
        "WHERE log_level != 'unknown' GROUP BY 1"
    )
    (rows,) = lnav(whole, [query])
    assert {row["log_level"]: row["n"] for row in rows} == expected


def test_the_page_quotes_what_lnav_prints(lnav, tmp_path):
    page = (ROOT / "docs" / "export.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```console\n(\$ lnav .*?)^```$", page, re.M | re.S)
    shutil.copy(ROOT / "sample_logs" / SHOWN, tmp_path / "server.log")
    printed = []
    for command in re.findall(r"^\$ lnav (.*)$", block, re.M):
        out = lnav.call(*shlex.split(command), cwd=tmp_path)
        printed += [f"$ lnav {command}", *(line.rstrip() for line in out.splitlines())]
    assert printed == block.splitlines()
