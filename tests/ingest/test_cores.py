"""As many processes as pay, and no more than there are cores for."""

from __future__ import annotations

import os

import pytest

from warmup_insights.ingest.many import choose_jobs, cpu_quota, usable_cores


@pytest.fixture
def logs(tmp_path):
    def make(count: int, size: int) -> list[str]:
        for n in range(count):
            with (tmp_path / f"{n}.log").open("wb") as file:
                file.truncate(size)
        return [str(path) for path in sorted(tmp_path.iterdir())]

    return make


def test_a_few_small_files_are_read_here(logs):
    assert choose_jobs(logs(20, 50_000), cores=64) == 1


def test_thousands_of_small_files_use_every_core(logs):
    assert choose_jobs(logs(2000, 100_000), cores=16) == 16
    assert choose_jobs(logs(2000, 100_000), cores=1) == 1


def test_one_large_file_is_read_by_one_and_stored_by_another(logs):
    assert choose_jobs(logs(1, 50 << 30), cores=16) == 2
    assert choose_jobs(logs(1, 50 << 30), cores=1) == 1
    assert choose_jobs(logs(1, 1 << 20), cores=16) == 1


def test_no_more_processes_than_files(logs):
    assert choose_jobs(logs(3, 8 << 30), cores=16) == 3


def test_what_is_no_file_does_not_count():
    assert choose_jobs(["-", "/nowhere.log"], cores=16) == 1


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu.max": "max 100000\n"}, None),
        (
            {"cpu/cpu.cfs_quota_us": "400000\n", "cpu/cpu.cfs_period_us": "100000\n"},
            4.0,
        ),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({"cpu.max": "nonsense\n"}, None),
        ({}, None),
    ],
)
def test_quota_of_a_container_is_read(tmp_path, files, cores):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert cpu_quota(tmp_path) == cores


def test_affinity_limits_the_cores():
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert usable_cores() == 1
    finally:
        os.sched_setaffinity(0, allowed)
