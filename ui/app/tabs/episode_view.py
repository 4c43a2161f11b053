"""What the Episode tab shows of a workspace: the steps, the world's page, what the model reads.

A page is drawn by the roles of its chunks. Entries are cards, choices are chips, commands are buttons,
text is text. Whatever can be done carries ``data-action``; a form for a command that takes words
``data-verb``.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from stategate.envs.protocols import Chunk, Observation, View, fill, takes_text, target_of, verb_of
from stategate.graph.config import Config
from stategate.graph.session import Session
from stategate.nodes.protocols import BuiltContext, ContextParams
from stategate.nodes.registry import registry
from stategate.nodes.retrieval.align import unsure_parts
from stategate.stores.text import plural
from stategate.ui.actions import (
    lead_of,
    outcome_cards,
    reward_parts,
    texts_of,
    titles_of,
    unscored,
)
from stategate.ui.app.context import in_words, render_context
from stategate.ui.app.html import empty, macros, note, short
from stategate.ui.app.tabs.common import failed
from stategate.ui.app.workspace import Seen, Workspace

#: In this order, where a page has a subject: what it is about goes before its choices.
_RANKS = {"subject": 1, "choice": 2}


@dataclass
class Drawn:
    """The tab's drawn parts, and what can be done next."""

    trail: Markup = field(default_factory=Markup)
    page: Markup = field(default_factory=Markup)
    side: Markup = field(default_factory=Markup)
    is_open: bool = False  # there is a next step
    problem: BaseException | None = None


def draw(workspace: Workspace) -> Drawn:
    """Draw where the tab's episode stands, or the step that is looked at.

    A move that is being made is waited for.
    """
    view = Drawn()
    with workspace.turn:
        session, at, trail = workspace.session, workspace.looked_at, workspace.trail
        if session is None:
            hint = "Choose a task above, or write what you want done."
            view.page = empty("No episode yet", hint)
            return view
        is_over = session.done
        view.is_open = not is_over
        view.trail = render_trail(trail, at, is_over)
        if at is not None:
            _draw_past(view, workspace, trail[at])
        elif is_over:
            _draw_end(view, workspace, session)
        else:
            _draw_now(view, workspace, session)
        if trail:
            view.side = macros("episode").action(trail[-1 if at is None else at]) + view.side
    return view


def _draw_now(view: Drawn, workspace: Workspace, session: Session) -> None:
    look = PageLook()
    try:
        seen = session.look(act=False)
        observation, look.hidden = seen.observation, seen.context.dropped_actions
        params, title = workspace.config.context, "What the actor reads now"
        view.side = _read(workspace, observation, seen.context, params, title)
        if doubts := unsure_parts(workspace.view, workspace.instruction):
            view.side += note(f"Not surely understood: {', '.join(doubts)}.", "warn")
    except Exception as error:  # the page can be shown, and acted on, without a context
        observation = session.observation
        view.problem, view.side = error, failed(error)
    earlier = [a for s in workspace.trail for a in s.result.observation.actions if takes_text(a)]
    accepts = workspace.view.actions.accepts
    look.forms = [a for a in dict.fromkeys(earlier) if accepts(fill(a, "words"), observation)]
    view.page = _page(workspace, observation, look)


def _draw_past(view: Drawn, workspace: Workspace, seen: Seen) -> None:
    result, action = seen.result, seen.result.decision.action
    look = PageLook(action, result.context.dropped_actions, is_live=False)
    is_unlisted = action not in result.observation.actions and target_of(action) != action
    look.forms = [action] if is_unlisted else []
    view.page = _page(workspace, result.observation, look, result.step)
    view.side = _read_at(workspace, seen)


def _draw_end(view: Drawn, workspace: Workspace, session: Session) -> None:
    values, last_page = session.values, session.observation
    cards = outcome_cards(last_page)
    what = next((str(card.get("title", "")) for card in cards), "")
    if why := unscored(last_page):
        reward = macros("episode").unscored(what, why)
    elif values["done"]:
        reward = macros("episode").reward(values["reward"], reward_parts(last_page))
    else:
        reward = macros("episode").unfinished()
    totals = [plural(values["steps"], "step"), f"{values['tokens']:,} tokens of context"]
    if values["model_tokens"]:
        totals.append(f"{values['model_tokens']:,} tokens by the model")
    page = _page(workspace, last_page, PageLook(is_live=False))
    view.page = reward + (macros("page").outcome(cards) if cards else page)
    view.side = macros("parts").muted(" · ".join(totals))
    if workspace.trail:
        view.side += _read_at(workspace, workspace.trail[-1])


def _read_at(workspace: Workspace, seen: Seen) -> Markup:
    """Draw what the actor read at a step that was taken."""
    result = seen.result
    title = f"What the actor read at step {result.step + 1}"
    return _read(workspace, result.observation, result.context, seen.context, title)


def _read(
    workspace: Workspace,
    observation: Observation,
    context: BuiltContext,
    params: ContextParams,
    title: str,
) -> Markup:
    """Draw what a context shows of a page."""
    chunks = workspace.view.chunks(observation)
    whole = in_words([*chunks, *workspace.past])
    title = f"{title}: {params.kind}"
    return render_context(context, params.budget, whole, title=title, names=titles_of(chunks))


def render_trail(
    trail: Sequence[Seen], looked_at: int | None = None, is_over: bool = False
) -> Markup:
    """Draw the steps taken as a strip of buttons; ``looked_at`` is the one shown (None: now)."""
    return macros("episode").trail(trail, looked_at, is_over) if trail else Markup("")


def render_pipeline(config: Config) -> Markup:
    """Draw an agent's nodes in order, each with its slot and its kind, to be clicked for settings."""
    is_plain = registry().hint("actor", config.actor.kind).startswith("no model")
    boxes = [
        ("observe", "env", config.env.kind),
        ("update_state", "updater", config.updater.kind),
        ("build_context", "context", f"{config.context.kind} · {config.context.budget}"),
        ("act", "actor", config.actor.kind + (" · no model" if is_plain else "")),
        ("write_memory", "memory", ", ".join(node.kind for node in config.memory) or "none"),
    ]
    return macros("frame").pipeline(boxes)


@dataclass
class PageLook:
    """How a page is drawn.

    ``action`` was taken here (it is ringed), ``hidden`` are the affordances that
    the model cannot see (dashed), ``is_live`` says whether one can act here, ``forms`` are actions in
    words beside those that the page lists, ``primary`` is the command that ends a task.
    """

    action: str | None = None
    hidden: Sequence[str] = ()
    is_live: bool = True
    forms: Sequence[str] = ()
    primary: str | None = None


@dataclass(frozen=True)
class _Part:
    """A chunk as the template draws it: ``texts`` are its fragments that are no commands, by role."""

    chunk: Chunk
    texts: Mapping[str, Sequence[str]]
    lead: str

    @property
    def heading(self) -> str:
        """A subject's title, without what kind of thing it is."""
        title = " ".join(self.texts.get("title", ())) or short(self.chunk.text, 200)
        kind, colon, name = title.partition(": ")
        return name if colon and len(kind) < 12 else title

    @property
    def offers(self) -> list[tuple[str, str]]:
        """The action and the value of each thing that can be chosen."""
        values = self.chunk.choice.values if self.chunk.choice is not None else ()
        return list(zip(self.chunk.actions, values, strict=False))


def _page(
    workspace: Workspace, observation: Observation, look: PageLook, step: int | None = None
) -> Markup:
    values = workspace.running.values
    task = {key: value for key, value in (values.get("episode") or {}).items() if key != "env"}
    number = (values["steps"] if step is None else step) + 1
    place = [f"{key} {short(value, 40)}" for key, value in task.items()]
    address = " / ".join([workspace.config.env.kind, *place, f"step {number}"])
    return render_page(workspace.view, observation, workspace.instruction, look, address)


def render_page(
    view: View, observation: Observation, instruction: str, look: PageLook, address: str = "page"
) -> Markup:
    """Draw a page as a browser at ``address`` would show it, the task's ``instruction`` above."""
    chunks = [chunk for chunk in view.chunks(observation) if chunk.role != "frame"]
    if any(chunk.role == "subject" for chunk in chunks):
        commands = [chunk for chunk in chunks if chunk.role == "commands" and chunk.actions]
        if len(commands) > 1:
            look.primary = commands[-1].actions[-1]
        first = [chunk.role in ("commands", "pinned") for chunk in chunks].index(False)
        chunks[first:] = sorted(chunks[first:], key=lambda chunk: _RANKS.get(chunk.role, 3))
    parts = [_Part(chunk, texts_of(chunk), lead_of(chunk)) for chunk in chunks]
    runs = [(role, list(run)) for role, run in itertools.groupby(parts, lambda p: p.chunk.role)]
    verbs = dict.fromkeys(map(verb_of, [*filter(takes_text, observation.actions), *look.forms]))
    return macros("page").page(look, address, instruction, verbs, runs)
