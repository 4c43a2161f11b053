"""LLMLingua-2 as an arm: results of tools compressed word by word with its own package and weights.

    pip install 'stategate[lingua]'
    stategate eval agents --arms nothing,llmlingua,compress --out runs/lingua

A result that is larger than ``compress`` would show of it is compressed once, when it is new, to the
same number of tokens; what is over the budget then goes as with ``trim_messages``. The weights come
from a hub, or from a folder that ``--llmlingua`` names.
"""

from functools import cache
from typing import Any

from langchain_core.messages import BaseMessage, ToolMessage

from envs.messages.history import text_of, with_text
from evals.agents.trimming import LastMessages
from stores.errors import UserError, needs, said
from stores.tokens import count_tokens

#: The smaller of the two published models (meeting transcripts, multilingual BERT).
WEIGHTS = "microsoft/llmlingua-2-bert-base-multilingual-cased-meetingbank"
_LEAST = 150
_FAMILIES = ("bert-base-multilingual-cased", "xlm-roberta-large")


class Lingua(LastMessages):
    """Compressed results within the budget."""

    def __init__(self, budget: int, weights: str = WEIGHTS) -> None:
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
    """Return LLMLingua-2's compressor, on the processor. Raises ``UserError`` without its weights."""
    if not any(name in weights for name in _FAMILIES):
        families = " or ".join(_FAMILIES)
        raise UserError(
            f"LLMLingua-2 tells its models by their names: {families} is not in '{weights}'"
        )
    count_tokens("")  # it counts in these tokens too, and they are on this machine
    with needs("lingua"):
        from llmlingua import PromptCompressor
    try:
        # The package would run code that comes with the weights: nobody asked for that.
        return PromptCompressor(
            weights, device_map="cpu", model_config={"trust_remote_code": False},
            use_llmlingua2=True,
        )  # fmt: skip
    except (OSError, ValueError) as error:
        raise UserError(
            f"no weights of LLMLingua-2 as '{weights}' ({said(error)}): they come from a hub; "
            "name their folder with --llmlingua"
        ) from None
