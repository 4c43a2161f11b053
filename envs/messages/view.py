"""How an agent reads messages: a result falls into the parts that its format has."""

from collections.abc import Sequence

from stategate.envs.messages.reading import format_of, readable, spans
from stategate.envs.protocols import Chunk, Fragment, Observation, View


class MessagesView(View):
    """Results of tools, read as what they are; the tools are the affordances.

    A chunk's ``data`` says which chunks of the same result lead it (``leads``: places) and whether it
    leads others (``is_lead``). Tools are shown by whoever calls the model, so their chunk is frame.
    """

    name = "messages"
    brief = "You help a user with the tools that you are given."

    def __hash__(self) -> int:
        return hash(type(self))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def chunks(self, observation: Observation) -> Sequence[Chunk]:
        """Return a chunk a span (``envs.messages.reading``), then one for the tools."""
        parts = result_chunks("result", observation.text)
        tools = Chunk("tools", "tools", "", observation.actions, role="frame", fragments=())
        return [*parts, tools] if observation.actions else parts


def result_chunks(name: str, text: str) -> list[Chunk]:
    """Return the chunks of one result; their ids are ``name`` and their place.

    Each is one fact, shown whole or not at all; HTML without its markup.
    """
    kind = format_of(text)
    chunks = []
    for place, span in enumerate(spans(text)):
        own = text[span.start : span.end]
        visible = readable(own) if kind == "html" else own.rstrip()
        fragments = (Fragment(visible, role="fact"),) if visible else ()
        data = {"leads": span.leads, "is_lead": span.is_lead}
        chunks.append(Chunk(f"{name}/{place}", kind, own, data=data, fragments=fragments))
    return chunks
