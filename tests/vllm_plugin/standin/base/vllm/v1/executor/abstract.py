"""Stand-in for the executors: one worker here, or one process per rank."""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os


def make_worker(vllm_config, rank):
    from vllm.plugins import load_general_plugins

    load_general_plugins()
    module = importlib.import_module("vllm_gaudi.v1.worker.hpu_worker")
    worker = module.HPUWorker(vllm_config, rank, rank, "tcp://127.0.0.1:1", rank == 0)
    worker.init_device()
    worker.load_model()
    return worker


class Executor:
    """What both have."""

    def __init__(self, vllm_config):
        self.sleeping_tags = set()
        self._init_executor(vllm_config)

    def sleep(self, level=1):
        self.sleeping_tags |= {"weights", "kv_cache"}

    def wake_up(self, tags=None):
        self.sleeping_tags -= set(tags or self.sleeping_tags)


class UniProcExecutor(Executor):
    """The worker lives in the process of the engine."""

    def _init_executor(self, vllm_config):
        self.worker = make_worker(vllm_config, 0)

    def call(self, name, *args):
        return [getattr(self.worker, name)(*args)]

    def shutdown(self):
        """Nothing to end."""


class MultiprocExecutor(Executor):
    """One process per rank; a worker that fails answers with its error."""

    def _init_executor(self, vllm_config):
        method = os.environ.get("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
        context = multiprocessing.get_context(method)
        self._workers = []
        for rank in range(vllm_config.parallel_config.world_size):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=worker_main, args=(vllm_config, rank, theirs), daemon=False
            )
            process.start()
            self._workers.append((process, ours))
        self._answers()

    def call(self, name, *args):
        for _, pipe in self._workers:
            pipe.send((name, args))
        return self._answers()

    def _answers(self):
        answers = []
        for _, pipe in self._workers:
            is_good, answer = pipe.recv()
            if not is_good:
                self.shutdown()
                raise RuntimeError(f"Worker failed with error {answer!r}")
            answers.append(answer)
        return answers

    def shutdown(self):
        for process, pipe in self._workers:
            with contextlib.suppress(OSError):  # a worker that failed is gone
                pipe.send((None, ()))
            process.join(10)


def worker_main(vllm_config, rank, pipe):
    from vllm.logger import name_process

    name_process(f"Worker_TP{rank}")
    try:
        worker = make_worker(vllm_config, rank)
        pipe.send((True, None))
        while True:
            name, args = pipe.recv()
            if name is None:
                return
            pipe.send((True, getattr(worker, name)(*args)))
    except Exception as error:
        pipe.send((False, str(error)))
