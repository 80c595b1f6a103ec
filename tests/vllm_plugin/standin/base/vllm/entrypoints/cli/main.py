"""Stand-in for the `vllm` command: `serve`, `bench throughput`, `sleep`, `fail`."""

from __future__ import annotations

import sys
import time


def main():
    command, *arguments = sys.argv[1:]
    if command == "serve":
        _serve(arguments)
    elif command == "sleep":
        print("sleeping", flush=True)
        time.sleep(60)
    elif command == "fail":
        print("to stdout")
        print("to stderr", file=sys.stderr)
        sys.exit(7)
    else:
        print("arguments:", *arguments)


def _serve(arguments):
    from vllm.config import VllmConfig
    from vllm.entrypoints.llm import LLM

    config = VllmConfig()
    config.model_config.model = arguments[0]
    if "--hang" in arguments:
        print("sleeping", flush=True)
        time.sleep(60)
    llm = LLM(config)
    print("tokens", llm.generate([[(100, 0)], [(1, 1)]]))
    llm.shutdown()


if __name__ == "__main__":
    main()
