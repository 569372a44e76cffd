"""Options that do nothing under the strategy: whoever gave one expects something of it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from numamirror_cli.launch.plan import Plan, Wishes
from numamirror_cli.notice import Notice
from numamirror_cli.plan.layout import BIND


def note_on_idle_options(plan: Plan, wishes: Wishes) -> Notice | None:
    """Names them, where the strategy is one that was asked for or chosen. A strategy that was left
    over since there can be no mirror has its own reason, which says enough."""
    options = list(_idle(plan, wishes))
    if not options or not plan.intended:
        return None
    what = f"{' and '.join(options)}: no effect"
    return Notice(what, f"strategy {plan.strategy} makes no copies", level="info")


def _idle(plan: Plan, wishes: Wishes) -> Iterator[str]:
    if plan.mirrors:
        return
    given = {
        "--budget": wishes.budget,
        "--adapt": wishes.adapt,
        "--copy-home": wishes.copy_home,
        "--no-heal": not wishes.heal,
        # The shim holds threads under any strategy that it carries out, and bind holds all.
        "--pin": wishes.pin and not plan.uses_shim and plan.strategy != BIND,
    }
    yield from (option for option, wish in given.items() if wish)
