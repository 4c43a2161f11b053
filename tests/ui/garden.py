"""A stranger's world: a package apart, found by its entry point; no code of ours knows it."""

SOURCE = '''
from typing import Literal

from stategate.envs.protocols import Observation, World
from stategate.nodes.protocols import EnvParams

ROOMS = {"hall": ("garden", "cellar"), "garden": ("hall",), "cellar": ("hall",)}


class Garden(World):
    """Fetch a lantern and light it where it is wanted."""

    name = "garden"

    def tasks(self):
        return [{"thing": thing, "room": room} for thing in ("lantern", "candle") for room in ROOMS]

    def reset(self, task):
        session = {"thing": task["thing"], "want": task["room"], "at": "hall", "held": False,
                   "said": "", "lit": ""}
        return session, self.observe(session)

    def instruction(self, session):
        return f"Light the {session['thing']} in the {session['want']}."

    def observe(self, session):
        at, thing = session["at"], session["thing"]
        here = f"A {thing} hangs here." if self._here(session) else "Cobwebs."
        lines = [f"You are in the {at}.", here]
        if session["said"]:
            lines.append(f"You said: {session['said']}")
        if session["lit"]:
            won = session["lit"] == session["want"]
            return Observation("It burns.", (), float(won), True, {"reward": {"right room": won}})
        acts = [f"go {room}" for room in ROOMS[at]]
        acts += [f"take {thing}"] if self._here(session) else []
        acts += [f"light {thing}"] if session["held"] else []
        return Observation("\\n".join(lines), (*acts, "say[<words>]"))

    def _here(self, session):
        return session["at"] == "cellar" and not session["held"]

    def step(self, session, action):
        after = dict(session)
        if action not in self.observe(session).actions and not action.startswith("say["):
            return session, self.observe(session)
        verb, _, rest = action.partition(" ")
        if verb == "go":
            after["at"] = rest
        elif verb == "take":
            after["held"] = True
        elif verb == "light":
            after["lit"] = session["at"]
        else:
            after["said"] = action[4:-1]
        return after, self.observe(after)


class GardenEnv(EnvParams):
    """A house with a cellar and a garden; something must be lit."""

    kind: Literal["garden"] = "garden"

    def build(self, resources):
        return Garden()
'''
#: Wins the task {"thing": "lantern", "room": "garden"}.
WINNING = ["go cellar", "take lantern", "go hall", "go garden", "light lantern"]
CONFIG = {
    "env": "garden",
    "embedder": "hashing",
    "updater": "none",
    "context": {"kind": "full", "budget": 300},
    "actor": {"kind": "scripted", "actions": WINNING},
    "memory": ["short_term", "trace"],
    "max_steps": 8,
}


def install(site, kind="garden", source=SOURCE, cls="GardenEnv"):
    """Write the package of a kind and its metadata into ``site``, as pip would."""
    info = site / f"stranger_{kind}-1.0.dist-info"
    info.mkdir(parents=True)
    (site / f"stranger_{kind}.py").write_text(source)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: stranger-{kind}\nVersion: 1.0\n")
    points = f"[stategate.nodes]\n{kind} = stranger_{kind}:{cls}\n"
    (info / "entry_points.txt").write_text(points)
