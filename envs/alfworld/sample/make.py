"""Invent households to train on and to test with; ``games.json.xz`` holds those that ship.

Rooms are drawn from ``recipe.yaml``; things lie where they usually do, and sometimes elsewhere. Games
to train on and ``valid_seen`` share rooms, ``valid_unseen`` has rooms of its own. The same seed gives
the same games, of rooms that no other seed has.
"""

import random
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from stategate.envs.alfworld.files import GAME
from stategate.stores.files import write_json

_ROOMS = {"train": range(12), "valid_seen": range(12), "valid_unseen": range(12, 18)}
_MESS = 0.25  # of things that lie where they usually do not
_TOOLS = {"wash": "rinses", "heat": "warms", "cool": "chills"}
_STATES = {"wash": "washed", "heat": "warm", "cool": "cold"}
_ABLE = {"wash": "washable", "heat": "cookable", "cool": "coolable"}
_SYLLABLES = [f"{first}{second}" for first in "bdfgjklmnprstvz" for second in "aeiou"]


def write_games(
    folder: Path, seed: int, count: int, split: str = "valid_unseen", renamed: bool = False
) -> None:
    """Write ``count`` games as files that ``AlfWorld.load`` reads."""
    for number in range(count):
        name, game = invent_game(seed, split, number, renamed)
        write_json(folder / name / GAME, {"pddl_domain": domain(), **game})


def invent_game(
    seed: int, split: str, number: int, renamed: bool = False
) -> tuple[str, dict[str, Any]]:
    """Return (name, game file without its domain) of a game that can be won.

    A ``renamed`` game is the same with made-up words, other ones than any other has.
    """
    rooms = _ROOMS[split]
    rng = random.Random(f"{seed} {split} {number}")
    name, game = _game(rng, seed, split, rooms[number % len(rooms)], number)
    return _renamed(rng, name, game) if renamed else (name, game)


def _renamed(rng: random.Random, name: str, game: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Give every kind of furniture and thing a word that means nothing."""
    recipe = _recipe()
    kinds = [*recipe["furniture"], *recipe["things"], *recipe["lamps"]]
    words: dict[str, str] = {}
    for kind in kinds:
        parts = rng.choices(_SYLLABLES, k=rng.choice((2, 3)))
        words[kind] = "".join(parts) + rng.choice("bdgklmnprstz")
    pattern = re.compile(rf"\b({'|'.join(kinds)})(?=\b|kind\b|make\b|_bar_)")

    def renamed(text: str) -> str:
        return pattern.sub(lambda match: words[match[1]], text)

    fields = {key: renamed(text) if isinstance(text, str) else text for key, text in game.items()}
    return renamed(name), fields


def domain() -> str:
    """Return the domain of invented games."""
    return _text("domain.pddl")


@cache
def _text(name: str) -> str:
    return Path(__file__).with_name(name).read_text("utf-8")


@cache
def _recipe() -> dict[str, Any]:
    import yaml

    recipe: dict[str, Any] = yaml.safe_load(_text("recipe.yaml"))
    return recipe


def _game(
    rng: random.Random, seed: int, split: str, room: int, number: int
) -> tuple[str, dict[str, Any]]:
    recipe = _recipe()
    kinds = list(recipe["rooms"])
    place_of = _room(random.Random(f"{seed} room {room}"), kinds[room % len(kinds)])
    here = set(place_of.values())
    goal, thing, target = _goal(rng, kinds[room % len(kinds)], here)
    things = _things(rng, kinds[room % len(kinds)], place_of, goal, thing, target)
    lamp = _lamp(rng, place_of, things) if goal == "light" else ""
    words = rng.choice(recipe["goals"][goal])
    task = words.format(thing=thing, place=target, lamp=lamp.partition("_")[0])
    grammar = _text("grammar.twl").replace("TASK", task)
    grammar = grammar.replace("ROOM", kinds[room % len(kinds)])
    name = f"{split}/{goal}-{thing}-{target or lamp.partition('_')[0]}-{room}/trial_{number:04d}"
    return name, {
        "grammar": grammar,
        "pddl_problem": _problem(place_of, things, goal, thing, target, lamp),
        "solvable": True,
    }


def _room(rng: random.Random, kind: str) -> dict[str, str]:
    """Return furniture by id, with its kind."""
    places = {}
    for name, (fewest, largest) in _recipe()["rooms"][kind]["furniture"].items():
        for _ in range(rng.randint(fewest, largest)):
            places[f"{name}_bar_{rng.randrange(10**6):06d}"] = name
    return places


def _goal(rng: random.Random, kind: str, here: set[str]) -> tuple[str, str, str]:
    """Draw a goal: its kind, the thing, and the place ("" under a lamp)."""
    recipe = _recipe()
    able = {
        verb
        for verb, tool in _TOOLS.items()
        if any(recipe["furniture"][name].get(tool) for name in here)
    }
    choices = [
        (goal, thing)
        for goal in recipe["goals"]
        for thing in recipe["rooms"][kind]["things"]
        if goal not in _TOOLS or (goal in able and goal in recipe["things"][thing]["can"])
    ]
    goal = rng.choice(sorted({goal for goal, _ in choices}))
    thing = rng.choice([thing for other, thing in choices if other == goal])
    return goal, thing, "" if goal == "light" else rng.choice(sorted(here))


def _things(
    rng: random.Random, kind: str, place_of: Mapping[str, str], goal: str, thing: str, target: str
) -> dict[str, tuple[str, str]]:
    """Return things by id: their kind, and the id of the place where they lie."""
    recipe = _recipe()
    things = {}
    for name in recipe["rooms"][kind]["things"]:
        fewest = (2 if goal == "two" else 1) if name == thing else 0
        for _ in range(rng.randint(fewest, 3)):
            usual = [i for i, k in place_of.items() if k in recipe["things"][name]["usual"]]
            places = usual if usual and rng.random() > _MESS else list(place_of)
            if name == thing:  # not where it is to go already
                places = [i for i in places if place_of[i] != target] or [
                    i for i, k in place_of.items() if k != target
                ]
            things[f"{name}_bar_{rng.randrange(10**6):06d}"] = (name, rng.choice(sorted(places)))
    return things


def _lamp(
    rng: random.Random, place_of: Mapping[str, str], things: dict[str, tuple[str, str]]
) -> str:
    """Put a lamp somewhere that does not open; return its id."""
    recipe = _recipe()
    name = rng.choice(recipe["lamps"])
    open_air = sorted(i for i, k in place_of.items() if not recipe["furniture"][k].get("opens"))
    lamp = f"{name}_bar_{rng.randrange(10**6):06d}"
    things[lamp] = (name, rng.choice(open_air))
    return lamp


def _problem(
    place_of: Mapping[str, str],
    things: Mapping[str, tuple[str, str]],
    goal: str,
    thing: str,
    target: str,
    lamp: str,
) -> str:
    recipe = _recipe()
    sorts = sorted({*recipe["things"], *recipe["lamps"]})
    makes = sorted(set(place_of.values()))
    objects = ["walker - actor", "door_spot - spot"]
    objects += [f"{name}kind - kind" for name in sorts] + [f"{n}make - furniture" for n in makes]
    facts = ["(standing walker door_spot)"]
    for number, (id_, name) in enumerate(place_of.items()):
        objects += [f"{id_} - place", f"spot_{number} - spot"]
        facts += [f"(stands {id_} spot_{number})", f"(make {id_} {name}make)"]
        facts += [f"(opens {id_})"] * bool(recipe["furniture"][name].get("opens"))
    for name in makes:
        facts += [f"(fits {name}make {sort}kind)" for sort in sorts]
        facts += [
            f"({tool} {name}make)" for tool in _TOOLS.values() if tool in recipe["furniture"][name]
        ]
    for id_, (name, place) in things.items():
        objects.append(f"{id_} - thing")
        facts += [f"(sort {id_} {name}kind)", f"(lies {id_} {place})"]
        facts += [f"(lightable {id_})" if id_ == lamp else f"(portable {id_})"]
        able = recipe["things"].get(name, {"can": []})["can"]
        facts += [f"({_ABLE[verb]} {id_})" for verb in able]
    return (
        f"(define (problem invented) (:domain household)\n(:objects {' '.join(objects)})\n"
        f"(:init {' '.join(facts)})\n(:goal {_goal_formula(goal, thing, target, lamp)}))"
    )


def _goal_formula(goal: str, thing: str, target: str, lamp: str) -> str:
    if goal == "light":
        return (
            f"(exists (?t - thing ?p - place ?s - spot ?w - actor) (and (sort ?t {thing}kind) "
            f"(carries ?w ?t) (lit {lamp}) (lies {lamp} ?p) (stands ?p ?s) (standing ?w ?s)))"
        )
    state = f" ({_STATES[goal]} ?t)" if goal in _STATES else ""
    there = f"(make ?p {target}make) (sort ?t {thing}kind){state} (lies ?t ?p)"
    if goal != "two":
        return f"(exists (?t - thing ?p - place) (and {there}))"
    second = f"(exists (?o - thing) (and (not (= ?o ?t)) (sort ?o {thing}kind) (lies ?o ?p)))"
    return f"(exists (?t - thing ?p - place) (and {there} {second}))"
