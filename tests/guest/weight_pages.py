"""Which rows of a mapped model lie on the node of the thread that reads them, by the kernel alone.

`matrices_in` runs on this machine, where a GGUF reader is; the rest inside the guest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypedDict

MAPS = re.compile(r"([0-9a-f]+)-([0-9a-f]+) \S+ ([0-9a-f]+) \S+ \d+\s+(.*)")


class Matrix(TypedDict):
    """offset: in the file. slabs: one, or the experts; rows: of a slab of slab_bytes."""

    offset: int
    slabs: int
    slab_bytes: int
    rows: int


def matrices_in(model: Path) -> list[Matrix]:
    """What GEMM reads of a generated model: all but vectors and the token embedding."""
    import gguf

    return [
        Matrix(
            offset=int(tensor.data_offset),
            slabs=(slabs := int(tensor.shape[2]) if len(tensor.shape) > 2 else 1),
            slab_bytes=int(tensor.n_bytes) // slabs,
            rows=int(tensor.shape[1]),
        )
        for tensor in gguf.GGUFReader(model).tensors
        if len(tensor.shape) > 1 and tensor.name != "token_embd.weight"
    ]


def rows_with_their_readers(
    pid: int, model: str, matrices: Iterable[Matrix], nodes: Sequence[int]
) -> dict[str, int]:
    """Bytes of rows: {"local": on the node of their thread, "far", "absent": not in memory}.

    One thread on each of the nodes; thread i of n computes the i-th n-th of a slab's rows, rounded
    up, as ggml divides them when it steals no chunks.
    """
    from kernel_view import PAGE, locate

    where = list(mappings_of(pid, model))
    wanted: list[tuple[int, int, int]] = []  # page, bytes of rows on it, the reader's node
    for start, end, node in rows_of_nodes(matrices, nodes):
        address = address_of(where, start)
        last = address + end - start
        while address < last:
            page = address // PAGE * PAGE
            upto = min(page + PAGE, last)
            wanted.append((page, upto - address, node))
            address = upto
    sums = {"local": 0, "far": 0, "absent": 0}
    for (_, size, node), at in zip(wanted, locate(pid, [page for page, *_ in wanted]), strict=True):
        sums["absent" if at < 0 else "local" if at == node else "far"] += size
    return sums


def local_share(rows: dict[str, int]) -> float:
    """Of the bytes that are in memory, those on the node of the thread that reads their row."""
    return rows["local"] / (rows["local"] + rows["far"])


def rows_of_nodes(
    matrices: Iterable[Matrix], nodes: Sequence[int]
) -> Iterator[tuple[int, int, int]]:
    """(first byte, end, node) in the file, for the rows of each thread."""
    for matrix in matrices:
        row_bytes = matrix["slab_bytes"] // matrix["rows"]
        share = -(-matrix["rows"] // len(nodes))
        for slab in range(matrix["slabs"]):
            base = matrix["offset"] + slab * matrix["slab_bytes"]
            for thread, node in enumerate(nodes):
                first, end = (min(n * share, matrix["rows"]) for n in (thread, thread + 1))
                if first < end:
                    yield base + first * row_bytes, base + end * row_bytes, node


def mappings_of(pid: int, model: str) -> Iterator[tuple[int, int, int]]:
    """(address, bytes, offset in the file) of each mapping of the model."""
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        found = MAPS.fullmatch(line)
        if found and found[4] == model:
            yield int(found[1], 16), int(found[2], 16) - int(found[1], 16), int(found[3], 16)


def address_of(where: list[tuple[int, int, int]], offset: int) -> int:
    for address, size, begin in where:
        if begin <= offset < begin + size:
            return address + offset - begin
    raise LookupError(f"byte {offset} of the model is not mapped")
