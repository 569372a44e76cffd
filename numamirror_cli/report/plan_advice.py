"""Advice and notes of `plan` in words."""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch

from numamirror_cli.figures import counted, nodes_word, percent
from numamirror_cli.machine.cpulist import format_list
from numamirror_cli.machine.notes import name_nodes
from numamirror_cli.notice import Notice
from numamirror_cli.plan.advice import (
    Advice,
    CopiesDoNotFit,
    FitsOneNode,
    LockLimit,
    PinnedTooLarge,
)
from numamirror_cli.plan.estimate import Estimate
from numamirror_cli.plan.facts import Model
from numamirror_cli.plan.predict import Reader, is_faster_than_memory
from numamirror_cli.plan.ram import Ram
from numamirror_cli.report.units import part_of, size

# A mirror that serves this share of the reads needs no words about the rest.
ALL_BUT_NOTHING = 0.99


@singledispatch
def advise(advice: Advice) -> Notice:
    """One piece of advice: what, why, remedy."""
    raise TypeError(f"no words for {advice!r}")


@advise.register
def _(advice: CopiesDoNotFit) -> Notice:
    copies = counted(len(advice.per_node.needs), "copy")
    lacking = format_list(node for need in advice.per_node.lacking for node in need.nodes)
    what = f"{copies} need {size(advice.per_node.bytes)}, have {size(advice.there)}"
    why = f"too little on {nodes_word(lacking)}"
    return Notice(what, why, _per_socket(advice.per_socket))


def _per_socket(per_socket: Ram | None) -> str:
    if per_socket is None:
        return "less is copied then, what is read most first"
    fits = "fits" if per_socket.fits else "does not fit either"
    return f"one per socket needs {size(per_socket.bytes)}: {fits}; run --per socket"


@advise.register
def _(advice: PinnedTooLarge) -> Notice:
    return Notice(
        f"{size(advice.pinned)} of pinned memory is larger than any node "
        f"(the largest has {size(advice.largest)})",
        "pinned memory is not split over nodes",
        "GGML_CUDA_NO_PINNED=1, or load without --no-mmap",
    )


@advise.register
def _(advice: LockLimit) -> Notice:
    whole = size(advice.need * advice.copies)
    copies = counted(advice.copies, "copy")
    return Notice(
        f"need {whole} of locked memory for {copies}, limit {size(advice.limit)}",
        "--mlock locks the engine's own copy; replicas stay unlocked"
        if advice.copies > 1
        else "--mlock locks all of the model",
        "raise LimitMEMLOCK= of the unit, or ulimit -l",
    )


@advise.register
def _(advice: FitsOneNode) -> Notice:
    return Notice(
        f"{size(advice.bytes)} fits on node {advice.node}",
        "one copy may do",
        "compare with --strategy bind before paying for more copies",
        level="info",
    )


def notes(estimate: Estimate) -> Iterator[Notice]:
    """What the reader of the estimate must know of how it was made."""
    request, model = estimate.request, estimate.request.model
    arguments = request.arguments
    yield from map(advise, estimate.advice)
    if model.missing:
        there = part_of(max(0, model.bytes - model.missing), model.bytes)
        yield Notice(
            f"only {there} are in its files",
            "the figures are for all of it",
            "complete the download before an engine is started with it",
        )
    if len(estimate.there) > 1 and estimate.workload.coverage < ALL_BUT_NOTHING:
        yield Notice(
            f"a mirror serves {percent(estimate.workload.coverage)} of the reads",
            "the rest is in tensors below 1 MiB",
            "run --min-size 64K copies most of those too",
            level="info",
        )
    gpus = [gpu for gpu in request.machine.gpus if gpu.votes]
    if arguments.gpu_layers is None and gpus:
        yield Notice(
            f"-ngl is not given and there are {counted(len(gpus), 'GPU')}",
            "the engine decides by itself what they get; here all is taken to stay on the CPU",
            "give -ngl, --n-cpu-moe or -ot",
        )
    if arguments.gpu_layers and not gpus:
        yield Notice("-ngl is taken as it stands", "no GPU is seen here", level="info")
    if extra := model.number("nextn_predict_layers"):
        layers = "layer predicts" if extra == 1 else f"{extra} layers predict"
        what = f"the last {layers} further tokens"
        yield Notice(what, "they take memory and are not read otherwise", level="info")
    if unknown_types := sorted({t.type for t in model.tensors if t.type.startswith("type ")}):
        what = f"tensors of {', '.join(unknown_types)}"
        yield Notice(what, "gguf does not know them: sizes are taken from offsets", level="info")
    if arguments.unknown:
        yield Notice(f"not considered: {', '.join(arguments.unknown)}", level="info")
    yield from _notes_on_rates(estimate)


def _notes_on_rates(estimate: Estimate) -> Iterator[Notice]:
    request = estimate.request
    if not estimate.workload.read:
        yield Notice("GEMM on the CPU reads nothing", "there is nothing to mirror", level="info")
        return
    if not estimate.rows or estimate.rows[0].reading is None:
        if request.bandwidth is not None:
            yield Notice(
                f"no tokens/s by {request.bandwidth.source}",
                f"it has no figures for all of {name_nodes(sorted(estimate.there))}",
                "measure this machine with numamirror bench",
                level="info",
            )
            return
        yield Notice(
            "no tokens/s without the machine's bandwidth",
            "it was not measured here",
            "numamirror bench, or --bandwidth local=GB/S,remote=GB/S",
            level="info",
        )
        return
    measured, bandwidth = request.measured, request.bandwidth
    if measured is not None and bandwidth is not None:
        machine = Reader(
            bandwidth, estimate.cores, request.machine.home.node or 0, request.arguments.threads
        )
        if is_faster_than_memory(measured, estimate.workload.read / 1e9, machine):
            yield Notice(
                f"--measured {measured.strategy}={measured.tokens_per_second:g} is faster than the "
                "bandwidth allows",
                "one of the two is not of this machine, this model or these arguments",
                "measure both again",
            )


def title(model: Model) -> str:
    """ "Gemma 3 270m (gemma3), 235 MiB in 1 file"."""
    kind = f" ({model.architecture})" if model.architecture else ""
    return f"{model.name}{kind}, {size(model.bytes)} in {counted(len(model.parts), 'file')}"
