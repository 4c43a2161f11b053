"""What an instruction asks of the page that is shown: the aligner's scores, as actors need them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from stategate.language.amounts import content
from stategate.language.instruction.choices import (
    ChoiceScores,
    covered,
    gap_sizes,
    layered,
    score_choices,
    sigmoid,
)
from stategate.language.instruction.parsed import ROLES, ParsedInstruction, parse
from stategate.language.instruction.tagger import TAGS
from stategate.language.instruction.weights import Floats

_THING, _PROPERTY, _VALUE, _TALK = range(len(ROLES))
_SEARCHED = 0.25  # how much a word must matter to be written
_GLUE = 3  # marks that join words to one, such as "a01#black"
_FEWEST = 2  # words below which all that could matter are written
#: Weight of a word that most likely is talk: rare words of titles are still told by it.
_LEAST = 0.15
_SAID = 0.5  # how far a title must say a word to hold it
VALUED = 0.4  # probability from which a word is one of a value


@dataclass(frozen=True)
class AlignedInstruction:
    """An instruction beside a page. ``choices`` are the page's, in its order."""

    parsed: ParsedInstruction
    choices: tuple[ChoiceScores, ...] = ()
    title: str = ""

    @classmethod
    def of(
        cls, instruction: str, choices: Sequence[tuple[str, tuple[str, ...]]] = (), title: str = ""
    ) -> Self:
        """Align ``instruction`` with the (name, values) of a page about ``title``."""
        scores = score_choices(instruction, tuple(choices), title) if choices else ()
        return cls(parse(instruction), scores, title)

    def weights(self, role: str) -> Floats:
        """Return the weight of each token of the instruction in ``role``.

        ``described`` is of the thing and its properties, ``all`` with its values, which count half.
        """
        chances = self.parsed.roles
        if role == "described":
            return np.asarray(chances[:, _THING] + chances[:, _PROPERTY])
        if role == "all":
            sure = 1 - chances[:, _TALK] - 0.5 * chances[:, _VALUE]
            return np.asarray(np.where(self.parsed.silent, 0.0, np.maximum(sure, _LEAST)))
        return np.asarray(chances[:, ROLES.index(role)])

    def share(self, text: str, role: str = "described") -> float:
        """Return the share (0 to 1) of the words of ``role`` that ``text`` says; 1 without any."""
        weights = self.weights(role)
        total = float(weights.sum())
        if total < 0.5:
            return 1.0
        return float(weights @ np.asarray(covered(self.parsed, text), dtype=np.float32)) / total

    def phrase_shares(self, text: str, *roles: str) -> list[float]:
        """Return for each phrase of ``roles`` the share of its words that ``text`` says."""
        cover = covered(self.parsed, text)
        return [sum(cover[i] for i in run) / len(run) for run in self.parsed.phrases(*roles)]

    def written(self, *roles: str) -> str:
        """Return what to write where text is wanted: the words of ``roles`` ("" if none).

        Where nearly nothing is of any role but talk, it is all words that could matter.
        """
        text = _words(self.parsed, roles)
        is_whole = set(roles) >= set(ROLES[:_TALK])
        return _words(self.parsed, ROLES) if is_whole and len(text.split()) < _FEWEST else text

    def unsaid(self, text: str) -> float:
        """Return the expected number of property words that ``text`` lacks."""
        open_ = 1 - np.asarray(covered(self.parsed, text), dtype=np.float32)
        return float(self.weights("property") @ open_)

    def missing(self) -> float:
        """Return the expected number of value words that this page does not offer."""
        missing = self._missing()
        return float(missing[missing > VALUED].sum())

    def scores(self, titles: Sequence[str]) -> list[float]:
        """Return the weighed share (0 to 1) of the instruction's words in each of competing titles.

        A word counts the more, the fewer titles hold it, and the surer it belongs to what is asked.
        """
        if not titles:
            return []
        tokens = self.parsed.tokens
        cover = np.array([covered(self.parsed, title) for title in titles], dtype=np.float32)
        holders = (cover > _SAID).sum(axis=0)
        rarity = np.log((len(titles) + 1) / (holders + 1)) + 0.2
        # A word that the instruction says twice counts once.
        first = {token.key: i for i, token in reversed(list(enumerate(tokens)))}
        once = np.isin(np.arange(len(tokens)), list(first.values()))
        weights = self.weights("all") * rarity * once
        whole = float(weights[holders > 0].sum()) or 1.0
        return [float(score) for score in cover @ weights / whole]

    def meets(self) -> float:
        """Return P(the page's subject satisfies the instruction), given what the page shows."""
        return float(sigmoid(layered("subject", [self.subject_features()]))[0, 0])

    def _missing(self) -> Floats:
        """Return for each token P(it names an option value that the page does not offer)."""
        chances = self.weights("value")
        cover = np.asarray(covered(self.parsed, self.title), dtype=np.float32)
        for places in self.parsed.places.values():
            # A word that is said of the thing and as a value is not offered because the title has it.
            for i in sorted(places, key=lambda i: chances[i])[1:]:
                cover[i] = 0.0
        for choice in self.choices:
            cover = np.maximum(cover, covered(self.parsed, choice.name))
            # A value that is excluded is what its words are about, too.
            for span, chance in zip(
                choice.spans, map(max, choice.requested, choice.excluded), strict=True
            ):
                for place, quality in zip(span.places, span.quality, strict=False):
                    cover[place] = max(cover[place], quality * chance)
        return np.asarray(chances * (1 - cover), dtype=np.float32)

    def subject_features(self) -> dict[str, float]:
        """Return the named features of whether the page's subject satisfies the instruction."""
        parsed, choices, missing = self.parsed, self.choices, self._missing()
        cover = np.asarray(covered(parsed, self.title), dtype=np.float32)
        thing, properties, values, _ = parsed.roles.T

        def share(weights: Floats) -> float:
            total = float(weights.sum())
            return float(weights @ cover) / total if total > 0.3 else 1.0

        best = [max(choice.requested, default=0.0) for choice in choices]
        sure = [a.spans[a.best] for a, top in zip(choices, best, strict=True) if top >= a.none]
        waiting = len(choices) - len(sure)
        said_keys = {token.key for token in content(self.title)}
        said_keys |= {parsed.tokens[p].key for span in sure for p in span.places}
        gaps = [gap_sizes(parsed, frozenset(s.places), frozenset(said_keys), set()) for s in sure]
        groups = parsed.phrases("thing", "property")
        return {
            "values missing": missing.sum() / 3,
            "sure values missing": missing[missing > VALUED].sum() / 3,
            "worst missing": missing.max(initial=0.0),
            "value words": values.sum() / 5,
            "choices": len(choices) / 3,
            "open": waiting / 2,
            "open share": waiting / max(len(choices), 1),
            "least asked": min(best, default=1.0),
            "title says it": share(thing + properties),
            "title says the thing": share(thing),
            "title says properties": share(properties),
            "least phrase": min((float(cover[list(run)].mean()) for run in groups), default=1.0),
            "excluded": max((e for a in choices for e in a.excluded), default=0.0),
            "alike only": sum(not span.is_whole for span in sure) / 2,
            "gaps": sum(gap for gap, _ in gaps),
            "beside": sum(adjacent for _, adjacent in gaps),
        }


def _words(parsed: ParsedInstruction, roles: tuple[str, ...]) -> str:
    chances = parsed.roles
    role_indices = [ROLES.index(role) for role in roles]
    whole = set(roles) >= {"thing", "property", "value"}
    picked: list[str] = []
    end = -1
    is_excluded = parsed.tags.argmax(axis=1) == TAGS.index("excluded")
    for i, token in enumerate(parsed.tokens):
        if parsed.silent[i] or is_excluded[i]:
            continue
        if whole:
            is_included = "talk" in roles or parsed.matters[i] >= _SEARCHED
        else:
            is_included = chances[i].argmax() in role_indices
        if is_included:
            between, word = parsed.text[end : token.start], parsed.text[token.start : token.end]
            if picked and len(between) < _GLUE and not any(c.isspace() for c in between):
                picked[-1] += between + word  # "a01#black" is one word for a search
            else:
                picked.append(word)
            end = token.end
    return " ".join(
        "".join(c if c not in "[]<>" else " " for c in " ".join(picked)).split()
    ).lower()
