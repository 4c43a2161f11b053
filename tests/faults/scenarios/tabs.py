"""Tabs of the app: what each was doing, written again and again."""

from stategate.ui.app.sessions import TabSessions

TABS = ("a", "b", "c")


def prepare():
    pass


def work(folder, acknowledge):
    tabs = TabSessions(folder / "tabs")
    for step in range(4):
        for tab in TABS:
            if (tabs.read(tab) or {}).get("step", -1) < step:
                tabs.write(tab, {"step": step, "thread": f"{tab}-{step}", "pages": ["p"] * 300})
                acknowledge([tab, step])
    tabs.prune(days=1.0)


def check(folder, acknowledged):
    tabs = TabSessions(folder / "tabs")
    there = {tab: tabs.read(tab) for tab in TABS}
    for tab, row in there.items():
        steps = [step for name, step in acknowledged if name == tab]
        assert (row or {}).get("step", -1) >= max(steps, default=-1), f"{tab} lost a step"
        if row:
            assert row == {
                "step": row["step"],
                "thread": f"{tab}-{row['step']}",
                "pages": ["p"] * 300,
            }
    return there
