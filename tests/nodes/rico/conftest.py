"""Tiny models with random weights, in Hugging Face form, made on the spot."""

import pytest

from stategate.nodes.models.decoders.backend import Document

WORDS = (
    "the a of in on cat dog sat mat red blue green house river who where what is was did capital "
    "paris rome france italy question answer : ? . song film director born year older tall"
).split()
DOCUMENTS = [
    Document("paris", "paris is the capital of france ."),
    Document("rome", "rome is the capital of italy . the river is green"),
    Document("", "the cat sat on the mat"),
    Document("film", "the director of the film was born in rome"),
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


@pytest.fixture(scope="session")
def llama_folder(tmp_path_factory):
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    tokenizer = make_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        bos_token_id=0,
        eos_token_id=1,
        initializer_range=0.3,
    )
    folder = tmp_path_factory.mktemp("models") / "llama"
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def mamba_folder(tmp_path_factory):
    import torch
    from transformers import Mamba2Config, Mamba2ForCausalLM

    torch.manual_seed(0)
    tokenizer = make_tokenizer()
    config = Mamba2Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=3,
        num_heads=8,
        head_dim=8,
        state_size=16,
        n_groups=2,
        chunk_size=16,
        expand=2,
        conv_kernel=4,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
        initializer_range=0.3,
    )
    folder = tmp_path_factory.mktemp("models") / "mamba2"
    Mamba2ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def llama(llama_folder):
    from stategate.nodes.models.decoders.loading import shared_backend

    return shared_backend(str(llama_folder), max_tokens=40)


@pytest.fixture(scope="session")
def mamba(mamba_folder):
    from stategate.nodes.models.decoders.loading import shared_backend

    return shared_backend(str(mamba_folder), max_tokens=40)


@pytest.fixture(params=["llama", "mamba"])
def backend(request):
    return request.getfixturevalue(request.param)
