"""The two minutes of the README, word for word, on a Debian that has never heard of us.

The commands are read out of README.md and run in a fresh root made by debootstrap, with a real
llama-server on its PATH. Downloads come from wheels fetched beforehand, since a fresh root has no
way out; everything else is as a reader has it.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from packaging_rig import REPOSITORY, need

SUITE = "bookworm"
# Python for the package, curl for the README, and what a llama-server links to.
PACKAGES = "python3-venv,curl,libgomp1,libstdc++6"
OLD_ENOUGH = ("manylinux_2_17", "manylinux_2_27", "manylinux_2_28", "manylinux2014")

# Runs in the fresh root. A terminal is a job with a process group of its own; Ctrl-C is a SIGINT
# to all of it.
SCRIPT = """
set -m
cd /root
when_ready() {
    for _ in $(seq 1200); do
        curl -sf http://127.0.0.1:8080/health >/dev/null && return
        kill -0 "$1" 2>/dev/null || return
        sleep 0.5
    done
}
in_terminal() {
    bash -e "/root/block-$1" >"/root/out-$1" 2>"/root/err-$1"
    echo $? >"/root/code-$1"
}
cat block-0 block-1 >block-first
in_terminal first & when_ready $!
in_terminal 2
kill -INT -- -$!; wait
echo 'export PATH="$HOME/numamirror/bin:$PATH"' | cat - block-3 >block-rehearsal
in_terminal rehearsal & when_ready $!
curl -s http://127.0.0.1:8080/completion -d '{"prompt": "And", "n_predict": 4}' >/root/out-asked
kill -INT -- -$!; wait
"""


@dataclass(frozen=True)
class Terminal:
    """What was seen in one. code: exit status of the last command."""

    out: str
    err: str
    code: int


Session = Callable[[str], Terminal]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory, wheel: Callable[[str], Path]) -> Session:
    """session("first"): topology and the server; "2": the other terminal; "rehearsal"."""
    if os.getuid() != 0 or platform.machine() != "x86_64":
        pytest.skip("needs root on x86_64 to make a Debian root")
    engine, model = engine_and_model()
    root = fresh_root(tmp_path_factory.mktemp("debian"))
    home = root / "root"
    shutil.copy(wheel("x86_64"), home)
    fetch_requirements(wheel("x86_64"), root)
    shutil.copy(model, home / "model.gguf")
    shutil.copytree(engine, root / "opt" / "llama.cpp")
    (root / "usr/local/bin/llama-server").symlink_to("/opt/llama.cpp/llama-server")
    for number, block in enumerate(readme_blocks()):
        (home / f"block-{number}").write_text(block)
    (home / "script").write_text(SCRIPT)
    enter(root, ["bash", "/root/script"])

    def seen(name: str) -> Terminal:
        out, err = (home / f"{part}-{name}" for part in ("out", "err"))
        return Terminal(out.read_text(), err.read_text(), int((home / f"code-{name}").read_text()))

    return seen


def readme_blocks() -> list[str]:
    """The commands under "Two minutes": install, start, look, rehearse."""
    text = (REPOSITORY / "README.md").read_text()
    section = re.search(r"^## Two minutes\n(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    assert section is not None
    blocks = re.findall(r"^```sh\n(.*?)^```", section[1], re.MULTILINE | re.DOTALL)
    assert len(blocks) == 4
    return blocks


def engine_and_model() -> tuple[Path, Path]:
    sys.path.insert(0, str(REPOSITORY / "tests" / "engines"))
    import fetch

    try:
        return fetch.llama_server(), fetch.gemma()
    except fetch.Unavailable as reason:
        pytest.skip(str(reason))


def fresh_root(directory: Path) -> Path:
    root = directory / "root"
    # A mirror that stops in the middle is not waited for, and no mount is left behind.
    debootstrap = ["unshare", "--mount", "timeout", "900", need("debootstrap", "debootstrap")]
    made = subprocess.run(
        [*debootstrap, "--variant=minbase", f"--include={PACKAGES}", SUITE, str(root)],
        capture_output=True, text=True,
    )  # fmt: skip
    if made.returncode:
        pytest.skip(f"debootstrap {SUITE}: {made.stdout.strip().splitlines()[-1:]}")
    return root


def fetch_requirements(wheel: Path, root: Path) -> None:
    """Wheels that the root's own pip would fetch, for its Python, into /wheels."""
    asked = subprocess.run(
        ["chroot", str(root), "python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    download += ["--only-binary=:all:", "--python-version", asked.stdout.strip()]
    for platform_tag in OLD_ENOUGH:
        download += ["--platform", f"{platform_tag}_x86_64"]
    done = subprocess.run(
        [*download, "--dest", str(root / "wheels"), str(wheel)], capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"what numamirror requires cannot be downloaded: {done.stderr.strip()}")


def enter(root: Path, command: list[str]) -> None:
    """Run in the root, with processes, mounts and a network of its own that has loopback alone."""
    inside = (
        f"mount -t proc proc {root}/proc && mount --rbind /sys {root}/sys && "
        f'mount --rbind /dev {root}/dev && ip link set lo up && exec chroot {root} "$@"'
    )
    alone = ["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child"]
    environment = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "LC_ALL": "C.UTF-8",
        "COLUMNS": "80",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": "/wheels",
    }
    need("ip", "iproute2")
    subprocess.run([*alone, "bash", "-c", inside, "bash", *command], env=environment, check=True,
                   timeout=2000)  # fmt: skip


@pytest.fixture(scope="module")
def started(session: Session) -> Iterator[Terminal]:
    yield session("first")


def test_topology_names_the_home_node(started: Terminal) -> None:
    assert re.search(r"^Home +node \d+: ", started.out, re.MULTILINE), started


def test_the_server_runs_and_we_say_what_was_done(started: Terminal) -> None:
    assert "numamirror: " in started.err
    assert re.search(r"nothing to mirror|copies of|coverage \d+ %", started.err), started.err
    assert "listening on http://127.0.0.1:8080" in started.err + started.out


def test_the_server_ends_with_ctrl_c_as_it_would_alone(started: Terminal) -> None:
    assert started.code in (0, 130), started.err[-2000:]


def test_the_other_terminal_gets_an_answer_and_a_report(session: Session) -> None:
    looked = session("2")
    assert looked.code == 0, looked.err
    assert '"content":' in looked.out
    assert "Per-node process memory usage (in MBs) for PID" in looked.out
    assert "(llama-server)" in looked.out


def test_the_rehearsal_mirrors_and_says_that_it_is_one(session: Session) -> None:
    rehearsed = session("rehearsal")
    assert rehearsed.code in (0, 130), rehearsed.err[-2000:]
    assert "rehearsal: 2 pretend nodes" in rehearsed.err
    assert re.search(r"coverage \d\d+ %", rehearsed.err), rehearsed.err[-2000:]
    assert "this is a rehearsal with 2 pretend nodes" in rehearsed.err
