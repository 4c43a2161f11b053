"""``summary``: earlier steps as notes that the language model rewrites every few steps.

What most agents do when a history grows. The last steps stay word for word; of those before, the
model keeps numbered lines, so that whoever reads steps can read its notes as well.
"""

from functools import lru_cache
from typing import ClassVar, Literal

from langchain_core.messages import HumanMessage, SystemMessage
from pydantic import Field

from stategate.envs.protocols import Chunk
from stategate.nodes.build_context.assemble import FramedContext, assemble
from stategate.nodes.models.asking import ask
from stategate.nodes.protocols import BuiltContext, ContextBuilder, ContextRequest
from stategate.nodes.resources import Resources
from stategate.nodes.retrieval.page import ARROW
from stategate.nodes.retrieval.past import past_chunk
from stategate.stores.errors import UserError
from stategate.stores.text import one_line
from stategate.stores.tokens import truncate

_SYSTEM = (
    "You keep an agent's notes. Rewrite them, with the new steps, as short as they can be for its "
    "task: what was found where, what was done, what is left. Keep a step's form, "
    f"'NUMBER. ACTION{ARROW}WHAT CAME OF IT', leave out steps that do not matter, and answer with "
    "those lines alone."
)
_KEPT = 256  # notes of how many moments are kept


class Summary(FramedContext):
    """Show the page, the last steps, and the model's notes on those before."""

    hint: ClassVar[str] = "earlier steps as notes that a language model keeps; the page whole"
    kind: Literal["summary"] = "summary"
    every: int = Field(default=4, ge=1, description="steps between two rewritings of the notes")
    last: int = Field(default=2, ge=0, description="latest steps that stay word for word")
    note_tokens: int = Field(default=120, ge=8, description="tokens that the notes may have")

    def build(self, resources: Resources) -> ContextBuilder:
        """Return the builder; the model is asked once there is enough to sum up."""

        @lru_cache(maxsize=_KEPT)
        def rewritten(task: str, before: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
            """Return the notes ``before`` with what the ``new`` steps add."""
            told = "\n".join(("Notes:", *before, "New steps:", *new))
            messages = [SystemMessage(_SYSTEM), HumanMessage(f"Task: {task}\n{told}")]
            try:
                reply = ask(resources.llm, messages, max_tokens=2 * self.note_tokens)
            except UserError as error:
                problem = one_line(str(error))[:160]
                raise UserError(f"the model could not keep notes ({problem})") from None
            kept = truncate(reply.strip(), self.note_tokens).splitlines()
            return tuple(line for text in kept if (line := one_line(text)))

        def build_context(request: ContextRequest) -> BuiltContext:
            chunks = request.source.all()
            past = [chunk for chunk in chunks if chunk.role == "past"]
            old = past[: max(0, len(past) - self.last) // self.every * self.every]
            if not old:
                return assemble(request, chunks, history=self.history)
            lines: tuple[str, ...] = ()
            for start in range(0, len(old), self.every):
                new = tuple(chunk.text for chunk in old[start : start + self.every])
                lines = rewritten(request.instruction, lines, new)
            page = [_noted(i, line) for i, line in enumerate(lines)]
            page += [chunk for chunk in chunks if chunk not in old]
            return assemble(request, page, history=self.history, page=page)

        return build_context


def _noted(place: int, line: str) -> Chunk:
    """Return a line of the model's notes as an earlier step, as far as it keeps a step's form."""
    step, _, outcome = line.partition(ARROW)
    number, dot, action = step.partition(". ")
    if not (dot and number.isdigit()):
        number, dot, action = step, "", ""
    return past_chunk(f"note:{place}", number + dot, action, outcome)
