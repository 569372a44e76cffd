"""The machine as a picture: sockets, nodes with memory bars, GPUs on their node, distances."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

from numamirror_cli.figures import counted
from numamirror_cli.machine.cpulist import format_list
from numamirror_cli.machine.model import Gpu, Machine, Node
from numamirror_cli.report.gpu_names import short_name
from numamirror_cli.report.lists import break_at_commas
from numamirror_cli.report.roles import role
from numamirror_cli.report.svg import (
    EDGE,
    FAINT,
    HEAT,
    INK,
    LINE,
    PAD,
    PAPER,
    TITLE,
    Block,
    container,
    document,
    flow,
    heading,
    moved,
    rectangle,
    stack,
    text,
)
from numamirror_cli.report.units import size

# Lengths in pixels.
MOST_WIDTH = 904
GAP = 16
NODE_WIDTH = 264
BAR = 14
GPU_HEIGHT = 40
CELL = 44

HOME, USED, FREE = "#0b7a75", "#7a8ea3", "#dde5ec"
GPU_FILL, GPU_INK = "#fdf0d5", "#7a4b00"


def topology_svg(machine: Machine) -> str:
    """The whole document. A kernel without NUMA makes a picture that says so."""
    blocks = [_title(machine)]
    if machine.numa:
        blocks += [flow(_containers(machine), MOST_WIDTH, GAP)]
        if len(machine.nodes) > 1 and any(node.distances for node in machine.nodes):
            blocks.append(_distances(machine.nodes))
    return document(_heading(machine), stack(blocks, 24))


def _heading(machine: Machine) -> str:
    if not machine.numa:
        return "No NUMA nodes"
    total = sum(node.mem_total or 0 for node in machine.nodes if node.gpu is None)
    nodes, sockets = counted(len(machine.nodes), "node"), counted(len(machine.sockets), "socket")
    return f"{size(total)} in {nodes}, {sockets}"


def _title(machine: Machine) -> Block:
    home = f"Home: node {machine.home.node}: " if machine.home.node is not None else ""
    return heading(_heading(machine), home + machine.home.reason)


def _containers(machine: Machine) -> list[Block]:
    """Sockets with their nodes, then nodes that belong to none, then devices without a node."""
    inside = MOST_WIDTH - 2 * PAD
    blocks = []
    for index, socket in enumerate(machine.sockets):
        nodes = [_node(machine, machine.node(node)) for node in socket]
        blocks.append(container(f"Socket {index}", flow(nodes, inside, GAP)))
    others = [_node(machine, node) for node in machine.nodes if node.socket is None]
    if others:
        blocks.append(container("Nodes without CPUs", flow(others, inside, GAP)))
    homeless = [_gpu(gpu) for gpu in machine.gpus if gpu.node is None]
    if homeless:
        blocks.append(container("Node unknown", flow(homeless, inside, 8)))
    return blocks


def _node(machine: Machine, node: Node) -> Block:
    inside = NODE_WIDTH - 2 * PAD
    gpus = [_gpu(gpu, inside) for gpu in machine.gpus if gpu.node == node.id]
    parts = [_memory(node, inside), _lines(_cpu_lines(node)), *gpus]
    content = stack([part for part in parts if part.height], 10)
    is_home = node.id == machine.home.node
    words = role(node, machine)
    height = content.height + TITLE + PAD + 8
    badge = [text(NODE_WIDTH - PAD, 23, words, 12, HOME if is_home else FAINT, "600", "end")]
    return Block(
        NODE_WIDTH,
        height,
        (
            rectangle(0, 0, NODE_WIDTH, height, PAPER, HOME if is_home else EDGE, 8, is_home),
            text(PAD, 23, f"Node {node.id}", 15, INK, "600"),
            *badge,
            *moved(content, PAD, TITLE + 8),
        ),
    )


def _memory(node: Node, width: float) -> Block:
    """A bar of used and free memory, with the amounts above it."""
    if not node.mem_total:
        return _lines(["no memory"])
    free = node.mem_free
    words = size(node.mem_total) + ("" if free is None else f", {size(free)} free")
    used = 0.0 if free is None else width * (1 - min(1.0, free / node.mem_total))
    elements = [text(0, 13, words, 13), rectangle(0, 21, width, BAR, FREE, radius=3)]
    if used >= 1:
        elements.append(rectangle(0, 21, used, BAR, USED, radius=3))
    return Block(width, 21 + BAR, tuple(elements))


def _cpu_lines(node: Node) -> list[str]:
    if not node.cpus:
        return [f"memory of GPU {node.gpu}"] if node.gpu else ["no CPUs"]
    cores = f"{counted(len(node.cores), 'core')}, " if node.cores else ""
    lines = break_at_commas(f"{cores}CPUs {format_list(node.cpus)}", 34)
    if node.allowed_cpus != node.cpus:
        lines += break_at_commas(f"allowed: {format_list(node.allowed_cpus) or 'none'}", 34)
    return lines


def _lines(lines: Sequence[str]) -> Block:
    elements = [text(0, 13 + LINE * n, line, 13, FAINT) for n, line in enumerate(lines)]
    return Block(NODE_WIDTH - 2 * PAD, 16 + LINE * (len(lines) - 1), tuple(elements))


def _gpu(gpu: Gpu, width: float = NODE_WIDTH - 2 * PAD) -> Block:
    fill, ink = (GPU_FILL, GPU_INK) if gpu.votes else (FREE, FAINT)
    name = short_name(gpu)
    shown = name if len(name) <= 28 else name[:27] + "…"
    return Block(
        width,
        GPU_HEIGHT,
        (
            f"<g><title>{escape(f'{gpu.name}: {gpu.reason}')}</title>",
            rectangle(0, 0, width, GPU_HEIGHT, fill, radius=5),
            text(9, 17, shown, 12, ink, "600"),
            text(9, 32, gpu.address, 11, ink),
            "</g>",
        ),
    )


def _distances(nodes: Sequence[Node]) -> Block:
    """Reader in the row, memory in the column, darker means farther."""
    cell = min(CELL, (MOST_WIDTH - 70) / len(nodes))
    left, top = 70, 64
    elements = [
        text(0, 14, "Distances", 15, INK, "600"),
        text(0, 34, "CPUs of the node in the row, memory of the one in the column", 12, FAINT),
    ]
    seen = sorted({d for node in nodes for d in node.distances.values()})
    for row, reader in enumerate(nodes):
        middle = top + cell * (row + 0.5) + 4
        elements.append(text(left - 8, middle, f"node {reader.id}", 12, FAINT, anchor="end"))
        for column, memory in enumerate(nodes):
            x, y = left + cell * column, top + cell * row
            if row == 0:
                elements.append(
                    text(x + cell / 2, top - 6, str(memory.id), 12, FAINT, "", "middle")
                )
            elements += _heat_cell(reader.distances.get(memory.id), seen, x, y, cell)
    return Block(left + cell * len(nodes), top + cell * len(nodes), tuple(elements))


def _heat_cell(
    distance: int | None, seen: Sequence[int], x: float, y: float, cell: float
) -> list[str]:
    if distance is None:
        return [rectangle(x, y, cell - 2, cell - 2, PAPER, EDGE)]
    rank = seen.index(distance) * (len(HEAT) - 1) // max(1, len(seen) - 1)
    ink = PAPER if rank >= 4 else INK
    middle = (x + cell / 2 - 1, y + cell / 2 + 3)
    number = text(*middle, str(distance), min(13, cell / 2.4), ink, "", "middle")
    return [rectangle(x, y, cell - 2, cell - 2, HEAT[rank], radius=3), number]
