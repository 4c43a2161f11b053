"""The Settings tab: any kind in any slot, its parameters as YAML; whole configs in and out."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import gradio as gr
import yaml
from markupsafe import Markup

from stategate.graph.config import Config, load_config, presets
from stategate.nodes.protocols import SLOTS
from stategate.nodes.registry import registry
from stategate.stores.errors import UserError, user_error_context
from stategate.stores.files import read_yaml
from stategate.ui.app.guard import bounds
from stategate.ui.app.html import join, macros, note
from stategate.ui.app.tabs import common
from stategate.ui.app.tabs.common import QUIET, App, Update, button, telling
from stategate.ui.app.workspace import Workspace

#: Names the browser tab also where it is opened before the page has told its name.
NAMED_JS = "(tab, ...rest) => [tab || sessionStorage.getItem('stategate-tab') || '', ...rest]"
_NOTHING = "(none)"
#: The slot that holds any number of nodes.
MEMORY = "memory"

Values = dict[str, Any]


class SettingsTab(common.Tab):
    """The tab's components and what they do: a kind, what it does, and its parameters a slot."""

    def __init__(
        self, app: App, shown_elsewhere: Callable[[Workspace], Mapping[Any, Any]], places: list[Any]
    ) -> None:
        self.app = app
        self._shown, self._places = shown_elsewhere, places
        with gr.Row(elem_classes="sg-controls"):
            label = "Start from a preset"
            self.preset = common.choice(label, "preset", 160, choices=presets(), scale=0)
            how: dict[str, Any] = {"size": "md", "scale": 0, "min_width": 120}
            files: dict[str, Any] = {"file_types": [".yaml", ".yml"], "type": "filepath"}
            self.upload = gr.UploadButton("Load YAML", elem_id="sg-load", **files, **how)
            self.save = button("Save as YAML", "save", 130)
            self.apply = button("Apply to this tab", "apply", 150, variant="primary")
        self.status = gr.HTML(elem_id="sg-settings-status")
        self.base = gr.State(None)
        self.file = gr.Textbox(visible="hidden")
        if broken := registry().broken:
            lines = "; ".join(f"{name}: {why}" for name, why in broken.items())
            gr.HTML(note(lines, "warn", "Plug-ins that did not load."))
        self.kinds, self.abouts, self.texts = {}, {}, {}
        with gr.Row(elem_classes="sg-forms"):
            for slot in SLOTS:
                with gr.Column(min_width=300), gr.Group(elem_classes="sg-form"):
                    if slot != MEMORY:
                        self.kinds[slot] = common.choice(slot, f"slot-{slot}")
                    self.abouts[slot] = gr.HTML()
                    how = {"lines": 2, "max_lines": 20, "elem_classes": "sg-yaml"}
                    label = "memory: a list of writers" if slot == MEMORY else "parameters"
                    self.texts[slot] = gr.Textbox(label=label, elem_id=f"sg-yaml-{slot}", **how)
            with gr.Column(min_width=300), gr.Group(elem_classes="sg-form"):
                self.limit = gr.Number(20, label="max_steps", precision=0)
        self.boxes = [self.base, self.limit, *self.kinds.values(), *self.texts.values()]
        self.outputs = [*self.boxes, *self.abouts.values(), self.status]

    @telling
    def show(self, tab: str, base: Values | None) -> Update:
        """Fill the boxes with the agent of the tab; edits stay while it is the same agent."""
        values = self.app.of(tab).config.model_dump(mode="json")
        return {self.status: ""} if values == base else self._filled(values)

    @telling
    def read(self, source: str | None) -> Update:
        """Fill the boxes from a preset or a YAML file."""
        if not source:
            return {self.status: ""}
        filled = self._filled(load_config(source).model_dump(mode="json"))
        return {**filled, self.status: note("Loaded: look it over, then Apply.", "info")}

    def _filled(self, values: Values) -> Update:
        update: Update = {self.base: values, self.limit: values["max_steps"], self.status: ""}
        for slot in SLOTS:
            update[self.texts[slot]] = as_text(values[slot])
            update[self.abouts[slot]] = about(slot, [item["kind"] for item in values[MEMORY]])
            if slot != MEMORY:
                kind = (values[slot] or {}).get("kind", _NOTHING)
                offered = offered_kinds(slot, values["env"]["kind"], kind)
                update[self.kinds[slot]] = gr.update(choices=offered, value=kind)
                update[self.abouts[slot]] = about(slot, [kind])
        return update

    def swap(self, kind: str, base: Values | None, *, slot: str) -> Update:
        """Empty a slot's box for another kind: its defaults hold. A context keeps its budget."""
        budget = ((base or {}).get("context") or {}).get("budget")
        text = f"budget: {budget}\n" if slot == "context" and budget else ""
        update: Update = {self.abouts[slot]: about(slot, [kind]), self.texts[slot]: text}
        if slot == "env":  # what does not fit the new world is no longer offered
            for other in ("context", "actor"):
                update[self.kinds[other]] = gr.update(choices=offered_kinds(other, kind, ""))
        return update

    def gathered(self, base: Values | None, limit: float, *boxes: str) -> Config:
        """Return the config that the boxes mean. Raises ``UserError``."""
        values: Values = {**(base or {}), "max_steps": int(limit or 0)}
        texts = boxes[len(self.kinds) :]
        for slot, text in zip(SLOTS, texts, strict=True):
            values[slot] = read_text(slot, text)
        for slot, kind in zip(self.kinds, boxes, strict=False):
            values[slot] = None if kind == _NOTHING else {**values[slot], "kind": kind}
        return load_config(values)

    @telling
    def use(self, tab: str, *boxes: Any) -> Update:
        """Give the tab this agent; an episode of the same world begins again with it."""
        config = self.gathered(*boxes)
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
    def write(self, *boxes: Any) -> Update:
        """Hand the config to the browser as a file."""
        text = as_yaml(self.gathered(*boxes))
        return {self.file: f"stategate.yaml\n{text}", self.status: ""}

    def wire(self, opened: Any) -> None:
        """Connect; ``opened`` is the tab."""
        inputs = [self.app.tab, self.base]
        opened.select(self.show, inputs, self.outputs, js=NAMED_JS, **QUIET)
        self.preset.input(self.read, [self.preset], self.outputs, **QUIET)
        self.upload.upload(self.read, [self.upload], self.outputs, **QUIET)
        for slot, kind in self.kinds.items():
            swap = partial(self.swap, slot=slot)
            kind.input(swap, [kind, self.base], self.outputs, **QUIET)
        shown = [self.status, *self._places]
        self.apply.click(self.use, [self.app.tab, *self.boxes], shown, **QUIET)
        saved = self.save.click(self.write, self.boxes, [self.file, self.status], **QUIET)
        saved.success(None, [self.file], None, js=common.asset("save.js"))


def offered_kinds(slot: str, env: str, now: str) -> list[str]:
    """Return the kinds of a slot that are worth offering in a world, and today's."""
    world: Any = registry().parse("env", {"kind": env}) if slot != "env" else None
    kinds = {*registry().fitting(slot, world)} | ({now} & registry().kinds(slot).keys())
    return [_NOTHING, *sorted(kinds)] if slot == "llm" else sorted(kinds)


def about(slot: str, names: list[str]) -> Markup:
    """Draw what kinds do, who brought them, and what their parameters mean."""
    drawn = []
    for kind in (registry().kinds(slot)[n] for n in names if n in registry().kinds(slot)):
        first = (kind.cls.__doc__ or "").strip().split("\n\n")[0].replace("``", "")
        fields = kind.cls.model_fields.items()
        meanings = [(name, field.description or "") for name, field in fields if name != "kind"]
        drawn.append(macros("frame").kind(" ".join(first.split()), kind.owner, meanings))
    return join(*drawn)


def as_text(params: Any) -> str:
    """Return a slot's parameters as YAML; the kind of a single node has a box of its own."""
    if isinstance(params, dict):
        params = {name: value for name, value in params.items() if name != "kind"}
    return yaml.safe_dump(params, sort_keys=False, allow_unicode=True) if params else ""


def read_text(slot: str, text: str) -> Any:
    """Return the parameters that a slot's YAML means. Raises ``UserError``."""
    with user_error_context(f"{slot}: this is no YAML", kinds=yaml.YAMLError):
        params = read_yaml(text) if text.strip() else None
    empty: Any = [] if slot == MEMORY else {}
    if not isinstance(params or empty, type(empty)):
        raise UserError(f"{slot}: write parameters, such as 'budget: 300'")
    return params or empty


def as_yaml(config: Config) -> str:
    """Return a config as YAML that ``load_config`` reads back."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
