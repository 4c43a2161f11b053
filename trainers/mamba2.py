"""Train a tiny Mamba-2 language model to copy from documents, for RICO.

    stategate train mamba2                                  # ten minutes on one core
    stategate train mamba2 --set epochs=1 --set steps=5     # to see that it runs

A document is a list of keys and values, a question repeats some of its pairs. A value can only be
known from the document, so the question's gradient must find the document that has it. The model is
trained on what RICO does with it: it reads each of a few documents alone, starts from their mixed
states (random weights, the right document's the greatest), and predicts the question.

A checkpoint is a Hugging Face folder (safetensors and JSON) and ``training.json``, which says how it
was made and how often its gradient finds the right document, beside chance.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from nodes.build_context.rico.rankers import rank
from nodes.models.decoders.backend import QUESTION, Document
from nodes.models.decoders.mamba2 import InitialStates, Mamba2Backend
from stores.errors import UserError
from stores.runs import mean, provenance, shown_config, write_json
from trainers.fitting import descend, fit, pick_device
from trainers.settings import Mamba2Settings, open_run

RANKERS = ("single_gradient", "zero_state", "loss", "naive")


@dataclass(frozen=True)
class Example:
    """Candidate documents, a question about one of them, and which one (an index)."""

    documents: tuple[Document, ...]
    question: str
    relevant: int


@dataclass(frozen=True)
class Pairs:
    """Keys and values: the documents of an example share no keys, so one explains the question."""

    keys: int = 48
    values: int = 24
    pairs: int = 4
    asked: int = 2

    @property
    def candidates(self) -> int:
        """How many documents a test question is about: eight, or as many as there are keys for."""
        return min(8, self.keys // self.pairs)

    def words(self) -> list[str]:
        """Return the vocabulary."""
        return [*(f"k{i}" for i in range(self.keys)), *(f"v{i}" for i in range(self.values))]

    def draw(self, rng: np.random.Generator, documents: int) -> Example:
        """Return a new example with so many candidates. Raises ``UserError`` for too few keys."""
        need = documents * self.pairs
        if need > self.keys:
            raise UserError(f"{documents} documents need {need} keys, there are {self.keys}")
        keys = rng.permutation(self.keys)[:need].reshape(documents, self.pairs)
        values = rng.integers(0, self.values, (documents, self.pairs))
        texts = [
            " ".join(f"k{k} v{v}" for k, v in zip(ks, vs, strict=True))
            for ks, vs in zip(keys, values, strict=True)
        ]
        relevant = int(rng.integers(documents))
        chosen = rng.permutation(self.pairs)[: self.asked]
        asked = " ".join(f"k{keys[relevant, i]} v{values[relevant, i]}" for i in chosen)
        return Example(tuple(Document("", text) for text in texts), asked, relevant)


def train(settings: Mamba2Settings, command: Sequence[str]) -> dict[str, Any]:
    """Train, report, write the checkpoint; return the summary."""
    from transformers import Mamba2ForCausalLM

    device = pick_device(settings.device)
    task = Pairs(settings.keys, settings.values)
    run = open_run(settings, command, {})
    torch.manual_seed(settings.seed)
    tokenizer = make_tokenizer(task.words())
    model = Mamba2ForCausalLM(_config(settings, len(tokenizer))).to(device)

    def train_epoch(
        optimizer: torch.optim.Optimizer, generator: torch.Generator
    ) -> dict[str, float]:
        rng = np.random.default_rng(int(torch.randint(1 << 30, (1,), generator=generator)))
        losses = []
        for _ in range(settings.steps):
            examples = [task.draw(rng, settings.mixed) for _ in range(settings.batch)]
            loss = batch_loss(model, tokenizer, examples, rng, device)
            losses.append(descend(model, loss, optimizer))
        return {"train_loss": mean(losses)}

    def validate() -> dict[str, float]:
        rng = np.random.default_rng(settings.seed)
        examples = [task.draw(rng, settings.mixed) for _ in range(4 * settings.batch)]
        with torch.no_grad():
            loss = float(batch_loss(model, tokenizer, examples, rng, device))
        return {"validation_loss": loss, "token_probability": math.exp(-loss)}

    history = fit(model, settings, "token_probability", train_epoch, validate)
    n = settings.questions
    rows = [
        {"agent": name, "n": n, "found": share}
        for name, share in found(model, tokenizer, task, n, settings.seed + 1).items()
    ]
    rows.append({"agent": "random order", "n": n, "found": 1 / task.candidates})
    folder = Path(settings.checkpoint)
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    report = {
        **provenance(command), "settings": shown_config(settings.model_dump()),
        "parameters": sum(p.numel() for p in model.parameters()), "epochs": len(history) - 1,
        "last_loss": history[-1].get("train_loss"), "ranking": rows,
    }  # fmt: skip
    write_json(folder / "training.json", report)
    return run.summarise(rows, [])


def found(model: Any, tokenizer: Any, task: Pairs, questions: int, seed: int) -> dict[str, float]:
    """Return how often each ranker puts the right document first, on new questions.

    The model comes back on the CPU and frozen.
    """
    backend = Mamba2Backend(model.to("cpu"), tokenizer, "ssm", "training", 512, loss="mean")
    rng = np.random.default_rng(seed)
    hits = dict.fromkeys(RANKERS, 0)
    for _ in range(questions):
        example = task.draw(rng, task.candidates)
        states = backend.encode(example.documents)
        for name in RANKERS:
            scores = rank(name, backend, states, example.question).scores
            hits[name] += int(scores.argmax()) == example.relevant
    return {name: count / questions for name, count in hits.items()}


def make_tokenizer(words: Sequence[str]) -> Any:
    """Return a tokenizer of whole words, in Hugging Face form."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    known = ["<s>", "</s>", "<unk>", *re.findall(r"\w+|[^\w\s]", QUESTION), "Answer"]
    vocabulary = {word: i for i, word in enumerate(dict.fromkeys([*known, *words]))}
    raw = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))  # noqa: S106 - a token, no secret
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=raw,
        bos_token="<s>",  # noqa: S106
        eos_token="</s>",  # noqa: S106
        unk_token="<unk>",  # noqa: S106
    )


def _config(settings: Mamba2Settings, vocabulary: int) -> Any:
    from transformers import Mamba2Config

    return Mamba2Config(
        vocab_size=vocabulary,
        hidden_size=settings.hidden,
        num_hidden_layers=settings.layers,
        expand=2,
        head_dim=settings.head,
        num_heads=2 * settings.hidden // settings.head,
        state_size=settings.state,
        n_groups=1,
        conv_kernel=4,
        chunk_size=32,
        tie_word_embeddings=False,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
    )


def batch_loss(
    model: Any, tokenizer: Any, examples: Sequence[Example], rng: np.random.Generator,
    device: torch.device,
) -> Tensor:  # fmt: skip
    """Return the questions' mean loss from the mixed states of their candidates."""
    layers, mixed = model.config.num_hidden_layers, len(examples[0].documents)

    def ids(texts: Sequence[str], start: Sequence[int] = ()) -> Tensor:
        rows = [[*start, *tokenizer(t, add_special_tokens=False)["input_ids"]] for t in texts]
        length = min(len(row) for row in rows)  # lengths differ by a token or two at most
        return torch.tensor([row[:length] for row in rows], device=device)

    read = ids([d.shown() for example in examples for d in example.documents], [0])
    cache = InitialStates(layers)
    model.backbone(read, cache_params=cache, use_cache=True)
    # The right document has the greatest weight: from the mixture of equals to itself alone, all that
    # RICO starts from is among what the model learns from.
    weights = rng.dirichlet(np.full(mixed, 0.5), len(examples))
    for row, example in zip(weights, examples, strict=True):
        swap = [int(row.argmax()), example.relevant]
        row[swap] = row[swap[::-1]]
    shares = torch.as_tensor(weights, dtype=torch.float32, device=device)
    start = InitialStates(layers)
    for layer in range(layers):
        start.ssm[layer] = _mix(cache.ssm[layer], shares)
        start.conv[layer] = _mix(cache.conv[layer], shares)
    asked = ids([f"{QUESTION} {example.question}" for example in examples])
    logits = model(asked, cache_params=start, use_cache=True).logits
    prefix = len(tokenizer(QUESTION, add_special_tokens=False)["input_ids"])
    return cross_entropy(logits[:, prefix - 1 : -1].flatten(0, 1), asked[:, prefix:].flatten())


def _mix(states: Tensor, weights: Tensor) -> Tensor:
    """Return the sum of each row's states (rows * documents, …) by ``weights`` (rows, documents)."""
    apart = states.view(*weights.shape, *states.shape[1:])
    return torch.einsum("bd,bd...->b...", weights, apart)
