"""``stategate run``: one episode with a transcript."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Literal

from pydantic import model_validator
from rich.console import Console
from rich.text import Text

from stategate.envs.protocols import Observation, View
from stategate.evals.worlds import task_at
from stategate.graph.build import build_graph
from stategate.graph.config import Config, load_config
from stategate.graph.session import Session
from stategate.graph.state import to_plain
from stategate.nodes.protocols import BuiltContext, StepRecord
from stategate.nodes.retrieval.align import is_understood, unsure_parts
from stategate.nodes.retrieval.page import describe
from stategate.stores.errors import UserError
from stategate.stores.files import read_pair
from stategate.stores.home import new_thread, this_user
from stategate.stores.settings import JsonFile, Overrides, Settings, argument, option
from stategate.stores.text import plural
from stategate.ui.actions import costs_of, figure, label, outcome_of, short
from stategate.ui.cli import output
from stategate.ui.cli.ask import load_model
from stategate.ui.cli.settings_command import command

_PAGE_LINES = 5  # of a page that a transcript shows
_CIRCLE = 8  # steps without a new page that are called going in circles
_INDENT = 10  # columns of the names of a transcript's rows
#: Flags that exclude each other: the second is left out.
_APART = (("task", "goal"), ("resume", "say"), ("resume", "goal"), ("resume", "task"))


class RunSettings(Settings):
    """What ``stategate run`` plays, and what it shows and keeps."""

    config: str = argument("webshop-policy", "A preset (webshop, alfworld) or a YAML file.")
    goal: int | None = option(None, "Which of the world's tasks to play.", "--goal", "--game", ge=0)
    task: tuple[str, ...] = option((), "In the world's words; repeatable.", metavar="KEY=VALUE")
    say: str | None = option(None, "The task in your own words.", metavar="SENTENCE")
    overrides: Overrides = ()
    actor: str | None = option(None, "Who acts: chat, rule, your own kind, …")
    model: str | None = option(None, "The llm's model: default, small, a .gguf file, …")
    budget: int | None = option(None, "Tokens the built context may have.")
    max_steps: int | None = option(None, "Steps an episode may take.")
    show: Literal["page", "context"] = option("page", "What is shown of each step.")
    json_target: JsonFile = None
    thread: str | None = option(None, "Keep checkpoints, to resume it.", metavar="ID", min_length=1)
    resume: bool = option(False, "Go on with --thread's unfinished episode.")

    @model_validator(mode="after")
    def _fit_together(self) -> "RunSettings":
        flags = {name for name, value in self if value not in (None, False, ())}
        for name, other in _APART:
            if {name, other} <= flags:
                raise UserError(f"with --{name}, leave --{other} out")
        if self.resume and self.thread is None:
            raise UserError("--resume needs --thread")
        return self

    def load(self) -> Config:
        """Return the config; ``--set`` wins over shortcuts."""
        shortcuts = {
            "actor.kind": self.actor,
            "llm.model": self.model,
            "context.budget": self.budget,
            "max_steps": self.max_steps,
        }
        words = [f"{key}={value}" for key, value in shortcuts.items() if value is not None]
        return load_config(self.config, [*words, *self.overrides])


@command(
    "stategate run webshop --task goal=3 --show context --json episode.json",
    "stategate run webshop-policy --thread mine --resume",
    'stategate run alfworld --game 3 --say "Could you hold the paintbrush under the reading lamp?"',
)
def run(settings: RunSettings) -> None:
    """Play an episode and show it step by step; `stategate eval worlds` plays many."""
    config = settings.load()
    if config.actor.kind == "human":
        raise UserError(f"a person plays in the app: stategate ui --config {settings.config}")
    session = open_session(config, settings)
    out = output.console(quiet=settings.json_target == "-")
    transcript = Transcript(out, session, settings.show)
    steps: list[StepRecord] = []
    how = "--thread NAME can be resumed"
    if settings.thread is not None:
        how = f"go on with the same command and --thread '{settings.thread}' --resume"
    with output.stoppable(how):
        _ = session.observation  # the first page: a goal that does not exist fails here
        transcript.head()
        if settings.say is not None and settings.goal is None and not settings.task:
            out.print("the reward is for task 0, not for your words; --goal names another")
        if settings.model is not None and not config.actor.asks_model:
            line = f"--model: the actor {config.actor.kind} asks no model (--actor chat does)"
            output.say(line, "yellow", stderr=True)
        load_model(session)
        while not session.done:
            with output.waiting(f"step {session.values['steps'] + 1}"):
                steps.append(session.step())
            transcript.step(steps[-1])
    transcript.end(steps)
    if settings.json_target is not None:
        output.wrote(settings.json_target, episode_dict(session, steps))


def open_session(config: Config, settings: RunSettings) -> Session:
    """Return the session to play: a new episode, or the unfinished one of ``thread``.

    Raises ``UserError`` if there is nothing to resume, or nothing to look for, or if a new episode
    would bury an unfinished one.
    """

    def start(session: Session) -> Session:
        agent, said = session.agent, settings.say
        task: Mapping[str, Any] = dict(
            read_pair(pair, "--task KEY=VALUE") for pair in settings.task
        )
        if not task:
            task = task_at(agent.world.tasks(), settings.goal or 0)
        if said is not None and not is_understood(agent.resources.profile.view, said):
            raise UserError(f"not understood: '{said}' names nothing to look for")
        return session.start(task if said is None else {**task, "say": said})

    thread = settings.thread
    if thread is None:  # an id that no other run has keeps the traces of runs apart
        return start(Session(build_graph(config), new_thread("run"), user=this_user()))
    session = Session(build_graph(config.durable()), thread, user=this_user())
    is_unfinished = "session" in session.values and not session.done
    if not settings.resume:
        if is_unfinished:
            at = f"thread '{thread}' has an unfinished episode (step {session.values['steps']})"
            raise UserError(f"{at}: add --resume, or name another --thread")
        return start(session)
    if not is_unfinished:
        why = "its episode is over" if session.values else "there is no such thread"
        raise UserError(f"nothing to resume on thread '{thread}': {why}; leave --resume out")
    try:
        session.agent.world.observe(session.values["session"])
    except (KeyError, UserError):
        why = "was played with another config: name that CONFIG and its --set"
        raise UserError(f"thread '{thread}' {why}") from None
    return session


# The transcript ------------------------------------------------------------------------------------


def page_lines(view: View, observation: Observation, limit: int = _PAGE_LINES) -> list[str]:
    """Return a page's status and first lines; the last line counts the rest."""
    chunks = view.chunks(observation)
    texts = [line.text for line in view.status(observation, chunks)]
    texts += [describe(chunk) for chunk in chunks if chunk.role != "frame"]
    lines = [short(line, 68) for text in texts for line in text.splitlines() if line.strip()]
    if len(lines) <= limit:
        return lines
    return [*lines[: limit - 1], f"… and {plural(len(lines) - limit + 1, 'more line')}"]


def kept_line(context: BuiltContext, names: int = 6) -> str:
    """Say what a context kept: ``kept 14/20 chunks, 310 of 980 tokens; dropped: look, …``."""
    # A piece may be framed, and so longer than it was: what is kept is never more than there was.
    before = sum(max(piece.tokens_before, piece.tokens_after) for piece in context.pieces)
    visible = sum(1 for piece in context.pieces if piece.text)
    line = f"kept {visible}/{len(context.pieces)} chunks, "
    line += f"{context.tokens} of {max(before, context.tokens)} tokens"
    line += ", over the budget" if context.over_budget else ""
    gone = [label(action) for action in context.dropped_actions]
    listed = [*gone[:names], "…"] if len(gone) > names else gone
    return f"{line}; dropped: {', '.join(listed)}" if gone else line


class Transcript:
    """Prints an episode as it is played."""

    def __init__(
        self, out: Console, session: Session, show: Literal["page", "context"] = "page"
    ) -> None:
        self.out, self.session, self.show = out, session, show
        self.config, self.view = session.agent.config, session.agent.resources.profile.view

    def head(self) -> None:
        """Tell which agent plays what, and where a resumed episode goes on."""
        values, context = self.session.values, self.config.context
        task = values["episode"]
        instruction = self.session.agent.world.instruction(values["session"])
        facts = f" · context {context.kind} ({context.budget}) · actor {self.config.actor.kind}"
        if self.config.actor.asks_model and self.config.llm is not None:
            facts += f" · {self.config.llm.kind}"
        world = (str(task.get("env", self.config.env.kind)), "bold cyan")
        # Its world and its words stand elsewhere.
        named = ", ".join(f"{k} {v}" for k, v in task.items() if k not in ("env", "say"))
        self.out.print(Text.assemble(world, f"  {named}", (facts, "dim")))
        self.out.print(Text(instruction.strip(), "bold"))
        if values["steps"]:
            self.out.print(Text(f"goes on after step {values['steps']}", "yellow"))
        if doubts := unsure_parts(self.view, instruction):
            self.out.print(f"not surely understood: {'; '.join(doubts)}", markup=False)

    def step(self, result: StepRecord) -> None:
        """Print one step; its fallback says why the action is not the actor's own, or was in vain."""
        decision, context = result.decision, result.context
        rows = [("context", kept_line(context), "")]
        if self.show == "context":
            rows.insert(0, ("prompt", context.text.rstrip(), ""))
        else:
            rows.insert(0, ("page", "\n".join(page_lines(self.view, result.observation)), ""))
        for piece in context.pieces:
            if piece.kind == "experience" and piece.text:
                advice = piece.text.strip().removeprefix("Experience: ")
                rows.append(("advice", advice, "magenta"))
            elif piece.kind == "fallback":
                rows.append(("fallback", piece.id.removeprefix("fallback:"), "bold red"))
        rows.append(("action", decision.action, "bold green"))
        if decision.reason:
            rows.append(("thought", decision.reason, "italic"))
        if decision.fallback is not None:
            rows.append(("fallback", decision.fallback, "bold red"))
        took = [f"{result.seconds:.2f} s", *costs_of(decision)]
        rows.append(("took", ", ".join(took), "dim"))
        self._print(f"step {result.step + 1} of at most {self.config.max_steps}", rows)

    def end(self, steps: Sequence[StepRecord]) -> None:
        """Print the outcome on the last page, and the totals; say if ``steps`` went in circles."""
        values, last = self.session.values, self.session.observation
        reward, rows, outcome = values["reward"], [], outcome_of(last)
        if outcome["unscored"]:
            rows.append(("reward", f"none: {outcome['unscored']}", "yellow"))
        elif reward is not None:
            style = "bold green" if reward == 1.0 else "bold yellow" if reward else "bold red"
            parts = ", ".join(f"{p['name']} {figure(p['value'])}" for p in outcome["parts"])
            rows.append(("reward", f"{reward:.2f}" + (f"  ({parts})" if parts else ""), style))
        if not values["done"]:
            rows.append(("", "not finished: the step cap", "yellow"))
            pages = [step.observation.text for step in steps]
            newest = max(map(pages.index, pages), default=0)
            if len(pages) - newest > _CIRCLE:
                why = f"in circles: no page after step {steps[newest].step + 1} was new"
                rows.append(("", why, "yellow"))
        sums = [plural(values["steps"], "step"), f"{values['tokens']:,} tokens of context"]
        if values["model_tokens"]:
            sums.append(f"{values['model_tokens']:,} tokens by the model")
        if values["cost"]:
            sums.append(f"${values['cost']:.4f}")
        sums.append(f"{sum(step.seconds for step in steps):.1f} s")
        rows.append(("totals", ", ".join(sums), ""))
        if values["fallbacks"]:
            rows.append(("fallback", f"in {plural(values['fallbacks'], 'step')}", "bold red"))
        self._print("end", rows)

    def _print(self, title: str, rows: list[tuple[str, str, str]]) -> None:
        """Print a heading and ``(name, text, style)`` rows; texts hold brackets that are no markup."""
        output.heading(self.out, title)
        for name, text, style in rows:
            # No table: it would fill the lines of a log with blanks.
            folded = Text(text, style).wrap(self.out, self.out.width - _INDENT, overflow="fold")
            for number, line in enumerate(folded or [Text()]):
                margin = ("" if number else name).ljust(_INDENT)
                self.out.print(Text.assemble((margin, "dim"), line))


def episode_dict(session: Session, steps: Sequence[StepRecord]) -> dict[str, Any]:
    """Return the episode: task, steps, totals.

    ``steps`` are those that this process took; a resumed episode has earlier ones, which ``totals``
    count (except ``seconds``) and ``resumed_at`` names the number of.
    """
    values = session.values
    totals = ("done", "steps", "tokens", "model_tokens", "cost", "fallbacks")
    parts = ("step", "observation", "context", "decision", "outcome", "seconds")
    # What the messages say stands in the pieces.
    played = [asdict(replace(step, context=replace(step.context, messages=()))) for step in steps]
    return {
        "config": session.agent.config.model_dump(mode="json"),
        "thread_id": session.thread_id,
        "episode_id": values["episode_id"],
        "task": dict(values["episode"]),
        "instruction": session.agent.world.instruction(values["session"]),
        "resumed_at": steps[0].step if steps and steps[0].step else None,
        "steps": [
            {
                **{part: to_plain(step[part]) for part in parts},
                "reward": step["outcome"]["reward"],
                "done": step["outcome"]["done"],
            }
            for step in played
        ],
        "totals": {
            "reward": values["reward"],
            "reward_parts": to_plain((values.get("info") or {}).get("reward")),
            **{name: values[name] for name in totals},  # type: ignore[literal-required]
            "seconds": sum(step.seconds for step in steps),
        },
    }
