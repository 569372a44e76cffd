"""A process's memory as a picture: a bar for each node, stacked by what lies there, and threads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from numamirror_cli.figures import counted, percent
from numamirror_cli.memory.buffers import (
    ANONYMOUS,
    CACHE,
    COMPUTE,
    REPLICA,
    WEIGHTS,
    Buffer,
    add_by_node,
)
from numamirror_cli.memory.inspection import Inspection
from numamirror_cli.memory.threads import Threads
from numamirror_cli.quoting import printable
from numamirror_cli.report.svg import (
    FAINT,
    FIELD,
    INK,
    LETTER,
    LINE,
    Block,
    document,
    heading,
    rectangle,
    stack,
    text,
    wrapped,
)
from numamirror_cli.report.units import size
from numamirror_cli.report.verdict import BAD, OK, WARN, Verdict

# Lengths in pixels.
LABEL, BAR_WIDTH, BAR_HEIGHT, BAR_PITCH = 64, 560, 34, 58
SWATCH = 12
LEVEL_INK = {OK: "#0b7a75", WARN: "#8a5a00", BAD: "#a32020"}


@dataclass(frozen=True)
class Part:
    """What one colour of the bars stands for: buffers of these kinds, or all that is left."""

    label: str
    kinds: tuple[str, ...]
    fill: str
    ink: str = "#ffffff"


# Dark to light, so that they are told apart in grey too.
PARTS = (
    Part("weights, as mapped from the file", (WEIGHTS,), "#0f5e5a"),
    Part("replicas", (REPLICA,), "#56a8a3", INK),
    Part("KV cache and compute buffers", (CACHE, COMPUTE), "#d0b070", INK),
    Part("large buffers of the engine", (ANONYMOUS,), "#7a8ea3"),
    Part("all else", (), "#c5ced8", INK),
)


def inspection_svg(inspection: Inspection, verdicts: Sequence[Verdict], at: datetime) -> str:
    """The whole document. at: when the process was looked at, in local time."""
    name = printable(inspection.name)
    total = sum(buffer.bytes for buffer in inspection.buffers)
    moment = f"Process {inspection.process.pid}, {at:%Y-%m-%d %H:%M:%S}"
    title = f"{name}: {size(total)} on {counted(len(_holding(inspection.buffers)), 'node')}"
    return document(
        title,
        stack(
            [
                heading(title, moment),
                _bars(inspection),
                _legend(inspection.buffers),
                _sentences(verdicts),
                _small_print(inspection),
            ],
            20,
        ),
    )


def bytes_by_part(buffers: Sequence[Buffer]) -> dict[Part, Mapping[int, int]]:
    """For each part that is there at all, its bytes per node; every buffer is in one part."""
    named = {kind for part in PARTS for kind in part.kinds}
    sums = {
        part: add_by_node(
            buffer.bytes_by_node
            for buffer in buffers
            if (buffer.kind in part.kinds if part.kinds else buffer.kind not in named)
        )
        for part in PARTS
    }
    return {part: by_node for part, by_node in sums.items() if any(by_node.values())}


def _holding(buffers: Sequence[Buffer]) -> list[int]:
    by_node = add_by_node(buffer.bytes_by_node for buffer in buffers)
    return [node for node, count in by_node.items() if count]


def _bars(inspection: Inspection) -> Block:
    """All bars in one scale: the fullest node's is as long as there is room."""
    by_part = bytes_by_part(inspection.buffers)
    nodes = sorted({*inspection.nodes, *_holding(inspection.buffers)})
    most = max((sum(p.get(node, 0) for p in by_part.values()) for node in nodes), default=0) or 1
    elements: list[str] = []
    for row, node in enumerate(nodes):
        y = BAR_PITCH * row
        elements.append(text(LABEL - 12, y + 22, f"node {node}", 13, INK, "600", "end"))
        elements.append(rectangle(LABEL, y, BAR_WIDTH, BAR_HEIGHT, FIELD, radius=3))
        elements += _segments(by_part, node, BAR_WIDTH / most, y)
        held = sum(by_node.get(node, 0) for by_node in by_part.values())
        words = f"{size(held)}; {_threads_on(node, inspection.threads)}"
        elements.append(text(LABEL, y + BAR_HEIGHT + 15, words, 12, FAINT))
    return Block(LABEL + BAR_WIDTH, BAR_PITCH * len(nodes), tuple(elements))


def _segments(
    by_part: Mapping[Part, Mapping[int, int]], node: int, pixels_per_byte: float, y: float
) -> Iterator[str]:
    x = float(LABEL)
    for part, by_node in by_part.items():
        count = by_node.get(node, 0)
        width = count * pixels_per_byte
        if not count:
            continue
        yield rectangle(x, y, width, BAR_HEIGHT, part.fill)
        words = size(count)
        if width > LETTER * len(words) + 8:
            yield text(x + width / 2, y + 22, words, 13, part.ink, anchor="middle")
        x += width


def _threads_on(node: int, threads: Threads) -> str:
    running = counted(threads.running.get(node, 0), "thread")
    busy = threads.busy.get(node, 0)
    return f"{running}, {busy} busy" if busy else running


def _legend(buffers: Sequence[Buffer]) -> Block:
    elements: list[str] = []
    for row, (part, by_node) in enumerate(bytes_by_part(buffers).items()):
        y = LINE * row
        elements.append(rectangle(LABEL, y, SWATCH, SWATCH, part.fill, radius=2))
        words = f"{part.label}: {size(sum(by_node.values()))}"
        elements.append(text(LABEL + SWATCH + 8, y + 11, words, 13))
    return Block(LABEL + BAR_WIDTH, LINE * len(bytes_by_part(buffers)), tuple(elements))


def _sentences(verdicts: Sequence[Verdict]) -> Block:
    lines = [
        (line, LEVEL_INK.get(verdict.level, INK))
        for verdict in verdicts
        for line in wrapped(printable(f"{verdict.level}: {verdict.text}"), 88)
    ]
    elements = [text(0, 13 + LINE * n, line, 13, ink) for n, (line, ink) in enumerate(lines)]
    return Block(LABEL + BAR_WIDTH, LINE * len(lines), tuple(elements))


def _small_print(inspection: Inspection) -> Block:
    lines = list(_conditions(inspection))
    elements = [text(0, 12 + LINE * n, line, 12, FAINT) for n, line in enumerate(lines)]
    return Block(LABEL + BAR_WIDTH, LINE * len(lines), tuple(elements))


def _conditions(inspection: Inspection) -> Iterator[str]:
    """Under which the figures hold: the policy, the kernel's balancing, locality, the sample."""
    balancing = inspection.numa_balancing
    setting = "unknown" if balancing is None else str(balancing)
    yield f"Memory policy {inspection.policy}; kernel.numa_balancing {setting}"
    mirror = inspection.mirror
    if mirror is not None and mirror.locality is not None and not mirror.rehearsal:
        read = size(mirror.read_bytes)
        yield f"{percent(mirror.locality)} of {read} of weights read from the reader's own node"
    if inspection.sample is not None:
        bound = size(inspection.sample.bound)
        yield f"Estimated from {inspection.sample.asked} pages; a node is right to {bound} (95 %)"
