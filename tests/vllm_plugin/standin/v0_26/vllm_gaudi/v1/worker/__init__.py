"""Stand-in for vllm-gaudi 0.26.0."""

from __future__ import annotations
