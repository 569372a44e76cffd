"""The page cache of a whole model, in all its parts, and where one wishes to have it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from numamirror_cli.errors import NumaMirrorError
from numamirror_cli.machine.notes import name_nodes
from numamirror_cli.memory.buffers import add_by_node
from numamirror_cli.memory.cache_actions import evict, warm
from numamirror_cli.memory.mapped_by import processes_mapping
from numamirror_cli.memory.model_files import Model, find_parts, not_there
from numamirror_cli.memory.page_cache import CacheState, read_cache_state
from numamirror_cli.memory.policy import Policy
from numamirror_cli.memory.process import Process

Tell = Callable[[int], None]


@dataclass(frozen=True)
class ModelCache:
    """The parts of a model, as their page cache is at one moment, and who has them mapped."""

    states: tuple[CacheState, ...]
    mapped_by: tuple[Process, ...]

    @property
    def bytes(self) -> int:
        return sum(state.bytes for state in self.states)

    @property
    def cached(self) -> int:
        """Bytes in memory."""
        return sum(state.cached for state in self.states)

    @property
    def by_node(self) -> dict[int, int]:
        """Bytes in memory, per node."""
        return add_by_node(state.by_node for state in self.states)

    def on(self, nodes: frozenset[int]) -> int:
        """Bytes in memory on those nodes."""
        return sum(count for node, count in self.by_node.items() if node in nodes)


def look_at(model: Model, tell: Tell) -> ModelCache:
    """How a model is cached. tell: called with the bytes looked at so far.

    Raises NumaMirrorError when a part is missing or may not be asked about.
    """
    if model.missing:
        missing = "; ".join(map(not_there, model.missing))
        raise NumaMirrorError(missing, hint=find_parts(model.missing[0]))
    states: list[CacheState] = []
    done = 0
    for part in model.parts:
        states.append(read_cache_state(part, _beginning_at(done, tell)))
        done += states[-1].bytes
    mapping = {p.pid: p for state in states for p in processes_mapping(state)}
    return ModelCache(tuple(states), tuple(mapping.values()))


def evict_model(model: Model) -> None:
    """Drop all parts from the page cache, as far as the kernel will. Raises as evict()."""
    for part in model.parts:
        evict(part)


def warm_model(model: Model, policy: Policy, tell: Tell) -> None:
    """Read all parts in, as the policy says. tell: called with the bytes read so far.

    Raises as warm().
    """
    done = 0
    for part in model.parts:
        warm(part, policy, _beginning_at(done, tell))
        done += part.stat().st_size


def warming_policy(wanted: str, nodes: frozenset[int]) -> Policy:
    """The policy for "interleave" or a node id. nodes: those with memory.

    Preferred, not bound: a model that is larger than the node goes on to others, and no program is
    killed for lack of memory. Raises NumaMirrorError (exit status 2) naming the nodes there are.
    """
    if wanted == "interleave" and nodes:
        return Policy("interleave", nodes)
    if wanted.isascii() and wanted.isdecimal() and int(wanted) in nodes:
        return Policy("preferred", frozenset({int(wanted)}))
    raise NumaMirrorError(
        f"--warm {wanted}: not a node with memory",
        hint=f"those are {name_nodes(sorted(nodes)) or 'not known here'}; or give interleave",
        exit_code=2,
    )


def lies_elsewhere(cache: ModelCache, policy: Policy) -> bool:
    """Some of it is cached, and not as the policy would have it."""
    if policy.mode == "interleave":
        return cache.cached > 0 and len(policy.nodes) > 1
    return cache.on(policy.nodes) < cache.cached


def _beginning_at(done: int, tell: Tell) -> Tell:
    return lambda more: tell(done + more)
