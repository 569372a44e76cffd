"""Which libraries a Python command brings in, read off its sources."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from numamirror_cli.engine.python_imports import Imports, imported_libraries
from numamirror_cli.engine.python_path import is_python, module_path

PYTHON = Path(sys.executable)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A directory for PYTHONPATH with a compiled package, `engine`, in it."""
    directory = tmp_path / "site"
    write(directory / "engine/__init__.py", "from . import core\n")
    write(directory / "engine/lib/libengine.so", "")
    write(directory / "engine/lib/libengine.so.1.2", "")
    write(directory / "engine/lib/notes.so.txt.d/file", "")
    write(directory / "single.cpython-311-x86_64-linux-gnu.so", "")
    return directory


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def imports(site: Path, *arguments: object) -> Imports:
    return imported_libraries(PYTHON, list(map(str, arguments)), {"PYTHONPATH": str(site)})


def names(found: Imports) -> list[str]:
    return [path.name for path in found.libraries]


ENGINE = ["libengine.so", "libengine.so.1.2"]


@pytest.mark.parametrize(
    "code",
    [
        "import engine",
        "import engine.deep.deeper as e",
        "from engine import core",
        "def later():\n    import engine",
        "import importlib\nimportlib.import_module('engine')",
        "__import__('engine')",
        "if True:\n    from engine.core import *",
    ],
)
def test_every_way_of_importing_is_followed(site: Path, code: str) -> None:
    assert names(imports(site, "-c", code)) == ENGINE
    script = write(site.parent / "app/main.py", code)
    assert names(imports(site, script)) == ENGINE
    assert names(imports(site, "-u", "-X", "dev", "-W", "error", script, "--help")) == ENGINE


def test_imports_are_followed_through_modules_beside_the_script(site: Path) -> None:
    script = write(site.parent / "app/main.py", "import helper")
    write(site.parent / "app/helper.py", "from package.inner import f")
    write(site.parent / "app/package/__init__.py", "")
    write(site.parent / "app/package/inner.py", "from .more import g")
    write(site.parent / "app/package/more.py", "import engine")
    assert names(imports(site, script)) == ENGINE


def test_a_module_run_with_m_and_its_main_are_followed(site: Path) -> None:
    write(site / "server/__init__.py", "")
    write(site / "server/__main__.py", "import engine")
    assert names(imports(site, "-m", "server", "--port", "0")) == ENGINE
    write(site / "server/sub/__main__.py", "import single")
    assert names(imports(site, "-m", "server.sub")) == ["single.cpython-311-x86_64-linux-gnu.so"]


def test_a_directory_with_a_main_is_run_as_python_does(site: Path) -> None:
    write(site.parent / "app/__main__.py", "import engine")
    assert names(imports(site, site.parent / "app")) == ENGINE


def test_what_is_not_imported_is_not_listed(site: Path) -> None:
    assert imports(site, "-c", "import json, engineering  # import engine") == Imports()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [(["-m", "nowhere"], "nowhere"), ([], "no script"), (["-"], "no script"), (["x.py"], "x.py")],
)
def test_what_cannot_be_followed_is_said(site: Path, arguments: Sequence[str], why: str) -> None:
    found = imports(site, *arguments)
    assert found.libraries == () and why in found.unfollowed


def test_a_source_that_is_no_python_ends_the_search_only_there(site: Path) -> None:
    write(site / "broken/__init__.py", "import engine\n}{")
    write(site / "latin/__init__.py", "").write_bytes(b"\xff\xfe import engine")
    assert names(imports(site, "-c", "import broken, latin, single")) == [
        "single.cpython-311-x86_64-linux-gnu.so"
    ]


def test_modules_that_import_each_other_end_the_search(site: Path) -> None:
    write(site / "a.py", "import b")
    write(site / "b.py", "import a, engine")
    assert names(imports(site, "-c", "import a")) == ENGINE


def test_very_many_modules_are_left_with_a_word(site: Path) -> None:
    for number in range(300):
        write(site / f"m{number}.py", f"import m{number + 1}")
    assert "modules were read" in imports(site, "-c", "import m0").unfollowed


def test_this_interpreter_finds_what_this_interpreter_imports() -> None:
    found = imported_libraries(PYTHON, ["-c", "import psutil"], {})
    assert any("psutil" in str(path) for path in found.libraries)


def test_a_virtual_environment_sees_its_own_packages_and_the_base_only_when_told(
    tmp_path: Path, make_interpreter: Callable[[Path], Path]
) -> None:
    base, venv = make_interpreter(tmp_path / "base"), make_interpreter(tmp_path / "venv")
    for prefix in (base, venv):
        (prefix.parent.parent / "lib/python3.11/site-packages").mkdir(parents=True)
    for value, sees_base in (("false", False), ("true", True)):
        text = f"home = {base.parent}\ninclude-system-site-packages = {value}\n"
        write(venv.parent.parent / "pyvenv.cfg", text)
        path = module_path(venv, None, {})
        assert path[0] == tmp_path / "venv/lib/python3.11/site-packages"
        assert (tmp_path / "base/lib/python3.11/site-packages" in path) is sees_base


def test_directories_of_pth_files_are_searched_and_their_code_is_not_run(
    tmp_path: Path, make_interpreter: Callable[[Path], Path]
) -> None:
    interpreter = make_interpreter(tmp_path / "base")
    site = tmp_path / "base/lib/python3.11/site-packages"
    write(site / "x.pth", f"# comment\nimport os; os.abort()\n{tmp_path}/editable\nrelative\n")
    for directory in (tmp_path / "editable", site / "relative"):
        directory.mkdir(parents=True)
    assert {tmp_path / "editable", site / "relative"} <= set(module_path(interpreter, None, {}))


@pytest.fixture
def make_interpreter() -> Callable[[Path], Path]:
    return lambda prefix: write(prefix / "bin/python3", "")


@pytest.mark.parametrize(
    ("name", "is_one"),
    [("python", True), ("python3", True), ("python3.13t", True), ("pypy3.10", True),
     ("python-config", False), ("ipython", False), ("bash", False)],
)  # fmt: skip
def test_interpreters_are_known_by_name(name: str, is_one: bool) -> None:
    assert is_python(Path("/usr/bin") / name) is is_one


def test_no_module_is_looked_for_where_we_may_not_look():
    """As where HOME is another user's still; a name too long fails for root as well."""
    closed = f"/{'x' * 5000}"
    found = module_path(Path("/usr/bin/python3"), None, {"HOME": closed, "PYTHONPATH": closed})
    assert Path(closed) not in found
    assert not any(path.is_relative_to(closed) for path in found)
