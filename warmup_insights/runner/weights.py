"""A model on a device with its weights: random ones, or those of a checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from warmup_insights.errors import InputError, cannot_read
from warmup_insights.rules.model_shape import ModelShape
from warmup_insights.runner.model import Decoder, rotary_frequencies
from warmup_insights.runner.sampling import make_generator

_INDEX = "model.safetensors.index.json"


def build_model(
    shape: ModelShape, *, device: str, dtype: str, seed: int, folder: Path | None = None
) -> Decoder:
    """The model, with the safetensors in `folder` if there are any, else random.

    Raises:
        InputError: a checkpoint is broken, incomplete, or does not fit the shape.
    """
    with torch.device("meta"):
        model = Decoder(shape)
    model = model.to(getattr(torch, dtype)).to_empty(device=device)
    if shape.tie_word_embeddings:
        model.lm_head.weight = model.embed_tokens.weight
    model.frequencies = rotary_frequencies(shape).to(device)
    files = find_checkpoint(folder) if folder else []
    with torch.inference_mode():
        if files:
            load_checkpoint(model, files)
        else:
            randomize(model, seed)
    return model.requires_grad_(False).eval()


def randomize(model: Decoder, seed: int) -> None:
    """Fill the weights so that activations keep their size and logits differ."""
    for index, parameter in enumerate(model.parameters()):
        if parameter.dim() == 1:
            parameter.fill_(1.0)
            continue
        generator = make_generator(parameter.device.type, seed * 100_003 + index)
        deviation = parameter.shape[-1] ** -0.5
        parameter.normal_(0.0, deviation, generator=generator)


def find_checkpoint(folder: Path) -> list[Path]:
    """The safetensors files of a checkpoint; none if there is no checkpoint.

    Raises:
        InputError: the index is broken or names a file that is not there.
    """
    index = folder / _INDEX
    if not index.is_file():
        return sorted(folder.glob("*.safetensors"))
    try:
        names = sorted(set(json.loads(index.read_text("utf-8"))["weight_map"].values()))
        files = [folder / Path(name).name for name in names]
    except (
        OSError,
        ValueError,
        KeyError,
        AttributeError,
        TypeError,
        RecursionError,
    ) as error:
        raise cannot_read(index, error) from error
    for file in files:
        if not file.is_file():
            raise InputError(f"{index} names {file.name}; put it into the folder")
    return files


def load_checkpoint(model: Decoder, files: list[Path]) -> None:
    """Copy every weight of the model from the files.

    Raises:
        InputError: one is missing or has another shape, or a file is broken.
    """
    missing = set(dict(model.named_parameters(remove_duplicate=False)))
    for file in files:
        missing -= _load_file(model, file)
    if model.shape.tie_word_embeddings:
        missing.discard("lm_head.weight")
    if missing:
        raise InputError(
            f"{files[0].parent} lacks {len(missing)} weights, among them "
            f"{min(missing)}; the checkpoint does not belong to this config.json"
        )


def _load_file(model: Decoder, file: Path) -> set[str]:
    try:
        from safetensors import SafetensorError, safe_open
    except ModuleNotFoundError as error:
        raise InputError(
            f"{file} needs the package safetensors to be read; try "
            "`pip install 'warmup-insights[runner]'`"
        ) from error
    targets = dict(model.named_parameters(remove_duplicate=False))
    loaded = set()
    try:
        with safe_open(file, framework="pt") as tensors:
            for stored in tensors.keys():  # noqa: SIM118 - no mapping, has no __iter__
                name = stored.removeprefix("model.")
                if name not in targets:
                    continue
                value = tensors.get_tensor(stored)
                if value.shape != targets[name].shape:
                    raise InputError(
                        f"{file}: {stored} has shape {tuple(value.shape)}; "
                        f"config.json has {tuple(targets[name].shape)}"
                    )
                targets[name].copy_(value)
                loaded.add(name)
    except (OSError, SafetensorError) as error:
        raise cannot_read(file, error) from error
    return loaded
