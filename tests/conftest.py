from __future__ import annotations

import gc
import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")
# A shell starts what it runs in the background with Ctrl-C ignored, and children inherit it.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite the golden files; review the difference like code",
    )


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """All cores for the whole suite; tests named on the command line run in this process."""
    if config.args_source is not config.ArgsSource.TESTPATHS:
        return 0
    return min(os.cpu_count() or 1, 4)


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """The whole suite leaves out `long` unless it is chosen with -m, as in CI."""
    by_name = config.args_source is not config.ArgsSource.TESTPATHS
    if by_name or config.option.markexpr:
        return
    long = [item for item in items if item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=long)
    items[:] = [item for item in items if not item.get_closest_marker("long")]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Leave what is imported by now out of garbage collection: a fifth of the time of all
    tests went into visiting its half a million objects again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture(scope="session")
def root() -> Path:
    """The source tree."""
    return Path(__file__).resolve().parents[1]


@pytest.fixture
def sample_logs(root: Path) -> Path:
    return root / "sample_logs"
