"""ALFWorld: parity with TextWorld's own transcripts, walkthroughs, the sample, errors in one line."""

import json
import tarfile
import zipfile

import pytest

from stategate.envs.alfworld import AlfWorld
from stategate.envs.alfworld.expert import decide, goal_here, knowledge_of, likeliest_goal
from stategate.envs.alfworld.game import Game
from stategate.envs.alfworld.grammar import read_grammar
from stategate.envs.alfworld.pddl import read_domain, read_problem
from stategate.envs.alfworld.view import AlfWorldView
from stategate.envs.protocols import View
from stategate.envs.webshop.view import WebShopView
from stategate.language.instruction.goals import adopt
from stategate.language.instruction.parsed import tags_of
from stategate.nodes.retrieval.align import is_understood, parts_read, unsure_parts
from stategate.stores.errors import UserError
from tests.kit import DATA, golden

needs_data = pytest.mark.skipif(
    not (DATA / "alfworld" / "golden").is_dir(),
    reason=f"no ALFWorld data in {DATA}: set STATEGATE_DATA",
)


@pytest.fixture(scope="module")
def sample():
    return AlfWorld.load("sample")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Archives are read into a cache of the tests' own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STATEGATE_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(scope="module")
def valid(cache, tmp_path_factory):
    folder = tmp_path_factory.mktemp("valid")
    (folder / "valid.tar.xz").symlink_to(DATA / "alfworld/valid.tar.xz")
    return AlfWorld.load(folder)


@pytest.fixture(scope="module")
def older(cache, tmp_path_factory):
    folder = tmp_path_factory.mktemp("older")
    (folder / "older_wording.tar.xz").symlink_to(DATA / "alfworld/older_wording.tar.xz")
    return AlfWorld.load(folder)


def walkthrough(world, name):
    """Return the commands that win a game, which its file holds."""
    return json.loads(world._library[name]())["walkthrough"]


@needs_data
@pytest.mark.parametrize(
    ("world", "name"), [("valid", "transcripts"), ("older", "transcripts_older_wording")]
)
def test_every_step_of_every_transcript(world, name, request):
    world = request.getfixturevalue(world)
    rows = golden("alfworld", name)
    assert rows
    for row in rows:
        session = None
        for step in row["steps"]:
            if step["action"] is None:
                session, seen = world.reset({"game": row["game"]})
            else:
                session, seen = world.step(json.loads(json.dumps(session)), step["action"])
            where = f"{row['game']} at {step['action']}"
            assert seen.text == step["text"], where
            assert list(seen.actions) == step["commands"], where
            assert (seen.done, seen.reward) == (step["done"], float(step.get("reward") or 0)), where
            assert world.observe(json.loads(json.dumps(session))) == seen, where
        assert len(json.dumps(session)) < 3000


@needs_data
def test_the_goals_of_all_sorts_are_read(valid):
    for name in valid.games[::3]:
        sort, thing, _, target, _ = name.split("/")[1].split("-")
        goal = likeliest_goal(valid.instruction(valid.reset({"game": name})[0]))
        target = name.split("/")[1].split("-")[3].lower()
        assert (goal.thing, goal.target) == (thing.lower(), target), name
        assert goal.is_light == ("light" in sort)
        assert goal.count == (2 if "two" in sort else 1)
        assert goal.state == next((s for s in ("clean", "heat", "cool") if s in sort), "")


def test_the_sample_has_games_of_every_sort_and_each_can_be_won(sample):
    assert {split: len(names) for split, names in sample.splits.items()} == {
        "train": 60,
        "valid_seen": 20,
        "valid_unseen": 20,
    }
    sorts = {name.split("/")[1].split("-")[0] for name in sample.games}
    assert sorts == {"place", "two", "wash", "heat", "cool", "light"}
    for name in sample.games:
        session, seen = sample.reset({"game": name})
        assert not seen.done
        for command in walkthrough(sample, name):
            assert not seen.done
            assert command in seen.actions, name
            session, seen = sample.step(session, command)
        assert seen.done, name


def test_unseen_rooms_are_not_the_rooms_of_training(sample):
    def rooms(split):
        return {
            sample.reset({"game": name})[1].text.split("\n")[2] for name in sample.splits[split]
        }

    assert rooms("valid_seen") & rooms("train")
    assert not rooms("valid_unseen") & rooms("train")


def test_steps_are_pure_and_a_won_game_stays_as_it_is(sample):
    name = sample.games[0]
    session, _ = sample.reset({"game": 0})
    assert session["game"] == name
    kept = json.dumps(session)
    for command in walkthrough(sample, name):
        one, two = sample.step(session, command), sample.step(session, f"  {command} ")
        assert one == two
        session = one[0]
    assert json.dumps(sample.reset({"game": name})[0]) == kept
    again, seen = sample.step(session, "look")
    assert (again, seen.done, seen.reward) == (session, True, 0.0)
    assert sample.observe(session).reward == 1.0


def test_threads_share_a_game(sample, monkeypatch):
    from concurrent.futures import ThreadPoolExecutor

    from stategate.envs.alfworld import game

    monkeypatch.setattr(game, "_STATES", 4)  # situations are forgotten all the time
    name = sample.games[5]

    def play(_):
        session, seen = sample.reset({"game": name})
        pages = [seen.text]
        for command in walkthrough(sample, name):
            session, seen = sample.step(session, command)
            pages.append(seen.text)
        return pages, seen.done

    with ThreadPoolExecutor(8) as pool:
        plays = list(pool.map(play, range(64)))
    assert all(played == plays[0] for played in plays)
    assert plays[0][1]


def test_what_cannot_be_done_changes_nothing(sample):
    session, first = sample.reset({"game": 3})
    for action in ("dance", "LOOK", "take jug 1 from moon 1", "", "go to"):
        after, seen = sample.step(session, action)
        assert seen.text == "Nothing happens."
        assert seen.actions == first.actions
        assert after["changes"] == session["changes"]
    with pytest.raises(UserError, match="an action is text"):
        sample.step(session, 3)


def searched(world, task, steps=60):
    """Return whether the searching expert wins, and its actions."""
    session, seen = world.reset(task)
    asked, events = world.instruction(session), [("", seen.text)]
    for _ in range(steps):
        known = knowledge_of(events, seen.text, seen.actions)
        action, _ = decide(goal_here(asked, known), known)
        session, seen = world.step(session, action)
        events.append((action, seen.text))
        if seen.done:
            break
    return seen.done, [action for action, _ in events]


def test_the_searching_expert_wins_where_it_can_look_everywhere(sample):
    assert all(searched(sample, {"game": name})[0] for name in sample.games[::10])


def test_a_goal_that_was_reached_in_vain_is_not_tried_again_and_again():
    """Where one of two stood there already, taking the other back undoes nothing."""
    start = "You see a rack 1, and a bench 1."
    events = [
        ("", start),
        ("go to bench 1", "On the bench 1, you see a jug 2, and a jug 1."),
        ("take jug 1 from bench 1", "You pick up the jug 1 from the bench 1."),
        ("move jug 1 to bench 1", "You move the jug 1 to the bench 1."),
        ("take jug 1 from bench 1", "You pick up the jug 1 from the bench 1."),
    ]
    known = knowledge_of(events, "", ("go to rack 1", "move jug 1 to bench 1"))
    assert goal_here("put two jugs on a bench", known).thing != "jug"


@pytest.mark.parametrize(
    ("game", "said"),
    [
        (12, "Study the jug under a lamp."),  # what the page offers to use is the lamp
        (18, "Check your glasses in the light of the reading lamp."),  # spectacles
        (35, "Leave a pair of glasses on the bookcase."),
        (83, "Saucer should be hot and staying on the worktop"),  # read as two; there is one
    ],
)
def test_words_that_training_never_saw_do_not_lock_it_in(sample, game, said):
    assert searched(sample, {"game": game, "say": said}, steps=40)[0]


def test_a_wrong_kind_of_task_from_another_reader_does_not_lock_it_in(sample):
    said, quotes = "Warm up a saucer, then the worktop is its place.", {"thing": ["saucer"]}
    assert likeliest_goal(said).count == 1
    adopt(said, tags_of(said, {**quotes, "place": ["worktop"]}, None, None), "two")
    assert likeliest_goal(said).count == 2  # what the former reader said is forgotten
    assert searched(sample, {"game": 83, "say": said}, steps=50)[0]


def test_a_goal_that_cannot_be_carried_out_is_given_up(sample):
    said = "Cool an envelope, then put it in the bookcase."  # in a room where nothing is cooled
    _, actions = searched(sample, {"game": 66, "say": said})
    assert any(a.startswith("move envelope") for a in actions)


def test_what_nobody_mentioned_is_left_alone_while_places_are_unsearched(sample):
    task = {"game": 67, "say": "Get hold of two jugs and leave them in a crate."}
    _, actions = searched(sample, task)
    assert {a.split()[1] for a in actions if a.startswith("take")} == {"jug"}


def test_a_kind_of_task_that_is_in_doubt_is_named():
    doubts = unsure_parts(AlfWorldView(), "Freeze a tomato a bit and put it into the basin.")
    assert "which kind of task" in doubts
    thing, *_ = parts_read(AlfWorldView(), "Put a cell phone on the bed.")
    assert thing.startswith("thing: cell phone → cellphone")
    assert "limit: under forty dollars" in parts_read(WebShopView(), "a mug under forty dollars")
    assert parts_read(View(), "Water the roses.") == []
    shop = unsure_parts(WebShopView(), "hair dye golden blond dark, vegan")
    assert shop == ['"vegan"']  # between talk and a property


@pytest.mark.parametrize("view", [AlfWorldView(), WebShopView()])
def test_words_that_ask_for_nothing_are_said_to_be_unsure_as_a_whole(view):
    assert unsure_parts(view, "hello there") == ['"hello there"']
    assert is_understood(view, "put a clean mug on the desk")
    assert is_understood(View(), "hello there")  # another world may mean something by it


@pytest.mark.parametrize(
    ("task", "problem"),
    [
        ({"game": "train/none/none"}, "no game 'train/none/none'"),
        ({"game": 100}, "no game 100: there are games 0 to 99"),
        ({"game": True}, "a game is a number"),
        ({"game": 0, "split": "moon"}, "an ALFWorld task is"),
        ({"game": 0, "room": 3}, "an ALFWorld task is"),
    ],
)
def test_unknown_tasks_are_told_in_one_line(sample, task, problem):
    with pytest.raises(UserError, match=problem) as caught:
        sample.reset(task)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "session",
    [
        {},
        [],
        {"game": "x", "changes": [], "last": None},
        {"game": 0, "changes": [["lies", "moon 1"]], "last": None},
        {"game": 0, "changes": [["+", "lies", "moon 1"]], "last": None},
        {"game": 0, "changes": [], "last": ["fly"]},
        {"game": 0, "changes": 3, "last": None},
    ],
)
def test_foreign_sessions_are_told_in_one_line(sample, session):
    with pytest.raises(UserError):
        sample.observe(session)


def _file(sample, **changes):
    return json.dumps({**json.loads(sample._library[sample.games[0]]()), **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {"pddl_domain": "(define (domain x)"},
        {"pddl_domain": "(define (problem x))"},
        {"pddl_problem": "(define (problem x) (:objects a - thing) (:init (lies a b)) (:goal ()))"},
        {"pddl_problem": "(define (problem x) (:objects) (:init) (:goal (flies ?x)))"},
        {
            "pddl_problem": "(define (problem x) (:objects) (:init) (:goal "
            f"{'(not ' * 900}{')' * 900}))"
        },
        {"pddl_domain": "(define (domain x) (:predicates (p)) (:durative-action a :effect (p)))"},
        {
            "pddl_domain": "(define (domain x) (:types a - b) (:predicates (p)) "
            "(:action a :effect (p)))"
        },
        {"pddl_domain": "(define (domain x) (:predicates (p)) (:action a :precondition (p ?x)))"},
        {"grammar": "action look {"},
        {"grammar": 'grammar :: """{"intro": [{"rhs": 3}]}""";'},
        {"grammar": 'grammar :: """{"intro": [{"rhs": "{__import__(1)}"}]}""";'},
        {"grammar": 'grammar :: """{"intro": [{"rhs": "x", "condition": "a("}]}""";'},
    ],
)
def test_malformed_games_are_told_in_one_line(sample, changes):
    with pytest.raises(UserError) as caught:
        Game.read(_file(sample, **changes))
    assert "\n" not in str(caught.value)


def test_a_broken_game_is_named_and_the_others_are_played(sample, tmp_path):
    good = tmp_path / "train" / "put-cup" / "trial_1"
    bad = tmp_path / "train" / "put-cup" / "trial_2"
    for folder, text in ((good, _file(sample)), (bad, "{")):
        folder.mkdir(parents=True)
        (folder / "game.tw-pddl").write_text(text)
    world = AlfWorld.load(tmp_path)
    assert world.games == ("train/put-cup/trial_1", "train/put-cup/trial_2")
    assert not world.reset({"game": 0})[1].done
    with pytest.raises(UserError, match="game 'train/put-cup/trial_2': the game file is no JSON"):
        world.reset({"game": 1})


def test_folders_without_games_and_damaged_archives(tmp_path, cache):
    with pytest.raises(UserError, match="there is no folder"):
        AlfWorld.load(tmp_path / "none")
    with pytest.raises(UserError, match="'official'"):
        AlfWorld.load(tmp_path)
    (tmp_path / "train.tar.xz").write_bytes(b"no archive")
    with pytest.raises(UserError, match="give an undamaged copy"):
        AlfWorld.load(tmp_path)


@pytest.mark.parametrize("form", ["tar.xz", "zip"])
def test_archives_are_read_once_and_again_when_they_change(sample, tmp_path, cache, form):
    def pack(count):
        path = tmp_path / f"games.{form}"
        entries = {
            f"json_2.1.1/train/task/trial_{i}/game.tw-pddl": _file(sample) for i in range(count)
        }
        entries["json_2.1.1/train/movable-task/trial_0/game.tw-pddl"] = _file(sample)
        entries["json_2.1.1/train/task/trial_x/game.tw-pddl"] = _file(sample, solvable=False)
        entries["json_2.1.1/train/task/trial_0/traj_data.json"] = "{}"
        if form == "zip":
            with zipfile.ZipFile(path, "w") as packed:
                for name, text in entries.items():
                    packed.writestr(name, text)
            return
        with tarfile.open(path, "w:xz") as packed:
            for i, (name, text) in enumerate(entries.items()):
                (tmp_path / f"member{i}").write_text(text)
                packed.add(tmp_path / f"member{i}", name)

    pack(2)
    assert len(AlfWorld.load(tmp_path).games) == 2
    assert not AlfWorld.load(tmp_path).reset({"game": 1})[1].done
    pack(3)
    assert len(AlfWorld.load(tmp_path).games) == 3


_FED = "(not (exists (?c - cat) (not (fed ?c))))"
_DOMAIN = """(define (domain tiny) (:types ball box cat)
 (:predicates (in ?b - ball ?x - box) (red ?t) (shut ?x - box) (fed ?c - cat))
 (:action roll :parameters (?b - ball ?x - box)
   :precondition (and (in ?b ?x) (or (red ?b) {FED}) (not (shut ?x)))
   :effect (and (not (in ?b ?x)) (when (in ?b ?x) (red ?b))))
 (:action feed :parameters (?c - cat) :precondition () :effect (fed ?c))
 (:action stay :parameters (?x - box) :precondition (shut ?x) :effect (shut ?x)))""".replace(
    "{FED}", _FED
)
_PROBLEM = """(define (problem p) (:domain tiny)
 (:objects b1 b2 - ball x1 x2 - box tom - cat)
 (:init (in b1 x1) (in b2 x1) (shut x2) (= (total-cost) 0))
 (:goal (exists (?b - ball) (and (red ?b) (not (exists (?x - box) (in ?b ?x)))))))"""
_GRAMMAR = """
action roll { template :: "roll {b} out of {x}"; feedback :: "#roll.said#"; }
action feed { template :: "feed {c}"; feedback :: "The {c.name or c.id} eats."; }
action stay { template :: "stay {x}"; feedback :: "x"; }
grammar :: \"\"\"{"intro": [{"rhs": "Play."}], "list_empty": [{"rhs": "none"}],
 "list_separator": [{"rhs": ", "}], "list_last_separator": [{"rhs": " and "}],
 "roll.said": [{"condition": "not_in(b:ball, x:box) & red(b:ball)",
  "rhs": "Out of {x}, red [{b | red(b:ball)}]."},
               {"rhs": "Left: [{o | in(o:ball, x:box)}]."}]}\"\"\";
"""


def test_adl_conditions_effects_and_wording():
    domain_ = read_domain(_DOMAIN)
    game = Game(domain_, read_problem(_PROBLEM, domain_), read_grammar(_GRAMMAR))
    state = game.start
    # Nothing is red, the cat is not fed; to stay would change nothing.
    assert list(game.commands(state)) == ["feed tom"]
    state = game.after(state, game.commands(state)["feed tom"])
    assert list(game.commands(state)) == ["feed tom", "roll b1 out of x1", "roll b2 out of x1"]
    move = game.commands(state)["roll b1 out of x1"]
    after = game.after(state, move)
    # Conditions of effects are read before the step: the ball was in the box.
    assert game.answer(after, move) == "Out of x1, red b1."
    assert game.has_won(after)
    assert not game.has_won(state)
    assert game.state(json.loads(json.dumps(game.changes(after)))) is after
    assert game.changes(game.start) == []


def test_an_undeclared_type_has_no_members():
    strange = read_domain(_DOMAIN.replace(_FED, "(exists (?c - dog, ?y - box) (fed ?c))"))
    action = next(action for action in strange.actions if action.name == "roll")
    assert action.precondition[0] == "and"
    game = Game(strange, read_problem(_PROBLEM, strange), read_grammar(_GRAMMAR))
    fed = game.after(game.start, game.commands(game.start)["feed tom"])
    assert list(game.commands(fed)) == ["feed tom"]
