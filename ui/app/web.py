"""The Gradio app: composes the tabs, and serves them from this machine to this machine."""

import os
from collections.abc import Callable
from typing import Any

import gradio as gr
from starlette.middleware import Middleware

from stategate.graph.config import Config
from stategate.stores.errors import UserError
from stategate.ui.app.agents import Agents
from stategate.ui.app.conversation import Conversations
from stategate.ui.app.guard import Guard, bind
from stategate.ui.app.html import macros
from stategate.ui.app.tabs.common import QUIET, App, Updates, asset
from stategate.ui.app.tabs.compare import CompareTab
from stategate.ui.app.tabs.episode import EpisodeTab
from stategate.ui.app.tabs.memory import MemoryTab
from stategate.ui.app.tabs.qa import QaTab
from stategate.ui.app.tabs.runs import RunsTab
from stategate.ui.app.tabs.settings import SettingsTab
from stategate.ui.app.tabs.threads import ThreadsTab
from stategate.ui.app.workspace import Workspaces


def make_theme() -> Any:
    """Return the theme: fonts that ship with Gradio, so that none is fetched; the rest is CSS."""
    local = gr.themes.utils.fonts.LocalFont
    sans, mono = (local(f"IBM Plex {name}", weights=(400, 700)) for name in ("Sans", "Mono"))
    return gr.themes.Soft(
        primary_hue="indigo",
        secondary_hue="teal",
        neutral_hue="slate",
        font=[sans, "ui-sans-serif", "system-ui", "sans-serif"],
        font_mono=[mono, "ui-monospace", "monospace"],
        spacing_size=gr.themes.sizes.spacing_sm,
        text_size=gr.themes.sizes.text_sm,
    )


def make_app(config: Config, agents: Agents, messages: str = "") -> gr.Blocks:
    """Return the app for agents that start as ``config``; ``messages`` names a thread to open."""
    app = App(Workspaces(config, agents))
    talks = Conversations(agents, lambda tab: app.of(tab).config)
    with gr.Blocks(title="Stategate", analytics_enabled=False, fill_width=True) as blocks:
        app.tab = gr.Textbox(visible="hidden", elem_id="sg-tab", container=False)
        with gr.Row(elem_classes="sg-top"):
            gr.HTML(macros("frame").head(), scale=3, min_width=300)
            pipeline = gr.HTML(elem_id="sg-pipeline", scale=4, min_width=300)
        first = "threads" if messages else "compare"
        with gr.Tabs(selected=first, elem_id="sg-tabs") as places:
            with gr.Tab("Compare", id="compare") as compare_tab:
                compare = CompareTab(app)
            with gr.Tab("Episode", id="episode"):
                episode = EpisodeTab(app, pipeline)
            with gr.Tab("QA", id="qa") as tab:
                QaTab(app, talks).wire(tab)
            with gr.Tab("Memory", id="memory") as tab:
                MemoryTab(app, talks, agents).wire(tab)
            with gr.Tab("Threads", id="threads"):
                ThreadsTab(messages).wire(blocks)
            with gr.Tab("Runs", id="runs") as tab:
                RunsTab().wire(tab)
            with gr.Tab("Settings", id="settings") as tab:
                SettingsTab(app, episode.show, episode.outputs).wire(tab)

        def show_episode(workspace: Any) -> dict[Any, Any]:
            return {**episode.show(workspace), places: gr.Tabs(selected="episode")}

        compare.wire(compare_tab, show_episode, [*episode.outputs, places])

        async def open_page(tab: str) -> Updates:
            async for update in episode.load(tab):
                yield {app.tab: tab, **update}

        drawn = [app.tab, *episode.outputs]
        opened = blocks.load(open_page, [app.tab], drawn, js=asset("tab.js"), **QUIET)
        asked = [app.tab, compare.kinds, compare.budget]
        opened.then(compare.begin, asked, compare.outputs, **QUIET)
    return blocks  # type: ignore[no-any-return]


def serve(
    config: Config,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    auth: tuple[str, str] | Callable[[str, str], bool] | None = None,
    block: bool = True,
    messages: str = "",
) -> str:
    """Serve the app and return its address; ``block`` waits until it is interrupted.

    ``port`` None takes the first free one from 7860 on. Raises ``UserError`` if the port is taken.
    """
    # Nothing goes home, whatever a library's default is.
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("ANONYMIZED_TELEMETRY", "False")
    os.environ.setdefault("LANGSMITH_TRACING", "false")
    named = {**config.model_dump(mode="json"), "path": messages.partition("#")[0]}
    bind(host, has_accounts=auth is not None, config=named)
    agents = Agents(config)
    blocks = make_app(config, agents, messages)
    try:
        _, url, _ = blocks.queue(default_concurrency_limit=16).launch(
            server_name=host,
            server_port=port,
            auth=auth,
            ssr_mode=False,
            share=False,
            quiet=True,
            show_error=True,
            footer_links=[],
            prevent_thread_lock=True,
            theme=make_theme(),
            css=asset("style.css"),
            app_kwargs={"middleware": [Middleware(Guard)]},
            max_file_size="50mb",
        )
    except OSError as error:
        if port is not None and "empty port" in str(error):
            raise UserError(f"port {port} is taken or not allowed: choose another --port") from None
        where = f"port {port}" if port else "a port from 7860 on"
        problem = error.strerror or "none is free"
        raise UserError(f"cannot listen on {host}, {where} ({problem}): choose another") from None
    if block:
        blocks.block_thread()
    return str(url)
