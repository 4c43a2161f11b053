"""The Gradio app: composes the tabs, and serves them from this machine to this machine."""

import os
import threading
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any

import gradio as gr
from starlette.middleware import Middleware

from stategate.graph.config import Config
from stategate.stores.errors import UserError
from stategate.stores.home import home
from stategate.ui.app.agents import Agents
from stategate.ui.app.conversation import Conversations
from stategate.ui.app.guard import Guard, bound_to, owner_of
from stategate.ui.app.guide import ADDRESS, FIRST, guide_routes, has_guide
from stategate.ui.app.render.html import macros
from stategate.ui.app.tab_sessions import TabSessions, beside
from stategate.ui.app.tabs.common import QUIET, App, asset
from stategate.ui.app.tabs.compare import CompareTab
from stategate.ui.app.tabs.episode import EpisodeTab
from stategate.ui.app.tabs.memory import MemoryTab
from stategate.ui.app.tabs.messages import MessagesTab
from stategate.ui.app.tabs.qa import QaTab
from stategate.ui.app.tabs.runs import RunsTab
from stategate.ui.app.tabs.settings import SettingsTab
from stategate.ui.app.tabs.state import StateTab
from stategate.ui.app.workspace import Workspaces

#: The browser itself refuses to fetch anything from elsewhere, whatever a page or a model says.
CONTENT_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; "
    "connect-src 'self'; worker-src 'self' blob:; frame-ancestors 'self'; form-action 'self'"
)

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class ContentPolicy:
    """Sends the content policy with every page."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Any, send: Send) -> None:
        """Pass the request on; add headers to the answer."""

        async def send_with_policy(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                extra = [
                    (b"content-security-policy", CONTENT_POLICY.encode()),
                    (b"referrer-policy", b"no-referrer"),
                ]
                message["headers"] = [*message.get("headers", ()), *extra]
            await send(message)

        await self._app(scope, receive, send_with_policy)


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
    tabs = TabSessions(beside(config.checkpoints, home() / "ui"))
    tabs.prune()
    app = App(Workspaces(config, agents, tabs))
    link = f"{ADDRESS}/{FIRST}" if has_guide() else ""
    with gr.Blocks(title="Stategate", analytics_enabled=False, fill_width=True) as blocks:
        app.tab = gr.Textbox(visible="hidden", elem_id="sg-tab", container=False)
        with gr.Row(elem_classes="sg-top"):
            gr.HTML(macros("frame").head(link), scale=3, min_width=300)
            pipeline = gr.HTML(elem_id="sg-pipeline", scale=4, min_width=300)
        first = "messages" if messages else "compare"
        with gr.Tabs(selected=first, elem_id="sg-tabs") as places:
            with gr.Tab("Compare", id="compare") as compare_tab:
                compare = CompareTab(app)
            with gr.Tab("Episode", id="episode"):
                episode = EpisodeTab(app, pipeline)
            with gr.Tab("State", id="state") as state_tab:
                StateTab(app, agents.resources).wire(state_tab)
            with gr.Tab("QA", id="qa") as qa_tab:
                talks = Conversations(agents, lambda tab: app.of(tab).config, tabs)
                QaTab(app, talks).wire(qa_tab)
            with gr.Tab("Memory", id="memory") as memory_tab:
                memory = MemoryTab(app, talks, agents)
                memory.wire(memory_tab)
            with gr.Tab("Runs", id="runs") as runs_tab:
                RunsTab(app, agents.resources).wire(runs_tab)
            with gr.Tab("Messages", id="messages"):
                thread = MessagesTab(app, messages)
                thread.wire()
            with gr.Tab("Settings", id="settings") as settings_tab:
                SettingsTab(app, episode.show, episode.outputs).wire(settings_tab)
        compare.wire(
            compare_tab,
            lambda workspace: {**episode.show(workspace), places: gr.Tabs(selected="episode")},
            [*episode.outputs, places],
        )

        def open_page(tab: str, request: gr.Request) -> Iterator[dict[Any, Any]]:
            tabs.write(f"{tab}/owner", {"owner": owner_of(request)})
            for update in episode.load(tab):
                yield {app.tab: tab, **update}

        if messages:
            thread.load(blocks)
        opened = blocks.load(
            open_page,
            [app.tab],
            [app.tab, *episode.outputs],
            js=asset("tab.js"),
            show_progress="hidden",
            api_visibility="private",
        )
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
    bound_to(host)
    agents = Agents(config)
    blocks = make_app(config, agents, messages)
    threading.Thread(target=agents.warm_up, args=(config,), daemon=True).start()
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
            app_kwargs={
                "middleware": [Middleware(Guard), Middleware(ContentPolicy)],
                "routes": guide_routes(),
            },
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
