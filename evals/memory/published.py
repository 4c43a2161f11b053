"""Conversations with marked evidence, read from the published files of LoCoMo and LongMemEval.

Users fetch the files themselves: ``locomo10.json`` (Maharana et al., 2024, CC BY-NC 4.0) and
``longmemeval_s.json`` and its kin (Wu et al., 2025, MIT). Both become the same few records, so that
everything after this module knows one form.

Two families of conversations ship, in LoCoMo's format: ``home`` to develop with, ``work`` held out. A
rule made them of templates (``evals/memory/generated.py`` at commit 5b04d35d): two persons talk over
months in sixteen sessions about events, changes, series and small talk. They are easier and more alike
than what people say.
"""

import lzma
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from stategate.stores.errors import UserError, user_error_context
from stategate.stores.files import parse_json

#: LoCoMo's categories by the numbers of its file (the paper's prose counts otherwise); the sixth is of
#: the generated conversations alone.
LOCOMO = {
    1: "multi-hop",
    2: "temporal",
    3: "open-domain",
    4: "single-hop",
    5: "adversarial",
    6: "knowledge-update",
}
FAMILIES = ("home", "work")
_EVIDENCE = re.compile(r"D:?\s*(\d+)\s*:\s*(\d+)")
_SESSION = re.compile(r"session_(\d+)")
_DATES = ("%I:%M %p on %d %B, %Y", "%Y/%m/%d %H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d", "%Y/%m/%d")


@dataclass(frozen=True)
class Utterance:
    """One turn: what ``speaker`` said, and what the picture shows that was sent with it."""

    id: str
    speaker: str
    text: str
    caption: str = ""


@dataclass(frozen=True)
class Session:
    """Turns said in one sitting; ``at`` in Unix seconds (UTC), None where the file says nothing."""

    id: str
    at: float | None
    turns: tuple[Utterance, ...]


@dataclass(frozen=True)
class Question:
    """A question, its gold, and the ids of the turns and sessions that hold the evidence.

    ``answerable`` is False where the right answer is that the conversation does not say.
    """

    id: str
    text: str
    answer: str
    category: str
    turns: tuple[str, ...]
    sessions: tuple[str, ...]
    answerable: bool = True
    at: float | None = None


@dataclass(frozen=True)
class Conversation:
    """Sessions in order, and what is asked about them."""

    id: str
    sessions: tuple[Session, ...]
    questions: tuple[Question, ...]


def read_locomo(path: str | Path) -> list[Conversation]:
    """Read a file in LoCoMo's format. Raises ``UserError`` naming the sample that is wrong.

    The published file has its oddities: several ids in one string (``"D8:6; D9:17"``), ids with a
    colon or zeros too many (``"D:11:26"``, ``"D30:05"``), ids of turns that are not there (left out),
    numbers as answers, days of sessions that are not there, and turns that are a picture alone. Of its
    1,986 questions 1,980 name a turn that is there, 445 of these adversarial: they are asked of the
    other person, and what their evidence tells is of the one who said it.
    """
    return [_sample(value, i, path) for i, value in enumerate(_list(path))]


def _sample(value: Any, i: int, path: str | Path) -> Conversation:
    with user_error_context(f"'{path}' sample {i} is not in LoCoMo's format"):
        name = str(value.get("sample_id", i))
        transcript = value["conversation"]
        numbers = sorted(int(m[1]) for key in transcript if (m := _SESSION.fullmatch(key)))
        sessions = tuple(_session(transcript, number) for number in numbers)
        session_of = {turn.id: session.id for session in sessions for turn in session.turns}
        questions = tuple(
            _question(qa, f"{name}/{n}", session_of) for n, qa in enumerate(value["qa"])
        )
    return Conversation(name, tuple(s for s in sessions if s.turns), questions)


def _session(transcript: Mapping[str, Any], number: int) -> Session:
    at = moment(str(transcript.get(f"session_{number}_date_time", "")))
    turns = tuple(
        Utterance(
            _turn_ids(str(turn["dia_id"]))[0],
            str(turn["speaker"]),
            str(turn.get("text") or ""),
            str(turn.get("blip_caption") or ""),
        )
        for turn in transcript[f"session_{number}"] or ()
    )
    return Session(f"S{number}", at, turns)


def _turn_ids(text: str) -> list[str]:
    ids = [f"D{int(m[1])}:{int(m[2])}" for m in _EVIDENCE.finditer(text)]
    return ids or [text]


def _question(qa: Mapping[str, Any], id_: str, session_of: Mapping[str, str]) -> Question:
    listed = qa.get("evidence") or ()
    texts = [listed] if isinstance(listed, str) else listed
    named = dict.fromkeys(turn for text in texts for turn in _turn_ids(str(text)))
    turns = tuple(turn for turn in named if turn in session_of)
    number, answer = int(qa["category"]), qa.get("answer")
    return Question(
        id_,
        str(qa["question"]),
        "" if answer is None else str(answer),
        LOCOMO.get(number, f"category {number}"),
        turns,
        tuple(dict.fromkeys(session_of[turn] for turn in turns)),
        answerable=number != 5,
    )


def read_longmemeval(path: str | Path) -> list[Conversation]:
    """Read a file in LongMemEval's format: each question is asked of a history of its own.

    Raises ``UserError`` naming the question that is wrong.
    """
    return [_history(value, i, path) for i, value in enumerate(_list(path))]


def _history(value: Any, i: int, path: str | Path) -> Conversation:
    with user_error_context(f"'{path}' entry {i} is not in LongMemEval's format"):
        name = str(value["question_id"])
        is_abstention = name.endswith("_abs")
        golden = {str(id_) for id_ in value.get("answer_session_ids") or ()}
        sessions, turns, of_answer = [], [], []
        columns = (
            value["haystack_session_ids"],
            value["haystack_dates"],
            value["haystack_sessions"],
        )
        for number, (id_, date, turns_) in enumerate(zip(*columns, strict=True)):
            own = f"S{number}"  # a file may hold a session twice
            utterances = tuple(
                Utterance(f"{own}:{n}", str(turn["role"]), str(turn["content"] or ""))
                for n, turn in enumerate(turns_)
            )
            sessions.append(Session(own, moment(str(date)), utterances))
            turns += [f"{own}:{n}" for n, turn in enumerate(turns_) if turn.get("has_answer")]
            of_answer += [own] * (str(id_) in golden)
        question = Question(
            name,
            str(value["question"]),
            str(value.get("answer", "")),
            "abstention" if is_abstention else str(value["question_type"]),
            () if is_abstention else tuple(turns),
            () if is_abstention else tuple(of_answer),
            answerable=not is_abstention,
            at=moment(str(value.get("question_date", ""))),
        )
    # Histories of the "oracle" file are not in order of time.
    sessions.sort(key=lambda session: session.at or 0.0)
    return Conversation(name, tuple(s for s in sessions if s.turns), (question,))


def text_of(path: str | Path) -> str:
    """Return the text of a file, or of a family of conversations that ships, by its name."""
    if str(path) in FAMILIES:
        packed = Path(__file__).parent / "families" / f"{path}.json.xz"
        return lzma.decompress(packed.read_bytes()).decode("utf-8")
    with user_error_context(f"cannot read '{path}'", "name the published JSON file"):
        return Path(path).expanduser().read_text(encoding="utf-8")


def _list(path: str | Path) -> Sequence[Any]:
    with user_error_context(f"cannot read '{path}'", "name the published JSON file"):
        values = parse_json(text_of(path))
    if not isinstance(values, list) or not values:
        raise UserError(f"'{path}' is no list of conversations: name the published JSON file")
    return values


def moment(text: str) -> float | None:
    """Return the Unix seconds of a date as the files write it, None for another form."""
    plain = " ".join(re.sub(r"\(\w+\)", " ", text).split())
    for form in _DATES:
        try:
            return datetime.strptime(plain, form).replace(tzinfo=UTC).timestamp()
        except ValueError:
            continue
    return None
