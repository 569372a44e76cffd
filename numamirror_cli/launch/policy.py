"""The memory policy that the child inherits: respected, set, and asked back from the kernel.

A policy survives fork and exec (set_mempolicy(2)), so that the launcher sets its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from numamirror_cli.memory.policy import Policy, PolicyRefused, Refusal, current_policy, set_policy
from numamirror_cli.notice import Notice


@dataclass(frozen=True)
class PolicyOutcome:
    """policy: what the kernel says after the act, None when it does not say; notice: what went
    wrong, None when nothing did."""

    policy: Policy | None
    notice: Notice | None = None


def read_caller_policy() -> PolicyOutcome:
    """The policy under which we were started."""
    try:
        return PolicyOutcome(current_policy())
    except PolicyRefused as refused:
        what = "running without a policy of ours, since one of yours cannot be ruled out"
        return PolicyOutcome(None, _notice(refused.refusal, what))


def inherit_policy(wanted: Policy) -> PolicyOutcome:
    """Set the policy that the child will inherit, and ask the kernel whether it stands."""
    try:
        set_policy(wanted)
    except PolicyRefused as refused:
        return PolicyOutcome(None, _notice(refused.refusal, "running without a policy"))
    try:
        now = current_policy()
    except PolicyRefused as refused:
        what = f"policy {wanted} was set and could not be verified"
        return PolicyOutcome(None, _notice(refused.refusal, what))
    if now != wanted:
        return PolicyOutcome(now, Notice(f"the memory policy is {now}, not {wanted}"))
    return PolicyOutcome(now)


def _notice(refusal: Refusal, what: str) -> Notice:
    return Notice(what, str(refusal), refusal.remedy)
