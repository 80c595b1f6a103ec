"""Versions of engines: what a version has is told by comparing it as a version."""

from __future__ import annotations

import pytest
from packaging.version import Version

from warmup_insights.vllm_plugin.facts import version_of
from warmup_insights.vllm_plugin.hooks import Hook


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.26.0", "0.26.0"),
        ("v0.11.2rc1", "0.11.2rc1"),
        ("0.26.0+empty", "0.26.0"),
        ("0.18.1.dev3+g1234567", "0.18.1.dev3"),
    ],
)
def test_a_version_is_read_without_its_local_part(text, expected):
    assert version_of(text) == Version(expected)


@pytest.mark.parametrize(
    "text", ["0.0.0", "0.1.dev1+g1234567", "0.1.dev12", "abc", "", None]
)
def test_a_source_tree_without_tags_may_be_any_version(text):
    assert version_of(text) is None


def hook(since="0.11.2", until="0.18.0"):
    return Hook(
        engine="vllm", topic="t", module="m", owner=None, name="n",
        probe=lambda session, call: iter(()), since=since, until=until,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "is_expected"),
    [
        ("0.10.1", False),
        ("0.11.2rc1", False),
        ("0.11.2", True),
        ("0.13.0.post1", True),
        ("0.18.0rc0", True),
        ("0.18.0", False),
        ("0.18.1rc1", False),
    ],
)
def test_a_range_of_versions_knows_its_pre_releases(text, is_expected):
    assert hook().is_expected_in(version_of(text)) is is_expected


def test_an_unknown_version_may_have_what_was_not_removed():
    assert not hook().is_expected_in(None)
    assert hook(until=None).is_expected_in(None)
