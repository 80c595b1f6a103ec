"""One regular expression for many literals, their common beginnings written once.

The standard library tries the branches of an alternation one after the other at every
position; factored by first characters it tries one or two.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

Trie = dict[str, Any]


def any_of(literals: Iterable[str]) -> str:
    """A pattern that finds any of the literals, the longest at a position first."""
    trie: Trie = {}
    for literal in set(literals):
        node = trie
        for char in literal:
            node = node.setdefault(char, {})
        node[""] = {}
    return _pattern(trie)


def _pattern(node: Trie) -> str:
    branches = []
    for char in sorted(key for key in node if key):
        text, child = char, node[char]
        while len(child) == 1 and "" not in child:
            ((following, child),) = child.items()
            text += following
        branches.append(re.escape(text) + _pattern(child))
    if not branches:
        return ""
    joined = branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"
    if "" not in node:
        return joined
    return f"(?:{joined})?"
