"""GPU names short enough for a table cell."""

from __future__ import annotations

import re

from numamirror_cli.machine.model import Gpu
from numamirror_cli.machine.names import VENDORS


def short_name(gpu: Gpu) -> str:
    """ "NVIDIA GeForce RTX 3090" for "NVIDIA Corporation GA102 [GeForce RTX 3090]": the hardware
    database puts the name that is on the box into brackets at the end."""
    on_the_box = re.search(r"\[([^\[\]]+)\]$", gpu.name)
    if on_the_box is None:
        return gpu.name
    vendor = VENDORS.get(gpu.vendor, "") if gpu.vendor is not None else ""
    return f"{vendor} {on_the_box[1]}".strip()
