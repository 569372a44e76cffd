"""All that can be found out about one process's memory, taken at one moment."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from numamirror_cli.errors import NumaMirrorError
from numamirror_cli.figures import counted
from numamirror_cli.machine.nodes import NodeFacts, read_nodes
from numamirror_cli.machine.tree import Tree
from numamirror_cli.memory.buffers import Buffer, find_buffers
from numamirror_cli.memory.find import program_name
from numamirror_cli.memory.kernel import (
    Cpuset,
    Unmovable,
    read_cpuset,
    read_numa_balancing,
    read_resident,
    read_unmovable,
)
from numamirror_cli.memory.maps import Extent, read_maps
from numamirror_cli.memory.model_files import Model, named_models
from numamirror_cli.memory.numa_maps import BadLine, Mapping, read_numa_maps
from numamirror_cli.memory.placement import Placement, add_up
from numamirror_cli.memory.policy import DEFAULT, Policy, parse_policy
from numamirror_cli.memory.process import WHO_RUNS, Process, is_same, read_process, reading
from numamirror_cli.memory.sampling import SAMPLE_ABOVE, sample_maps
from numamirror_cli.memory.scratch import Scratch, find_scratch
from numamirror_cli.memory.smaps import Detail, read_details
from numamirror_cli.memory.status_page import MirrorStatus, read_mirror_status
from numamirror_cli.memory.threads import Threads, read_threads
from numamirror_cli.memory.weights import Weights, find_weights, mirrors_by_itself

# smaps has some twenty-five lines for each mapping: beyond this many they take a second to read.
_MOST_MAPPINGS = 20_000


@dataclass(frozen=True)
class Sample:
    """The figures are estimates. asked: pages; bound: bytes by which a node's sum may be off at
    95 % confidence."""

    asked: int
    bound: int


@dataclass(frozen=True)
class Inspection:
    """One process at one moment. sample is None when every page was counted.

    name: of the program, also where a loader runs it. nodes: the machine's, in id order.
    mirror: None without a status page, or when it could not be read, which mirror_problem then
    says. notes: lines of /proc that were left out, and the like. seconds: how long the look took.
    """

    process: Process
    name: str
    nodes: tuple[int, ...]
    placement: Placement
    buffers: tuple[Buffer, ...]
    threads: Threads
    policy: Policy
    cpuset: Cpuset
    numa_balancing: int | None
    unmovable: Unmovable
    models: tuple[Model, ...]
    mirror: MirrorStatus | None
    mirror_problem: str
    sample: Sample | None
    notes: tuple[str, ...]
    seconds: float

    @property
    def weights(self) -> Weights | None:
        """The weights, as far as the kernel alone can tell; see find_weights."""
        model_bytes = sum(model.bytes for model in self.models)
        own_mirror = mirrors_by_itself(self.process.arguments)
        return find_weights(self.buffers, model_bytes, own_mirror=own_mirror)


def inspect_process(pid: int, root: Path = Path("/"), *, exact: bool = False) -> Inspection:
    """Look at a process once.

    exact: count every page, also of a process so large that the kernel needs seconds for it.
    Raises NumaMirrorError when the process is gone, ends meanwhile, may not be read, has no memory
    of its own, or when the kernel has no NUMA.
    """
    begun = time.monotonic()
    process = read_process(pid, root)
    if process.state in "ZX":
        message = f"process {pid} ({process.command}) has ended: it is a zombie"
        raise NumaMirrorError(message, hint=WHO_RUNS)
    tree = Tree(root)
    nodes = read_nodes(tree)
    bad: list[BadLine] = []
    mappings, extents, sample = _read_memory(pid, root, exact, bad)
    if not mappings:
        raise _no_memory(process, root)
    details = None if sample is not None else _read_details(pid, root, len(extents))
    mirror, problem = _read_mirror(pid, root)
    scratch, note = _read_scratch(pid, mirror, extents)
    inspection = Inspection(
        process=process,
        name=program_name(process, extents),
        nodes=tuple(node.id for node in nodes),
        placement=add_up(mappings, (node.id for node in nodes)),
        buffers=find_buffers(
            mappings, extents, details, has_shim=mirror is not None, scratch=scratch
        ),
        threads=read_threads(pid, node_of_cpus(nodes), root),
        policy=_process_policy(mappings),
        cpuset=read_cpuset(pid, root),
        numa_balancing=read_numa_balancing(root),
        unmovable=read_unmovable(pid, root),
        models=named_models(process, root),
        mirror=mirror,
        mirror_problem=problem,
        sample=sample,
        notes=(*tree.notes, *_notes_on(pid, bad), *note),
        seconds=time.monotonic() - begun,
    )
    if root == Path("/") and not is_same(process, root):
        message = f"process {pid} ({process.command}) ended while it was looked at"
        raise NumaMirrorError(message, hint=WHO_RUNS)
    return inspection


def read_placement(pid: int, root: Path = Path("/"), *, exact: bool = False) -> Placement:
    """Bytes per node of a process, and nothing else: for repeated snapshots. Raises as above."""
    nodes = [node.id for node in read_nodes(Tree(root))]
    mappings, _, _ = _read_memory(pid, root, exact, [])
    return add_up(mappings, nodes)


def node_of_cpus(nodes: Iterable[NodeFacts]) -> dict[int, int]:
    """CPU -> node."""
    return {cpu: node.id for node in nodes for cpu in node.cpus}


def _read_memory(
    pid: int, root: Path, exact: bool, bad: list[BadLine]
) -> tuple[Sequence[Mapping], Sequence[Extent], Sample | None]:
    extents = read_maps(pid, root, bad)
    live = root == Path("/")
    resident = read_resident(pid, root)
    if exact or not live or resident <= SAMPLE_ABOVE:
        return tuple(read_numa_maps(pid, root, bad)), extents, None
    sampled = sample_maps(pid, extents, _first_policy(pid), resident)
    return sampled.mappings, extents, Sample(sampled.asked, sampled.bound)


def _read_details(pid: int, root: Path, mappings: int) -> dict[int, Detail] | None:
    """None where they can't be had, and where that would take too long."""
    if mappings > _MOST_MAPPINGS:
        return None
    try:
        return read_details(pid, root)
    except NumaMirrorError:
        return None


def _first_policy(pid: int) -> str:
    """The policy word of numa_maps' first line, by a read so short that no more is walked.

    The first mapping is the program itself, which has no policy but the process's own.
    """
    with reading(pid, "numa_maps") as path:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            first = os.read(descriptor, 64).decode(errors="replace")
        finally:
            os.close(descriptor)
    words = first.split()[1:3]
    return " ".join(words) if words[:1] in (["prefer"], ["weighted"]) else "".join(words[:1])


def _process_policy(mappings: Sequence[Mapping]) -> Policy:
    """The process's own: what its stack and heap have, which hardly any program gives their own."""
    for mapping in (
        *(m for m in mappings if m.stack),
        *(m for m in mappings if m.heap),
        *mappings,
    ):
        try:
            return parse_policy(mapping.policy)
        except ValueError:
            continue
    return DEFAULT


def _read_mirror(pid: int, root: Path) -> tuple[MirrorStatus | None, str]:
    try:
        with reading(pid, "fd", root):
            return read_mirror_status(pid, root), ""
    except NumaMirrorError as error:
        # A replayed dump has no descriptors: that is no problem to speak of.
        return None, error.message if root == Path("/") else ""


def _read_scratch(
    pid: int, mirror: MirrorStatus | None, extents: Sequence[Extent]
) -> tuple[tuple[Scratch, ...], tuple[str, ...]]:
    """The engine's caches and memory for computing, or a note on why they stay untold."""
    try:
        return find_scratch(pid, mirror.buffers if mirror else (), extents), ()
    except NumaMirrorError as error:
        return (), (f"the KV cache is not told apart from other memory: {error.message}",)


def _no_memory(process: Process, root: Path) -> NumaMirrorError:
    # kthreadd, pid 2, starts all threads of the kernel; what else has no memory is ending.
    if process.parent not in (0, 2) or not is_same(process, root):
        return NumaMirrorError(
            f"process {process.pid} ({process.command}) has ended", hint=WHO_RUNS
        )
    return NumaMirrorError(
        f"process {process.pid} ({process.command}) has no memory of its own: a kernel thread",
        hint=f"give a process that runs a program; {WHO_RUNS}",
    )


def _notes_on(pid: int, bad: Sequence[BadLine]) -> Iterator[str]:
    for line in bad[:5]:
        yield f"/proc/{pid}/{line}"
    if len(bad) > 5:
        yield f"/proc/{pid}: {counted(len(bad) - 5, 'more line')} ignored"
