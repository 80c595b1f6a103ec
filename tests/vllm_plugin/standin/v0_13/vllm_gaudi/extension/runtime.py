"""Stand-in for `vllm_gaudi/extension/runtime.py`."""

from __future__ import annotations

import os

from vllm.logger import log

RUNTIME_CONFIG = None
ENVIRONMENT_VALUES = None
FEATURE_VALUES = None
USER_FLAGS = None


class Config:
    def __init__(self, values):
        self._values = values

    def __getattr__(self, name):
        return self._values.get(name)

    def get_all(self, keys=None):
        return {key: self._values.get(key) for key in keys or self._values}


def get_config():
    global RUNTIME_CONFIG, ENVIRONMENT_VALUES, FEATURE_VALUES, USER_FLAGS
    if RUNTIME_CONFIG is None:
        contiguous = os.environ.get("VLLM_CONTIGUOUS_PA") == "true"
        environment = {"hw": "gaudi2", "bridge_mode": "lazy"}
        features = {
            "bucketing_strategy": os.environ.get("VLLM_BUCKETING_STRATEGY", "exp"),
            "use_contiguous_pa": contiguous,
            "defrag": contiguous,
        }
        flags = {"VLLM_DEVELOPER_MODE": True, "VLLM_API_KEY": "sk-very-secret-thing"}
        RUNTIME_CONFIG = Config({**environment, **features, **flags})
        ENVIRONMENT_VALUES = list(environment)
        FEATURE_VALUES = list(features)
        USER_FLAGS = list(flags)
    return RUNTIME_CONFIG


def finalize_config():
    config = get_config()
    sections = {
        "Environment": ENVIRONMENT_VALUES,
        "Features": FEATURE_VALUES,
        "User flags": ["VLLM_DEVELOPER_MODE"],
    }
    for title, names in sections.items():
        log.info("runtime.py:28", f"{title}:")
        for name, value in config.get_all(names).items():
            log.info("runtime.py:32", f"    {name}: {value}")
    return config
