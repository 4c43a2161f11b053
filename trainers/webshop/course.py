"""What the policy actor is reinforced on in WebShop: training goals in many wordings, both modes."""

from nodes.observe.webshop import WebShopEnv
from trainers.policy.reinforce import Course
from trainers.webshop.goals import MODES, load_shop, practice


def course(data: str, seed: int) -> Course:
    """Return the goals of training products; held out are real and made ones of other products."""
    plans = {
        mode: practice(load_shop(data, mode), seed, "train", "develop") for mode in sorted(MODES)
    }
    plan = plans[MODES[0]]
    return Course(
        WebShopEnv(), plan.world.catalogue.fingerprint,
        {mode: one.world for mode, one in plans.items()},
        [{"goal": goal} for goal in plan.training],
        {
            "heldout": [{"goal": goal} for goal in plan.heldout],
            "made": [{"goal": goal} for goal in plan.made_heldout],
        },
    )  # fmt: skip
