"""What each word of an instruction is: the network that learns it, and what it learns from.

A goal says which words of its instruction are of the thing, its properties and the values to choose;
the rest is talk. What runs without torch is ``envs.asking.words``.
"""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from stategate.envs.asking.request import Request, read_request
from stategate.envs.asking.values import locate
from stategate.envs.asking.weights import ROLES, WORD
from stategate.envs.asking.words import word_rows
from stategate.envs.webshop.wordings import TEMPLATE, families
from stategate.envs.webshop.wordings.changes import CHANGES
from stategate.trainers.webshop.recombined import english_words

_SWAPPED = 0.25  # share of words in the place of which others stand
_DROPPED = 0.2  # share of units
_MASKED = 0.2  # share of words whose meaning is not told, of some instructions all
_REWORDED = ("synonyms", "near-words")  # always said in the same other words


@dataclass(frozen=True)
class Words:
    """The words of an instruction: features (n, columns), and each one's role by place (-1: none)."""

    rows: NDArray[np.float32]
    roles: NDArray[np.int64]
    family: str


class RoleNetwork(nn.Module):
    """What ``envs.asking.words.word_roles`` does, for many instructions at once."""

    def __init__(self, size: int, hidden: int, read: int) -> None:
        super().__init__()
        self.seen = nn.Linear(size, hidden)
        self.both = nn.GRU(hidden, hidden, bidirectional=True, batch_first=True)
        self.read = nn.Linear(2 * hidden, read)
        self.out = nn.Linear(read, len(ROLES))
        self.drop = nn.Dropout(_DROPPED)

    def forward(self, rows: Tensor, lengths: Tensor) -> Tensor:
        """Return logits (B, n, roles) of ``rows`` (B, n, size), of which ``lengths`` (B) count."""
        seen = self.drop(torch.tanh(self.seen(rows)))
        packed = pack_padded_sequence(seen, lengths, batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(
            self.both(packed)[0], batch_first=True, total_length=rows.shape[1]
        )
        logits: Tensor = self.out(torch.tanh(self.read(self.drop(states))))
        return logits

    def arrays(self) -> dict[str, Tensor]:
        """Return the weights as ``word_roles`` reads them."""
        gru = self.both
        names = {"w2": "weight_ih", "u2": "weight_hh", "b2": "bias_ih", "c2": "bias_hh"}
        both = {
            name: torch.stack([getattr(gru, f"{own}_l0"), getattr(gru, f"{own}_l0_reverse")])
            for name, own in names.items()
        }
        found = {name: t.transpose(1, 2) if t.dim() == 3 else t for name, t in both.items()}
        for i, layer in ((1, self.seen), (3, self.read), (4, self.out)):
            found |= {f"w{i}": layer.weight.T, f"b{i}": layer.bias}
        return found


def words_of_goal(goal: Mapping[str, Any]) -> Words:
    """Return the words of a goal's instruction, with the role that the goal gives each."""
    return _with_roles(goal["instruction_text"], _roles(goal), str(goal.get("wording", TEMPLATE)))


def _with_roles(text: str, roles: NDArray[np.int64], family: str) -> Words:
    request = read_request(text)
    return Words(word_rows(request), roles, family)


def _roles(goal: Mapping[str, Any]) -> NDArray[np.int64]:
    """Return the place of each word's role, -1 of small words and a limit's."""
    request = read_request(goal["instruction_text"])
    # Names are told, so that of a word that is said twice the place beside its name is the value's.
    parts = {
        "property": [(text, "") for text in goal["attributes"]],
        "thing": [(goal["query"], "")],
        "value": [(str(value), name) for name, value in goal["goal_options"].items()],
    }
    roles = np.full(len(request.tokens), ROLES.index("talk"), dtype=np.int64)
    change = CHANGES.get(families().get(str(goal.get("wording")), {}).get("change", ""))
    is_fixed = change is not None and goal["wording"] in _REWORDED
    for role, texts in parts.items():  # of words that are several, the last role counts
        for text, name in texts:
            said = change(text, random.Random(0)) if is_fixed and change else text
            places = () if role == "value" else _verbatim(request, said)
            span = locate(request, said, name)
            for place in places or (span.places if span.is_whole else ()):
                roles[place] = ROLES.index(role)
    for i, token in enumerate(request.tokens):
        if token.is_small or i in request.in_limit:
            roles[i] = -1
    return roles


def _verbatim(request: Request, said: str) -> tuple[int, ...]:
    """Return the words of all places where ``said`` stands, as of "dry clean" in "clean, dry clean"."""
    found = re.finditer(rf"(?<!\w){re.escape(said.lower())}(?!\w)", request.text.lower())
    spans = [match.span() for match in found]
    return tuple(
        i
        for i, token in enumerate(request.tokens)
        if any(start <= token.start < end for start, end in spans)
    )


def in_other_words(goal: Mapping[str, Any], rng: random.Random) -> Words:
    """Return the words of a goal's instruction, any English ones in the place of some, roles as before.

    So what a word means is no more than a hint: patterns and training products are a few hundred.
    """
    text, roles = goal["instruction_text"], _roles(goal)
    tokens = read_request(text).tokens
    for place in range(len(tokens) - 1, -1, -1):
        token = tokens[place]
        if roles[place] >= 0 and token.word.isalpha() and rng.random() < _SWAPPED:
            text = text[: token.start] + rng.choice(english_words()) + text[token.end :]
    if len(read_request(text).tokens) != len(tokens):
        return words_of_goal(goal)
    return _with_roles(text, roles, str(goal.get("wording", TEMPLATE)))


def padded(words: Sequence[Words]) -> tuple[Tensor, Tensor, Tensor]:
    """Return rows (B, n, features), lengths (B) and roles (B, n), -1 where an instruction has ended."""
    rows = pad_sequence([torch.from_numpy(w.rows) for w in words], True)
    roles = pad_sequence([torch.from_numpy(w.roles) for w in words], True, -1)
    return rows, torch.tensor([len(w.rows) for w in words]), roles


def role_loss(network: RoleNetwork, words: Sequence[Words]) -> Tensor:
    """Return the mean cross-entropy of the roles of ``words``, some of their meanings hidden."""
    rows, lengths, roles = padded(words)
    # Words are told by their place, too: without their own meaning, others', or any at all.
    hidden = torch.rand(*roles.shape, 1) < _MASKED
    hidden |= torch.rand(len(rows), 1, 1) < _MASKED
    rows[..., len(WORD) :] *= ~hidden
    return cross_entropy(network(rows, lengths).flatten(0, 1), roles.flatten(), ignore_index=-1)


def roles_right(network: RoleNetwork, words: Sequence[Words]) -> dict[str, float]:
    """Return how often a word's role is right, and whether it is talk."""
    if not words:
        return {}
    rows, lengths, roles = padded(words)
    with torch.inference_mode():
        best = network(rows, lengths).argmax(-1)[roles >= 0]
    roles, talk = roles[roles >= 0], ROLES.index("talk")
    return {
        "roles_right": float((best == roles).float().mean()),
        "talk_right": float(((best == talk) == (roles == talk)).float().mean()),
    }
