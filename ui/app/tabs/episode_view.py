"""What the Episode tab shows of a workspace: the world's page, what the model reads, the state.

A page is drawn by the roles of its chunks. Entries are cards, choices are chips, commands are buttons,
text is text. Whatever can be done carries ``data-action``; a form for a command that takes words
``data-verb``.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
from markupsafe import Markup
from pandas.io.formats.style import Styler

from stategate.envs.protocols import Chunk, Observation, View, takes_text, verb_of
from stategate.graph.config import Config
from stategate.graph.session import Session
from stategate.nodes.protocols import BuiltContext, ContextParams
from stategate.nodes.retrieval.align import parts_read, unsure_parts
from stategate.nodes.update_state import unpacked
from stategate.nodes.update_state.learned import StateUpdater
from stategate.stores.text import plural
from stategate.ui.actions import lead_of, outcome_of, texts_of, titles_of
from stategate.ui.app.context import in_words, shown_pieces
from stategate.ui.app.html import note, render, short
from stategate.ui.app.tabs.common import failed
from stategate.ui.app.workspace import Seen, Workspace


def draw(workspace: Workspace) -> tuple[Markup, Markup]:
    """Draw where the tab's episode stands, or the step that is looked at: its page, what is beside it.

    A move that is being made is waited for.
    """
    with workspace.turn:
        session, at, trail = workspace.session, workspace.looked_at, workspace.trail
        if session is None:
            hint = "Choose a task above, or write what you want done."
            return render("parts.empty", "No episode yet", hint), Markup()
        if at is not None:
            page, side = _draw_past(workspace, trail[at])
        elif session.done:
            page, side = _draw_end(workspace, session)
        else:
            page, side = _draw_now(workspace, session)
        if trail:
            side = render("episode.action", trail[-1 if at is None else at]) + side
    return page, side


def _draw_now(workspace: Workspace, session: Session) -> tuple[Markup, Markup]:
    hidden: Sequence[str] = ()
    try:
        seen = session.look(act=False)
        observation, hidden = seen.observation, seen.context.dropped_actions
        params, title = workspace.config.context, "What the actor reads now"
        side = reading_of(workspace)
        side += _read(workspace, observation, seen.context, params, title)
    except Exception as error:  # the page can be shown, and acted on, without a context
        observation, side = session.observation, failed(error)
    return render_page(workspace.view, observation, workspace.instruction, hidden=hidden), side


def reading_of(workspace: Workspace) -> Markup:
    """Draw how the task's words are read, and which of them are in doubt."""
    view, instruction = workspace.view, workspace.instruction
    parts = parts_read(view, instruction)
    drawn = note("; ".join(parts), lead="Understood") if parts else Markup()
    if doubts := unsure_parts(view, instruction):
        drawn += note(f"Not surely understood: {', '.join(doubts)}.", "warn")
    return drawn


def _draw_past(workspace: Workspace, seen: Seen) -> tuple[Markup, Markup]:
    page = render_page(
        workspace.view,
        seen.result.observation,
        workspace.instruction,
        taken=seen.result.decision.action,
        hidden=seen.result.context.dropped_actions,
        is_live=False,
    )
    return page, _read_at(workspace, seen)


def _draw_end(workspace: Workspace, session: Session) -> tuple[Markup, Markup]:
    values, last_page = session.values, session.observation
    outcome = outcome_of(last_page)
    cards = outcome["cards"]
    what = next((str(card.get("title", "")) for card in cards), "")
    if outcome["unscored"]:
        reward = render("episode.unscored", what, outcome["unscored"])
    elif values["done"]:
        reward = render("episode.reward", values["reward"], outcome["parts"])
    else:
        reward = render("episode.unfinished")
    totals = [plural(values["steps"], "step"), f"{values['tokens']:,} tokens of context"]
    if values["model_tokens"]:
        totals.append(f"{values['model_tokens']:,} tokens by the model")
    page = render_page(workspace.view, last_page, workspace.instruction, is_live=False)
    side = render("parts.muted", " · ".join(totals))
    if workspace.trail:
        side += _read_at(workspace, workspace.trail[-1])
    return reward + (render("page.outcome", cards) if cards else page), side


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
    pieces, title = shown_pieces(context, whole), f"{title}: {params.kind}"
    return render("context.context", title, context, params.budget, pieces, titles_of(chunks))


def foreseen(workspace: Workspace) -> Styler | None:
    """Return the table of the foreseen next actions in %: a row a class, a column a step taken.

    The larger a number, the darker its cell. None where no step was taken, or without a state model of
    this world.
    """
    steps = [seen.result for seen in workspace.trail]
    updater, actions = workspace.agent.resources.updater, workspace.view.actions
    if not steps or not isinstance(updater, StateUpdater):
        return None
    if not {*actions.classes} <= {*updater.classes}:  # a state model of another world
        return None
    packed = (moment.get("recurrent") for moment in workspace.running.moments())
    states = [state for state in map(unpacked, packed) if state is not None]
    columns = {
        f"{n} {actions.class_of(step.observation.text, step.decision.action)}": updater.predict(
            state
        )
        for n, (step, state) in enumerate(zip(steps, states, strict=False), 1)
    }
    table = pd.DataFrame(columns).mul(100).rename_axis("step").reset_index()
    return table.style.background_gradient("Purples", axis=None, vmin=0).format(precision=0)


def render_pipeline(config: Config) -> Markup:
    """Draw an agent's nodes in order, each with its slot and its kind, to be clicked for settings."""
    is_plain = config.actor.hint().startswith("no model")
    boxes = [
        ("observe", "env", config.env.kind),
        ("update_state", "updater", config.updater.kind),
        ("build_context", "context", f"{config.context.kind} · {config.context.budget}"),
        ("act", "actor", config.actor.kind + (" · no model" if is_plain else "")),
        ("write_memory", "memory", ", ".join(node.kind for node in config.memory) or "none"),
    ]
    return render("frame.pipeline", boxes)


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


def render_page(
    view: View,
    observation: Observation,
    instruction: str,
    *,
    taken: str | None = None,
    hidden: Sequence[str] = (),
    is_live: bool = True,
) -> Markup:
    """Draw a page, the task's ``instruction`` above.

    The action that was ``taken`` here is ringed, those that the model cannot see (``hidden``) are
    dashed; ``is_live`` says whether one can act here.
    """
    chunks = [chunk for chunk in view.chunks(observation) if chunk.role != "frame"]
    parts = [_Part(chunk, texts_of(chunk), lead_of(chunk)) for chunk in chunks]
    runs = [(role, list(run)) for role, run in itertools.groupby(parts, lambda p: p.chunk.role)]
    verbs = dict.fromkeys(map(verb_of, filter(takes_text, observation.actions)))
    how = {"action": taken, "hidden": hidden, "is_live": is_live}
    return render("page.page", how, instruction, verbs, runs)
