"""The engines among the files that a program loads: what they are, and which seams they offer.

Engines are told by the functions they define, never by the names of their files: wheels rename
libraries, and programs carry them inside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from numamirror_cli.engine.directories import matching
from numamirror_cli.engine.image import Image, read_image
from numamirror_cli.engine.marks import CPU_CODE, contains
from numamirror_cli.engine.own_mirror import OwnMirror, read_own_mirror
from numamirror_cli.engine.static_calls import look_inside
from numamirror_cli.engine.symbols import IQK, MAINLINE, Symbol, known_symbols
from numamirror_cli.engine.version import VERSION_NAMES, read_version

# What a library is that defines one of these; the first that fits.
_KINDS = {
    "iqk_mul_mat": "ik_llama.cpp",
    "llama_decode": "llama.cpp",
    "whisper_full": "whisper.cpp",
}
_COMPUTES, _ALLOCATES = "ggml_graph_compute", "ggml_backend_buffer_set_usage"
# By this a program loads libraries that it is not linked with.
_LOADS_MORE = "dlopen"
# native/src/seams_unmarked.c: a worker's buffers are known by the library that allocates them.
_SERVES_RPC = "ggml_backend_rpc_start_server"
_RPC_INSIDE = "its RPC server is no library of its own, by which its weights would be known"
_NAME_OF_OP_SEAM, _NAME_OF_IQK = "ggml_cpu_extra_compute_forward", "iqk_mul_mat"

LINKED = "linked shared libraries"
VARIANTS = "CPU variants, loaded at run time"
ONE_LIBRARY = "one shared library"
HIDDEN_IN_LIBRARY = "inside a library, its symbols hidden"
IN_PROGRAM = "inside the program, exported"
IN_PROGRAM_NAMED = "inside the program, not stripped"
IN_PROGRAM_STRIPPED = "inside the program, stripped"


@dataclass(frozen=True)
class Seams:
    """Of the functions that the shim's table names, for one CPU backend of an engine.

    found: seams that it has. closed: those of them whose calls were bound when the engine was
    linked, so that no preload sees them; in a program, those that were compiled in. lacking:
    functions without which the shim leaves it alone. absent: optional seams that it has not, which
    others have. obstacle: why the shim cannot lead the calls inside a program to itself, else "".
    """

    found: tuple[Symbol, ...] = ()
    closed: tuple[Symbol, ...] = ()
    lacking: tuple[Symbol, ...] = ()
    absent: tuple[Symbol, ...] = ()
    obstacle: str = ""


@dataclass(frozen=True)
class Engine:
    """libraries: those that hold it or call it. backends: those that compute, of which one is
    chosen at run time when there are several. version: "" when its files do not say.

    own_mirror: of a build that has a `--numa mirror` of its own.
    """

    name: str
    version: str
    shape: str
    family: str
    libraries: tuple[Path, ...]
    backends: tuple[Path, ...]
    seams: Seams = Seams()
    own_mirror: OwnMirror | None = None

    @property
    def name_and_version(self) -> str:
        """ "ggml 0.26.0", where the version begins with the name."""
        if self.version.startswith(f"{self.name} "):
            return self.version
        return f"{self.name} {self.version}".rstrip()


def names_to_look_for() -> frozenset[str]:
    """All names by which images are read here."""
    marks = {_COMPUTES, _ALLOCATES, _LOADS_MORE, *_KINDS}
    return frozenset({symbol.name for symbol in known_symbols()} | marks | VERSION_NAMES)


def read_images(files: Iterable[Path]) -> tuple[Image, ...]:
    """Those of the files that are ELF files and can be read."""
    names = names_to_look_for()
    return tuple(image for file in files if (image := _image(file, names)) is not None)


def _image(file: Path, names: frozenset[str]) -> Image | None:
    try:
        return read_image(file, names)
    except OSError:
        return None


def find_engines(files: Iterable[Path]) -> tuple[Engine, ...]:
    """The engines that those files are or hold, in the order in which they are met."""
    images = read_images(_distinct(files))
    taking_part = [i for i in images if (i.defines.keys() | i.open_calls) - {_LOADS_MORE}]
    groups = [group for group in _groups(taking_part) if any(map(_computes, group))]
    engines = [_engine(group, images, _of_none(images, groups)) for group in groups]
    inside = [image for image in images if not _computes(image) and _holds_cpu_code(image)]
    return (*engines, *(_inside(image, images) for image in inside))


def _distinct(files: Iterable[Path]) -> Iterable[Path]:
    """Each once, under the first of its names: libraries come with links for their versions."""
    by_place: dict[Path, Path] = {}
    for file in files:
        by_place.setdefault(file.resolve(), file)
    return by_place.values()


def loads_more(program: Path) -> bool:
    """Whether a program calls dlopen itself."""
    return any(_LOADS_MORE in image.open_calls for image in read_images([program]))


def backends_beside(images: Iterable[Image], directories: Iterable[Path]) -> tuple[Path, ...]:
    """CPU backends that an engine without one loads at run time from those directories.

    As ggml_backend_load_all does: everything there that is called ggml and computes.
    """
    images = tuple(images)
    if any(map(_computes, images)) or not any(_ALLOCATES in image.defines for image in images):
        return ()
    candidates = (file for directory in directories for file in matching(directory, "*ggml*.so*"))
    return tuple(image.path for image in read_images(candidates) if _computes(image))


def _computes(image: Image) -> bool:
    return _COMPUTES in image.defines


def _groups(images: Sequence[Image]) -> list[list[Image]]:
    """Images that belong together: they lie side by side, or one is linked against the other."""
    groups: list[list[Image]] = []
    for image in images:
        related = [group for group in groups if any(_related(image, other) for other in group)]
        merged = [member for group in related for member in group]
        groups = [group for group in groups if group not in related]
        groups.append([*merged, image])
    return groups


def _related(one: Image, other: Image) -> bool:
    return one.path.parent == other.path.parent or _needs(one, other) or _needs(other, one)


def _needs(one: Image, other: Image) -> bool:
    return bool({other.path.name, other.elf.soname} & set(one.elf.needed))


def _of_none(images: Sequence[Image], groups: Sequence[Sequence[Image]]) -> tuple[Image, ...]:
    return tuple(image for image in images if not any(image in group for group in groups))


def _engine(
    group: Sequence[Image], everything: Sequence[Image], bystanders: Sequence[Image]
) -> Engine:
    """bystanders: of everything, what belongs to no engine and may tell this one's version."""
    backends = [image for image in group if _computes(image)]
    family = _family(backends[0])
    others = [image for image in group if image not in backends]
    chosen = _worst([_seams(backend, others, family) for backend in backends])
    shape = _shape(group, backends, everything)
    if shape == IN_PROGRAM and (inside := _seams_inside(backends[0], family)).found:
        shape, chosen = IN_PROGRAM_NAMED, inside
    return Engine(
        name=_name(group),
        version=read_version(group, bystanders),
        shape=shape,
        family=family,
        libraries=tuple(image.path for image in group),
        backends=tuple(image.path for image in backends),
        seams=chosen,
        own_mirror=read_own_mirror([image.path for image in (*group, *bystanders)]),
    )


def _family(backend: Image) -> str:
    """As the shim tells them apart."""
    iqk = _NAME_OF_OP_SEAM not in backend.defines and _NAME_OF_IQK in backend.defines
    return IQK if iqk else MAINLINE


def _name(group: Iterable[Image]) -> str:
    defined = {name for image in group for name in image.defines}
    return next((name for mark, name in _KINDS.items() if mark in defined), "ggml")


def _shape(group: Sequence[Image], backends: Sequence[Image], everything: Sequence[Image]) -> str:
    if any(image.is_program for image in backends):
        return IN_PROGRAM
    if all(_ALLOCATES in image.defines for image in backends):
        return ONE_LIBRARY if len(group) == 1 else LINKED
    linked = any(_needs(image, backend) for backend in backends for image in everything)
    return LINKED if linked else VARIANTS


def _seams(backend: Image, others: Sequence[Image], family: str) -> Seams:
    """What one backend and the libraries around it offer together.

    Calls from one library into another are always looked up, also those of a library that is not
    seen here: only the backend's calls of its own functions can have been bound inside.
    """
    images = (backend, *others)
    defined = {name for image in images for name in image.defines}
    open_calls = {name for image in images for name in image.open_calls}
    # The loader finds in the program first what the program exports, then in what is preloaded.
    ahead = {name for image in images if image.is_program for name in image.defines}
    inside = {name for name in backend.defines if name not in open_calls}
    known = known_symbols()
    found = tuple(s for s in known if s.is_seam and s.name in defined)
    return Seams(
        found=found,
        closed=tuple(s for s in found if s.name in inside | ahead),
        lacking=tuple(s for s in known if s.is_needed_by(family) and s.name not in defined),
        absent=tuple(
            s
            for s in known
            if s.is_seam and s.need == "OPTIONAL" and s.belongs_to(family) and s.name not in defined
        ),
    )


def _worst(seams: Sequence[Seams]) -> Seams:
    """Which variant is loaded is known at run time: what is said must hold for any."""
    return max(seams, key=lambda s: (len(s.lacking), len(s.closed), -len(s.found)))


def _inside(image: Image, everything: Sequence[Image]) -> Engine:
    """An engine whose functions no dynamic symbol names."""
    if not image.is_program:
        shape = HIDDEN_IN_LIBRARY
    else:
        shape = IN_PROGRAM_NAMED if _COMPUTES in image.hidden else IN_PROGRAM_STRIPPED
    family = IQK if _NAME_OF_IQK in image.hidden else MAINLINE
    names: Mapping[str, str] = {mark: name for mark, name in _KINDS.items() if mark in image.hidden}
    return Engine(
        name=next(iter(names.values()), "ggml"),
        version=read_version([image], everything),
        shape=shape,
        family=family,
        libraries=(image.path,),
        backends=(image.path,),
        seams=_seams_inside(image, family),
        own_mirror=read_own_mirror([other.path for other in everything]),
    )


def _seams_inside(image: Image, family: str) -> Seams:
    """Of an engine in a program: those whose calls the shim leads to itself."""
    if not image.is_program:
        return Seams()
    names = image.hidden.keys() | image.defines.keys()
    if _SERVES_RPC in names and not names & _KINDS.keys():
        return Seams(obstacle=_RPC_INSIDE)
    known = known_symbols()
    inside = look_inside(image.path, frozenset(symbol.name for symbol in known))
    if inside.obstacle:
        return Seams(obstacle=inside.obstacle)
    called = inside.called
    found = tuple(s for s in known if s.is_seam and s.name in called)
    return Seams(
        found=found,
        closed=tuple(s for s in found if s.is_needed_by(family) and not called[s.name]),
        lacking=tuple(s for s in known if s.is_needed_by(family) and s.name not in called),
    )


def _holds_cpu_code(image: Image) -> bool:
    return _COMPUTES in image.hidden or contains(image.path, CPU_CODE)
