"""Train a tiny Mamba-2 language model to copy from documents, for RICO.

    python -m trainers.mamba2.train --out checkpoints/ssm --steps 600     # minutes on one core
    python -m trainers.mamba2.train --out checkpoints/try --steps 20      # to see that it runs
    python -m trainers.mamba2.train --out checkpoints/text --text notes/ --hidden 512 --device cuda

The model is trained on what RICO does with it: it reads each of a few documents alone, starts from
their mixed states (random weights in which the right document has some part), and predicts the
question. A checkpoint is a Hugging Face folder (safetensors and JSON) and ``training.json``, which
says how it was made and how often its gradient finds the right document, beside chance.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nodes.build_context.rico.mamba2 import Mamba2Backend
from nodes.build_context.rico.mamba2_cache import InitialStates
from nodes.build_context.rico.prompts import QUESTION
from nodes.build_context.rico.rankers import rank
from stores.errors import mistakes_in_one_line
from stores.runs import provenance
from trainers.mamba2.tasks import Pairs, Spans, Task, make_tokenizer

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Recipe:
    """The model's shape and how it is trained. ``mixed`` documents are read for each question."""

    hidden: int = 64
    layers: int = 2
    state: int = 32
    head: int = 16
    steps: int = 1500
    batch: int = 24
    mixed: int = 4
    learning_rate: float = 3e-3
    seed: int = 0
    device: str = "cpu"


def train(
    task: Task,
    recipe: Recipe,
    out: str | Path,
    quiet: bool = False,
    command: Sequence[str] = ("train",),
) -> dict[str, Any]:
    """Train, write the checkpoint, and return what ``training.json`` holds."""
    import torch
    from tqdm import tqdm
    from transformers import Mamba2ForCausalLM

    torch.manual_seed(recipe.seed)
    rng = np.random.default_rng(recipe.seed)
    tokenizer = make_tokenizer(task.words())
    model = Mamba2ForCausalLM(_config(recipe, len(tokenizer))).to(recipe.device)
    optimiser = torch.optim.AdamW(model.parameters(), lr=recipe.learning_rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, recipe.learning_rate, total_steps=max(recipe.steps, 2), pct_start=0.1
    )
    started = time.perf_counter()
    losses: list[float] = []
    with tqdm(range(recipe.steps), desc="training", unit="step", disable=quiet or None) as bar:
        for step in bar:
            loss = _batch_loss(model, tokenizer, task, rng, recipe)
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            losses.append(float(loss.detach()))
            if step % 50 == 0:
                bar.set_postfix(loss=f"{np.mean(losses[-50:]):.3f}")
    seconds = time.perf_counter() - started
    model = model.to("cpu").eval()
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    report = {
        **provenance(command),
        "task": type(task).__name__,
        "recipe": asdict(recipe),
        "parameters": sum(p.numel() for p in model.parameters()),
        "first_loss": losses[0] if losses else None,
        "last_loss": float(np.mean(losses[-max(len(losses) // 10, 1) :])) if losses else None,
        "seconds": round(seconds, 1),
        "ranking": found(model, tokenizer, task, seed=recipe.seed + 1),
    }
    (folder / "training.json").write_text(json.dumps(report, indent=2) + "\n", "utf-8")
    return report


def found(
    model: Any, tokenizer: Any, task: Task, documents: int = 8, questions: int = 100, seed: int = 1
) -> dict[str, float]:
    """Return how often each ranker puts the right one of ``documents`` first, on new questions."""
    backend = Mamba2Backend(model, tokenizer, "ssm", "training", max_tokens=512, loss="mean")
    rng = np.random.default_rng(seed)
    names = ("single_gradient", "zero_state", "loss", "naive")
    hits = dict.fromkeys(names, 0)
    for _ in range(questions):
        example = task.draw(rng, documents)
        states = backend.encode(example.documents)
        from nodes.build_context.rico.backend import Query

        for name in names:
            scores = rank(name, backend, states, Query(example.question)).scores
            hits[name] += int(scores.argmax()) == example.relevant
    share = {name: count / questions for name, count in hits.items()}
    return {**share, "chance": 1 / documents, "questions": questions}


def _config(recipe: Recipe, vocabulary: int) -> Any:
    from transformers import Mamba2Config

    return Mamba2Config(
        vocab_size=vocabulary,
        hidden_size=recipe.hidden,
        num_hidden_layers=recipe.layers,
        expand=2,
        head_dim=recipe.head,
        num_heads=2 * recipe.hidden // recipe.head,
        state_size=recipe.state,
        n_groups=1,
        conv_kernel=4,
        chunk_size=32,
        tie_word_embeddings=False,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
    )


def _batch_loss(
    model: Any, tokenizer: Any, task: Task, rng: np.random.Generator, recipe: Recipe
) -> "Tensor":
    """Return the questions' mean loss from the mixed states of their candidates."""
    import torch

    examples = [task.draw(rng, recipe.mixed) for _ in range(recipe.batch)]

    def ids(texts: Sequence[str], start: Sequence[int] = ()) -> "Tensor":
        rows = [[*start, *tokenizer(t, add_special_tokens=False)["input_ids"]] for t in texts]
        length = min(len(row) for row in rows)  # lengths differ by a token or two at most
        return torch.tensor([row[:length] for row in rows], device=recipe.device)

    read = ids([d.shown() for example in examples for d in example.documents], [0])
    cache = _Batch(recipe.layers)
    model.backbone(read, cache_params=cache, use_cache=True)
    # The right document has from a third to all of the weight's expectation: both the plain
    # concatenation and the uniform mixture are among what the model learns from.
    weights = torch.as_tensor(
        rng.dirichlet(np.full(recipe.mixed, 0.5), recipe.batch), dtype=torch.float32
    ).to(recipe.device)
    for row, example in enumerate(examples):
        top = int(weights[row].argmax())
        swap = [top, example.relevant]
        weights[row, swap] = weights[row, swap[::-1]]
    mixed = _Batch(recipe.layers)
    for layer in range(recipe.layers):
        mixed.ssm[layer] = _mix(cache.ssm[layer], weights)
        mixed.conv[layer] = _mix(cache.conv[layer], weights)
    asked = ids([f"{QUESTION} {example.question}" for example in examples])
    logits = model(asked, cache_params=mixed, use_cache=True).logits
    prefix = len(tokenizer(QUESTION, add_special_tokens=False)["input_ids"])
    told, right = logits[:, prefix - 1 : -1], asked[:, prefix:]
    return torch.nn.functional.cross_entropy(told.flatten(0, 1), right.flatten())


class _Batch(InitialStates):
    """Initial states with a batch axis of the caller's own."""


def _mix(states: "Tensor", weights: "Tensor") -> "Tensor":
    batch, count = weights.shape
    apart = states.view(batch, count, *states.shape[1:])
    shape = (batch, count, *(1,) * (apart.ndim - 2))
    return (apart * weights.view(shape)).sum(1)


def main(argv: Sequence[str] | None = None) -> None:
    """Run from the command line (see the module's docstring)."""
    parser = argparse.ArgumentParser(
        "trainers.mamba2.train",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", required=True, help="folder of the checkpoint")
    parser.add_argument("--text", help="folder or file of documents; keys and values if not given")
    for name, value in asdict(Recipe()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    words = list(sys.argv[1:] if argv is None else argv)
    given = vars(parser.parse_args(words))
    out, text = given.pop("out"), given.pop("text")
    with mistakes_in_one_line():
        task: Task = Pairs()
        if text:
            from nodes.build_context.rico.reading import read_documents

            task = Spans(read_documents(text))
        report = train(
            task, Recipe(**given), out, command=["python", "-m", "trainers.mamba2.train", *words]
        )
    sys.stdout.write(json.dumps(report["ranking"], indent=2) + "\n")


if __name__ == "__main__":
    main()
