"""The docs beside the app: Markdown pages and their pictures, from the checkout."""

import re
from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from stategate.ui.app.render.html import macros, safe

ROOT = Path(__file__).resolve().parents[2]
#: The page that the link in the app's head opens, and where it is served.
FIRST, ADDRESS = "docs/README.md", "/guide"
_PICTURES = (".png", ".webp")


def has_guide() -> bool:
    """Whether the docs are here: an installed package does not bring them."""
    return (ROOT / FIRST).is_file()


def guide_routes() -> list[Route]:
    """Return the routes that serve the docs."""
    return [Route(ADDRESS + "/{path:path}", show)]


def show(request: Request) -> Response:
    """Serve a page or a picture of ``docs/``, or the README."""
    path = (ROOT / str(request.path_params["path"] or FIRST)).resolve()
    is_ours = path == ROOT / "README.md" or path.is_relative_to(ROOT / "docs")
    if not is_ours or not path.is_file() or path.suffix not in (".md", *_PICTURES):
        return PlainTextResponse("there is no such page", status_code=404)
    if path.suffix in _PICTURES:
        return FileResponse(path)
    return HTMLResponse(str(page(path.read_text(encoding="utf-8"))))


def page(markdown: str) -> str:
    """Return a page of Markdown as HTML; HTML inside it stays text."""
    from markdown_it import MarkdownIt
    from markupsafe import Markup

    plain = re.sub(r"<!--.*?-->", "", markdown, flags=re.DOTALL)
    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(plain)
    title = re.search(r"^# (.+)$", plain, re.MULTILINE)
    drawn = macros("frame").guide(safe(title[1] if title else "Stategate"), Markup(body))  # noqa: S704
    return f"<!doctype html>{drawn}"
