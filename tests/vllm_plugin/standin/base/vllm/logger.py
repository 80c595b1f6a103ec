"""Stand-in for vLLM's logger: the same prefix, on standard output."""

from __future__ import annotations

import sys
import time


class Log:
    """Prints lines that look like vLLM's."""

    def __init__(self, name):
        self.name = name

    def _print(self, level, place, text):
        stamp = time.strftime("%m-%d %H:%M:%S", time.gmtime())
        prefix = f"{LOG_PREFIX}{level} {stamp} [{place}] "
        sys.stdout.write("".join(f"{prefix}{line}\n" for line in text.splitlines()))
        sys.stdout.flush()

    def plain(self, text):
        """Printed, not logged: still with the name of the process in front."""
        sys.stdout.write(f"{LOG_PREFIX}{text}\n")
        sys.stdout.flush()

    def info(self, place, text):
        self._print("INFO", place, text)

    def warning(self, place, text):
        self._print("WARNING", place, text)

    def error(self, place, text):
        self._print("ERROR", place, text)


LOG_PREFIX = ""


def name_process(name):
    """From now on lines begin with the name of this process."""
    import os

    global LOG_PREFIX
    LOG_PREFIX = f"({name} pid={os.getpid()}) "


log = Log("vllm")
