"""Compression per page beside LLMLingua's own package: milliseconds, and what the next action needs.

LLMLingua (an optional dependency: ``pip install llmlingua``) drops the tokens that a small language
model finds least surprising; here SmolLM2-135M runs it, once per page, with the instruction kept as its
own part of the prompt. Both compress the same pages of expert episodes to the same number of tokens.
Sufficiency: the expert's next click is still readable, word for word; and the ``rule`` actor makes the
same move as on the whole page.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import tiktoken
from langchain_core.messages import HumanMessage
from tqdm import tqdm

from envs.webshop import WebShop
from envs.webshop.expert import play
from evals.statistics import mean, standard_error
from nodes.act.shop.rule import Rule
from nodes.build_context.assemble import assemble
from nodes.build_context.compress import Compress
from nodes.build_context.render import describe
from nodes.models.embedders import MiniLM
from nodes.observe.webshop import chunk_page
from nodes.protocols import BuiltContext, ContextRequest
from nodes.resources import Resources
from nodes.retrieval.page import PageSource
from nodes.update_state.kinds import Gru
from stores.errors import UserError
from stores.tokens import count_tokens, encoding
from stores.traces import Event

RATIOS = (0.5,)


def measure_llmlingua(data: str, seed: int = 0, goals: int = 10) -> list[dict[str, Any]]:
    """Return a row for each method and ratio. Raises ``UserError`` without the package."""
    lingua = _load()
    resources = Resources(None, MiniLM(), Gru())
    actor = Rule(threshold=0).build(resources)
    decisions = list(_decisions(data, seed, goals, resources))
    told: dict[tuple[str, float], dict[str, list[float]]] = {}
    for ratio in RATIOS:
        build = Compress(allocator="learned", ratio=ratio).build(resources)
        for request, action, step in tqdm(decisions, desc=f"ratio {ratio}", disable=None):
            whole = assemble(replace(request, budget=10**9), request.source.all())
            expected = actor(whole, step).action
            build(request)  # texts are embedded once; LLMLingua has nothing to keep between calls
            started = time.perf_counter()
            ours = build(request)
            middle = time.perf_counter()
            theirs = _squeeze(lingua, whole, ours.tokens)
            ended = time.perf_counter()
            for name, context, seconds in (
                ("compress", ours, middle - started), ("LLMLingua", theirs, ended - middle),
            ):  # fmt: skip
                values = told.setdefault((name, ratio), {})
                label = action.partition("[")[2].removesuffix("]")
                found = {
                    "ms": 1000 * seconds, "tokens": context.tokens,
                    "share": context.tokens / whole.tokens,
                    "next_click_readable": float(label in context.text.lower()),
                    "same_move": float(actor(context, step).action == expected),
                }  # fmt: skip
                for key, value in found.items():
                    values.setdefault(key, []).append(value)
    rows = []
    for (name, ratio), values in told.items():
        row: dict[str, Any] = {"agent": f"{name} {ratio:g}", "n": len(values["ms"])}
        for key, found_values in values.items():
            row |= {key: mean(found_values), f"{key}_se": standard_error(found_values)}
        rows.append(row)
    return rows


def _decisions(
    data: str, seed: int, goals: int, resources: Resources
) -> Iterator[tuple[ContextRequest, str, int]]:
    """Yield the clicks of expert episodes: what a builder would be asked, the click, the step."""
    shop = WebShop.load(data, observation="rich")
    for goal in range(goals):
        episode = play(shop, goal, seed)
        session, page = shop.reset(goal=goal)
        state = resources.updater.initial() if resources.updater else None
        past: list[Event] = []
        for event in (e for e in episode.events if e.kind == "ACT"):
            seen = Event("OBS", page.text, event.t)
            if resources.updater is not None:
                state = resources.updater.update(state, [*past[-1:], seen])
            source = PageSource(chunk_page(page), lambda: resources.embedder, describe)
            instruction = episode.instruction
            request = ContextRequest(instruction, page, source, tuple(past), 10**6, state)
            if event.text.startswith("click["):
                yield request, event.text.lower(), event.t
            past.append(event)
            session, page = shop.step(session, event.text)


def _squeeze(lingua: Any, whole: BuiltContext, tokens: int) -> BuiltContext:
    """Compress ``whole`` to about ``tokens``; its affordances are those still readable."""
    first, _, rest = whole.text.partition("\n")
    room = max(tokens - count_tokens(first), 8)
    made = lingua.compress_prompt(
        [rest], instruction="", question=first, target_token=room, use_context_level_filter=False,
        concate_question=False,
    )  # fmt: skip
    text = f"{first}\n{made['compressed_prompt']}"
    lowered = text.lower()
    kept = tuple(a for a in whole.actions if a.partition("[")[2].removesuffix("]") in lowered)
    piece = replace(whole.pieces[0], text=text, actions=kept, tokens_after=count_tokens(text))
    return BuiltContext((HumanMessage(text),), (piece,), count_tokens(text))


def _load() -> Any:
    """Return LLMLingua's compressor over SmolLM2-135M from its asset."""
    try:
        from llmlingua import PromptCompressor
    except ImportError as error:
        raise UserError("LLMLingua is not installed: pip install llmlingua==0.2.2") from error
    from nodes.build_context.rico.loading import load_language_model

    network, tokenizer = load_language_model("smollm2-135m")
    # The package asks tiktoken for its counter by a name that tiktoken would download.
    tiktoken.encoding_for_model = lambda model_name: encoding()

    class Compressor(PromptCompressor):  # type: ignore[misc]
        def load_model(self, *_: Any, **__: Any) -> None:
            """Take the model that is loaded already, which the package would ask a hub for."""
            tokenizer.padding_side = "left"
            tokenizer.pad_token_id = tokenizer.eos_token_id
            self.device, self.tokenizer, self.model = "cpu", tokenizer, _Legacy(network)
            self.context_idxs: list[Any] = []
            self.max_position_embeddings = network.config.max_position_embeddings

    return Compressor(device_map="cpu")


class _Legacy:
    """A language model whose cache is a list of (key, value) pairs, as LLMLingua 0.2 expects."""

    def __init__(self, network: Any) -> None:
        self._network, self.config = network, network.config

    def __call__(
        self, ids: Any, past_key_values: Sequence[Any] | None = None, **kwargs: Any
    ) -> Any:
        from transformers import DynamicCache

        cache = DynamicCache(config=self.config)
        for layer, (key, value) in enumerate(past_key_values or ()):
            cache.update(key, value, layer)
        made = self._network(ids, past_key_values=cache, **kwargs)
        pairs = [(layer.keys, layer.values) for layer in made.past_key_values.layers]
        return SimpleNamespace(logits=made.logits, past_key_values=pairs)
