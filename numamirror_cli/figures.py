"""How shares, counts and lists of nodes are spelled in sentences."""

from __future__ import annotations


def percent(share: float) -> str:
    """A share as "47 %". "100 %" is said of all, and "0 %" of nothing, and of no less or more."""
    hundredths = share * 100
    if 0 < hundredths < 0.05:
        return "<0.1 %"
    if 0 < hundredths < 1 or 99 <= hundredths < 100:
        return f"{min(hundredths, 99.9):.1f} %"
    return f"{hundredths:.0f} %"


def counted(count: int, noun: str) -> str:
    """A count and its noun: "1 copy", "2 copies", "3 libraries", "3 threads"."""
    if count == 1:
        return f"1 {noun}"
    plural = noun.removesuffix("y") + "ies" if noun.endswith("y") else f"{noun}s"
    return f"{count} {plural}"


def with_verb(count: int, noun: str, one: str = "is", many: str = "are") -> str:
    """A count, its noun and the verb: "1 core is", "2 cores are"."""
    return f"{counted(count, noun)} {one if count == 1 else many}"


def nodes_word(nodes: str) -> str:
    """A list of nodes with its noun: "node 1", "nodes 2,3", "nodes 0-7"."""
    return f"node {nodes}" if nodes.isdecimal() else f"nodes {nodes}"
