"""`numamirror cache MODEL`: what is cached, dropped and read in, against the kernel's answer."""

from __future__ import annotations

import json
import mmap
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import numamirror_cli.commands.cache  # noqa: F401 - before a test becomes nobody
from numamirror_cli.cli import cli
from numamirror_cli.commands import cache as cache_command
from numamirror_cli.errors import NumaMirrorError
from numamirror_cli.memory import cache_actions
from numamirror_cli.memory.cache_actions import evict
from numamirror_cli.memory.model_cache import ModelCache, lies_elsewhere, warming_policy
from numamirror_cli.memory.page_cache import CacheState, read_cache_state
from numamirror_cli.memory.policy import Policy
from numamirror_cli.report.cache import missed_text
from tests.unit.launch.conftest import environment
from tests.unit.memory.as_nobody import as_nobody

MIB = 1 << 20
PAGE = mmap.PAGESIZE
ELSEWHERE = frozenset({4095})


@pytest.fixture
def disk() -> Iterator[Path]:
    """A directory on a file system whose pages can be dropped: tmpfs keeps them for good."""
    for base in (os.environ.get("TMPDIR", "/tmp"), "/var/tmp", str(Path.home())):
        with tempfile.TemporaryDirectory(dir=base) as directory:
            probe = Path(directory) / "probe"
            probe.write_bytes(os.urandom(PAGE))
            evict(probe)
            if read_cache_state(probe).cached == 0:
                yield Path(directory)
                return
    pytest.skip("no file system here lets go of its page cache (tmpfs, overlay)")


def model_of(path: Path, mib: int) -> Path:
    """A file of random bytes, written out and not cached."""
    path.write_bytes(os.urandom(mib * MIB))
    evict(path)
    return path


def cache(*arguments: object, status: int = 0) -> Result:
    result = CliRunner().invoke(
        cli, ["cache", *map(str, arguments)], env={"COLUMNS": "80", "NO_COLOR": "1"}
    )
    if isinstance(result.exception, NumaMirrorError):
        raise result.exception
    assert result.exit_code == status, result.output
    return result


def document(*arguments: object, status: int = 0) -> dict[str, object]:
    return json.loads(cache(*arguments, "--json", status=status).stdout)


def test_looking_reads_nothing_in(disk):
    model = model_of(disk / "m.gguf", 8)
    assert [document(model)["cached_bytes"] for _ in range(3)] == [0, 0, 0]


def test_what_was_read_is_what_is_cached(disk):
    model = model_of(disk / "m.gguf", 8)
    with model.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        file.seek(3 * MIB)
        file.read(2 * MIB)
    shown = document(model)
    assert 2 * MIB <= shown["cached_bytes"] <= 2.2 * MIB
    assert sum(shown["nodes"].values()) == shown["cached_bytes"]


def test_warm_then_evict_and_the_kernel_agrees(disk):
    model = model_of(disk / "m.gguf", 8)
    warmed = document(model, "--warm", first_node())
    assert warmed["cached_bytes"] == 8 * MIB
    assert warmed["warmed"] == f"preferred:{first_node()}"
    assert fincore(model) in (8 * MIB, None)
    evicted = document(model, "--evict")
    assert (evicted["evicted_bytes"], evicted["cached_bytes"]) == (8 * MIB, 0)
    assert fincore(model) in (0, None)


def first_node() -> int:
    online = Path("/sys/devices/system/node/has_memory")
    if not online.exists():
        pytest.skip("this kernel has no NUMA nodes")
    return int(online.read_text().replace("-", ",").split(",")[0])


def fincore(path: Path) -> int | None:
    """util-linux's own count of cached bytes; None where it is not installed."""
    try:
        done = subprocess.run(
            ["fincore", "--bytes", "--raw", "--noheadings", "--output", "RES", path],
            capture_output=True,
            text=True,
        )
    except FileNotFoundError:
        return None
    return int(done.stdout)


def test_a_page_is_a_page_like_this(disk):
    model = model_of(disk / "m.gguf", 8)
    text = cache(model, "--warm", first_node()).stdout
    assert text.splitlines() == [
        str(model),
        "8 of 8 MiB in the page cache (100 %)",
        "",
        "Node  Cached  Share",
        f"{first_node():>4}   8 MiB  100 %",
    ]
    assert cache(model, "--evict").stdout.splitlines() == [
        str(model),
        "8 MiB dropped from the page cache",
        "0 B of 8 MiB in the page cache (0 %)",
    ]


def test_a_process_that_has_it_mapped_keeps_it_and_is_named(disk):
    model = model_of(disk / "m.gguf", 8)
    code = (
        "import mmap, sys\nf = open(sys.argv[1], 'rb')\n"
        "m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ); x = m[:]\n"
        "print('up', flush=True); import time; time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", code, model], stdout=subprocess.PIPE)
    assert child.stdout and child.stdout.readline()
    try:
        result = cache(model, "--evict", status=1)
        pids = [p["pid"] for p in document(model)["mapped_by"]]
    finally:
        child.kill()
        child.wait()
    assert pids == [child.pid]
    assert f"8 MiB stay in the page cache: mapped by {child.pid} (" in result.stderr
    assert document(model, "--evict")["cached_bytes"] == 0


OLD_KERNEL = """
import ctypes, errno, os, sys
from pathlib import Path
from numamirror_cli.memory import page_cache

class Old:
    def madvise(self, address, length, advice):
        ctypes.set_errno(errno.EINVAL)
        return -1
    def mincore(self, *arguments):
        done = new.mincore(*arguments)
        if cut:
            os.truncate(path, 0)
        return done
    def __getattr__(self, name):
        return getattr(new, name)

new, page_cache._libc, path = page_cache._libc, Old(), Path(sys.argv[1])
for cut in (False, True):
    state = page_cache.read_cache_state(path)
    print(state.cached, sum(state.by_node.values()))
"""


def test_a_kernel_before_5_14_is_asked_too_and_a_file_cut_short_meanwhile_is_no_end(tmp_path):
    """There is no MADV_POPULATE_READ; a touch behind the new end of the file would be SIGBUS."""
    model = tmp_path / "m.gguf"
    model.write_bytes(bytes(4 * PAGE))
    command = [sys.executable, "-c", OLD_KERNEL, str(model)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"{4 * PAGE} {4 * PAGE}", f"{4 * PAGE} 0"]


def test_dirty_pages_are_written_out_and_then_dropped(disk):
    model = disk / "m.gguf"
    model.write_bytes(os.urandom(4 * MIB))
    content = model.read_bytes()
    assert document(model, "--evict")["cached_bytes"] == 0
    assert model.read_bytes() == content


def test_all_parts_of_a_split_model_are_followed(disk):
    parts = [model_of(disk / f"m-0000{n}-of-00003.gguf", n) for n in (1, 2, 3)]
    shown = document(parts[1], "--warm", first_node())
    assert shown["bytes"] == shown["cached_bytes"] == 6 * MIB
    assert [p["path"] for p in shown["parts"]] == [str(p) for p in parts]
    assert "m-00001-of-00003.gguf and 2 more parts" in cache(parts[0]).stdout.replace("\n", "")


def test_a_missing_part_is_named(disk):
    model_of(disk / "m-00001-of-00002.gguf", 1)
    with pytest.raises(NumaMirrorError, match=r"m-00002-of-00002\.gguf: there is no such file"):
        cache(disk / "m-00001-of-00002.gguf")


@pytest.mark.parametrize(
    ("what", "said"), [("none", "there is no such file"), ("dir", "not a regular")]
)
def test_what_is_no_file_is_named(tmp_path, what, said):
    (tmp_path / "dir").mkdir()
    with pytest.raises(NumaMirrorError, match=said):
        cache(tmp_path / what)


def test_somebody_elses_file_is_not_said_to_be_cached_when_the_kernel_will_not_tell(disk):
    model = model_of(disk / "m.gguf", 1)
    disk.chmod(0o755)
    model.chmod(0o644)
    assert "the kernel tells only its owner which of its pages are cached" in as_nobody(
        lambda: read_cache_state(model)
    )


def test_a_model_that_may_not_be_read_is_no_bad_usage(disk):
    model = model_of(disk / "m.gguf", 1)
    disk.chmod(0o755)
    model.chmod(0o600)
    assert as_nobody(lambda: cache(model)) == f"NumaMirrorError: {model}: Permission denied"


def test_an_unknown_node_is_bad_usage_and_names_those_there_are(disk):
    model = model_of(disk / "m.gguf", 1)
    with pytest.raises(NumaMirrorError, match="--warm 999: not a node with memory") as raised:
        cache(model, "--warm", "999")
    assert raised.value.exit_code == 2
    assert re.fullmatch(r"those are nodes? \d.*; or give interleave", raised.value.hint)


def test_an_empty_file_is_no_error(tmp_path):
    empty = tmp_path / "m.gguf"
    empty.touch()
    assert "0 B of 0 B" in cache(empty).stdout


def state(by_node: dict[int, int]) -> ModelCache:
    total = sum(by_node.values())
    return ModelCache((CacheState(Path("m"), total, total, by_node, 1, "0:0", 1),), ())


def test_only_what_lies_elsewhere_needs_dropping_before_it_is_read_in():
    to_node_1 = warming_policy("1", frozenset({0, 1}))
    spread = warming_policy("interleave", frozenset({0, 1}))
    assert (str(to_node_1), str(spread)) == ("preferred:1", "interleave:0-1")
    assert not lies_elsewhere(state({1: 100}), to_node_1)
    assert lies_elsewhere(state({0: 1, 1: 99}), to_node_1)
    assert lies_elsewhere(state({0: 50, 1: 50}), spread)
    assert not lies_elsewhere(state({}), spread)
    assert not lies_elsewhere(state({0: 50}), warming_policy("interleave", frozenset({0})))


def test_what_did_not_go_where_it_should_is_said():
    to_node_1 = Policy("preferred", frozenset({1}))
    assert "only 40 % went to preferred:1" in missed_text(state({0: 60, 1: 40}), to_node_1)
    assert missed_text(state({1: 100}), to_node_1) == ""


def test_what_did_not_go_where_it_should_is_a_failure(disk, monkeypatch):
    """Where there is one node only, all goes there: the policy is not followed here."""
    model = model_of(disk / "m.gguf", 4)
    monkeypatch.setattr(cache_command, "warming_policy", lambda *_: Policy("preferred", ELSEWHERE))
    monkeypatch.setattr(cache_actions, "set_policy", lambda _: None)
    result = cache(model, "--warm", "4095", status=1)
    assert "only 0 % went to preferred:4095" in result.stderr
    assert "4 of 4 MiB in the page cache" in result.stdout


def test_reading_a_model_in_leaves_us_the_policy_that_we_had(tmp_path: Path) -> None:
    """What is allocated afterwards must not follow the model to its node."""
    node = Policy("preferred", frozenset({int(first_node())}))
    (tmp_path / "model.gguf").write_bytes(bytes(PAGE))
    code = (
        "import sys; from pathlib import Path\n"
        "from numamirror_cli.memory.cache_actions import warm\n"
        "from numamirror_cli.memory.policy import Policy, current_policy, set_policy\n"
        f"node = Policy('preferred', frozenset({set(node.nodes)}))\n"
        "before = current_policy()\n"
        "warm(Path(sys.argv[1]), node)\n"
        "try: warm(Path(sys.argv[1] + '.none'), node)\n"
        "except Exception as error: print(error)\n"
        "print(current_policy() == before, before != node)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "model.gguf")]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    if "set_mempolicy: " in done.stderr or "get_mempolicy: " in done.stderr:
        pytest.skip("no policy may be set here")
    assert done.stdout.splitlines() == [
        f"{tmp_path}/model.gguf.none: No such file or directory",
        "True True",
    ]
