"""What is tried again, how often, and what is said of it; a stand-in plays Ray."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.ingest.builders import CAPTURE, Recording
from warmup_insights.errors import InputError
from warmup_insights.ingest.cluster import ATTEMPTS, _Work, heads, read
from warmup_insights.ingest.find import RemoteFile
from warmup_insights.ingest.outcome import Options, Outcome


class RayError(Exception):
    pass


class RayTaskError(RayError):
    pass


class Task:
    def __init__(self, do):
        self.do = do


class OneByOne:
    """Does every task at once, in the order in which they are waited for."""

    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)

    def __init__(self, heads, read):
        self.cancelled = 0
        self._functions = {"heads": heads, "read": read}

    def remote(self, *, max_retries):
        assert max_retries == 0
        return lambda function: SimpleNamespace(
            remote=lambda *given: Task(
                lambda: self._functions[function.__name__](*given)
            )
        )

    def cluster_resources(self):
        return {"CPU": 1.0}

    def wait(self, tasks):
        return tasks[:1], tasks[1:]

    def get(self, task):
        return task.do()

    def cancel(self, task, force):
        self.cancelled += 1


def make_ray(read, heads=None) -> OneByOne:
    return OneByOne(heads or (lambda part: [None] * len(part)), read)


def work(ray, names: str, watcher=None) -> list[Outcome]:
    files = [RemoteFile(None, name, name, 1) for name in names]
    return _Work(ray, "postgresql://x/y", files, Options(), watcher).run()


def done(file: RemoteFile) -> Outcome:
    return Outcome(file.name, [file.name])


class Again(Recording):
    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def again(self, path: str, problem: str) -> None:
        self.said.append(f"{path}: {problem}")


def test_machine_that_dies_costs_one_attempt():
    deaths = {"b": 1, "c": ATTEMPTS}

    def read(file, database, options):
        if deaths.get(file.name, 0) > 0:
            deaths[file.name] -= 1
            raise RayError("The worker died.\nLook into the logs")
        return done(file)

    watcher = Again()
    outcomes = work(make_ray(read), "abc", watcher)
    assert [o.state for o in outcomes] == ["new", "new", "failed"]
    assert outcomes[2].error == (
        "c could not be read, 3 times; the last time: RayError: The worker died."
    )
    told = "RayError: The worker died."
    assert watcher.said == [f"b: {told}", f"c: {told}", f"c: {told}"]
    assert watcher.read_bytes == 3


def test_bug_in_a_task_is_told_with_its_last_line():
    def read(*_):
        raise RayTaskError("ray::read() (pid=1)\n  File ...\nKeyError: 'x'")

    (outcome,) = work(make_ray(read), "a")
    assert outcome.error.endswith("the last time: RayTaskError: KeyError: 'x'")


def test_files_that_begin_alike_are_read_in_their_order():
    order: list[str] = []

    def read(file, database, options):
        order.append(file.name)
        if order.count("a") == 1:
            raise RayError("died")
        return done(file)

    ray = make_ray(read, lambda part: ["h", "x", "h", "h"])
    assert [o.path for o in work(ray, "aXbc")] == list("aXbc")
    assert [name for name in order if name != "X"] == ["a", "a", "b", "c"]


def test_beginnings_are_asked_for_again_and_then_given_up():
    asked: list[int] = []

    def broken(part):
        asked.append(1)
        raise RayTaskError("ModuleNotFoundError: No module named 'warmup_insights'")

    with pytest.raises(InputError, match="check that each has this version"):
        work(make_ray(lambda *_: "", broken), "ab")
    assert len(asked) == ATTEMPTS


def test_what_runs_is_cancelled_when_the_work_is_broken_off():
    def read(*_):
        raise KeyboardInterrupt

    ray = make_ray(read)
    with pytest.raises(KeyboardInterrupt):
        work(ray, "abc")
    assert ray.cancelled == 1


def test_task_asks_for_another_attempt_where_that_may_help(tmp_path):
    """A database that is away may come back; a file that is not there does not."""
    here = RemoteFile(None, str(CAPTURE), "a.log")
    assert "does not exist" in read(here, f"{tmp_path}/missing/a.db", Options())
    nowhere = RemoteFile("memory://nowhere.log", "/nowhere.log", "memory://nowhere.log")
    failed = read(nowhere, f"{tmp_path}/a.db", Options())
    assert "There is no file memory://nowhere.log" in failed.error
    assert read(here, f"{tmp_path}/a.db", Options()).state == "new"


def test_beginning_of_what_cannot_be_opened_is_unknown():
    files = [
        RemoteFile(None, str(CAPTURE), "a"),
        RemoteFile(None, "/nowhere.log", "b"),
        RemoteFile("memory://n.log", "/n.log", "c"),
    ]
    known, *others = heads(files)
    assert known is not None
    assert others == [None, None]
