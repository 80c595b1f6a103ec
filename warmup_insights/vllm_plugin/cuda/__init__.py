"""Hooks in the GPU worker and the model runners of vLLM."""

from __future__ import annotations
