"""A statement as the lines that its engine would print, with known values in it."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

from tests.audit.statements import Parts, Slot, Statement

HOWS = ("guess", "other", "int", "float", "text", "list", "tuple")
"""Ways to fill the slots whose kind their format does not tell."""
BAR = " 45%|████▌     | 43/96 [05:10<05:58,  6.77s/it]"
_GUESSES: tuple[tuple[str, str], ...] = (
    (r"^bar$", BAR),
    (r"^ctx$|^img_args$|^num_patches$", "{i}"),
    (r"^graph_runner_name$", "HPUGraphRunner"),
    (r"^total_valid_hpugraphs$", "{i}"),
    (r"device_type\.upper\(\)$", "GPU"),
    (r"get_summary_string", "{f} GiB of device memory ({f} GiB/{f} GiB used) and {f} GiB "
     "of host memory ({f} GiB/{f} GiB used)"),
    (r"mem_summary", "{f} GiB of device memory ({f} GiB/{f} GiB used)"),
    (r"hbm_usage_gb", "[({f}, 95.74), ({f}, 95.74)]"),
    (r"format_bytes|free_mem$|mem_usage_str$", "{f} GiB"),
    (r"format_gib", "{f}"),
    (r"^len\(|^num_", "{i}"),
    (r"\.device$", "hpu:0"),
    (r"dispatch_key$", "CUDA"),
    (r"^' \(align mode\)' if", " (align mode)"),
    (r"^dim$", "seq_len"),
    (r"_log_prefix\(\)|^log_prefix$", "[backbone] "),
    (r"^pools$", "GPU"),
    (r"causal", "causal"),
    (r"(?i)fingerprint|digest", "ab12cd"),
    (r"(?i)_args$|args\b", "{{'model': 'a/b', 'max_model_len': {i}}}"),
    (r"^\(?(?:seen_)?cfg\)?$|^\(phase", "('prompt', {i}, {i}, {i})"),
    (r"(?i)batch_changed|^is_|enabled$|use_", "True"),
    (r"(?i)bucket_cfg|cfg\b", "[{i}, {i}, {i}]"),
    (r"(?i)^(?:list|sorted)\(.*buckets|^(?:new_|omitted_)?buckets$",
     "[(1, {i}, 0), (1, {i}, 0)]"),
    (r"(?i)buckets|\bsizes\b|thresholds|batch_sizes|paddings|_list\b|\bids\b|ranges",
     "[{i}, {i}, {i}]"),
    (r"^temp$", "0.7"),
    (r"top_p", "0.9"),
    (r"_limit$|memory_to_|kv_cache_memory_bytes$", "{i}"),
    (r"resolutions", "[({i}, {i}, None), ({i}, {i}, 2)]"),
    (r"^phase$|^prefix$", "Decode"),
    (r"(?i)version", "0.33.0"),
    (r"(?i)util|ratio|fraction|factor|percent|pct", "0.8{d}"),
    (r"(?i)^len\(|num_|count|_id\b|rank|pid|\bidx\b|index|port|size|tokens|blocks|total\b|"
     r"block_|max_|min_|\bn\b|bs\b|seq|_dim$|_len$|^[ijkwhn]\b|top_k|max_i|model_len", "{i}"),
    (r"(?i)elapsed|time|took|secs?\b|duration|latency|_s\b", "{f}"),
    (r"(?i)bytes|gib|_gb|mib|mem", "{f}"),
    (r"(?i)path|dir|file|cache_root", "/data/.cache/vllm/x"),
    (r"(?i)dtype", "torch.bfloat16"),
    (r"(?i)model", "meta-llama/Llama-8B"),
    (r"(?i)device", "cuda"),
    (r"(?i)url|addr|endpoint|host", "http://0.0.0.0:8000"),
    (r"(?i)mode", "FULL_AND_PIECEWISE"),
    (r"(?i)shape|bucket", "(1, {i}, 0)"),
    (r"(?i)\be\b|err|exc", "boom"),
)  # fmt: skip
_OTHERS: tuple[tuple[str, str], ...] = (
    (r"^bar$", BAR),
    (r"^phase$", "prompt"),
    (r"^prefix$", "Environment"),
    (r"^padding$", "    "),
    (r"^log_prefix$", "Multi-modal"),
    (r"^e$|env|flag|^key$", "VLLM_DECODE_BLOCK_BUCKET_MAX"),
    (r"resolved_val|^d$|^v$|^value$", "{i}"),
    (r"^name$", "backbone --> {{'num_tokens': {i}}}"),
    (r"bucket$", "(1, {i}, 0)"),
    (r"(?i)query, |cfg", "({i}, {i}, {i})"),
)
_FLAT = {"int": "{i}", "float": "{f}", "text": "abc", "list": "[{i}, {i}]",
         "tuple": "(1, {i}, 0)"}  # fmt: skip
_BYTES_FOLLOW = re.compile(r"\s?(?:GiB|GB|MiB|MB)\b")


@dataclass(frozen=True)
class Head:
    """How a version begins a line: what its `vllm/logger.py` gives to `logging`."""

    format: str = "[%(fileinfo)s:%(lineno)d] "
    has_process: bool = True

    def line(self, statement: Statement, text: str) -> str:
        """One physical line."""
        if statement.call == "warnings.warn":
            return f"/opt/{statement.module}:100: UserWarning: {text}"
        if statement.level is None:
            return text
        name = Path(statement.module).name
        values = {
            "levelname": statement.level, "asctime": "11-20 07:32:00", "fileinfo": name,
            "filename": name, "lineno": 100, "message": "", "process": 123,
            "vllm_process_name": _process_of(statement.module),
        }  # fmt: skip
        head = self.format % values
        if self.has_process and not head.startswith("("):
            head = f"({values['vllm_process_name']} pid=123) {head}"
        return head + text


NEWEST = Head("%(levelname)s %(asctime)s [%(fileinfo)s:%(lineno)d] %(message)s")


def head_of(tree: Path) -> Head:
    """The head that the vLLM of a tree prints; the usual one where it has none."""
    logger = tree / "vllm" / "logger.py"
    if not logger.exists():
        return NEWEST
    for node in ast.parse(logger.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_FORMAT":
            joined = node.value
            pieces = joined.values if isinstance(joined, ast.JoinedStr) else [joined]
            text = "".join(str(p.value) for p in pieces if isinstance(p, ast.Constant))
            utils = (tree / "vllm").glob("utils/*.py")
            named = any("def decorate_logs" in p.read_text() for p in utils)
            return Head(text, named)
    return NEWEST


def _process_of(module: str) -> str:
    if any(part in module for part in ("worker", "compilation", "model_loader")):
        return "Worker_TP0"
    return "APIServer" if "entrypoints" in module else "EngineCore"


class _Values:
    """Numbers that differ from each other, so that each can be found again."""

    def __init__(self) -> None:
        self._given = 0

    def fill(self, template: str) -> str:
        text = re.sub(r"\{([ifd])\}", self._next, template)
        return text.replace("{{", "{").replace("}}", "}")

    def _next(self, match: re.Match[str]) -> str:
        self._given += 1
        given = self._given
        if match[1] == "d":
            return str(given % 10)
        return (
            str(211 + 16 * given) if match[1] == "i" else f"{12.25 + 3.5 * given:.2f}"
        )

    def formatted(self, spec: str) -> str | None:
        """A number in a format; None where the format does not ask for one."""
        self._given += 1
        kind = spec[-1:]
        if kind in ("d", "i", "u"):
            return str(211 + 16 * self._given)
        if kind in ("f", "F", "e", "g"):
            digits = re.search(r"\.(\d+)", spec)
            value = 12.345678 + 3.5 * self._given
            return f"{value:.{int(digits[1]) if digits else 2}f}"
        if kind == ",":
            return f"{12_345 + self._given:,}"
        return f"{45 + self._given}.00%" if kind == "%" else None


def render(parts: Parts, how: str, *, negative: bool = False) -> str:
    """The text with a value in each slot; sizes below zero with `negative`."""
    values = _Values()
    out = ""
    for place, part in enumerate(parts):
        if isinstance(part, str):
            out += part
            continue
        text = _value(part, how, values)
        following = parts[place + 1] if place + 1 < len(parts) else ""
        is_size = isinstance(following, str) and _BYTES_FOLLOW.match(following)
        if negative and is_size and re.fullmatch(r"\d+\.\d+", text):
            text = f"-{text}"
        out += text
    return out


def _value(slot: Slot, how: str, values: _Values) -> str:
    number = values.formatted(slot.spec) if slot.spec else None
    if number is not None:
        return number
    table = _OTHERS if how == "other" else () if how in _FLAT else _GUESSES
    for pattern, text in table:
        if re.search(pattern, slot.expression):
            return values.fill(text)
    if how == "other":
        return _value(slot, "guess", values)
    if slot.expression == "bar":
        return BAR
    return values.fill(_FLAT.get(how, "abc"))
