"""Stand-in for vllm-gaudi 0.13.0."""

from __future__ import annotations
