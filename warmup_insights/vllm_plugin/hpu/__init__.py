"""Hooks in vllm-gaudi and vllm-fork."""

from __future__ import annotations
