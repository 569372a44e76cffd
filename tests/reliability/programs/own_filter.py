"""An engine that puts itself under a seccomp filter, which kills for what it never does itself.

    own_filter.py WHEN DRIVER-OPTION...

WHEN: "before-load", a filter that kills for placement calls and sockets; "after-warm-up", one that
allows what computing needs and kills for all else; "before-first-graph", the same, and nothing has
been computed yet. --until: files for which it stays when it has generated.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "engines"))

from drive_llama_ctypes import Model, open_llama
from driver import Options, parse_options, pause, print_result
from refuse import CALLS, allow_only, refuse

# Of x86_64, as `strace -f` shows them in an engine that generates and ends: read, write, close,
# mmap, mprotect, munmap, brk, rt_sigaction, rt_sigprocmask, sched_yield, madvise, exit, futex,
# exit_group, set_robust_list, clock_nanosleep, rseq, clone3. Not in every run: mremap, where a heap
# grows otherwise; gettimeofday, clock_gettime and getcpu, where the kernel's clock is one that
# programs cannot read; restart_syscall, of who was stopped meanwhile; clone, of older C libraries.
COMPUTING = (
    *(0, 1, 3, 9, 10, 11, 12, 13, 14, 24, 28, 60, 202, 230, 231, 273, 334, 435),
    *(25, 56, 96, 219, 228, 309),
)


def main(when: str, options: Options) -> None:
    assert options.engine_dir is not None
    if when == "before-load":
        refuse(dict.fromkeys(CALLS, "KILL"))
    model = Model(open_llama(options.engine_dir), options.model, options.threads)
    if when == "after-warm-up":
        model.warm_up()
    if when != "before-load":
        allow_only(COMPUTING)
    print_result("libllama", [model.generate(options.prompt, options.n)])
    pause(options)


if __name__ == "__main__":
    main(sys.argv.pop(1), parse_options(__doc__ or ""))
