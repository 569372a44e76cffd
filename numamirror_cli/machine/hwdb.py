"""PCI names from the hardware database that systemd ships (hwdb(7)), asked through libudev.

udevd puts the same names into its run-time database; containers and small systems have no udevd,
but often the library and the database.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping


def pci_name(vendor: int, device: int) -> str | None:
    """Vendor and model of a PCI id as one name, None when the database lacks it."""
    return name_from(dict(_properties(f"pci:v{vendor:08X}d{device:08X}sv")))


def name_from(properties: Mapping[str, str]) -> str | None:
    """The name in the properties that the database gives a device; None when it has no model."""
    vendor = properties.get("ID_VENDOR_FROM_DATABASE")
    model = properties.get("ID_MODEL_FROM_DATABASE")
    return f"{vendor} {model}" if vendor and model else model or None


def _properties(modalias: str) -> Iterator[tuple[str, str]]:
    """What the database says of a device; nothing without libudev or database."""
    library = _load()
    if library is None:
        return
    # The udev context is unused since systemd 220, and may be NULL.
    database = library.udev_hwdb_new(None)
    if not database:
        return
    try:
        entry = library.udev_hwdb_get_properties_list_entry(database, modalias.encode(), 0)
        while entry:
            name = library.udev_list_entry_get_name(entry)
            value = library.udev_list_entry_get_value(entry)
            yield name.decode(errors="replace"), value.decode(errors="replace")
            entry = library.udev_list_entry_get_next(entry)
    finally:
        library.udev_hwdb_unref(database)


def _load() -> ctypes.CDLL | None:
    """libudev with the types of the calls above, None where it or one of them is missing."""
    try:
        library = ctypes.CDLL("libudev.so.1")
        pointer, text = ctypes.c_void_p, ctypes.c_char_p
        for name, result, arguments in (
            ("udev_hwdb_new", pointer, [pointer]),
            ("udev_hwdb_unref", pointer, [pointer]),
            ("udev_hwdb_get_properties_list_entry", pointer, [pointer, text, ctypes.c_uint]),
            ("udev_list_entry_get_next", pointer, [pointer]),
            ("udev_list_entry_get_name", text, [pointer]),
            ("udev_list_entry_get_value", text, [pointer]),
        ):
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError):
        return None
    return library
