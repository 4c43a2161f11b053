"""The Settings tab: the agent as YAML, with every installed kind and its parameters beside it."""

import gradio as gr
import yaml

from stategate.graph.config import Config, load_config
from stategate.nodes.protocols import SLOTS
from stategate.nodes.registry import registry
from stategate.stores.errors import UserError, user_error_context
from stategate.stores.files import read_yaml
from stategate.ui.app.guard import bounds
from stategate.ui.app.html import note, render
from stategate.ui.app.tabs import common
from stategate.ui.app.tabs.common import QUIET, App, Update, button, on_event, shown_on
from stategate.ui.app.tabs.episode import EpisodeTab
from stategate.ui.app.workspace import Workspace


class SettingsTab(common.AgentTab):
    """The tab's components and what they do."""

    def __init__(self, app: App, episode: EpisodeTab, opened: gr.Tab, places: gr.Tabs) -> None:
        self.app, self._episode, self._places = app, episode, places
        with gr.Row(elem_classes="sg-controls"):
            self.apply = button("Apply to this tab", "apply", 150, variant="primary")
        self.status = common.status_line("settings-status")
        if broken := registry().broken:
            lines = "; ".join(f"{name}: {why}" for name, why in broken.items())
            gr.HTML(note(lines, "warn", "Plug-ins that did not load."))
        with gr.Row(elem_classes="sg-stage"):
            with gr.Column(scale=6):
                self.text = gr.Code(
                    label="What fills each slot",
                    language="yaml",
                    elem_id="sg-yaml",
                    interactive=True,
                    lines=24,
                    max_lines=48,
                    buttons=["copy", "download"],
                )
            with gr.Column(scale=5):
                drawn = render("frame.kinds", SLOTS, registry(), "context")
                self.kinds = gr.HTML(drawn, elem_id="sg-kinds")
        self.base = gr.State("")
        tab, text = app.tab, [self.text, self.base, self.status]
        opened.select(self.show, [tab, self.base], text, **QUIET)
        turned = [places, self.kinds, *text]
        episode.pipeline.click(self.turn_to, [tab, self.base], turned, **QUIET)
        outputs = [*text, *episode.outputs]
        self.apply.click(self.use, [tab, self.text], outputs, **shown_on(self.status))

    @on_event
    def show(self, workspace: Workspace, base: str) -> Update:
        """Show the agent of the tab; edits stay while it is the same agent."""
        text = as_yaml(workspace.shown)
        return {} if text == base else {self.text: text, self.base: text}

    @on_event
    def use(self, workspace: Workspace, text: str) -> Update:
        """Give this agent to the episode or, where it answers questions, to the conversation."""
        written, shown = config_of(text, workspace.shown), workspace.shown
        world, given = written.env.kind, written.model_fields_set
        if world != shown.env.kind:  # what was not edited is as this world begins
            edited = {slot for slot in given if getattr(written, slot) != getattr(shown, slot)}
            given = edited | {"llm"}
        own = self.app.agents.of_world(world)
        config = own.model_copy(update={slot: getattr(written, slot) for slot in given})
        what = f"slots that you did not edit take {world}'s defaults" if config != written else ""
        bounds.require_config(config.model_dump(mode="json"))
        is_asking = config.env.kind == "qa"
        if is_asking:
            workspace.conversation.configure(config)
        else:
            workspace.configure(config)
        workspace.is_asking = is_asking
        who = "the QA tab answers" if is_asking else "this browser tab plays"
        applied = note(what, "warn" if what else "good", f"Applied: {who} with it from now on.")
        new = as_yaml(config)
        edit: Update = {self.text: new, self.base: new, self.status: applied}
        return {**self._episode.show(workspace), **edit}

    @on_event
    def turn_to(self, workspace: Workspace, base: str, event: gr.EventData) -> Update:
        """Open the settings of the node that was clicked in the flow line."""
        kinds = render("frame.kinds", SLOTS, registry(), common.chosen(event, "slot"))
        text = as_yaml(workspace.shown)
        edit: Update = {} if text == base else {self.text: text, self.base: text}
        return {self._places: gr.Tabs(selected="settings"), self.kinds: kinds, **edit}


def config_of(text: str, shown: Config | None = None) -> Config:
    """Return the config that a YAML text means. Raises ``UserError``.

    Where only the kind of a slot of ``shown`` was edited, the old kind's parameters go, as on the
    command line (a context keeps its budget).
    """
    with user_error_context("this is no YAML", kinds=yaml.YAMLError):
        values = read_yaml(text)
    if not isinstance(values, dict):
        raise UserError("write what fills each slot, such as 'actor: rule'")
    for slot, old in (shown.model_dump(mode="json") if shown else {}).items():
        new = values.get(slot)
        if isinstance(old, dict) and isinstance(new, dict) and new.get("kind") != old["kind"]:
            values[slot] = {k: v for k, v in new.items() if k == "budget" or v != old.get(k, ...)}
    return load_config(values)


def as_yaml(config: Config) -> str:
    """Return a config as YAML that ``load_config`` reads back."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
