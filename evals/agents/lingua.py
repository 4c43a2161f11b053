"""LLMLingua as an arm: results of tools compressed word by word with its own package.

    pip install 'stategate[lingua]'
    stategate eval agents --arms nothing,llmlingua,compress --out runs/lingua

A result that is larger than ``compress`` would show of it is compressed once, when it is new, to the
same number of tokens; what is over the budget then goes as with ``trim_messages``. ``--llmlingua``
names the weights: an asset or any causal language model drops the words that it foresees (Jiang et al.
2023, arXiv:2310.05736); a model that was trained to say which words stay is LLMLingua-2 (Pan et al.
2024), whose weights come from a hub.
"""

from functools import cache, partial
from typing import Any

from langchain_core.messages import BaseMessage, ToolMessage

from stategate.envs.messages.history import text_of, with_text
from stategate.evals.agents.trimming import LastMessages
from stategate.nodes.models.decoders.loading import DEFAULT, model_folder
from stategate.stores.errors import UserError, describe_error, needs
from stategate.stores.tokens import count_tokens, encoding

_LEAST = 150
#: By these the package tells LLMLingua-2's models.
_FAMILIES = ("bert-base-multilingual-cased", "xlm-roberta-large")


class Lingua(LastMessages):
    """Compressed results within the budget."""

    def __init__(self, budget: int, weights: str = "") -> None:
        super().__init__(budget)
        self._room = max(budget // 40, _LEAST)
        self._compressor = compressor(weights)
        self._known: dict[str, str] = {}

    def read(self, messages: list[BaseMessage]) -> list[BaseMessage]:
        """Return what a call reads: the newest that fit, results compressed."""
        return super().read([self._short(message) for message in messages])

    def _short(self, message: BaseMessage) -> BaseMessage:
        text = text_of(message)
        if not isinstance(message, ToolMessage) or count_tokens(text) <= self._room:
            return message
        if text not in self._known:
            made = self._compressor.compress_prompt([text], target_token=self._room)
            self._known[text] = str(made["compressed_prompt"])
        return with_text(message, self._known[text])


@cache
def compressor(weights: str) -> Any:
    """Return the compressor with these weights, "" for the small asset's, on the processor.

    Raises ``UserError`` without them.
    """
    weights = weights or DEFAULT
    second = any(name in weights for name in _FAMILIES)
    folder = weights if second else str(model_folder(weights)[0])
    encoding()  # it counts in these tokens too, and they are on this machine
    with needs("lingua"):
        from llmlingua import PromptCompressor
    try:
        # The package would run code that comes with the weights: nobody asked for that.
        made = PromptCompressor(
            folder,
            device_map="cpu",
            model_config={"trust_remote_code": False},
            use_llmlingua2=second,
        )
    except (OSError, ValueError) as error:
        raise UserError(
            f"no weights of LLMLingua as '{weights}' ({describe_error(error)}): name an asset such as "
            f"{DEFAULT}, or a folder, with --llmlingua; "
            f"{' and '.join(_FAMILIES)} are read as LLMLingua-2"
        ) from None
    if not second:
        made.model = _PairsForCache(made.model)
        # Its first pass chooses among several texts; here there is one.
        made.compress_prompt = partial(made.compress_prompt, use_context_level_filter=False)
    return made


class _PairsForCache:
    """A causal model whose cache goes in and out as (keys, values) a layer, as the package has it."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def __call__(self, ids: Any, past_key_values: Any = None, **rest: Any) -> Any:
        from transformers import DynamicCache

        cache = DynamicCache(past_key_values or None)
        out = self._model(ids, past_key_values=cache, **rest)
        out.past_key_values = [(layer.keys, layer.values) for layer in cache.layers]
        return out
