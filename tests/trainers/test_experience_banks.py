"""Building banks: hindsight annotation, leaks, captions, kills and resumption, folding, pruning."""

import base64
import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from stategate.nodes.experience.episode import Annotation, Episode, Step, annotate
from stategate.nodes.experience.grow import add_episode, prune
from stategate.nodes.models.embedders import Hashing
from stategate.nodes.observe.webshop import WebShopEnv
from stategate.nodes.resources import Resources
from stategate.stores.bank.search import StateBank
from stategate.stores.errors import UserError
from stategate.trainers.bank.build import build_state_bank, without_leaks
from stategate.trainers.bank.hindsight import Captions, Hindsight, episode_text, read_answer

TOLD = WebShopEnv().experience()
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class Talker(BaseChatModel):
    """Says what ``say`` returns for the conversation; counts how many calls run at once."""

    say: object
    calls: list = []  # noqa: RUF012
    most: list = [0, 0]  # noqa: RUF012

    @property
    def _llm_type(self):
        return "talker"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        self.most[0] += 1
        self.most[1] = max(self.most)
        self.calls.append((messages, kwargs))
        try:
            text = self.say(len(self.calls), messages)
        finally:
            self.most[0] -= 1
        usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
        message = AIMessage(text, usage_metadata=usage)
        return ChatResult(generations=[ChatGeneration(message=message)])


def talker(say):
    return Talker(say=say, calls=[], most=[0, 0])


def episode(number=0, steps=3, **more):
    question = f"Find me a lamp number {number} with color: red"
    made = tuple(
        Step("click", f"thing {i}", f"page {i} of {number}", f"page {i + 1}") for i in range(steps)
    )
    facts = {"reward": 1.0, "correct": True, "source": "test", **more}
    return Episode(f"e{number}", f"t{number}", question, made, **facts)


def answer(states, **more):
    return json.dumps(
        [
            {"state": i + 1, "q_value": 9, "experience": f"Advice {i + 1}.", **more}
            for i in range(states)
        ]
    )


@pytest.fixture
def resources():
    return Resources(None, Hashing())


def test_a_whole_answer_annotates_every_state(tmp_path, resources):
    model = talker(lambda n, m: f"Sure!\n```json\n{answer(3)}\n```")
    judge = Hindsight(model, TOLD, "m")
    built = build_state_bank(tmp_path, [episode()], resources, judge)
    assert (built.rows, built.read, built.problems) == (3, 1, [])
    rows = StateBank(tmp_path).bank.rows()
    assert [row.data["experience"] for row in rows] == ["Advice 1.", "Advice 2.", "Advice 3."]
    assert {row.data["by"] for row in rows} == {"hindsight:m"}
    assert judge.usage.calls == len(model.calls) == 1
    assert (judge.usage.tokens_in, judge.usage.tokens_out) == (10, 5)
    prompt = str(model.calls[0][0])
    assert "page 0 of 0" in prompt
    assert "Decision 3: click[thing 2]" in prompt


@pytest.mark.parametrize(
    ("reply", "worths", "words"),
    [
        (answer(1), [9, 5, 5], ["Advice 1.", "", ""]),  # too short
        (answer(7), [9, 9, 9], ["Advice 1.", "Advice 2.", "Advice 3."]),  # too long
        ('[{"state": 2, "q_value": 99}, {"state": 2, "q_value": 1}]', [5, 10, 5], ["", "", ""]),
        ('[{"state": 3, "q_value": "8", "experience": 4}, 17, {}]', [5, 5, 8], ["", "", ""]),
        (answer(3)[:-30], [9, 9, 5], ["Advice 1.", "Advice 2.", ""]),  # cut off at its tokens
        ('{"state": "State 2", "q_value": "7/10"}', [5, 7, 5], ["", "", ""]),  # no array
        ('[{"q_value": 1}, {"q_value": 2}, {"q_value": 3}]', [1, 2, 3], ["", "", ""]),
        (f'{{"states": {answer(3)}}}', [9, 9, 9], ["Advice 1.", "Advice 2.", "Advice 3."]),
    ],
)
def test_a_missing_state_gets_five_and_no_advice(reply, worths, words):
    notes = read_answer(reply, 3)
    assert [note.q for note in notes] == worths
    assert [note.experience for note in notes] == words


@pytest.mark.parametrize("reply", ["I cannot judge that.", "[]", "[1, 2", '[{"state": "x"}]', ""])
def test_prose_is_tried_three_times_then_the_episode_waits_for_the_next_build(
    tmp_path, resources, reply
):
    model = talker(lambda n, m: reply)
    built = build_state_bank(tmp_path, [episode()], resources, Hindsight(model, TOLD))
    assert len(model.calls) == 3
    assert built.rows == built.read == 0
    assert "3 times" in built.problems[0]
    better = talker(lambda n, m: reply if n < 3 else answer(3))
    built = build_state_bank(tmp_path, [episode()], resources, Hindsight(better, TOLD))
    assert (built.rows, len(better.calls)) == (3, 3)


def test_calls_run_at_once_up_to_the_limit_and_at_the_rate(tmp_path, resources):
    ready = threading.Barrier(3, timeout=20)

    def say(n, messages):
        if n <= 3:
            ready.wait()  # passes only if three calls run at once
        return answer(3)

    model = talker(say)
    episodes = [episode(i) for i in range(7)]
    built = build_state_bank(tmp_path, episodes, resources, Hindsight(model, TOLD, concurrency=3))
    assert (built.read, model.most[1]) == (7, 3)
    slow = Hindsight(talker(lambda n, m: answer(3)), TOLD, concurrency=3, per_minute=600)
    started = time.monotonic()
    list(slow(episodes[:4]))
    assert time.monotonic() - started >= 0.25  # three waits of a tenth of a second


def test_a_long_episode_is_told_within_the_tokens_with_every_decision():
    from stategate.stores.tokens import count_tokens

    long = Episode(
        "e",
        "t",
        "Find it",
        tuple(Step("click", f"n{i}", "word " * 900) for i in range(20)),
        1.0,
        True,
    )
    text = episode_text(long, TOLD, 3600)
    assert count_tokens(text) <= 3600
    assert all(f"Decision {i}: click[n{i - 1}]" in text for i in range(1, 21))


@pytest.mark.parametrize(
    ("words", "leaks"),
    [
        ("Pick B0AAAAAAA1 at once.", True),
        ("The answer is Thirty  Two!", True),
        ("thirty-two", True),
        ("Thirty twos are many.", False),
        ("Read before you buy.", False),
    ],
)
def test_advice_that_tells_the_answer_is_dropped(words, leaks):
    known = episode(answers=("b0aaaaaaa1", "thirty two"))
    kept, count = without_leaks(known, [Annotation(9, words)], TOLD)
    assert count == leaks
    assert kept == [Annotation(9, "" if leaks else words)]


def test_images_are_described_once_and_those_that_do_not_load_are_named(tmp_path):
    good = tmp_path / "a.png"
    good.write_bytes(PNG)
    (tmp_path / "b.png").write_bytes(b"no image")
    model = talker(lambda n, m: "A red dot.")
    captions = Captions(model, "m", tmp_path / "captions.json")
    images = (str(good), str(tmp_path / "b.png"), str(tmp_path / "none.png"))
    first = captions.caption(episode(images=images))
    assert first.caption == "A red dot."
    assert len(captions.problems) == 2
    assert len([p for p in model.calls[0][0][0].content if p["type"] == "image_url"]) == 1
    again = Captions(model, "m", tmp_path / "captions.json").caption(episode(1, images=images[:1]))
    assert (again.caption, len(model.calls)) == ("A red dot.", 1)
    blind = captions.caption(episode(2, images=images[1:]))
    assert blind.caption == ""

    def fail(n, messages):
        raise UserError("no vision")

    dumb = Captions(talker(fail), "other", tmp_path / "captions.json")
    assert dumb.caption(episode(3, images=images[:1])).caption == ""
    assert "no vision" in dumb.problems[0]


_BUILD = """
import sys, time
from stategate.nodes.models.embedders import Hashing, HashingEmbedder
from stategate.nodes.resources import Resources
from tests.trainers.test_experience_banks import episode
from stategate.trainers.bank.build import build_state_bank
real = HashingEmbedder.embed
def slowly(self, texts):
    time.sleep(0.02)
    return real(self, texts)
HashingEmbedder.embed = slowly
build_state_bank(sys.argv[1], [episode(i) for i in range(60)], Resources(None, Hashing()))
"""


def test_a_killed_build_goes_on_without_double_or_loss(tmp_path, resources):
    whole = build_state_bank(tmp_path / "whole", [episode(i) for i in range(60)], resources)
    for _ in range(2):
        child = subprocess.Popen(
            [sys.executable, "-c", _BUILD, str(tmp_path / "killed")], stdout=-3, stderr=-3
        )
        before = _rows(tmp_path / "killed")
        deadline = time.monotonic() + 60
        while _rows(tmp_path / "killed") < before + 15 and time.monotonic() < deadline:
            time.sleep(0.02)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    left = StateBank(tmp_path / "killed")  # what a kill leaves can be opened
    half = len(left.bank)
    left.bank.close()
    assert 0 < half < whole.rows
    assert half % 3 == 0  # whole episodes only
    again = build_state_bank(tmp_path / "killed", [episode(i) for i in range(60)], resources)
    assert again.known == half // 3
    ids = [
        sorted(row.id for row in StateBank(tmp_path / f).bank.rows()) for f in ("whole", "killed")
    ]
    assert ids[0] == ids[1]


def _rows(folder):
    try:
        bank = StateBank(folder)
    except UserError:
        return 0
    count = len(bank.bank)
    bank.bank.close()
    return count


def test_like_states_fold_into_one_worth_and_other_moves_stay_apart(tmp_path, resources):
    from dataclasses import replace

    twice = [episode(), replace(episode(), id="again", reward=0.0, correct=False)]
    built = build_state_bank(tmp_path, twice, resources)
    rows = StateBank(tmp_path).bank.rows()
    assert (built.rows, built.read, len(rows)) == (3, 2, 3)
    assert rows[-1].q == pytest.approx(5.0)
    assert rows[-1].data["seen"] == 2
    other = replace(episode(), id="other", steps=(Step("click", "buy now", "page 0 of 0", "end"),))
    assert build_state_bank(tmp_path, [other], resources).rows == 1


def test_what_another_process_added_meanwhile_is_not_counted_twice(tmp_path, resources):
    from dataclasses import replace

    build_state_bank(tmp_path, [episode()], resources)
    again = replace(episode(), id="again", reward=0.0, correct=False)
    slow, fast, told = StateBank(tmp_path), StateBank(tmp_path), resources.experience
    real = slow.bank.is_read

    def late(source):  # both asked before either had written
        known = real(source)
        add_episode(fast, again, annotate(again, told), resources.embedder, told)
        return known

    slow.bank.is_read = late
    add_episode(slow, again, annotate(again, told), resources.embedder, told)
    last = StateBank(tmp_path).bank.rows()[-1]
    assert (last.q, last.data["seen"]) == (pytest.approx(5.0), 2)


def test_pruning_by_worth_use_and_age(tmp_path, resources):
    build_state_bank(tmp_path, [episode(0), episode(1, reward=0.1, correct=False)], resources)
    bank = StateBank(tmp_path).bank
    assert prune(bank, min_q=5) == 3
    best = bank.rows()[-1]
    bank.count_use([best.n] * 3, 0.0)
    assert prune(bank, useless=True) == 1
    assert best.id not in {row.id for row in bank.rows()}
    first, second = bank.rows()
    bank.count_use([first.n], 1.0)  # worth less, but it helped
    month = time.time() + 40 * 86400
    assert prune(bank, older_than=86400, clock=lambda: month) == 1
    assert [row.id for row in bank.rows()] == [first.id]
    assert second.q > first.q
