"""The Settings tab: the agent as YAML, with every installed kind and its parameters beside it."""

from collections.abc import Callable, Mapping
from typing import Any

import gradio as gr
import yaml
from markupsafe import Markup

from stategate.graph.config import Config, load_config, presets
from stategate.nodes.protocols import SLOTS
from stategate.nodes.registry import Kind, registry
from stategate.stores.errors import UserError, user_error_context
from stategate.stores.files import read_yaml
from stategate.ui.app.guard import bounds
from stategate.ui.app.html import macros, note
from stategate.ui.app.tabs import common
from stategate.ui.app.tabs.common import QUIET, App, Update, button, telling
from stategate.ui.app.workspace import Workspace

#: Names the browser tab also where it is opened before the page has told its name.
NAMED_JS = "(tab, ...rest) => [tab || sessionStorage.getItem('stategate-tab') || '', ...rest]"


class SettingsTab(common.Tab):
    """The tab's components and what they do."""

    def __init__(
        self, app: App, shown_elsewhere: Callable[[Workspace], Mapping[Any, Any]], places: list[Any]
    ) -> None:
        self.app = app
        self._shown, self._places = shown_elsewhere, places
        with gr.Row(elem_classes="sg-controls"):
            label = "Start from a preset"
            self.preset = common.choice(label, "preset", 160, choices=presets(), scale=0)
            files: dict[str, Any] = {"file_types": [".yaml", ".yml"], "type": "filepath"}
            how: dict[str, Any] = {"size": "md", "scale": 0, "min_width": 120}
            self.upload = gr.UploadButton("Load YAML", elem_id="sg-load", **files, **how)
            self.save = button("Save as YAML", "save", 130)
            self.apply = button("Apply to this tab", "apply", 150, variant="primary")
        self.status = gr.HTML(elem_id="sg-settings-status")
        if broken := registry().broken:
            lines = "; ".join(f"{name}: {why}" for name, why in broken.items())
            gr.HTML(note(lines, "warn", "Plug-ins that did not load."))
        with gr.Row(elem_classes="sg-stage"):
            with common.column(6):
                size: dict[str, Any] = {"lines": 24, "max_lines": 48}
                label = "What fills each slot"
                self.text = gr.Textbox(
                    label=label, elem_id="sg-yaml", elem_classes="sg-yaml", **size
                )
            with common.column():
                gr.HTML(render_kinds(), elem_id="sg-kinds")
        self.base = gr.State("")
        self.file = gr.Textbox(visible="hidden")

    @telling
    def show(self, tab: str, base: str) -> Update:
        """Show the agent of the tab; edits stay while it is the same agent."""
        text = as_yaml(self.app.of(tab).config)
        return {self.status: ""} if text == base else {self.text: text, self.base: text}

    @telling
    def read(self, source: str | None) -> Update:
        """Show a preset or a YAML file."""
        loaded = note("Loaded: look it over, then Apply.", "info")
        return {self.text: as_yaml(load_config(source or "ui")), self.status: loaded}

    @telling
    def use(self, tab: str, text: str) -> Update:
        """Give the tab this agent; an episode of the same world begins again with it."""
        config = config_of(text)
        bounds.require_config(config.model_dump(mode="json"))
        workspace = self.app.of(tab)
        session = workspace.session
        task = dict(session.values.get("episode") or {}) if session is not None else {}
        workspace.configure(self.app.workspaces.graphs(config))
        if task.pop("env", None) == config.env.kind and task:
            workspace.start(task)
        applied = note("Applied: this browser tab plays with it from now on.", "good")
        return {**self._shown(workspace), self.status: applied}

    @telling
    def write(self, text: str) -> Update:
        """Hand the config to the browser as a file."""
        return {self.file: f"stategate.yaml\n{as_yaml(config_of(text))}", self.status: ""}

    def wire(self, opened: Any) -> None:
        """Connect; ``opened`` is the tab."""
        tab, text = self.app.tab, [self.text, self.base, self.status]
        opened.select(self.show, [tab, self.base], text, js=NAMED_JS, **QUIET)
        self.preset.input(self.read, [self.preset], text, **QUIET)
        self.upload.upload(self.read, [self.upload], text, **QUIET)
        self.apply.click(self.use, [tab, self.text], [self.status, *self._places], **QUIET)
        saved = self.save.click(self.write, [self.text], [self.file, self.status], **QUIET)
        saved.success(None, [self.file], None, js=common.asset("save.js"))


def render_kinds() -> Markup:
    """Draw what may fill each slot: a kind, what it does, who brought it, its parameters."""
    return macros("frame").kinds([(slot, _rows(registry().kinds(slot))) for slot in SLOTS])


def _rows(kinds: Mapping[str, Kind]) -> list[tuple[str, str, str, list[tuple[str, str]]]]:
    rows = []
    for name, kind in sorted(kinds.items()):
        fields = kind.cls.model_fields.items()
        meanings = [(key, field.description or "") for key, field in fields if key != "kind"]
        rows.append((name, kind.hint, kind.owner, meanings))
    return rows


def config_of(text: str) -> Config:
    """Return the config that a YAML text means. Raises ``UserError``."""
    with user_error_context("this is no YAML", kinds=yaml.YAMLError):
        values = read_yaml(text)
    if not isinstance(values, dict):
        raise UserError("write what fills each slot, such as 'actor: rule'")
    return load_config(values)


def as_yaml(config: Config) -> str:
    """Return a config as YAML that ``load_config`` reads back."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
