"""The Gradio app: composes the tabs, and serves them from this machine to this machine."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from hmac import compare_digest
from typing import Any

import gradio as gr
from starlette.middleware import Middleware

from stategate.graph.config import Config
from stategate.stores.errors import UserError
from stategate.ui.app.agents import Agents
from stategate.ui.app.guard import bind, guard
from stategate.ui.app.html import render
from stategate.ui.app.tabs.common import QUIET, App, asset, clickable_html
from stategate.ui.app.tabs.compare import CompareTab
from stategate.ui.app.tabs.episode import EpisodeTab
from stategate.ui.app.tabs.episode_view import render_pipeline
from stategate.ui.app.tabs.memory import MemoryTab
from stategate.ui.app.tabs.qa import QaTab
from stategate.ui.app.tabs.runs import RunsTab
from stategate.ui.app.tabs.settings import SettingsTab
from stategate.ui.app.tabs.threads import ThreadsTab

#: Seconds that a wrong password takes.
SLOWED = 2.0
#: Seconds between two looks for uploads that are too old, and their age: a day.
UPLOADS = (3600, 86_400)


def make_theme() -> gr.themes.Base:
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


def make_app(agents: Agents) -> gr.Blocks:
    """Return the app for agents."""
    app = App(agents)
    blocks = gr.Blocks(
        title="Stategate", analytics_enabled=False, fill_width=True, delete_cache=UPLOADS
    )
    with blocks:
        app.tab = gr.Textbox(visible="hidden", elem_id="sg-tab", container=False)
        with gr.Row(elem_classes="sg-top"):
            gr.HTML(render("frame.head"), elem_id="sg-title")
            pipeline = clickable_html("pipeline")
        with gr.Tabs(elem_id="sg-tabs") as places:
            with gr.Tab("Compare", id="compare") as compare_tab:
                compare = CompareTab(app)
            with gr.Tab("Episode", id="episode"):
                episode = EpisodeTab(app, pipeline)
            with gr.Tab("QA", id="qa") as tab:
                QaTab(app, pipeline, tab)
            with gr.Tab("Memory", id="memory") as tab:
                MemoryTab(agents, tab)
            with gr.Tab("Threads", id="threads"):
                ThreadsTab()
            with gr.Tab("Runs", id="runs") as tab:
                RunsTab(tab)
            with gr.Tab("Settings", id="settings") as tab:
                SettingsTab(app, episode, tab, places)
        compare.wire(compare_tab, episode, places)

        def nodes_of(tab: str, chosen: gr.SelectData) -> Any:
            if not tab:  # the page is loading
                return gr.skip()
            workspace = app.of(tab)
            if chosen.value in ("Compare", "Episode", "QA"):  # the other tabs play no agent
                workspace.is_asking = chosen.value == "QA"
            return render_pipeline(workspace.shown)

        places.select(nodes_of, [app.tab], [pipeline], **QUIET)

        opened = blocks.load(lambda tab: tab, [app.tab], [app.tab], js=asset("tab.js"), **QUIET)
        loaded = opened.then(episode.load, [app.tab], episode.outputs, **QUIET)
        inputs = [app.tab, compare.kinds, compare.budget]
        loaded.then(compare.begin, inputs, compare.outputs, **QUIET)
    return blocks


def login_of(user: str, password: str) -> Callable[[str, str], Awaitable[bool]]:
    """Return the check of one name and password; a wrong guess waits for :data:`SLOWED` seconds."""

    async def is_right(name: str, guess: str) -> bool:
        right, guess_pair = f"{user}\0{password}", f"{name}\0{guess}"
        if compare_digest(right.encode(), guess_pair.encode()):
            return True
        await asyncio.sleep(SLOWED)  # others are answered meanwhile
        return False

    return is_right


def serve(
    config: Config,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    auth: tuple[str, str] | None = None,
) -> str:
    """Serve the app beside this thread and return its address.

    ``port`` None takes the first free one from 7860 on. Raises ``UserError`` if the port is taken.
    """
    # Nothing goes home, whatever a library's default is.
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("ANONYMIZED_TELEMETRY", "False")
    os.environ.setdefault("LANGSMITH_TRACING", "false")
    bind(host, has_accounts=auth is not None, config=config.model_dump(mode="json"))
    blocks = make_app(Agents(config))
    try:
        _, url, _ = blocks.queue(default_concurrency_limit=16).launch(
            server_name=host,
            server_port=port,
            auth=login_of(*auth) if auth else None,
            ssr_mode=False,
            share=False,
            quiet=True,
            show_error=True,
            footer_links=[],
            prevent_thread_lock=True,
            theme=make_theme(),
            css=asset("style.css"),
            app_kwargs={"middleware": [Middleware(guard)]},
            max_file_size="50mb",
            max_threads=64,  # a model that hangs holds one until its deadline
        )
    except OSError as error:
        where = f"port {port}" if port else "a port from 7860 on"
        why = error.strerror or "taken or not allowed"
        raise UserError(f"cannot listen on {host}, {where} ({why}): choose another") from None
    return str(url)
