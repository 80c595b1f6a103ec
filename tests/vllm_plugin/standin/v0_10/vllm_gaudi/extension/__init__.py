"""Stand-in for vllm-gaudi 0.10.1."""

from __future__ import annotations
