"""Libraries that have an engine's functions and none of its work, built in every shape in which
ggml reaches people; and a spy that shows what a preload really gets to see of them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from numamirror_cli.engine.symbols import Symbol, known_symbols

Compile = Callable[..., Path]

SHARED = ("-shared", "-fPIC", "-O2")
CPU_SENTENCE = "numa_balancing is enabled, this has been observed to impair performance"
VERSION = "9.8.7"
SERVES_RPC = "ggml_backend_rpc_start_server"

# Where llama.cpp has them; the rest of the table is the CPU backend's.
BASE_PREFIXES = (
    "ggml_backend_",
    "ggml_init",
    "ggml_free",
    "ggml_new_",
    "ggml_get_",
    "ggml_tensor_",
)


def mainline() -> tuple[str, ...]:
    """The names that a llama.cpp of today has, of those in the shim's table."""
    return tuple(name for name in _all_names() if not name.startswith("iqk_"))


def ik_llama() -> tuple[str, ...]:
    """The names that an ik_llama.cpp has."""
    lacking = {s.name for s in known_symbols() if s.need == "MAINLINE"}
    return tuple(name for name in _all_names() if name not in lacking)


def _all_names() -> list[str]:
    """But those that source() defines itself."""
    return [s.name for s in known_symbols() if s.name != "ggml_version"]


def seams(names: Iterable[str]) -> set[str]:
    """Those of the names that the shim interposes."""
    wanted = set(names)
    return {s.name for s in known_symbols() if s.is_seam and s.name in wanted}


def row_seams() -> set[str]:
    def of_rows(symbol: Symbol) -> bool:
        return symbol.group in ("VEC_DOTS", "ARGUMENT_SEAMS")

    return {symbol.name for symbol in known_symbols() if of_rows(symbol)}


def is_base(name: str) -> bool:
    return name.startswith(BASE_PREFIXES)


def source(defined: Iterable[str], called: Iterable[str] = (), attribute: str = "") -> str:
    """C source: defines names that do nothing, and calls names, kernels through a table as ggml
    does. attribute: put before each definition of a function of rows."""
    rows = row_seams()
    defined, called = list(dict.fromkeys(defined)), list(dict.fromkeys(called))
    lines = ["#include <stdio.h>", f'const char *ggml_version(void) {{ return "{VERSION}"; }}']
    for name in dict.fromkeys([*defined, *called]):
        lines.append(f"extern void {name}(void);")
    for name in defined:
        lines.append(f"{attribute if name in rows else ''} void {name}(void) {{ }}")
    kernels = [name for name in called if name.startswith("ggml_vec_dot_")]
    lines.append(f"void (*const kernels[])(void) = {{ {', '.join(kernels)} }};")
    if "ggml_graph_compute" in defined:
        lines.append(f'void say(void) {{ puts("{CPU_SENTENCE}"); }}')
    lines.append("void drive(void) {")
    lines += [f"    {name}();" for name in called if name not in kernels]
    lines += [f"    for (int i = 0; i < {len(kernels)}; ++i) kernels[i]();", "}"]
    return "\n".join(lines)


def own_mirror(*variables: str) -> str:
    """C source of an engine that can mirror by itself, with the names of variables that it reads,
    which it prints."""
    lines = [source(mainline(), mainline()), "#include <stdlib.h>", "void usage(void) {"]
    lines.append('    puts("--numa TYPE\\n- mirror: a copy per node\\n");')
    lines += [f'    printf("{name}=%s\\n", getenv("{name}"));' for name in variables]
    lines += ["}", "__attribute__((constructor)) static void tell(void) {"]
    lines += [f'    if (getenv("{name}")) puts(getenv("{name}"));' for name in variables]
    return "\n".join([*lines, "}"])


PROGRAM = "extern void drive(void); int main(void) { drive(); return 0; }"


@dataclass(frozen=True)
class Build:
    """Makes stand-ins in one directory with a compiler."""

    compile_c: Compile

    def one_library(
        self, *flags: str, names: Iterable[str] = (), attribute: str = "", name: str = "libone.so"
    ) -> Path:
        """All in one library, as Python packages have it."""
        names = tuple(names) or mainline()
        return self.compile_c(name, source(names, names, attribute), *SHARED, *flags)

    def program(self, library: Path, *flags: str, name: str = "engine") -> Path:
        """A program that is linked with that library and drives it."""
        where = f"-Wl,-rpath,{library.parent}"
        return self.compile_c(
            name, PROGRAM, *flags, f"-l:{library.name}", f"-L{library.parent}", where
        )

    def shared_libraries(self, *, link_backend: bool = True) -> Path:
        """libggml-base, libggml-cpu and libllama, the latter linked with the others."""
        names = mainline()
        base = [name for name in names if is_base(name)]
        cpu = [name for name in names if not is_base(name)]
        here = ("-Wl,-rpath,$ORIGIN", f"-L{self._directory()}")
        self.compile_c("libggml-base.so", source(base, ()), *SHARED, "-Wl,-soname,libggml-base.so")
        libraries = ["-l:libggml-base.so"]
        for variant in ("",) if link_backend else ("-a", "-b"):
            self.compile_c(f"libggml-cpu{variant}.so", source(cpu, cpu), *SHARED, *here, *libraries)
        if link_backend:
            libraries.append("-l:libggml-cpu.so")
        calls = base if not link_backend else [*base, "ggml_graph_compute"]
        text = source(["llama_decode"], calls)
        return self.compile_c("libllama.so", text, *SHARED, *here, *libraries)

    def inside_program(
        self,
        *flags: str,
        drive: str = "",
        file: str = "ggml-backend.cpp",
        names: Iterable[str] = (),
    ) -> Path:
        """The engine is linked into the program itself. drive: put before what calls it. file: the
        name that the symbol table has for the source."""
        names = tuple(names) or tuple(name for name in mainline() if name != SERVES_RPC)
        text = source(names, names).replace("void drive(", f"{drive} void drive(")
        named = f'__asm__(".file \\"{file}\\"");'
        main = "int main(void) { drive(); say(); return 0; }"
        return self.compile_c("engine", "\n".join([named, text, main]), *flags)

    def _directory(self) -> Path:
        return self.compile_c("probe.o", "", "-c").parent


def seen_by_preload(build: Compile, program: Path, names: Iterable[str]) -> set[str]:
    """The functions of those names that a preloaded library is called for when the program runs."""
    lines = ["#include <unistd.h>"]
    for name in names:
        lines.append(f'void {name}(void) {{ write(1, "{name}\\n", {len(name) + 1}); }}')
    spy = build("spy.so", "\n".join(lines), *SHARED, "-fno-builtin", "-w")
    done = subprocess.run(
        [program],
        env={**os.environ, "LD_PRELOAD": str(spy)},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())
