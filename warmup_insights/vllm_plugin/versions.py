"""Versions of engines, compared as versions."""

from __future__ import annotations

from packaging.version import InvalidVersion, Version

from warmup_insights.vllm_plugin import facts

_PACKAGES = {"vllm-gaudi": ("vllm-gaudi", "vllm_gaudi")}
_PLACEHOLDERS = frozenset({Version("0"), Version("0.1")})
"""What a source tree without its tags calls itself, with a `.dev` behind it."""


def version_of(text: str | None) -> Version | None:
    """The version in a text, a local part left out; None when it holds none.

    A pre-release comes before its release. A build from a source tree without tags
    (`0.1.dev1+g0123abc`) may be any version.
    """
    try:
        version = Version((text or "").partition("+")[0])
    except InvalidVersion:
        return None
    is_placeholder = Version(version.base_version) in _PLACEHOLDERS
    is_unknown = is_placeholder and (version.is_devrelease or not any(version.release))
    return None if is_unknown else version


def installed_version(engine: str) -> Version | None:
    """The installed version of an engine; None when it is not known."""
    names = _PACKAGES.get(engine, ("vllm",))
    return version_of(facts.version_of_package(*names))
