"""GPUs that the environment hides from an engine.

CUDA_VISIBLE_DEVICES hides NVIDIA's (CUDA programming guide, environment variables),
HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES hide AMD's (ROCm documentation, GPU isolation).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from numamirror_cli.machine.names import AMD, NVIDIA, vendor_name
from numamirror_cli.machine.pci import PciDevice
from numamirror_cli.machine.tree import decimal
from numamirror_cli.quoting import printable

VARIABLES = (
    ("CUDA_VISIBLE_DEVICES", NVIDIA),
    ("HIP_VISIBLE_DEVICES", AMD),
    ("ROCR_VISIBLE_DEVICES", AMD),
)


@dataclass(frozen=True)
class Visibility:
    """hidden: address -> the variable that hides it. notes: variables that could not be followed,
    and hide nothing."""

    hidden: Mapping[str, str]
    notes: tuple[str, ...] = ()


class _CannotTellError(Exception):
    """The devices that a variable means cannot be known from outside the GPU's run-time."""


def read_visibility(
    devices: Sequence[PciDevice], uuids: Mapping[str, str], environ: Mapping[str, str]
) -> Visibility:
    """Which of these devices the variables hide. uuids: address -> "GPU-..." where known."""
    hidden: dict[str, str] = {}
    notes = []
    for variable, vendor in VARIABLES:
        candidates = [device.address for device in devices if device.vendor == vendor]
        if variable not in environ or not candidates:
            continue
        in_bus_order = vendor == NVIDIA and environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
        try:
            visible = _visible(environ[variable], candidates, uuids, in_bus_order)
        except _CannotTellError as error:
            shown = f"{variable}={environ[variable]}: {error}"
            notes.append(f"{printable(shown)}; all {vendor_name(vendor)} GPUs vote")
            continue
        hidden.update((gone, variable) for gone in candidates if gone not in visible)
    return Visibility(hidden, tuple(notes))


def _visible(
    value: str, addresses: Sequence[str], uuids: Mapping[str, str], in_bus_order: bool
) -> frozenset[str]:
    """The addresses that a variable's value leaves visible; those before its first invalid entry,
    so none for "" and "-1". Raises _CannotTellError."""
    entries = list(_valid_entries(value.split(","), len(addresses)))
    indices = {index for index in map(decimal, entries) if index is not None}
    if indices == set(range(len(addresses))):
        return frozenset(addresses)
    if indices and not in_bus_order:
        raise _CannotTellError(
            "which device an index means is certain only under CUDA_DEVICE_ORDER=PCI_BUS_ID"
        )
    visible = {addresses[index] for index in indices}
    for entry in entries:
        if decimal(entry) is None:
            visible.add(_with_uuid(entry, addresses, uuids))
    return frozenset(visible)


def _valid_entries(entries: Iterable[str], count: int) -> Iterable[str]:
    """Entries up to the first that is neither an index below `count` nor looks like a UUID."""
    for entry in (entry.strip() for entry in entries):
        index = decimal(entry)
        is_valid = entry.upper().startswith(("GPU-", "MIG-")) if index is None else index < count
        if not is_valid:
            return
        yield entry


def _with_uuid(entry: str, addresses: Sequence[str], uuids: Mapping[str, str]) -> str:
    """The device whose UUID starts with the entry's; "MIG-GPU-uuid/1/0" names a part of one."""
    wanted = entry.upper().removeprefix("MIG-").partition("/")[0]
    matches = [a for a in addresses if uuids.get(a, "").upper().startswith(wanted)]
    if not wanted.startswith("GPU-") or len(matches) != 1:
        raise _CannotTellError(f"no single GPU is known as {entry}")
    return matches[0]
