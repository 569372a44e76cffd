"""The machine as a picture: sockets, nodes with memory bars, GPUs on their node, distances.

Plain SVG 1.1 without scripts, fonts or links, so that it can go into any page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from numamirror_cli.machine.cpulist import format_list
from numamirror_cli.machine.model import Gpu, Machine, Node
from numamirror_cli.report.gpu_names import short_name
from numamirror_cli.report.lists import break_at_commas
from numamirror_cli.report.roles import role
from numamirror_cli.report.units import counted, size

# All lengths in pixels.
MOST_WIDTH = 904
MARGIN = 28
GAP = 16
PAD = 14
NODE_WIDTH = 264
LINE = 18
TITLE = 26
BAR = 14
GPU_HEIGHT = 40
CELL = 44

INK, FAINT, PAPER = "#1f2933", "#6b7785", "#ffffff"
SOCKET_FILL, NODE_FILL, EDGE = "#eef2f6", "#ffffff", "#c5ced8"
HOME, USED, FREE = "#0b7a75", "#7a8ea3", "#dde5ec"
GPU_FILL, GPU_INK = "#fdf0d5", "#7a4b00"
# Near to far, in one hue that grows darker: readable in grey and for the colour-blind.
HEAT = ("#e8f4f3", "#bfe0dd", "#8cc6c2", "#56a8a3", "#2b8580", "#0f5e5a")


@dataclass(frozen=True)
class Block:
    """A piece of the picture, drawn with its upper left corner at 0,0."""

    width: float
    height: float
    elements: tuple[str, ...]


def topology_svg(machine: Machine) -> str:
    """The whole document. A kernel without NUMA makes a picture that says so."""
    blocks = [_title(machine)]
    if machine.numa:
        blocks += [_flow(_containers(machine), MOST_WIDTH, GAP)]
        if len(machine.nodes) > 1 and any(node.distances for node in machine.nodes):
            blocks.append(_distances(machine.nodes))
    page = _stack(blocks, 24)
    width, height = page.width + 2 * MARGIN, page.height + 2 * MARGIN
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_n(width)}" height="{_n(height)}" '
            f'viewBox="0 0 {_n(width)} {_n(height)}" '
            "font-family=\"system-ui, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif\">",
            f"<title>{escape(_heading(machine))}</title>",
            _rectangle(0, 0, width, height, PAPER),
            *_moved(page, MARGIN, MARGIN),
            "</svg>\n",
        ]
    )


def _heading(machine: Machine) -> str:
    if not machine.numa:
        return "No NUMA nodes"
    total = sum(node.mem_total or 0 for node in machine.nodes if node.gpu is None)
    nodes, sockets = counted(len(machine.nodes), "node"), counted(len(machine.sockets), "socket")
    return f"{size(total)} in {nodes}, {sockets}"


def _title(machine: Machine) -> Block:
    home = f"Home: node {machine.home.node}: " if machine.home.node is not None else ""
    lines = _wrapped(home + machine.home.reason, 110)
    elements = [_text(0, 20, _heading(machine), 20, weight="600")]
    elements += [_text(0, 44 + LINE * n, line, 13, FAINT) for n, line in enumerate(lines)]
    # Letters are 7 pixels wide at most on average, in the fonts named above.
    width = max(400, *(7 * len(line) for line in lines))
    return Block(width, 48 + LINE * (len(lines) - 1), tuple(elements))


def _containers(machine: Machine) -> list[Block]:
    """Sockets with their nodes, then nodes that belong to none, then devices without a node."""
    inside = MOST_WIDTH - 2 * PAD
    blocks = []
    for index, socket in enumerate(machine.sockets):
        nodes = [_node(machine, machine.node(node)) for node in socket]
        blocks.append(_container(f"Socket {index}", _flow(nodes, inside, GAP)))
    others = [_node(machine, node) for node in machine.nodes if node.socket is None]
    if others:
        blocks.append(_container("Nodes without CPUs", _flow(others, inside, GAP)))
    homeless = [_gpu(gpu) for gpu in machine.gpus if gpu.node is None]
    if homeless:
        blocks.append(_container("Node unknown", _flow(homeless, inside, 8)))
    return blocks


def _container(title: str, content: Block) -> Block:
    width, height = content.width + 2 * PAD, content.height + TITLE + PAD + 6
    return Block(
        width,
        height,
        (
            _rectangle(0, 0, width, height, SOCKET_FILL, EDGE, 10),
            _text(PAD, 22, title, 13, FAINT, "600"),
            *_moved(content, PAD, TITLE + 6),
        ),
    )


def _node(machine: Machine, node: Node) -> Block:
    inside = NODE_WIDTH - 2 * PAD
    gpus = [_gpu(gpu, inside) for gpu in machine.gpus if gpu.node == node.id]
    parts = [_memory(node, inside), _lines(_cpu_lines(node)), *gpus]
    content = _stack([part for part in parts if part.height], 10)
    is_home = node.id == machine.home.node
    words = role(node, machine)
    height = content.height + TITLE + PAD + 8
    badge = [_text(NODE_WIDTH - PAD, 23, words, 12, HOME if is_home else FAINT, "600", "end")]
    return Block(
        NODE_WIDTH,
        height,
        (
            _rectangle(0, 0, NODE_WIDTH, height, NODE_FILL, HOME if is_home else EDGE, 8, is_home),
            _text(PAD, 23, f"Node {node.id}", 15, INK, "600"),
            *badge,
            *_moved(content, PAD, TITLE + 8),
        ),
    )


def _memory(node: Node, width: float) -> Block:
    """A bar of used and free memory, with the amounts above it."""
    if not node.mem_total:
        return _lines(["no memory"])
    free = node.mem_free
    words = size(node.mem_total) + ("" if free is None else f", {size(free)} free")
    used = 0.0 if free is None else width * (1 - min(1.0, free / node.mem_total))
    elements = [_text(0, 13, words, 13), _rectangle(0, 21, width, BAR, FREE, radius=3)]
    if used >= 1:
        elements.append(_rectangle(0, 21, used, BAR, USED, radius=3))
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
    elements = [_text(0, 13 + LINE * n, line, 13, FAINT) for n, line in enumerate(lines)]
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
            _rectangle(0, 0, width, GPU_HEIGHT, fill, radius=5),
            _text(9, 17, shown, 12, ink, "600"),
            _text(9, 32, gpu.address, 11, ink),
            "</g>",
        ),
    )


def _distances(nodes: Sequence[Node]) -> Block:
    """Reader in the row, memory in the column, darker means farther."""
    cell = min(CELL, (MOST_WIDTH - 70) / len(nodes))
    left, top = 70, 64
    elements = [
        _text(0, 14, "Distances", 15, INK, "600"),
        _text(0, 34, "CPUs of the node in the row, memory of the one in the column", 12, FAINT),
    ]
    seen = sorted({d for node in nodes for d in node.distances.values()})
    for row, reader in enumerate(nodes):
        middle = top + cell * (row + 0.5) + 4
        elements.append(_text(left - 8, middle, f"node {reader.id}", 12, FAINT, anchor="end"))
        for column, memory in enumerate(nodes):
            x, y = left + cell * column, top + cell * row
            if row == 0:
                elements.append(
                    _text(x + cell / 2, top - 6, str(memory.id), 12, FAINT, "", "middle")
                )
            elements += _heat_cell(reader.distances.get(memory.id), seen, x, y, cell)
    return Block(left + cell * len(nodes), top + cell * len(nodes), tuple(elements))


def _heat_cell(
    distance: int | None, seen: Sequence[int], x: float, y: float, cell: float
) -> list[str]:
    if distance is None:
        return [_rectangle(x, y, cell - 2, cell - 2, PAPER, EDGE)]
    rank = seen.index(distance) * (len(HEAT) - 1) // max(1, len(seen) - 1)
    ink = PAPER if rank >= 4 else INK
    middle = (x + cell / 2 - 1, y + cell / 2 + 3)
    number = _text(*middle, str(distance), min(13, cell / 2.4), ink, "", "middle")
    return [_rectangle(x, y, cell - 2, cell - 2, HEAT[rank], radius=3), number]


def _stack(blocks: Sequence[Block], gap: float) -> Block:
    """Below one another."""
    elements: list[str] = []
    y = 0.0
    for block in blocks:
        elements += _moved(block, 0, y)
        y += block.height + gap
    return Block(max(b.width for b in blocks), y - gap, tuple(elements))


def _flow(blocks: Sequence[Block], width: float, gap: float) -> Block:
    """Side by side, as many as fit, then below one another; a row's blocks hang from its top."""
    elements: list[str] = []
    x = y = row_height = widest = 0.0
    for block in blocks:
        if x and x + block.width > width:
            x, y, row_height = 0.0, y + row_height + gap, 0.0
        elements += _moved(block, x, y)
        widest = max(widest, x + block.width)
        x += block.width + gap
        row_height = max(row_height, block.height)
    return Block(widest, y + row_height, tuple(elements))


def _moved(block: Block, x: float, y: float) -> list[str]:
    return [f'<g transform="translate({_n(x)} {_n(y)})">', *block.elements, "</g>"]


def _rectangle(
    x: float,
    y: float,
    width: float,
    height: float,
    fill: str,
    stroke: str = "none",
    radius: float = 0,
    thick: bool = False,
) -> str:
    edge = f' stroke="{stroke}" stroke-width="{2 if thick else 1}"' if stroke != "none" else ""
    return (
        f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}" '
        f'rx="{_n(radius)}" fill="{fill}"{edge}/>'
    )


def _text(
    x: float,
    y: float,
    words: str,
    points: float,
    fill: str = INK,
    weight: str = "",
    anchor: str = "",
) -> str:
    extra = (f' font-weight="{weight}"' if weight else "") + (
        f' text-anchor="{anchor}"' if anchor else ""
    )
    return (
        f'<text x="{_n(x)}" y="{_n(y)}" font-size="{_n(points)}" fill="{fill}"{extra}>'
        f"{escape(words)}</text>"
    )


def _n(length: float) -> str:
    """A length without noise behind the point."""
    return f"{length:.1f}".removesuffix(".0")


def _wrapped(words: str, width: int) -> list[str]:
    lines = [""]
    for word in words.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
