"""Colours that stand alone differ for every kind of colour vision."""

from __future__ import annotations

import itertools

import pytest

from dashboard.palette import (
    DARK,
    INK,
    MEANINGS,
    PART_MEANINGS,
    PHASE_MEANINGS,
    SIGNS,
    STATES,
    STATUS_COLOURS,
    darkened,
    phase_meaning,
)

# Machado, Oliveira and Fernandes 2009, severity 1.0, on linear RGB.
VISIONS = {
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
LEAST = 9.0
"""CIE76 distance; 2.3 is just noticeable."""


def lab(shade: str, vision) -> tuple[float, float, float]:
    channels = [int(shade[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels
    ]
    seen = [
        min(1.0, max(0.0, sum(m * c for m, c in zip(row, linear, strict=True))))
        for row in vision
    ]
    x = 0.4124 * seen[0] + 0.3576 * seen[1] + 0.1805 * seen[2]
    y = 0.2126 * seen[0] + 0.7152 * seen[1] + 0.0722 * seen[2]
    z = 0.0193 * seen[0] + 0.1192 * seen[1] + 0.9505 * seen[2]

    def f(t: float) -> float:
        return t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116

    fx, fy, fz = f(x / 0.95047), f(y), f(z / 1.08883)
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


def distance(first: str, second: str, vision) -> float:
    a, b = lab(first, vision), lab(second, vision)
    return sum((p - q) ** 2 for p, q in zip(a, b, strict=True)) ** 0.5


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("vision", VISIONS)
def test_states_of_buckets_differ(vision, dark):
    for first, second in itertools.combinations(STATES, 2):
        found = distance(MEANINGS[first][dark], MEANINGS[second][dark], VISIONS[vision])
        assert found > LEAST, (first, second, found)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("vision", VISIONS)
def test_neighbours_in_a_memory_bar_differ(vision, dark):
    """Parts of a stacked bar touch each other in this order."""
    order = list(PART_MEANINGS.values())
    for first, second in itertools.pairwise(order):
        found = distance(MEANINGS[first][dark], MEANINGS[second][dark], VISIONS[vision])
        assert found > LEAST, (first, second, found)


def test_no_two_meanings_share_a_colour():
    for shades in zip(*MEANINGS.values(), strict=True):
        assert len(set(shades)) == len(shades)


def test_a_dark_page_has_its_own_colours_and_the_same_texts():
    assert {DARK[tone.light] for tone in MEANINGS.values()} == {
        tone.dark for tone in MEANINGS.values()
    }
    light, dark = MEANINGS["load"]
    drawn = {
        "marker": {"color": [light, light], "line": {"color": INK}},
        "text": [light],
    }
    marker = {"color": [dark, dark], "line": {"color": DARK[INK]}}
    assert darkened(drawn) == {"marker": marker, "text": [light]}


def test_what_needs_a_look_has_a_sign_as_well():
    assert set(SIGNS) == {"skipped", "missed", "executed_differently"} <= set(STATES)


def test_every_phase_has_a_meaning():
    assert {phase_meaning(name) for name in PHASE_MEANINGS} <= set(MEANINGS)
    assert phase_meaning("load_weights (other rank)") == "load"
    assert phase_meaning("multimodal_warmup") == "warmed"
    assert phase_meaning("something_new") == "prepare"


def test_every_status_has_a_badge():
    assert set(STATUS_COLOURS) == {
        "finished", "running", "failed", "skipped", "stopped", "unknown",
    }  # fmt: skip
