"""A name finds the engine: not its wrapper, not this command, and never a guess among several."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from numamirror_cli.errors import NumaMirrorError
from numamirror_cli.memory.find import (
    find_processes,
    follow_wrapper,
    is_wrapper,
    program_name,
    the_process,
)
from numamirror_cli.memory.maps import Extent
from numamirror_cli.memory.process import Process, read_process
from tests.unit.memory.replay import two_node_root, write_process


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return two_node_root(tmp_path)


def add(root: Path, pid: int, *arguments: str, parent: int = 1, resident_kib: int = 0) -> None:
    write_process(root, "", pid=pid, arguments=arguments, parent=parent, resident_kib=resident_kib)


def test_an_exact_name_wins_over_a_command_line_that_mentions_it(root):
    add(root, 10, "llama-server", "-m", "x.gguf")
    add(root, 11, "tail", "-f", "llama-server.log")
    assert [p.pid for p in find_processes("llama-server", root)] == [10]
    assert the_process("llama-server", root).pid == 10


def test_a_part_of_the_command_line_is_enough_when_nothing_is_called_so(root):
    add(root, 10, "/opt/bin/llama-server", "-m", "qwen.gguf")
    assert the_process("qwen", root).pid == 10


def test_several_matches_are_listed_and_none_is_guessed(root):
    add(root, 10, "llama-server", "-m", "a.gguf")
    add(root, 12, "llama-server", "-m", "b.gguf")
    with pytest.raises(NumaMirrorError) as raised:
        the_process("llama-server", root)
    assert raised.value.message == "2 processes are called 'llama-server':"
    assert list(raised.value.listed) == [
        "      10  llama-server -m a.gguf",
        "      12  llama-server -m b.gguf",
    ]


def test_a_command_line_of_several_lines_is_listed_in_one(root):
    for pid in (10, 12):
        add(root, pid, "python3", "-c", "import engine\nengine.serve()")
    with pytest.raises(NumaMirrorError) as raised:
        the_process("python3", root)
    assert list(raised.value.listed) == [
        r"      10  python3 -c import engine\nengine.serve()",
        r"      12  python3 -c import engine\nengine.serve()",
    ]


def test_of_very_many_matches_the_first_are_listed_each_in_a_line_of_80_columns(root):
    for pid in range(10, 40):
        add(root, pid, "engine", "-m", f"/models/{'x' * 200}.gguf")
    with pytest.raises(NumaMirrorError) as raised:
        the_process(".gguf", root)
    lines = raised.value.listed
    assert raised.value.message == "30 processes have '.gguf' in their command lines:"
    assert len(lines) == 21
    assert lines[-1] == "     ...  and 10 more"
    assert max(map(len, lines)) <= 80


def test_no_match_is_said():
    with pytest.raises(NumaMirrorError, match="no process is called 'no-such-engine-here'"):
        the_process("no-such-engine-here")


def test_the_launcher_and_its_script_are_left_out_when_the_engine_is_there(root):
    add(root, 10, "/bin/sh", "start-llama-server.sh")
    add(root, 11, "python3", "-m", "numamirror_cli", "run", "--", "llama-server", parent=10)
    add(root, 12, "llama-server", "-m", "a.gguf", parent=11)
    assert the_process("llama", root).pid == 12


def test_a_wrapper_is_followed_to_the_process_with_the_memory(root):
    add(root, 10, "/bin/bash", "./serve.sh")
    add(root, 11, "python3", "/usr/bin/numamirror", "run", "llama-server", parent=10)
    add(root, 12, "llama-server", parent=11, resident_kib=4_000_000)
    add(root, 13, "tee", "log", parent=10, resident_kib=900)
    assert follow_wrapper(read_process(10, root), root).pid == 12


def test_helpers_of_the_launcher_do_not_make_a_name_ambiguous(root):
    command = ("python3", "-m", "numamirror_cli", "run", "--", "engine")
    add(root, 10, *command, resident_kib=30_000)
    add(root, 11, *command, parent=10, resident_kib=30_000)
    add(root, 12, "engine", "-m", "a.gguf", parent=10, resident_kib=900)
    assert the_process("a.gguf", root).pid == 12
    assert the_process("engine", root).pid == 12
    assert follow_wrapper(read_process(10, root), root).pid == 12
    for name in ("numamirror_cli", "python3"):
        assert follow_wrapper(the_process(name, root), root).pid == 12


def test_ollama_is_followed_to_its_runner_which_has_the_same_name(root):
    add(root, 10, "/usr/bin/ollama", "serve", resident_kib=60_000)
    add(root, 11, "/usr/bin/ollama", "runner", "--model", "x", parent=10, resident_kib=4_000_000)
    assert follow_wrapper(read_process(10, root), root).pid == 11
    assert the_process("ollama", root).pid == 11


def test_an_engine_with_helpers_is_not_followed_away_from(root):
    add(root, 10, "llama-server")
    add(root, 11, "ffmpeg", parent=10, resident_kib=9_000_000)
    assert follow_wrapper(read_process(10, root), root).pid == 10


def test_a_persons_shell_is_no_wrapper(root):
    add(root, 10, "-bash")
    add(root, 11, "bash", "-i")
    add(root, 12, "bash", "-c", "engine; true")
    assert [is_wrapper(read_process(pid, root)) for pid in (10, 11, 12)] == [False, False, True]


def test_s07_an_engine_run_by_a_bundled_loader_is_named_after_itself(tmp_path):
    """A real one: a copy of ld.so runs a copy of sleep, and the kernel calls it ld.so."""
    loader = next(
        (
            line.split()[-1]
            for line in Path("/proc/self/maps").read_text().splitlines()
            if Path(line.split()[-1]).name.startswith("ld-")
        ),
        None,
    )
    if loader is None:
        pytest.skip("this Python is not run by a dynamic loader called ld-*")
    bundled = tmp_path / "lib/ld.so"
    bundled.parent.mkdir()
    shutil.copy(loader, bundled)
    engine = tmp_path / "my-engine"
    shutil.copy(shutil.which("sleep") or "", engine)
    script = tmp_path / "run.sh"
    script.write_text(f"#!/bin/sh\n{bundled} --library-path /lib {engine} 60\ntrue\n")
    script.chmod(0o755)
    wrapper = subprocess.Popen([script])
    try:
        process = wait_for(wrapper)
        assert process.command == "ld.so"
        assert program_name(process) == "my-engine"
        assert the_process("my-engine").pid == process.pid
        os.kill(process.pid, 9)
    finally:
        wrapper.wait()


def wait_for(wrapper: subprocess.Popen[bytes]) -> Process:
    """What the script started, once it has become ld.so with its arguments."""
    for _ in range(12_000):
        below = follow_wrapper(read_process(wrapper.pid))
        if below.command == "ld.so" and below.arguments:
            return below
        time.sleep(0.01)
    raise AssertionError("the script did not start ld.so")


def test_s07_an_overwritten_command_line_leaves_the_mappings(tmp_path):
    process = Process(1, "ld.so", (), "S", 0, 0)
    extents = [
        Extent(0x1000, 0x2000, "r-xp", inode=1, name="/opt/lib/ld.so"),
        Extent(0x3000, 0x4000, "r-xp", inode=2, name="/opt/lib/libc.so.6"),
        Extent(0x5000, 0x6000, "r-xp", inode=3, name="/opt/bin/llama-server"),
    ]
    assert program_name(process, extents) == "llama-server"


def test_a_script_that_asks_about_itself_is_not_shown_the_command_that_asks():
    code = (
        "import os\n"
        "from numamirror_cli.memory.find import follow_wrapper\n"
        "from numamirror_cli.memory.process import read_process\n"
        "script = os.getppid()\n"
        "print('itself' if follow_wrapper(read_process(script)).pid == script else 'another')\n"
    )
    words = ["sh", "-c", '"$0" -c "$1"; true', sys.executable, code]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.stdout == "itself\n", done.stderr


def test_this_command_does_not_find_itself():
    marker = "a-name-that-only-this-command-line-has"
    found = subprocess.run(
        [sys.executable, "-m", "numamirror_cli", "inspect", marker], capture_output=True, text=True
    )
    assert found.returncode == 1
    assert "no process is called" in found.stderr


def test_a_number_that_no_process_has_is_no_process(root: Path) -> None:
    for number in ("0", "99999999999999999", "1" * 5000):
        with pytest.raises(NumaMirrorError, match="no process"):
            the_process(number, root)


def test_an_empty_name_means_no_process_instead_of_all(root: Path) -> None:
    add(root, 10, "llama-server")
    with pytest.raises(NumaMirrorError, match="the process's name is empty"):
        the_process("", root)


def test_without_proc_there_is_no_process(tmp_path: Path) -> None:
    with pytest.raises(NumaMirrorError, match="no process is called"):
        the_process("llama-server", tmp_path)


def test_processes_that_seem_to_be_each_others_parents_are_looked_at_once(root: Path) -> None:
    """/proc is read one process after the other, and pids are used again meanwhile."""
    add(root, 10, "sudo", "llama-server", parent=12)
    add(root, 11, "sh", "-c", "llama-server", parent=10)
    add(root, 12, "llama-server", parent=11)
    assert follow_wrapper(the_process("10", root), root).pid == 12
    assert the_process("llama-server", root).pid == 12
