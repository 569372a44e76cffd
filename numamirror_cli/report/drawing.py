"""The machine drawn with boxes: sockets hold nodes, nodes hold their memory, CPUs and GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from numamirror_cli.figures import counted
from numamirror_cli.machine.cpulist import format_list
from numamirror_cli.machine.model import Gpu, Machine, Node
from numamirror_cli.quoting import printable
from numamirror_cli.report.gpu_names import short_name
from numamirror_cli.report.lists import break_at_commas
from numamirror_cli.report.roles import role
from numamirror_cli.report.units import size

# Inside of a node's box, so that two sockets of one node each fit side by side in 80 columns.
NODE_WIDTH = 31

Lines = list[str]


@dataclass(frozen=True)
class Pens:
    """Corners, edges and the two halves of a memory bar."""

    top_left: str
    top_right: str
    bottom_left: str
    bottom_right: str
    across: str
    down: str
    used: str
    free: str


UNICODE = Pens("┌", "┐", "└", "┘", "─", "│", "█", "░")
ASCII = Pens("+", "+", "+", "+", "-", "|", "#", ".")


def draw_topology(machine: Machine, width: int, *, ascii_only: bool = False) -> str:
    """The drawing, for at least 40 columns; boxes flow into as many as `width` holds."""
    pens = ASCII if ascii_only else UNICODE
    boxes = [
        _box(
            f"socket {index}",
            _nodes(machine, [machine.node(n) for n in socket], width - 4, pens),
            pens,
        )
        for index, socket in enumerate(machine.sockets)
    ]
    boxes += [_node_box(machine, node, pens) for node in machine.nodes if node.socket is None]
    homeless = [gpu for gpu in machine.gpus if gpu.node is None]
    if homeless:
        boxes.append(_box("node unknown", [line for g in homeless for line in _gpu(g)], pens))
    return "\n".join(line.rstrip() for line in _flow(boxes, width)) or "no NUMA nodes to draw"


def _nodes(machine: Machine, nodes: Sequence[Node], width: int, pens: Pens) -> Lines:
    return _flow([_node_box(machine, node, pens) for node in nodes], width)


def _node_box(machine: Machine, node: Node, pens: Pens) -> Lines:
    lines = [*_memory(node, pens), *_cpus(node)]
    for gpu in machine.gpus:
        if gpu.node == node.id:
            lines += _gpu(gpu)
    return _box(f"node {node.id}, {role(node, machine)}", lines, pens, NODE_WIDTH)


def _memory(node: Node, pens: Pens) -> Lines:
    if not node.mem_total:
        return ["no memory"]
    if node.mem_free is None:
        return [size(node.mem_total)]
    used = round(NODE_WIDTH * (1 - min(1.0, node.mem_free / node.mem_total)))
    bar = pens.used * used + pens.free * (NODE_WIDTH - used)
    return [f"{size(node.mem_total)}, {size(node.mem_free)} free", bar]


def _cpus(node: Node) -> Lines:
    if not node.cpus:
        return ["no CPUs"] if node.gpu is None else [f"memory of GPU {node.gpu}"]
    cores = f"{counted(len(node.cores), 'core')}, " if node.cores else ""
    lines = break_at_commas(f"{cores}CPUs {format_list(node.cpus)}", NODE_WIDTH)
    if node.allowed_cpus != node.cpus:
        lines += break_at_commas(f"allowed {format_list(node.allowed_cpus) or 'none'}", NODE_WIDTH)
    return lines


def _gpu(gpu: Gpu) -> Lines:
    """Two lines per GPU that votes, one for others."""
    if gpu.votes:
        return [f"GPU {gpu.address}", f"    {short_name(gpu)}"]
    return [f"{gpu.address} {short_name(gpu)}"]


def _box(title: str, lines: Sequence[str], pens: Pens, width: int = 0) -> Lines:
    """A frame around the lines, which are cut where they are longer than `width`."""
    shown = [printable(line) for line in lines]
    inside = width or max([len(title) + 2, *map(len, shown)])
    heading = f"{pens.across} {title} "
    top = pens.top_left + heading + pens.across * (inside + 2 - len(heading)) + pens.top_right
    body = [f"{pens.down} {_cut(line, inside)} {pens.down}" for line in shown]
    bottom = pens.bottom_left + pens.across * (inside + 2) + pens.bottom_right
    return [top, *body, bottom]


def _cut(line: str, width: int) -> str:
    return line.ljust(width) if len(line) <= width else line[: width - 2] + ".."


def _flow(boxes: Sequence[Lines], width: int) -> Lines:
    """Boxes side by side, as many as fit, then below one another."""
    rows: list[list[Lines]] = []
    for box in boxes:
        if rows and sum(len(b[0]) + 1 for b in rows[-1]) + len(box[0]) <= width:
            rows[-1].append(box)
        else:
            rows.append([box])
    return [line for row in rows for line in _beside(row)]


def _beside(boxes: Sequence[Lines]) -> Lines:
    height = max(len(box) for box in boxes)
    padded = [box + [" " * len(box[0])] * (height - len(box)) for box in boxes]
    return [" ".join(parts) for parts in zip(*padded, strict=True)]
