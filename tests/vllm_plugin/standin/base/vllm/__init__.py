"""Stand-in for vLLM: the calls of its start-up, in the order of the real one."""

from __future__ import annotations

import importlib.metadata

__version__ = importlib.metadata.version("vllm")
