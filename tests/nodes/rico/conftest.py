"""Tiny models with random weights, in Hugging Face form, made on the spot."""

import pytest

from stategate.nodes.models.documents import shared_backend

WORDS = (
    "the a of in on cat dog sat mat red blue green house river who where what is was did capital "
    "paris rome france italy question answer : ? . song film director born year older tall"
).split()
QUERY = "what is the capital of italy ?"
TEXTS = [
    "paris: paris is the capital of france .",
    "rome: rome is the capital of italy . the river is green",
    "the cat sat on the mat",
    "film: the director of the film was born in rome",
]


def make_tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {"<s>": 0, "</s>": 1, "<unk>": 2} | {w: i + 3 for i, w in enumerate(WORDS)}
    raw = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=raw, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


SMALL = {"hidden_size": 32, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
ATTENTION = {"intermediate_size": 48, "num_attention_heads": 4, "max_position_embeddings": 128}


def make_model(family, tokenizer, layers, **sizes):
    """Return a model of a family of transformers with random weights."""
    import torch
    import transformers

    torch.manual_seed(0)
    many = {"vocab_size": len(tokenizer), "num_hidden_layers": layers, "initializer_range": 0.3}
    config = getattr(transformers, f"{family}Config")(**many, **SMALL, **sizes)
    return getattr(transformers, f"{family}ForCausalLM")(config)


def make_folder(folder, family, **sizes):
    """Save a model of three layers with its tokenizer; return its folder."""
    tokenizer = make_tokenizer()
    make_model(family, tokenizer, 3, **sizes).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def llama_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "llama"
    return make_folder(folder, "Llama", **ATTENTION, num_key_value_heads=2)


@pytest.fixture(scope="session")
def backend(llama_folder):
    return shared_backend(str(llama_folder), max_tokens=40)
