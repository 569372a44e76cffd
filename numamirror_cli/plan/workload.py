"""Which tensors stay on the CPU, and what of them a token reads.

Where a tensor goes follows llama.cpp's loader (load_tensors in llama-model.cpp): layers are counted
from the end, the output counts as one more layer, the token embedding always stays, and overrides
go before all that. What is read how follows the operation that uses it: a matrix is read whole for
each token (MUL_MAT), experts as far as they are chosen (MUL_MAT_ID), a table by its row (GET_ROWS).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from numamirror_cli.plan.engine_args import EngineArguments
from numamirror_cli.plan.facts import Model, Tensor

_LAYER = re.compile(r"blk\.(\d+)\.")
_EXPERTS = re.compile(r"_(ch)?exps\.weight$")
# Looked up by row.
_TABLES = re.compile(r"^(token_embd|per_layer_token_embd|position_embd|token_types)\.weight$")
# Matrices that no matrix multiplication reads.
_NO_GEMM = re.compile(r"(norm|conv1d|shortconv\.conv|ssm_a|ssm_d|time_mix_\w*lerp\w*)(\.weight)?$")

EMBEDDING, OUTPUT = "token_embd.weight", "output.weight"


@dataclass(frozen=True)
class Workload:
    """Bytes of weights on the CPU, by what a token reads of them.

    resident: all. dense: read whole by GEMM. experts: of all routed experts; a token reads
    `experts_share` of them. small, small_read: what of gemm and of read is in tensors below the
    smallest size that is mirrored; those are read from the primary.
    """

    resident: int
    dense: int
    experts: int
    experts_share: float
    small: int = 0
    small_read: float = 0.0

    @property
    def gemm(self) -> int:
        """What CPU GEMM can read: what a mirror copies, but for the small ones."""
        return self.dense + self.experts

    @property
    def copied(self) -> int:
        """What one replica takes."""
        return self.gemm - self.small

    @property
    def read(self) -> float:
        """Bytes that GEMM reads for one token."""
        return self.dense + self.experts * self.experts_share

    @property
    def coverage(self) -> float:
        """The share of these reads that a mirror can serve."""
        return 1 - self.small_read / self.read if self.read else 1.0

    def partial_coverage(self, room: int) -> float:
        """The share of the reads that copies of at most `room` bytes serve. The shim copies what
        is read whole first, then experts."""
        if not self.read:
            return 1.0
        experts = min(max(0, room - self.dense), self.experts)
        served = min(room, self.dense) + experts * self.experts_share
        return min(self.coverage, served / self.read)


def weigh(model: Model, arguments: EngineArguments, min_bytes: int = 1 << 20) -> Workload:
    """The model's weights on the CPU under those arguments. min_bytes: smaller tensors are not
    mirrored. An absent -ngl is taken as 0, the most that the CPU can get."""
    here = [tensor for tensor in model.tensors if is_on_cpu(tensor, model, arguments)]
    skipped = _layers_not_read(model)
    read = [t for t in here if _layer(t, model) not in skipped and _is_multiplied(t)]
    if _is_tied(model) and _output_is_on_cpu(model, arguments):
        read += [tensor for tensor in here if tensor.name == EMBEDDING]
    experts = [tensor for tensor in read if is_routed(tensor)]
    small = [tensor for tensor in read if tensor.bytes < min_bytes]
    small_experts = [tensor for tensor in small if is_routed(tensor)]
    share = _experts_share(model)
    return Workload(
        resident=_sum(here),
        dense=_sum(read) - _sum(experts),
        experts=_sum(experts),
        experts_share=share,
        small=_sum(small),
        small_read=_sum(small) - _sum(small_experts) * (1 - share),
    )


def is_on_cpu(tensor: Tensor, model: Model, arguments: EngineArguments) -> bool:
    """Whether the engine leaves that tensor in main memory."""
    for override in arguments.overrides:
        if override.pattern.search(tensor.name):
            return override.on_cpu
    return _layer(tensor, model) < _first_on_gpu(model, arguments)


def layer_is_on_cpu(layer: int, model: Model, arguments: EngineArguments) -> bool:
    """Whether that layer's attention, and with it its KV cache, is computed on the CPU."""
    return layer < _first_on_gpu(model, arguments)


def is_routed(tensor: Tensor) -> bool:
    """A tensor of routed experts, one slab each; a shared expert is dense."""
    return _EXPERTS.search(tensor.name) is not None


def _first_on_gpu(model: Model, arguments: EngineArguments) -> int:
    """Layers from here on go to GPUs. The output is the layer after the last."""
    return max(0, model.layers + 1 - (arguments.gpu_layers or 0))


def _layer(tensor: Tensor, model: Model) -> int:
    """The layer of a tensor; -1 for input tables, the number of layers for the output."""
    if _TABLES.search(tensor.name):
        return -1
    match = _LAYER.search(tensor.name)
    return int(match[1]) if match else model.layers


def _layers_not_read(model: Model) -> range:
    """Layers at the end that predict further tokens: ordinary decoding does not run them."""
    extra = model.number("nextn_predict_layers")
    return range(model.layers - extra, model.layers)


def _is_multiplied(tensor: Tensor) -> bool:
    is_matrix = len(tensor.dims) >= 2 and tensor.dims[1] > 1 and tensor.name.endswith(".weight")
    return is_matrix and not _TABLES.search(tensor.name) and not _NO_GEMM.search(tensor.name)


def _is_tied(model: Model) -> bool:
    """The token embedding serves as output matrix too."""
    return all(tensor.name != OUTPUT for tensor in model.tensors)


def _output_is_on_cpu(model: Model, arguments: EngineArguments) -> bool:
    return layer_is_on_cpu(model.layers, model, arguments)


def _experts_share(model: Model) -> float:
    count = model.number("expert_count")
    return model.number("expert_used_count") / count if count else 1.0


def _sum(tensors: Sequence[Tensor]) -> int:
    return sum(tensor.bytes for tensor in tensors)
