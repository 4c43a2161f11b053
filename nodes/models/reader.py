"""``reader: model``: the configured chat model reads each instruction once, with structured output.

What it says takes the place of the learned tagger's reading of that text, for every node of this
process. A reply that cannot be had or read leaves the learned reading, with a warning.
"""

from langchain_core.messages import HumanMessage, SystemMessage
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stategate.language.instruction.goals import TaskKind, adopt
from stategate.language.instruction.parsed import tags_of
from stategate.language.instruction.tagger import ADOPTED
from stategate.nodes.models.calls import ask, json_in
from stategate.nodes.resources import Resources
from stategate.stores.errors import UserError, warn_once

_BRIEF = """Read what a person asks for, in their own words. Leave a field empty where nothing is said.
at_most and at_least are prices as numbers: "50 or more is too much" means at_most 50.
kind is for tasks in a household: put, clean, heat, cool, two (of a kind), light (look at it by a lamp).

"red or blue wool socks size 9, no polyester, I won't pay 50 or more"
{"thing": "socks", "properties": ["wool"], "values": ["red", "blue", "9"],
 "excluded": ["polyester"], "at_most": 50}
"could you rinse a mug and leave it in the cupboard"
{"thing": "mug", "place": "cupboard", "kind": "clean"}
"""


class InstructionReading(BaseModel):
    """What a chat model reads in an instruction, in the person's own words."""

    model_config = ConfigDict(extra="ignore")

    thing: str = ""
    properties: list[str] = Field(default=[], max_length=20)
    values: list[str] = Field(default=[], max_length=20)
    excluded: list[str] = Field(default=[], max_length=20)
    place: str = ""
    at_most: float | None = None
    at_least: float | None = None
    kind: TaskKind | None = None


def read_by_model(resources: Resources, text: str) -> None:
    """Let the configured chat model read ``text``, unless it did. Raises ``UserError`` without one."""
    if text in ADOPTED or not text.strip():
        return
    messages = [SystemMessage(_BRIEF), HumanMessage(text)]
    resources.llm  # noqa: B018 - without a model it is the user's mistake
    try:
        reply = ask(resources, messages, 300, InstructionReading.model_json_schema())
        reading = InstructionReading.model_validate(json_in(reply) or None)
    except (UserError, ValidationError) as problem:
        warn_once(f"the model did not read the instruction, the learned reader does: {problem}")
        return
    quotes = {
        "property": reading.properties,
        "value": reading.values,
        "thing": [reading.thing],
        "place": [reading.place],
        "excluded": reading.excluded,
    }
    tags = tags_of(text, quotes, reading.at_least, reading.at_most)
    adopt(text, tags, reading.kind or "")
