"""Model shapes: presets, and the contents of a Hugging Face `config.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from warmup_insights.errors import InputError, SettingError, cannot_read

DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True, kw_only=True)
class RopeScaling:
    """How `llama3` stretches rotary wavelengths; names as in `config.json`."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: int


@dataclass(frozen=True, kw_only=True)
class ModelShape:
    """A Llama-style decoder in numbers; names as in Hugging Face configurations."""

    name: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    max_position_embeddings: int
    rms_norm_eps: float = 1e-5
    rope_theta: float = 500_000.0
    rope_scaling: RopeScaling | None = None
    tie_word_embeddings: bool = False

    def __post_init__(self) -> None:
        for field in _SIZES:
            if getattr(self, field) < 1:
                raise InputError(
                    f"Model {self.name!r} has {field}={getattr(self, field)}; it must "
                    "be at least 1"
                )
        if self.num_attention_heads % self.num_key_value_heads:
            raise InputError(
                f"Model {self.name!r} has {self.num_attention_heads} attention heads, "
                f"no multiple of {self.num_key_value_heads} key-value heads; change one"
            )
        if self.head_dim % 2:
            raise InputError(
                f"Model {self.name!r} has head_dim={self.head_dim}; rotary embeddings "
                "need an even number"
            )

    @property
    def query_size(self) -> int:
        """Width of all query heads together."""
        return self.num_attention_heads * self.head_dim

    @property
    def kv_size(self) -> int:
        """Width of all key heads together; the values have the same."""
        return self.num_key_value_heads * self.head_dim

    @property
    def num_parameters(self) -> int:
        """Parameters of the whole model."""
        attention = self.hidden_size * (2 * self.query_size + 2 * self.kv_size)
        mlp = 3 * self.hidden_size * self.intermediate_size
        layer = attention + mlp + 2 * self.hidden_size
        embeddings = self.vocab_size * self.hidden_size
        heads = 1 if self.tie_word_embeddings else 2
        return self.num_hidden_layers * layer + heads * embeddings + self.hidden_size

    def kv_block_bytes(self, block_size: int, dtype: str) -> int:
        """Keys and values of one block over all layers."""
        per_token = 2 * self.kv_size * DTYPE_BYTES[dtype] * self.num_hidden_layers
        return block_size * per_token


_SIZES = (
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
    "num_attention_heads", "num_key_value_heads", "head_dim", "max_position_embeddings",
)  # fmt: skip

_LLAMA_31 = RopeScaling(
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=8192,
)
_LLAMA_32 = replace(_LLAMA_31, factor=32.0)


def _preset(name: str, sizes: tuple[int, ...], **more: Any) -> ModelShape:
    more.update(zip(_SIZES, sizes, strict=True))
    return ModelShape(name=name, **more)


PRESETS: dict[str, ModelShape] = {
    shape.name: shape
    for shape in (
        _preset("tiny", (2048, 128, 344, 2, 4, 2, 32, 8192)),
        _preset("small", (32000, 512, 1376, 8, 8, 4, 64, 8192)),
        _preset(
            "llama-3.2-1b",
            (128256, 2048, 8192, 16, 32, 8, 64, 131072),
            rope_scaling=_LLAMA_32,
            tie_word_embeddings=True,
        ),
        _preset("llama-3-8b", (128256, 4096, 14336, 32, 32, 8, 128, 8192)),
        _preset(
            "llama-3.1-8b",
            (128256, 4096, 14336, 32, 32, 8, 128, 131072),
            rope_scaling=_LLAMA_31,
        ),
        _preset(
            "llama-3.1-70b",
            (128256, 8192, 28672, 80, 64, 8, 128, 131072),
            rope_scaling=_LLAMA_31,
        ),
        _preset(
            "mistral-7b",
            (32768, 4096, 14336, 32, 32, 8, 128, 32768),
            rope_theta=1_000_000.0,
        ),
    )
}


def find_shape(model: str) -> tuple[ModelShape, Path | None]:
    """The shape of a preset, or of a folder with a `config.json`, and that folder.

    Raises:
        SettingError: it is neither.
        InputError: the configuration cannot be read, or is not Llama-style.
    """
    if model in PRESETS:
        return PRESETS[model], None
    path = Path(model)
    folder = path.parent if path.name == "config.json" else path
    if not (folder / "config.json").is_file():
        raise SettingError(
            f"Unknown model {model!r}; use one of {', '.join(PRESETS)}, or a folder "
            "with a config.json"
        )
    return read_config(folder / "config.json"), folder


def read_config(path: Path) -> ModelShape:
    """The shape that a Hugging Face configuration describes.

    Raises:
        InputError: the file is broken, or describes something this model is not.
    """
    try:
        config = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise cannot_read(path, error) from error
    if not isinstance(config, dict):
        raise InputError(
            f"{path} holds no JSON object; name the config.json of a model"
        )
    _refuse_other_models(path, config)
    heads = _integer(path, config, "num_attention_heads")
    hidden = _integer(path, config, "hidden_size")
    rope = config.get("rope_parameters") or {}
    return ModelShape(
        name=path.parent.name or "model",
        vocab_size=_integer(path, config, "vocab_size"),
        hidden_size=hidden,
        intermediate_size=_integer(path, config, "intermediate_size"),
        num_hidden_layers=_integer(path, config, "num_hidden_layers"),
        num_attention_heads=heads,
        num_key_value_heads=_integer(path, config, "num_key_value_heads", heads),
        head_dim=_integer(path, config, "head_dim", hidden // max(1, heads)),
        max_position_embeddings=_integer(path, config, "max_position_embeddings", 2048),
        rms_norm_eps=_number(path, config, "rms_norm_eps", 1e-6),
        rope_theta=_number(path, {**config, **rope}, "rope_theta", 10_000.0),
        rope_scaling=_rope_scaling(path, config.get("rope_scaling") or rope),
        tie_word_embeddings=config.get("tie_word_embeddings") is True,
    )


def _refuse_other_models(path: Path, config: Mapping[str, Any]) -> None:
    kind = config.get("model_type")
    if kind not in ("llama", "mistral"):
        raise InputError(
            f"{path} describes model_type {kind!r}; the reference engine runs llama and "
            "mistral only"
        )
    for name in ("attention_bias", "mlp_bias", "sliding_window"):
        if config.get(name):
            raise InputError(
                f"{path} sets {name}={config[name]!r}; the reference engine does not "
                "support it"
            )
    if config.get("hidden_act", "silu") != "silu":
        raise InputError(
            f"{path} sets hidden_act={config['hidden_act']!r}; only silu is supported"
        )


def _integer(
    path: Path, config: Mapping[str, Any], name: str, default: int | None = None
) -> int:
    value = config.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, int) or isinstance(value, bool):
        raise InputError(f"{path}: {name}={value!r} is wrong; use a whole number")
    return value


def _number(path: Path, config: Mapping[str, Any], name: str, default: float) -> float:
    value = config.get(name, default)
    if not isinstance(value, (int, float)) or isinstance(value, bool) or value <= 0:
        raise InputError(f"{path}: {name}={value!r} is wrong; use a number above 0")
    return float(value)


def _rope_scaling(path: Path, scaling: Any) -> RopeScaling | None:
    if not isinstance(scaling, dict):
        raise InputError(f"{path}: rope_scaling={scaling!r} is wrong; use an object")
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind == "default":
        return None
    if kind != "llama3":
        raise InputError(
            f"{path}: rope scaling {kind!r} is not supported; only llama3 is"
        )
    return RopeScaling(
        factor=_number(path, scaling, "factor", 8.0),
        low_freq_factor=_number(path, scaling, "low_freq_factor", 1.0),
        high_freq_factor=_number(path, scaling, "high_freq_factor", 4.0),
        original_max_position_embeddings=_integer(
            path, scaling, "original_max_position_embeddings"
        ),
    )
