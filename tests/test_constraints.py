"""constraints.txt pins everything that the extras `all` and `dev` install."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
LINES = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
PINS = [Requirement(line) for line in LINES if not line.startswith("#")]
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
ALL = re.search(r'^all = \["warmup-insights\[(.+)\]"\]$', PROJECT, re.MULTILINE)
DEV = re.search(r'^ *"warmup-insights\[all,(.+)\]",$', PROJECT, re.MULTILINE)


def holds(requirement: Requirement, python: str | None = None, extra: str = "") -> bool:
    environment = {**default_environment(), "extra": extra}
    environment |= {"python_version": python} if python else {}
    return requirement.marker is None or requirement.marker.evaluate(environment)


def declared() -> list[Requirement]:
    """The requirements of pyproject.toml: the core's, and those of the extras."""
    assert ALL is not None
    assert DEV is not None
    found = []
    for name in ("dependencies", *ALL[1].split(","), *DEV[1].split(","), "dev"):
        block = re.search(rf"^{name} = \[\n(.*?)^\]", PROJECT, re.M | re.DOTALL)
        assert block is not None, name
        found += re.findall(r'^\s*"([^"]+)"', block[1], re.MULTILINE)
    return [r for r in map(Requirement, found) if r.name != "warmup-insights"]


def closure() -> set[str]:
    """Everything that the declared ones bring into this environment."""
    todo, seen = declared(), set()
    while todo:
        wanted = todo.pop()
        name = canonicalize_name(wanted.name)
        for extra in wanted.extras | {""}:
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            try:
                needs = map(Requirement, distribution(name).requires or [])
            except PackageNotFoundError:
                continue
            todo += [need for need in needs if holds(need, extra=extra)]
    return {name for name, _ in seen}


@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13"])
def test_every_requirement_has_one_exact_version_in_range(python):
    pins = {canonicalize_name(pin.name): pin for pin in PINS if holds(pin, python)}
    assert len(pins) == sum(holds(pin, python) for pin in PINS)
    for wanted in declared():
        (exact,) = pins[canonicalize_name(wanted.name)].specifier
        assert exact.operator == "=="
        assert exact.version in wanted.specifier, wanted


def test_what_the_requirements_bring_is_pinned_too():
    assert closure() - {canonicalize_name(pin.name) for pin in PINS} == set()


def test_pins_are_for_every_registry():
    """No path, no address, no local build."""
    assert all(pin.url is None for pin in PINS)
    assert [line for line in LINES if re.search(r"[+@/]", line.partition("#")[0])] == []
    assert "torch==2.13.0" in LINES
