"""Captions: a vision model describes a task's images, once, in one text for all of them."""

import base64
import hashlib
import json
import mimetypes
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_core.messages import HumanMessage

from stategate.nodes.experience.episode import Episode
from stategate.nodes.models.asking import ask, asking_problems
from stategate.stores.files import parse_json, write_json
from stategate.stores.home import home
from stategate.stores.text import one_line

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

_ASK = "Describe these images together in at most three sentences: what they show and any text in them."
_MAGIC = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF")
_MOST = 20_000_000  # bytes of one image


class Captions:
    """Caption trajectories; each set of images is described once, whatever task it belongs to."""

    def __init__(self, model: "BaseChatModel", name: str, path: Path | None = None) -> None:
        self._model = model
        self._name = name
        self._path = path or home() / "captions.json"
        self.problems: list[str] = []

    def caption(self, episode: Episode) -> Episode:
        """Return ``episode`` with its caption; without images, or where it fails, as it was."""
        if not episode.images or episode.caption:
            return episode
        parts, problems = image_parts(episode.images)
        self.problems += [f"{episode.id}: {problem}" for problem in problems]
        if not parts:
            return episode
        key = hashlib.sha256(json.dumps([self._name, parts]).encode()).hexdigest()
        caption = self._known().get(key)
        if caption is None:
            message = HumanMessage([{"type": "text", "text": _ASK}, *parts])
            try:
                caption = one_line(ask(self._model, [message]))
            except asking_problems() as error:
                problem = one_line(str(error))[:120]
                self.problems.append(f"{episode.id}: its images were not described ({problem})")
                return episode
            self._keep(key, caption)
        return replace(episode, caption=caption)

    def _known(self) -> dict[str, str]:
        try:
            return dict(parse_json(self._path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return {}

    def _keep(self, key: str, caption: str) -> None:
        from filelock import FileLock

        with FileLock(f"{self._path}.lock"):
            write_json(self._path, {**self._known(), key: caption})


def image_parts(images: Sequence[str]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the images as message parts, and a line for each that does not load.

    An image is a file's path, a ``data:`` URL or an http(s) URL (passed on, not fetched).
    """
    parts: list[dict[str, Any]] = []
    problems: list[str] = []
    for image in images:
        try:
            parts.append({"type": "image_url", "image_url": {"url": _url(image)}})
        except (OSError, ValueError) as error:
            why = str(error) if type(error) is ValueError else type(error).__name__
            problems.append(f"image '{image[:80]}' does not load ({why})")
    return parts, problems


def _url(image: str) -> str:
    if image.startswith(("data:image/", "http://", "https://")):
        return image
    raw = Path(image).expanduser().read_bytes()
    if not raw.startswith(_MAGIC) or len(raw) > _MOST:
        raise ValueError("no PNG, JPEG, GIF or WebP of under 20 MB")
    kind = mimetypes.guess_type(image)[0] or "image/png"
    return f"data:{kind};base64,{base64.b64encode(raw).decode()}"
