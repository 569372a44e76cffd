"""Drives llama.cpp and ik_llama.cpp, two libraries with functions of the same names, in one
process and in turn. The line's "second" is what ik_llama.cpp said."""

from __future__ import annotations

import drive_ik_llama
import drive_xllamacpp
import xllamacpp
from driver import parse_options, pause_after_warm_up, print_result


def main() -> None:
    options = parse_options(__doc__ or "")
    first = xllamacpp.Server(drive_xllamacpp.parameters(options, options.model))
    second = drive_ik_llama.load(options, options.second_model or options.model)
    pause_after_warm_up(options)
    said = [drive_xllamacpp.generate(first, options), drive_ik_llama.generate(second, options)]
    print_result("llama.cpp and ik_llama.cpp", said)


if __name__ == "__main__":
    main()
