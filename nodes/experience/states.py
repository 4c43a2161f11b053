"""One serialiser for the states of past episodes and for the state an agent is in.

    Image description: ...          (where the task has images)
    Question: ...
    Task: ...                       (where a sub-task was given)
    look(red shoes) → Page 1 ...    (the latest few decisions and what they led to)

A bank's states and an agent's own state are near each other only if both are written the same way,
so offline and online go through :func:`state_text` and cut old pages as short-term memory does.
"""

import re
from collections.abc import Hashable, Sequence

from stategate.nodes.experience.adapter import ExperienceAdapter
from stategate.nodes.experience.episode import Episode, Step, parse_action
from stategate.nodes.protocols import ContextRequest
from stategate.stores.text import one_line
from stategate.stores.tokens import truncate

#: Bumped when the wording of states changes: an old bank's vectors would not match any more.
FORMAT = 1
STEPS = 3  # earlier decisions told
_STORED = 40  # tokens of an earlier page that short-term memory keeps (its default)
_EARLIER = 16  # tokens shown of an earlier page
_CURRENT = 72  # tokens shown of the current page
_QUESTION = 96  # tokens shown of the question; a MiniLM state has 256 word pieces in all
_DECISION = re.compile(r"([\w-]*)\((.*?)\) → ")


def state_text(
    told: ExperienceAdapter,
    question: str,
    decisions: Sequence[tuple[str, str]],
    *,
    start: str = "",
    task: str = "",
    caption: str = "",
) -> str:
    """Return the state after ``decisions``, pairs of action and the page it led to, oldest first.

    ``start`` is the first page, told only where nothing was decided yet. Pages are as recorded.
    """
    lines = [f"Image description: {one_line(caption)}"] if caption else []
    lines.append(f"Question: {truncate(one_line(question), _QUESTION)}")
    if task and one_line(task) != one_line(question):
        lines.append(f"Task: {truncate(one_line(task), _QUESTION)}")
    recent = decisions[-STEPS:]
    for i, (action, page) in enumerate(recent):
        tool, params = parse_action(action)
        is_last = i == len(recent) - 1
        # An old page is shown as short-term memory would have kept it, even if all of it is known.
        kept = truncate(told.summary_line(page, question), _STORED)
        seen = (
            page_head(told, page, question, _CURRENT)
            if is_last
            else page_head(told, kept, "", _EARLIER)
        )
        lines.append(f"{tool}({truncate(params, 32)}) → {seen}")
    if not recent:
        lines.append(f"start → {page_head(told, start, question, _CURRENT)}")
    return "\n".join(lines)


def states_of(episode: Episode, told: ExperienceAdapter) -> list[str]:
    """Return the state in which each decision of ``episode`` was taken."""
    taken = [(step.action, step.after) for step in episode.steps]
    about = {"task": episode.task, "caption": episode.caption}
    return [
        state_text(told, episode.question, taken[:i], start=step.before, **about)
        for i, step in enumerate(episode.steps)
    ]


def situation(told: ExperienceAdapter, state: str) -> Hashable:
    """Return what kind of situation a state's text tells.

    Two states can be near in words and yet be different situations: advice does not carry over
    between those.
    """
    question = last = ""
    for line in state.split("\n"):
        if line.startswith("Question: "):
            question = line.removeprefix("Question: ")
        decision = _DECISION.match(line)
        if decision:
            last = told.move_of(question, Step(decision[1], decision[2]).action)
    return told.situation(question, last)


def online_state(told: ExperienceAdapter, request: ContextRequest) -> str:
    """Return the state of a running episode, from what its context builder may read."""
    decisions: list[tuple[str, str]] = []
    page_of = {e.t: e.text for e in request.events if e.kind == "OBS"}
    acts = [event for event in request.events if event.kind == "ACT"]
    for i, act in enumerate(acts):
        is_last = i == len(acts) - 1
        after = request.observation.text if is_last else page_of.get(acts[i + 1].t, "")
        decisions.append((act.text, after))
    start = request.observation.text
    return state_text(told, request.instruction, decisions, start=start)


def page_head(told: ExperienceAdapter, page: str, question: str, tokens: int) -> str:
    """Return the head of ``page`` on one line, without the question and without its marks."""
    return truncate(told.summary_line(page, question, bare=True), tokens)
