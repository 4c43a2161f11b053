"""The WebShop course of the policy: training goals in many wordings, in both observation modes."""

from stategate.envs.webshop.wordings import reworded
from stategate.nodes.observe.webshop import WebShopEnv
from stategate.trainers.policy.rollout import Course
from stategate.trainers.webshop.goals import MODES, draw, load_shop, practice
from stategate.trainers.webshop.lookalikes import weight, with_lookalikes
from stategate.trainers.webshop.teacher import good_actions

_SHOWN = 110  # goals to develop with


def course(data: str, seed: int) -> Course:
    """Return the goals of training products.

    Held out are real and made ones of other products, and goals to develop with, whose products have
    many look-alikes.
    """
    plans = {
        mode: with_lookalikes(
            practice(load_shop(data, mode), seed, "train", "develop"), seed, "train", "develop"
        )
        for mode in sorted(MODES)
    }
    plan = plans[MODES[0]]
    developing = plan.world.ranges["developing"]
    shown = draw(developing, min(_SHOWN, len(developing)), seed, plan.world)
    for one in plans.values():
        said = reworded([one.world.goals[i] for i in shown], one.world.products, "develop", seed)
        for i, goal in zip(shown, said, strict=True):
            one.world.goals[i] = goal
    return Course(
        WebShopEnv(),
        plan.world.catalogue.fingerprint,
        {mode: one.world for mode, one in plans.items()},
        [
            {"goal": goal}
            for goal in plan.training
            for _ in range(weight(plan.world, goal))  # the harder, the oftener
        ],
        {
            sort: [{"goal": goal} for goal in goals]
            for sort, goals in (
                ("heldout", plan.heldout),
                ("made", plan.made_heldout),
                ("developing", shown),
            )
            if goals
        },
        good_actions,
    )
