"""What a chat model adds to recorded episodes: advice in hindsight, and captions of their images.

Hindsight is one call an episode, at most three attempts; the answer is a JSON array of ``{state,
q_value, experience}``. A state that the answer leaves out gets worth 5 and no advice. An episode whose
answer cannot be read three times is left out of the bank and named, so that the next build tries again.
A caption describes a task's images, once, in one text for all of them.
"""

import base64
import hashlib
import json
import math
import mimetypes
import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_core.messages import HumanMessage, SystemMessage

from stategate.nodes.experience.adapter import ExperienceAdapter
from stategate.nodes.experience.episode import Annotation, Episode, page_head
from stategate.nodes.models.asking import Usage, ask, cost_of, json_in, objects_in
from stategate.stores.errors import ModelUnavailable, UserError, describe_error
from stategate.stores.files import parse_json, write_json
from stategate.stores.home import home
from stategate.stores.text import one_line
from stategate.stores.tokens import count_tokens, truncate

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
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
            except UserError as error:
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


ATTEMPTS = 3
NEUTRAL = 5.0
_OUT = 60  # tokens that the answer needs for one state
_DIGITS = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
SYSTEM = """You judge, in hindsight, each decision of an agent that worked on a task. For each \
numbered state give q_value, from 0 (this decision spoiled the task) to 10 (it was right), and \
experience: one or two sentences of advice for someone in a like state of another task. Say what to do \
and why. Never give the answer itself, codes or names. Answer with a JSON array only, one \
object a state: [{"state": 1, "q_value": 7, "experience": "..."}]"""


@dataclass
class Hindsight:
    """The annotator. ``tokens`` is what prompt and answer may have together.

    ``concurrency`` calls run at once, at most ``per_minute`` are started a minute (0: no limit).
    ``usage`` counts what was used.
    """

    model: "BaseChatModel"
    told: ExperienceAdapter
    name: str = "model"
    tokens: int = 3600
    concurrency: int = 1
    per_minute: float = 0.0
    usage: Usage = field(default_factory=Usage)

    def __call__(
        self, episodes: Sequence[Episode]
    ) -> Iterator[tuple[Episode, Sequence[Annotation] | str]]:
        """Yield each episode with its annotations, or with why it has none, as they come."""
        from langchain_core.rate_limiters import InMemoryRateLimiter

        a_second = self.per_minute / 60 or math.inf
        limiter = InMemoryRateLimiter(requests_per_second=a_second, check_every_n_seconds=0.05)
        waiting = iter(episodes)
        running: dict[Future[Sequence[Annotation] | str], Episode] = {}
        with ThreadPoolExecutor(max_workers=self.concurrency) as pool:
            try:
                while True:
                    for episode in islice(waiting, self.concurrency - len(running)):
                        running[pool.submit(self._annotate, episode, limiter)] = episode
                    if not running:
                        return
                    done, _ = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        yield running.pop(future), future.result()
            finally:
                for future in running:
                    future.cancel()

    def estimate(self, episodes: Iterable[Episode]) -> tuple[int, int, float | None]:
        """Return the tokens in, tokens out and US dollars that one attempt each will take."""
        tokens_in = tokens_out = 0
        for episode in episodes:
            text = episode_text(episode, self.told, self.tokens)
            tokens_in += count_tokens(SYSTEM) + count_tokens(text)
            tokens_out += _OUT * len(episode.steps)
        return tokens_in, tokens_out, cost_of(self.model, tokens_in, tokens_out)

    def cost(self) -> float | None:
        """Return the US dollars used so far (None where nobody knows what the model costs)."""
        return cost_of(self.model, self.usage.tokens_in, self.usage.tokens_out)

    def _annotate(self, episode: Episode, limiter: Any) -> Sequence[Annotation] | str:
        messages = [SystemMessage(SYSTEM), HumanMessage(self._content(episode))]
        states = len(episode.steps)
        schema, room = answer_schema(states), 2 * _OUT * states + _OUT  # more than it should need
        problem = ""
        for _ in range(ATTEMPTS):
            if self.per_minute:
                limiter.acquire()
            try:
                reply = ask(self.model, messages, schema, self.usage, room)
            except ModelUnavailable:
                raise
            except UserError as error:
                problem = f"the model failed ({describe_error(error)})"
                continue
            notes = read_answer(reply, states, self.name)
            if notes is not None:
                return notes
            problem = f"the model's answer is no annotation ({' '.join(reply.split())[:60]!r})"
        return f"{problem}, {ATTEMPTS} times: run the same command to try again"

    def _content(self, episode: Episode) -> Any:
        """Return the message's content: text, with the images that load where there are any."""
        text = episode_text(episode, self.told, self.tokens)
        if not episode.images or episode.caption:
            return text
        parts, _ = image_parts(episode.images)
        return [{"type": "text", "text": text}, *parts] if parts else text


def episode_text(episode: Episode, told: ExperienceAdapter, tokens: int) -> str:
    """Return the whole episode as text within ``tokens``, answer included; long pages are cut."""
    steps = episode.steps
    ended = "succeeded" if episode.correct else f"failed (reward {episode.reward:.2f} of 1)"
    head = [f"Image description: {episode.caption}"] if episode.caption else []
    head.append(f"Task: {truncate(episode.question, 200)}")
    if episode.task:
        head.append(f"Sub-task: {truncate(episode.task, 100)}")
    head.append(f"The agent {ended}.")
    room = tokens - count_tokens(SYSTEM) - count_tokens("\n".join(head)) - _OUT * len(steps)
    each = max(room // max(len(steps), 1) - 60, 12)
    lines = [*head]
    for i, step in enumerate(steps, 1):
        lines.append(
            f"State {i}: {page_head(told, step.before, episode.question, each) or '(start)'}"
        )
        if step.thought:
            lines.append(f"Thought {i}: {truncate(step.thought, 30)}")
        lines.append(f"Decision {i}: {truncate(step.action, 30)}")
    return "\n".join(lines)


def answer_schema(states: int) -> dict[str, Any]:
    """Return the JSON schema of the answer, for servers that hold a model to it."""
    one = {
        "type": "object",
        "properties": {
            "state": {"type": "integer"},
            "q_value": {"type": "number"},
            "experience": {"type": "string", "maxLength": 200},
        },
        "required": ["state", "q_value", "experience"],
        "additionalProperties": False,
    }
    return {"type": "array", "items": one, "minItems": states, "maxItems": states}


def read_answer(reply: str, states: int, name: str = "model") -> list[Annotation] | None:
    """Return one annotation a state, None where the reply holds no usable array.

    States are numbered from 1; what is missing, doubled or out of range counts as missing. Of an
    array that broke off, the whole objects count. Where no object says its state and there is one
    for each, they go by their order.
    """
    found = json_in(reply, list)
    if not found or not any(isinstance(item, dict) for item in found):
        found = objects_in(reply)
    items = [item for item in found if isinstance(item, dict)]
    if len(items) == states and not any("state" in item for item in items):
        items = [{"state": i, **item} for i, item in enumerate(items, 1)]
    by = f"hindsight:{name}"
    notes: dict[int, Annotation] = {}
    for item in items:
        number, q = _number(item.get("state")), _number(item.get("q_value"))
        if number is None or q is None or not number.is_integer():
            continue
        words = item.get("experience")
        words = " ".join(words.split())[:400] if isinstance(words, str) else ""
        if 1 <= number <= states:
            notes.setdefault(int(number), Annotation(min(max(q, 0.0), 10.0), words, by))
    if not notes:
        return None
    return [notes.get(i, Annotation(NEUTRAL, "", by)) for i in range(1, states + 1)]


def _number(value: Any) -> float | None:
    """Read 7, "7", "7/10" or "State 7"; None where there is no finite number."""
    found = _DIGITS.search(str(value)) if isinstance(value, str | int | float) else None
    number = float(found[0]) if found else math.nan
    return number if math.isfinite(number) else None
