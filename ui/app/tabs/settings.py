"""The Settings tab: any kind in any slot, by forms from the kinds' fields; YAML in and out."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, get_args, get_origin

import gradio as gr
import yaml
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from stategate.graph.config import Config, load_config, presets
from stategate.nodes.protocols import SLOTS, Params
from stategate.nodes.registry import registry
from stategate.stores.errors import user_error_context
from stategate.stores.files import read_yaml
from stategate.ui.app.guard import bounds
from stategate.ui.app.html import macros, note
from stategate.ui.app.tabs import common
from stategate.ui.app.tabs.common import QUIET, SAVE_JS, App, Update, button, telling
from stategate.ui.app.workspace import Workspace

#: Names the browser tab also where it is opened before the page has told its name.
NAMED_JS = "(tab, ...rest) => [tab || sessionStorage.getItem('stategate-tab') || '', ...rest]"
_NOTHING = "(none)"

Draft = dict[str, Any]
#: Slot and kind of each form ("" for none).
Plan = list[tuple[str, str]]


class SettingsTab(common.Tab):
    """The tab's components and what they do. The draft is a config as plain values."""

    def __init__(
        self, app: App, shown_elsewhere: Callable[[Workspace], Mapping[Any, Any]], places: list[Any]
    ) -> None:
        self.app = app
        self._shown, self._places = shown_elsewhere, places
        with gr.Row(elem_classes="sg-controls"):
            label = "Start from a preset"
            self.preset = common.choice(label, "preset", 160, choices=presets(), scale=0)
            files: dict[str, Any] = {"file_types": [".yaml", ".yml"], "type": "filepath"}
            how: dict[str, Any] = {"size": "md", "scale": 0, "min_width": 120, **files}
            self.upload = gr.UploadButton("Load YAML", elem_id="sg-load", **how)
        self.status = gr.HTML(elem_id="sg-settings-status")
        self.draft = gr.State(None)
        self.base = gr.State(None)
        self.file = gr.Textbox(visible="hidden")
        if broken := registry().broken:
            lines = "; ".join(f"{name}: {why}" for name, why in broken.items())
            gr.HTML(note(lines, "warn", "Plug-ins that did not load."))
        gr.render(inputs=[self.draft], triggers=[self.draft.change])(self._forms)

    def _forms(self, draft: Draft | None) -> None:
        """Build the forms of ``draft``: a group a slot, a control a parameter."""
        if draft is None:
            return
        boxes: list[Any] = []  # every control, in the order in which `_gather` reads them
        plan: Plan = []
        swaps: list[tuple[Any, str, int]] = []
        writers = draft.get("memory") or ()
        places: list[tuple[str, int, Draft]] = [
            *((slot, -1, draft.get(slot) or {}) for slot in SLOTS if slot != "memory"),
            *(("memory", place, values) for place, values in enumerate(writers)),
            ("memory", len(writers), {}),
        ]
        with gr.Row(elem_classes="sg-forms"):
            for slot, place, values in places:
                with gr.Column(min_width=300), gr.Group(elem_classes="sg-form"):
                    kinds = offered(slot, draft, str(values.get("kind") or ""))
                    can_be_none = place >= 0 or slot == "llm"
                    choice = gr.Dropdown(
                        [_NOTHING, *kinds] if can_be_none else kinds,
                        value=values.get("kind", _NOTHING),
                        interactive=True,
                        label=f"memory {place + 1}" if place >= 0 else slot,
                        elem_id=f"sg-slot-{slot}-{place}" if place >= 0 else f"sg-slot-{slot}",
                    )
                    swaps.append((choice, slot, place))
                    plan.append((slot, str(values.get("kind", ""))))
                    boxes += _controls(slot, values)
            with gr.Column(min_width=300), gr.Group(elem_classes="sg-form"):
                steps: dict[str, Any] = {"precision": 0, "interactive": True}
                limit = gr.Number(draft.get("max_steps", 20), label="max_steps", **steps)
        with gr.Row(elem_classes="sg-controls"):
            apply = button("Apply to this tab", "apply", 150, variant="primary")
            save = button("Save as YAML", "save", 130)
        now = [limit, *boxes]
        for choice, slot, place in swaps:
            swap = partial(self._swap, draft, plan, (slot, place))
            choice.input(swap, [choice, *now], [self.draft, self.status], **QUIET)
        use, write = partial(self._use, draft, plan), partial(self._write, draft, plan)
        apply.click(use, [self.app.tab, *now], [self.status, *self._places], **QUIET)
        saved = save.click(write, now, [self.file, self.status], **QUIET)
        saved.success(None, [self.file], None, js=SAVE_JS)

    @telling
    def _swap(
        self, draft: Draft, plan: Plan, at: tuple[str, int], kind: str | None, *raw: Any
    ) -> Update:
        return {self.draft: swapped(_gather(draft, plan, raw), *at, kind), self.status: ""}

    @telling
    def _use(self, draft: Draft, plan: Plan, tab: str, *raw: Any) -> Update:
        """Give the tab this agent; an episode of the same world begins again with it."""
        config = load_config(_gather(draft, plan, raw))
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
    def _write(self, draft: Draft, plan: Plan, *raw: Any) -> Update:
        text = as_yaml(load_config(_gather(draft, plan, raw)))
        return {self.file: f"stategate.yaml\n{text}", self.status: ""}

    @telling
    def show(self, tab: str, draft: Draft | None, base: Draft | None) -> Update:
        """Fill the forms with the agent of the tab; edits stay while it is the same agent."""
        values = self.app.of(tab).config.model_dump(mode="json")
        if draft is not None and values == base:
            return {self.status: ""}
        return {self.draft: values, self.base: values, self.status: ""}

    @telling
    def read(self, source: str | None) -> Update:
        """Fill the forms from a preset or a YAML file."""
        if not source:
            return {self.status: ""}
        loaded = note("Loaded: look it over, then Apply.", "info")
        return {self.draft: load_config(source).model_dump(mode="json"), self.status: loaded}

    def wire(self, opened: Any) -> None:
        """Connect; ``opened`` is the tab."""
        inputs = [self.app.tab, self.draft, self.base]
        opened.select(self.show, inputs, [self.draft, self.base, self.status], js=NAMED_JS, **QUIET)
        self.preset.input(self.read, [self.preset], [self.draft, self.status], **QUIET)
        self.upload.upload(self.read, [self.upload], [self.draft, self.status], **QUIET)


def offered(slot: str, draft: Draft, now: str) -> list[str]:
    """Return the kinds of a slot that are worth offering in the draft's world, and today's."""
    env: Any = registry().parse("env", draft["env"]) if slot != "env" else None
    return sorted({*registry().fitting(slot, env)} | ({now} & registry().kinds(slot).keys()))


def swapped(draft: Draft, slot: str, place: int, kind: str | None) -> Draft:
    """Return the draft with another kind in a slot; a context keeps its budget.

    A list that was left without a choice (None) changes nothing.
    """
    if not kind:
        return draft
    if slot == "memory":
        old = list(draft.get(slot) or ())
        new = [] if kind == _NOTHING else [{"kind": kind}]
        return {**draft, slot: [*old[:place], *new, *old[place + 1 :]]}
    before = draft.get(slot) or {}
    kept = {"budget": before["budget"]} if slot == "context" and "budget" in before else {}
    return {**draft, slot: None if kind == _NOTHING else {"kind": kind, **kept}}


def as_yaml(config: Config) -> str:
    """Return a config as YAML that ``load_config`` reads back."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def fields_of(kind: type[Params]) -> dict[str, FieldInfo]:
    """Return the parameters of ``kind`` by name, in order."""
    return {name: field for name, field in kind.model_fields.items() if name != "kind"}


def shown(field: FieldInfo, value: Any) -> Any:
    """Return ``value`` as its control shows it: a box to tick, a choice, or text (YAML)."""
    if field.annotation is bool or _is_choice(field):
        return value
    if value is None or isinstance(value, str):
        return value or ""
    return yaml.safe_dump(value, default_flow_style=True).removesuffix("...\n").strip()


def values_of(fields: Mapping[str, FieldInfo], raw: Sequence[Any]) -> dict[str, Any]:
    """Return the parameters that a form's values mean. Raises ``UserError``.

    What is left empty is None where that is allowed, and else keeps its default.
    """
    values: dict[str, Any] = {}
    for (name, field), value in zip(fields.items(), raw, strict=True):
        kind = field.annotation
        if value is None or value == "":
            if type(None) in get_args(kind):
                values[name] = None
            elif kind is str:
                values[name] = ""
        elif kind in (str, str | None) or _is_choice(field) or not isinstance(value, str):
            values[name] = value
        else:
            with user_error_context(f"{name}: this is no YAML", kinds=yaml.YAMLError):
                values[name] = read_yaml(value)
    return values


def _is_choice(field: FieldInfo) -> bool:
    return get_origin(field.annotation) is Literal


def _gather(draft: Draft, plan: Plan, raw: Sequence[Any]) -> Draft:
    """Return the draft as the forms stand: ``raw`` are the step limit and every control's value."""
    limit, *values = raw
    after: Draft = {**draft, "memory": [], "max_steps": int(limit or 0)}
    for slot, name in plan:
        kind = registry().kinds(slot).get(name)
        fields = fields_of(kind.cls) if kind is not None else {}
        own, values = values[: len(fields)], values[len(fields) :]
        item = {"kind": name, **values_of(fields, own)} if name else None
        if slot == "memory":
            after[slot] += [item] if item else []
        else:
            after[slot] = item
    return after


def _controls(slot: str, values: Mapping[str, Any]) -> list[Any]:
    """Draw what a kind does, and return the Gradio controls of its parameters."""
    kind = registry().kinds(slot).get(values.get("kind", ""))
    if kind is None:
        return []
    about = (kind.cls.__doc__ or "").strip().split("\n\n")[0].replace("``", "")
    gr.HTML(macros("frame").kind(" ".join(about.split()), kind.owner))
    return [
        _control(slot, name, field, values.get(name)) for name, field in fields_of(kind.cls).items()
    ]


def _control(slot: str, name: str, field: FieldInfo, value: Any) -> Any:
    about: dict[str, Any] = {
        "label": name + (" (required)" if field.is_required() else ""),
        "info": field.description or None,
        "elem_id": f"sg-field-{slot}-{name}",
        "interactive": True,
    }
    if value is None and not field.is_required():
        value = to_jsonable_python(field.get_default(call_default_factory=True))
    now = shown(field, value)
    if field.annotation is bool:
        return gr.Checkbox(value=now, **about)
    if _is_choice(field):
        return gr.Dropdown(list(get_args(field.annotation)), value=now, **about)
    # Bounds and types are the model's to check: its message names the parameter.
    return gr.Textbox(now, lines=1, max_lines=6, **about)
