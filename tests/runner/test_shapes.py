"""Model shapes, configurations and checkpoints."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import save_file

from tests.runner.dense import dense_logits
from tests.runner.helpers import make_engine, weights_of
from warmup_insights.errors import InputError, SettingError
from warmup_insights.rules.model_shape import PRESETS, find_shape, read_config
from warmup_insights.runner.batch import Row
from warmup_insights.units import GIB

CONFIG = {
    "model_type": "llama",
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 56,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "rope_theta": 1000.0,
}


@pytest.fixture
def folder(tmp_path):
    def make(**changes):
        config = {k: v for k, v in {**CONFIG, **changes}.items() if v != "absent"}
        (tmp_path / "config.json").write_text(json.dumps(config))
        return tmp_path

    return make


def test_the_parameters_of_llama_3_1_8b_are_those_of_its_model_card():
    """8,030,261,248 parameters; 16 MiB for a KV block of 128 tokens in bfloat16."""
    shape = PRESETS["llama-3.1-8b"]
    assert shape.num_parameters == 8_030_261_248
    assert shape.num_parameters * 2 / GIB == pytest.approx(14.96, abs=0.01)
    assert shape.kv_block_bytes(128, "bfloat16") == 16 * 2**20
    assert PRESETS["llama-3.2-1b"].num_parameters == 1_235_814_400
    assert PRESETS["llama-3.1-70b"].num_parameters == 70_553_706_496
    assert PRESETS["mistral-7b"].num_parameters == 7_248_023_552


def test_a_model_has_as_many_parameters_as_its_shape_says():
    engine = make_engine()
    counted = sum(p.numel() for p in engine._model.parameters())
    assert counted == engine.shape.num_parameters


def test_a_configuration_becomes_a_shape(folder):
    shape, found = find_shape(str(folder()))
    assert found == folder()
    assert (shape.hidden_size, shape.head_dim, shape.num_key_value_heads) == (32, 8, 2)
    assert shape.rope_theta == 1000.0
    assert shape.rope_scaling is None
    assert find_shape(str(folder() / "config.json"))[0] == shape


def test_old_and_new_spelling_of_rotary_scaling_are_the_same(folder):
    scaling = {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    old = read_config(folder(rope_scaling=scaling) / "config.json")
    new = read_config(
        folder(rope_theta="absent", rope_parameters={**scaling, "rope_theta": 1000.0})
        / "config.json"
    )
    assert old == new
    assert old.rope_scaling.factor == 8.0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_type": "mamba"}, "model_type 'mamba'"),
        ({"model_type": "absent"}, "model_type None"),
        ({"hidden_size": "absent"}, "hidden_size=None"),
        ({"hidden_size": "32"}, "hidden_size='32'"),
        ({"vocab_size": True}, "vocab_size=True"),
        ({"num_hidden_layers": 0}, "num_hidden_layers=0"),
        ({"num_key_value_heads": 3}, "no multiple of 3 key-value heads"),
        ({"head_dim": 7}, "head_dim=7"),
        ({"attention_bias": True}, "attention_bias=True"),
        ({"sliding_window": 4096}, "sliding_window=4096"),
        ({"hidden_act": "gelu"}, "hidden_act='gelu'"),
        ({"rms_norm_eps": -1}, "rms_norm_eps=-1"),
        ({"rope_scaling": {"rope_type": "yarn"}}, "'yarn' is not supported"),
        ({"rope_scaling": [1]}, r"rope_scaling=\[1\]"),
        ({"num_attention_heads": 0}, "num_attention_heads=0"),
    ],
)
def test_a_configuration_that_cannot_run_says_why(folder, changes, words):
    with pytest.raises(InputError, match=words):
        read_config(folder(**changes) / "config.json")


@pytest.mark.parametrize("text", ["", "{", "[1]", "null", '"x"', "\x00"])
def test_a_broken_configuration_is_one_sentence(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(InputError, match=r"config\.json"):
        find_shape(str(tmp_path))


def test_a_configuration_that_is_not_text_is_an_input_error(tmp_path):
    (tmp_path / "config.json").write_bytes(b"\xff\xfe\x00{")
    with pytest.raises(InputError, match="cannot be read"):
        find_shape(str(tmp_path))


def test_a_folder_without_a_configuration_names_the_presets(tmp_path):
    with pytest.raises(SettingError, match=r"llama-3\.1-8b"):
        find_shape(str(tmp_path))


class TestCheckpoint:
    def save(self, folder, tensors, *, shards=1):
        names = sorted(tensors)
        index = {}
        for number in range(shards):
            file = "model.safetensors" if shards == 1 else f"model-{number}.safetensors"
            part = {name: tensors[name] for name in names[number::shards]}
            save_file(part, folder / file)
            index |= dict.fromkeys(part, file)
        if shards > 1:
            (folder / "model.safetensors.index.json").write_text(
                json.dumps({"weight_map": index})
            )

    def tensors(self):
        """Random weights with the names of a Hugging Face checkpoint."""
        engine = make_engine(seed=5)
        return {
            name if name == "lm_head.weight" else f"model.{name}": value.clone()
            for name, value in weights_of(engine).items()
        }

    @pytest.mark.parametrize("shards", [1, 3])
    def test_the_weights_of_a_checkpoint_are_used(self, folder, shards):
        tensors = self.tensors()
        self.save(folder(), tensors, shards=shards)
        shape, found = find_shape(str(folder()))
        engine = make_engine(shape=shape, folder=found, seed=99)
        plain = {name.removeprefix("model."): value for name, value in tensors.items()}
        logits = engine.logits("prompt", (1, 8, 0), [Row([1, 2, 3], 0, [0])])
        expected = dense_logits(plain, shape, [1, 2, 3])[-1]
        assert torch.allclose(logits[0].double(), expected, atol=1e-4)

    def test_a_missing_weight_is_named(self, folder):
        tensors = self.tensors()
        del tensors["model.layers.1.mlp.up_proj.weight"]
        self.save(folder(), tensors)
        with pytest.raises(
            InputError, match=r"lacks 1 weights.*layers\.1\.mlp\.up_proj"
        ):
            make_engine(folder=folder())

    def test_a_weight_of_another_shape_is_named(self, folder):
        tensors = self.tensors()
        tensors["model.norm.weight"] = torch.ones(31)
        self.save(folder(), tensors)
        with pytest.raises(InputError, match=r"model\.norm\.weight has shape \(31,\)"):
            make_engine(folder=folder())

    def test_a_tied_head_may_be_missing(self, folder):
        tensors = self.tensors()
        del tensors["lm_head.weight"]
        self.save(folder(tie_word_embeddings=True), tensors)
        shape, found = find_shape(str(folder(tie_word_embeddings=True)))
        engine = make_engine(shape=shape, folder=found)
        head = weights_of(engine)["lm_head.weight"]
        assert torch.equal(head, tensors["model.embed_tokens.weight"])

    def test_a_broken_file_is_one_sentence(self, folder):
        (folder() / "model.safetensors").write_bytes(b"not safetensors")
        with pytest.raises(InputError, match="cannot be read"):
            make_engine(folder=folder())

    def test_an_index_may_not_lead_elsewhere(self, folder, tmp_path):
        index = {"weight_map": {"a": "../../etc/passwd"}}
        (folder() / "model.safetensors.index.json").write_text(json.dumps(index))
        with pytest.raises(InputError, match="passwd; put it into the folder"):
            make_engine(folder=folder())

    @pytest.mark.parametrize(
        "text", ["{", "[]", '{"weight_map": 3}', '{"weight_map": {"a": 1}}']
    )
    def test_a_broken_index_is_one_sentence(self, folder, text):
        (folder() / "model.safetensors.index.json").write_text(text)
        with pytest.raises(InputError, match="index"):
            make_engine(folder=folder())
