"""The statements of a source tree that print, found in its syntax trees.

A statement is a call of a logger, `print`, `warnings.warn`, `tqdm` with a description, or
a `raise`. Its wording is a list of texts and of slots where a value stands; f-strings,
`%`, `.format`, sums, conditionals and names that were given a text before are followed.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

PACKAGES = ("vllm_gaudi", "tpu_inference", "vllm")
LEVELS = {
    "debug": "DEBUG", "info": "INFO", "warning": "WARNING", "warn": "WARNING",
    "error": "ERROR", "critical": "CRITICAL", "exception": "ERROR",
}  # fmt: skip
HELPERS = {
    "print_warning_once": "WARNING", "print_info_once": "INFO", "logger_once": "INFO",
    "warning_once": "WARNING", "info_once": "INFO", "debug_once": "DEBUG",
    "warning_rank_0": "WARNING", "info_rank_0": "INFO", "log_info_once": "INFO",
    "_record_or_log": "INFO", "log_rank0": "INFO",
}  # fmt: skip
NOT_READ = ("/tests/", "/tool_parsers/", "/reasoning/", "/third_party/")
"""Folders whose statements take no part in a start-up."""
MAX_VARIANTS = 4
"""So many wordings of one statement are followed."""
_LOGGER = re.compile(r"(?:^|[._])(?:logger|log|logging|LOG|LOGGER)$")
_PERCENT = re.compile(r"%(?:\((\w+)\))?([-+ #0]*\d*(?:\.\d+)?)([diouxXeEfFgGcrsa%])")
_FIELD = re.compile(r"\{(\w*)(?::([^{}]*))?\}")
_FEW_LETTERS = 12


@dataclass(frozen=True)
class Slot:
    """A place where a value is printed."""

    expression: str
    spec: str = ""


Parts = list["str | Slot"]


@dataclass
class Statement:
    """One wording of one call that prints."""

    module: str
    line: int
    function: str
    call: str
    level: str | None
    """None where no logger prints it."""
    parts: Parts = field(repr=False)

    @property
    def wording(self) -> str:
        """The text with `{}` for each value."""
        text = "".join(p if isinstance(p, str) else "{}" for p in self.parts)
        return re.sub(r"\s+", " ", text).strip()

    @property
    def fingerprint(self) -> str:
        """The same for the same wording, in whatever module and version.

        A wording of few letters is told apart by its module and function.
        """
        text = self.wording
        if sum(map(str.isalpha, text)) < _FEW_LETTERS:
            text = f"{self.module}:{self.function}:{text}"
        return hashlib.sha256(text.encode()).hexdigest()[:10]


def package_of(tree: Path) -> str:
    """The engine's package in a source tree. Raises FileNotFoundError without one."""
    for name in PACKAGES:
        if (tree / name).is_dir():
            return name
    raise FileNotFoundError(f"{tree} has none of the folders {', '.join(PACKAGES)}")


def statements_of(tree: Path) -> Iterator[Statement]:
    """Every printing statement of the engine in a source tree."""
    package = package_of(tree)
    for path in sorted((tree / package).rglob("*.py")):
        module = path.relative_to(tree).as_posix()
        if any(folder in f"/{module}" for folder in NOT_READ):
            continue
        try:
            parsed = ast.parse(path.read_text(encoding="utf-8", errors="replace"))
        except SyntaxError:
            continue  # of a newer Python, or a template
        walker = _Walker(module)
        walker.visit(parsed)
        yield from walker.found


def _source(node: ast.AST) -> str:
    return re.sub(r"\s+", " ", ast.unparse(node))[:160]


class _Wording:
    """The texts that an expression can be."""

    def __init__(self, names: dict[str, ast.expr]) -> None:
        self._names = names

    def of(self, node: ast.expr, depth: int = 0) -> list[Parts]:
        found: list[Parts] | None = None
        if depth > 6:
            return [[Slot(_source(node))]]
        if isinstance(node, ast.Constant):
            found = [[str(node.value)]]
        elif isinstance(node, ast.JoinedStr):
            found = self._joined(node, depth)
        elif isinstance(node, ast.BinOp):
            found = self._operation(node, depth)
        elif isinstance(node, ast.IfExp):
            found = self.of(node.body, depth + 1) + self.of(node.orelse, depth + 1)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            found = self._called(node, node.func, depth)
        elif isinstance(node, ast.Name) and node.id in self._names:
            rest = {k: v for k, v in self._names.items() if k != node.id}
            found = _Wording(rest).of(self._names[node.id], depth + 1)
        return found[:MAX_VARIANTS] if found else [[Slot(_source(node))]]

    def _operation(self, node: ast.BinOp, depth: int) -> list[Parts] | None:
        if isinstance(node.op, ast.Add):
            lefts, rights = (
                self.of(node.left, depth + 1),
                self.of(node.right, depth + 1),
            )
            return [left + right for left in lefts for right in rights]
        if isinstance(node.op, ast.Mod):
            right = node.right
            values = right.elts if isinstance(right, ast.Tuple) else [right]
            return [_percent(p, list(values)) for p in self.of(node.left, depth + 1)]
        if isinstance(node.op, ast.Mult) and _is_text(node.left):
            return [parts * 20 for parts in self.of(node.left, depth + 1)]
        return None

    def _joined(self, node: ast.JoinedStr, depth: int) -> list[Parts]:
        found: list[Parts] = [[]]
        for value in node.values:
            if isinstance(value, ast.FormattedValue):
                spec = value.format_spec
                text = ast.unparse(spec)[2:-1] if spec is not None else ""
                inner = value.value
                known = isinstance(inner, ast.Name) and inner.id in self._names
                if (known or isinstance(inner, ast.IfExp)) and not text:
                    options = self.of(inner, depth + 1)
                else:
                    options = [[Slot(_source(inner), text)]]
            else:
                options = [[str(getattr(value, "value", ""))]]
            found = [a + b for a in found for b in options][:MAX_VARIANTS]
        return found

    def _called(
        self, node: ast.Call, func: ast.Attribute, depth: int
    ) -> list[Parts] | None:
        if func.attr == "format" and isinstance(func.value, ast.Constant):
            return [_formatted(str(func.value.value), node)]
        if func.attr in ("strip", "rstrip", "lstrip"):
            return self.of(func.value, depth + 1)
        if func.attr == "dedent" and node.args:
            return self.of(node.args[0], depth + 1)
        if func.attr == "join" and node.args and isinstance(node.args[0], ast.List):
            out: Parts = []
            for element in node.args[0].elts:
                out += [*([" "] if out else []), *self.of(element, depth + 1)[0]]
            return [out]
        return None


def _percent(parts: Parts, values: list[ast.expr]) -> Parts:
    """The `%` fields of a text as slots, with the values in their order."""
    out: Parts = []
    for part in parts:
        if isinstance(part, Slot):
            out.append(part)
            continue
        start = 0
        for match in _PERCENT.finditer(part):
            out.append(part[start : match.start()])
            start = match.end()
            if match[3] == "%":
                out.append("%")
            else:
                name = match[1] or (_source(values.pop(0)) if values else "?")
                out.append(Slot(name, match[2] + match[3]))
        out.append(part[start:])
    return out


def _formatted(text: str, node: ast.Call) -> Parts:
    values = iter(node.args)
    keywords = {k.arg: k.value for k in node.keywords}
    out: Parts = []
    start = 0
    for match in _FIELD.finditer(text):
        out.append(text[start : match.start()])
        value = keywords.get(match[1]) or next(values, None)
        out.append(Slot(_source(value) if value is not None else "?", match[2] or ""))
        start = match.end()
    return [*out, text[start:]]


def _is_text(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str)
    if isinstance(node, ast.IfExp):
        return _is_text(node.body)
    if isinstance(node, ast.BinOp):
        return _is_text(node.left)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr == "format" and isinstance(node.func.value, ast.Constant)
    return isinstance(node, ast.JoinedStr)


class _Walker(ast.NodeVisitor):
    """Collects the printing statements of one module."""

    def __init__(self, module: str) -> None:
        self.found: list[Statement] = []
        self._module = module
        self._functions: list[str] = []
        self._names: list[dict[str, ast.expr]] = [{}]

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._functions.append(node.name)
        self._names.append(dict(self._names[-1]))
        self.generic_visit(node)
        self._names.pop()
        self._functions.pop()

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        target = node.targets[0]
        if isinstance(target, ast.Name) and _is_text(node.value):
            self._names[-1][target.id] = node.value

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.generic_visit(node)
        names, target = self._names[-1], node.target
        if isinstance(target, ast.Name) and target.id in names and _is_text(node.value):
            names[target.id] = ast.BinOp(names[target.id], ast.Add(), node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        self.generic_visit(node)
        if isinstance(node.exc, ast.Call) and node.exc.args:
            name = _source(node.exc.func).rpartition(".")[2]
            parts = _Wording(self._names[-1]).of(node.exc.args[0])[0]
            self._add(node, "raise", "ERROR", [f"{name}: ", *parts])

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        printer = _printer(node)
        if printer is None:
            return
        call, level, first = printer
        wording = _Wording(self._names[-1])
        if call == "tqdm":
            named = [k.value for k in node.keywords if k.arg in ("desc", "description")]
            for parts in wording.of(named[0]) if named else []:
                self._add(node, call, level, [*parts, Slot("bar")])
        elif len(node.args) > first:
            rest = node.args[first + 1 :]
            for parts in wording.of(node.args[first]):
                if call in ("print", "warnings.warn"):
                    values = [] if call == "warnings.warn" else rest
                    tail = [p for v in values for p in [" ", *wording.of(v)[0]]]
                    self._add(node, call, level, [*parts, *tail])
                else:
                    full = _percent(parts, list(rest)) if rest else parts
                    self._add(node, call, level, full)

    def _add(
        self, node: ast.expr | ast.stmt, call: str, level: str | None, parts: Parts
    ) -> None:
        function = ".".join(self._functions)
        made = Statement(self._module, node.lineno, function, call, level, parts)
        same = (s.line == made.line and s.wording == made.wording for s in self.found)
        if not any(same):
            self.found.append(made)


def _printer(node: ast.Call) -> tuple[str, str | None, int] | None:
    """What a call prints with: its name, the level and the place of the text."""
    func = node.func
    name = func.id if isinstance(func, ast.Name) else getattr(func, "attr", "")
    if name in ("tqdm", "trange"):
        return "tqdm", None, 0
    if isinstance(func, ast.Name):
        if name == "print":
            return "print", None, 0
        return (name, HELPERS[name], 0) if name in HELPERS else None
    if not isinstance(func, ast.Attribute):
        return None
    base = func.value.func if isinstance(func.value, ast.Call) else func.value
    owner = _source(base)
    if (owner, name) == ("tqdm", "write"):
        return "print", None, 0
    if (owner, name) == ("warnings", "warn"):
        return "warnings.warn", None, 0
    if name.endswith("rank_0") and name in HELPERS:
        return name, HELPERS[name], 0
    if not _LOGGER.search(owner) and owner != "init_logger":
        return None
    if name == "log":
        return "log", "INFO", 1
    word = name.removesuffix("_once")
    return (name, LEVELS[word], 0) if word in LEVELS else None
