"""A picture of one episode: what each builder remembered of it, and when that mattered.

    stategate eval picture --task 6 --agents full,window --out episode.png

One actor plays the task once, on the first agent's contexts; the others are shown the same moments. A
column is a decision, a row an earlier step; the darker a cell, the more of the step's line the agent
shows there. Framed cells are what the decision needed: without them the actor would do something else
(``nodes.build_context.needed``).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from stategate.evals.worlds.live import chosen_tasks
from stategate.graph.build import build_graph
from stategate.graph.config import load_config
from stategate.nodes.build_context.needed import needed
from stategate.nodes.protocols import BuiltContext, ContextRequest, Decision, StepRecord
from stategate.nodes.retrieval.page import PageSource
from stategate.nodes.retrieval.past import candidates
from stategate.stores.errors import UserError
from stategate.stores.plots import new_plot, save_plot
from stategate.stores.text import one_line
from stategate.stores.traces import Event

#: Of an agent: (row of the earlier step, column of the decision) to the share of its line shown.
Shown = dict[tuple[int, int], float]
_LABEL = 60  # characters of a step's label


def draw_episode(
    config: str | Mapping[str, Any],
    agents: Mapping[str, Sequence[str]],
    task: int,
    out: str,
    overrides: Sequence[str] = (),
) -> dict[str, Any]:
    """Play task number ``task`` and write the picture ``out`` (PNG); return what it shows, as data."""
    configs = {name: load_config(config, [*overrides, *own]) for name, own in agents.items()}
    if not configs:
        raise UserError("name at least one agent")
    bound = {n: build_graph(c, checkpointer=False).agent.bound() for n, c in configs.items()}  # type: ignore[attr-defined]
    first = next(iter(bound))
    world, settled = bound[first].world, configs[first]
    resources = bound[first].resources
    actor, view = resources.get(settled.actor), resources.view
    remember = next(m for m in settled.memory if m.kind == "short_term").build(resources)
    session, page = world.reset(dict(chosen_tasks(world, [task])[task]))
    asked = world.instruction(session)
    states: dict[str, Any] = {}
    shown: dict[str, Shown] = {name: {} for name in bound}
    needs: set[tuple[int, int]] = set()
    labels: list[str] = []
    events: tuple[Event, ...] = ()
    last: str | None = None
    tokens: dict[str, list[int]] = {name: [] for name in bound}
    for step in range(settled.max_steps):
        source = candidates(
            PageSource(view, page, lambda: resources.embedder),
            events,
            "world",
            view,
            lambda: resources.embedder,
        )
        past = [chunk for chunk in source.all() if chunk.role == "past"]
        labels += [one_line(chunk.text)[:_LABEL] for chunk in past[len(labels) :]]
        contexts: dict[str, BuiltContext] = {}
        for name, one in bound.items():
            updater = one.resources.updater
            if updater is not None:
                seen = [] if last is None else [Event("ACT", last, step - 1, asked)]
                seen.append(Event("OBS", page.text, step, asked))
                state = states.get(name)
                states[name] = updater.update(updater.initial() if state is None else state, seen)
            request = ContextRequest(
                asked, page, source, events, configs[name].context.budget, states.get(name), view
            )
            contexts[name] = one.resources.get(configs[name].context)(request)
            tokens[name].append(contexts[name].tokens)
            sizes = {p.id: (p.tokens_before, p.tokens_after) for p in contexts[name].pieces}
            for row, chunk in enumerate(past):
                before, after = sizes.get(chunk.id, (1, 0))
                shown[name][row, step] = min(after / max(before, 1), 1.0)
            if name == first:
                found = needed(actor, request, step)
                needs |= {(row, step) for row, label in enumerate(found) if label > 0}
        action = actor(contexts[first], step).action
        session, outcome = world.step(session, action)
        record = StepRecord(
            "picture", "picture", step, {}, asked, page, None, Decision(action), outcome, events
        )
        events = tuple(remember(record) or ())
        last, page = action, outcome
        if outcome.done:
            break
    _draw(out, asked, labels, shown, needs, tokens)
    kept = {name: sum(cells.get(cell, 0.0) > 0 for cell in needs) for name, cells in shown.items()}
    rows = [
        {
            "agent": name,
            "n": 1,
            "steps": len(tokens[name]),
            "needed": len(needs),
            "needed_shown": kept[name],
            "tokens_per_step": sum(tokens[name]) / len(tokens[name]),
        }
        for name in shown
    ]
    return {"rows": rows, "instruction": asked, "steps": labels}


def _draw(
    out: str,
    asked: str,
    labels: Sequence[str],
    shown: Mapping[str, Shown],
    needs: set[tuple[int, int]],
    tokens: Mapping[str, Sequence[int]],
) -> None:
    import numpy as np

    columns = max(len(sizes) for sizes in tokens.values())
    size = (4.2 + 2.4 * len(shown), 1.2 + 0.24 * len(labels))
    figure, axes = new_plot(1, len(shown), figsize=size, layout="constrained")
    from matplotlib.patches import Rectangle

    axes = np.atleast_1d(axes)
    for number, (axis, (name, cells)) in enumerate(zip(axes, shown.items(), strict=True)):
        grid = np.full((len(labels), columns), np.nan)
        for (row, column), share in cells.items():
            grid[row, column] = share
        axis.imshow(grid, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        for row, column in needs:
            kept = cells.get((row, column), 0.0) > 0
            axis.add_patch(
                Rectangle(
                    (column - 0.5, row - 0.5),
                    1,
                    1,
                    fill=False,
                    lw=1.6,
                    edgecolor="tab:green" if kept else "tab:red",
                )
            )
        mean = sum(tokens[name]) / len(tokens[name])
        axis.set_title(f"{name}\n{mean:.0f} tokens a step", fontsize=9)
        axis.set_xlabel("decision", fontsize=8)
        axis.tick_params(labelsize=7)
        axis.set_yticks(range(len(labels)), [] if number else labels, fontsize=7)
    figure.suptitle(
        f"{asked}  (framed: what the decision needed; red: it is not shown)", fontsize=9
    )
    save_plot(figure, out)
