"""Conversations with marked evidence, from the published files of LoCoMo, LongMemEval and BFCL.

Users fetch the files themselves: ``locomo10.json`` (Maharana et al., 2024, CC BY-NC 4.0),
``longmemeval_s.json`` and its kin (Wu et al., 2025, MIT), and the folder of the Berkeley
function-calling leaderboard's memory questions (v4, Apache-2.0). All become the same few records, so
that everything after this module knows one form.

Three families of conversations ship, in LoCoMo's format: ``home`` to develop with, ``work`` and
``written`` to test with. A rule made the first two of templates (``evals/memory/generated.py`` at
commit 5b04d35d): two persons talk over months in sixteen sessions about events, changes, series and
small talk. They are easier and more alike than what people say. ``written`` is by a writer who had seen
no code: eight lists of one person's notes, eight dialogues, eight chats with an assistant.
"""

import hashlib
import lzma
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import Any

from rapidfuzz.fuzz import partial_ratio

from stategate.stores.errors import UserError, user_error_context
from stategate.stores.files import parse_json
from stategate.stores.runs import public_path

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
FAMILIES = ("home", "work", "written")
_EVIDENCE = re.compile(r"D:?\s*(\d+)\s*:\s*(\d+)")
_SESSION = re.compile(r"session_(\d+)")
_DATES = ("%I:%M %p on %d %B, %Y", "%Y/%m/%d %H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d", "%Y/%m/%d")


@dataclass(frozen=True)
class Utterance:
    """One turn: what ``speaker`` said, and in brackets what the picture shows that was sent with it.

    ``at`` is when its session was, in Unix seconds (UTC), None where the file says nothing.
    """

    id: str
    session: str
    at: float | None
    speaker: str
    text: str


@dataclass(frozen=True)
class Question:
    """A question, and the ids of the turns and sessions that hold the evidence.

    ``answerable`` is False where the right answer is that the conversation does not say. ``answers``
    are the accepted ones, any of them.
    """

    id: str
    text: str
    category: str
    turns: tuple[str, ...]
    sessions: tuple[str, ...]
    answerable: bool = True
    at: float | None = None
    answers: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Conversation:
    """Turns in order, and what is asked about them; equal to itself alone."""

    id: str
    turns: tuple[Utterance, ...]
    questions: tuple[Question, ...]


def read_conversations(path: str | Path) -> list[Conversation]:
    """Read a file of LoCoMo's or LongMemEval's, or BFCL's folder, by what it holds.

    Raises ``UserError`` naming the entry that is wrong.
    """
    folder = Path(path).expanduser()
    if path not in FAMILIES and folder.is_dir():
        return _folder(folder)
    with user_error_context(f"cannot read '{path}'", "name the published JSON file"):
        values = parse_json(text_of(path))
    if not isinstance(values, list) or not values:
        raise UserError(f"'{path}' is no list of conversations: name the published JSON file")
    conversations = []
    for number, value in enumerate(values):
        what = f"'{path}' entry {number} is not as LoCoMo, LongMemEval or BFCL have it"
        with user_error_context(what):
            read_one = _history if "haystack_sessions" in value else _sample
            conversations.append(read_one(value, number))
    return conversations


def _sample(value: Any, number: int) -> Conversation:
    """Return a sample of LoCoMo's.

    The published file has its oddities: several ids in one string (``"D8:6; D9:17"``), ids with a
    colon or zeros too many (``"D:11:26"``, ``"D30:05"``), ids of turns that are not there (left out),
    days of sessions that are not there, and turns that are a picture alone. Of its 1,986 questions
    1,980 name a turn that is there, 445 of these adversarial: they are asked of the other person, and
    what their evidence tells is of the one who said it.
    """
    name, transcript = str(value.get("sample_id", number)), value["conversation"]
    turns = []
    for number in sorted(int(m[1]) for key in transcript if (m := _SESSION.fullmatch(key))):
        at = moment(str(transcript.get(f"session_{number}_date_time", "")))
        for turn in transcript[f"session_{number}"] or ():
            text, caption = str(turn.get("text") or ""), turn.get("blip_caption")
            text += f" [{caption}]" if caption else ""
            id_ = _turn_ids(str(turn["dia_id"]))[0]
            turns.append(Utterance(id_, f"S{number}", at, str(turn["speaker"]), text))
    session_of = {turn.id: turn.session for turn in turns}
    questions = tuple(_question(qa, f"{name}/{n}", session_of) for n, qa in enumerate(value["qa"]))
    return Conversation(name, tuple(turns), questions)


def _turn_ids(text: str) -> list[str]:
    ids = [f"D{int(m[1])}:{int(m[2])}" for m in _EVIDENCE.finditer(text)]
    return ids or [text]


def _question(qa: Mapping[str, Any], id_: str, session_of: Mapping[str, str]) -> Question:
    listed = qa.get("evidence") or ()
    texts = [listed] if isinstance(listed, str) else listed
    named = dict.fromkeys(turn for text in texts for turn in _turn_ids(str(text)))
    turns = tuple(turn for turn in named if turn in session_of)
    number = int(qa["category"])
    category = LOCOMO.get(number, f"category {number}")
    sessions = tuple(dict.fromkeys(session_of[turn] for turn in turns))
    return Question(id_, str(qa["question"]), category, turns, sessions, answerable=number != 5)


def _history(value: Any, _: int) -> Conversation:
    """Return a question of LongMemEval's, which is asked of a history of its own."""
    golden = {str(id_) for id_ in value.get("answer_session_ids") or ()}
    turns, evidence, of_answer = [], [], []
    columns = ("haystack_session_ids", "haystack_dates", "haystack_sessions")
    for number, (id_, date, session) in enumerate(zip(*map(value.get, columns), strict=True)):
        session_id = f"S{number}"  # not the file's id, which may occur twice
        for n, turn in enumerate(session):
            utterance = str(turn["role"]), str(turn["content"] or "")
            turns.append(Utterance(f"{session_id}:{n}", session_id, moment(str(date)), *utterance))
            evidence += [f"{session_id}:{n}"] if turn.get("has_answer") else []
        of_answer += [session_id] * (str(id_) in golden)
    # Histories of the "oracle" file are not in order of time.
    turns.sort(key=lambda turn: turn.at or 0.0)
    name = str(value["question_id"])
    is_abstention = name.endswith("_abs")
    question = Question(
        name,
        str(value["question"]),
        "abstention" if is_abstention else str(value["question_type"]),
        () if is_abstention else tuple(evidence),
        () if is_abstention else tuple(of_answer),
        answerable=not is_abstention,
        at=moment(str(value.get("question_date", ""))),
        answers=() if is_abstention else (str(value.get("answer", "")),),
    )
    return Conversation(name, tuple(turns), (question,))


_BFCL = "BFCL_v4_memory.json"
_MIN_LIKENESS = 80  # of 100, of a quotation to the turn that it is taken from


def _folder(folder: Path) -> list[Conversation]:
    """Return the conversations of BFCL's folder of JSON lines, one a setting.

    Evidence is the turn that a question's quotation is most like.
    """
    named = sorted((folder / "memory_prereq_conversation").glob("memory_*.json"))
    if not named:
        why = f"'{folder}' has no memory_prereq_conversation/: name BFCL's data folder"
        raise UserError(f"{why}, or the JSON file of LoCoMo or LongMemEval")
    rows = {row["id"]: row for row in _lines(folder / "possible_answer" / _BFCL)}
    questions = [{**row, **rows[row["id"]]} for row in _lines(folder / _BFCL)]
    conversations = []
    for file in named:
        name = file.stem.removeprefix("memory_")
        sessions = [turn_lists["question"] for turn_lists in _lines(file)]
        turns = tuple(
            Utterance(f"S{number}:{place}", f"S{number}", None, "user", message["content"])
            for number, session in enumerate(sessions)
            for place, message in enumerate(m for messages in session for m in messages)
        )
        asked = tuple(_quoted(row, turns) for row in questions if row["scenario"] == name)
        conversations.append(Conversation(name, turns, asked))
    return conversations


def _quoted(row: Mapping[str, Any], turns: Sequence[Utterance]) -> Question:
    """Return a question of BFCL's, its evidence the turn that its quotation is most like."""
    likeness, turn = max(
        ((partial_ratio(row["source"], turn.text), turn) for turn in turns), key=itemgetter(0)
    )
    evidence = [turn] if likeness >= _MIN_LIKENESS else []
    return Question(
        row["id"],
        row["question"][0][0]["content"],
        row["scenario"],
        tuple(turn.id for turn in evidence),
        tuple(turn.session for turn in evidence),
        answers=tuple(map(str, row["ground_truth"])),
    )


def _lines(path: Path) -> list[dict[str, Any]]:
    with user_error_context(f"cannot read '{path}'", "name the folder of the published files"):
        return [parse_json(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def text_of(path: str | Path) -> str:
    """Return the text of a file, of a folder's files, or of a family that ships, by its name."""
    if str(path) in FAMILIES:
        packed = Path(__file__).parent / "families" / f"{path}.json.xz"
        return lzma.decompress(packed.read_bytes()).decode("utf-8")
    with user_error_context(f"cannot read '{path}'", "name the published JSON file"):
        source = Path(path).expanduser()
        named = sorted(source.rglob("*.json")) if source.is_dir() else [source]
        return "".join(file.read_text(encoding="utf-8") for file in named)


def identity_of(path: str | Path) -> dict[str, str]:
    """Return the name and digest of what :func:`text_of` reads, for ``args.json``."""
    digest = hashlib.sha256(text_of(path).encode()).hexdigest()
    return {"name": public_path(str(path)), "sha256": digest}


def moment(text: str) -> float | None:
    """Return the Unix seconds of a date as the files write it, None for another form."""
    plain = " ".join(re.sub(r"\(\w+\)", " ", text).split())
    for form in _DATES:
        try:
            return datetime.strptime(plain, form).replace(tzinfo=UTC).timestamp()
        except ValueError:
            continue
    return None
