"""`run --json FILE`: whatever FILE is, it is written whole, or it is said why not; nothing else
waits for it, and nothing is lost by it."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from numamirror_cli.commands.shared import OUTPUT_FILE
from numamirror_cli.output import write_whole
from tests.unit.launch.conftest import NUMAMIRROR, Recorded, environment, numamirror_run
from tests.unit.memory.as_nobody import as_nobody

UNWRITABLE = ["no/such/directory/run.json", "file/run.json"]


@pytest.mark.parametrize("path", UNWRITABLE)
def test_a_file_that_cannot_be_written_is_said_once_and_the_program_runs(
    tmp_path: Path, path: str
) -> None:
    (tmp_path / "file").touch()
    result = numamirror_run("--json", tmp_path / path, "sh", "-c", "echo ran; exit 3")
    assert (result.returncode, result.stdout) == (3, "ran\n")
    assert result.stderr.count(f"--json {tmp_path / path}: cannot be written: ") == 1
    assert "the program is started all the same" in result.stderr


def test_the_plan_of_a_dry_run_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    result = numamirror_run("--dry-run", "--json", tmp_path / UNWRITABLE[0], "true")
    assert result.returncode == 2
    assert "cannot be written: No such file or directory" in result.stderr


def test_the_plan_is_in_the_json_file_while_the_program_runs(record: Recorded) -> None:
    code = f"cat {record.path}"
    shown = json.loads(numamirror_run("--json", record.path, "sh", "-c", code).stdout)
    assert shown["plan"]["command"] == ["sh", "-c", code] and shown["child"] is None
    assert record.read()["child"]["exit_code"] == 0


def test_no_other_file_is_left_beside_the_json_file(record: Recorded) -> None:
    numamirror_run("--json", record.path, "true")
    assert list(record.path.parent.iterdir()) == [record.path]


def test_an_existing_json_file_keeps_its_mode_and_a_link_stays_a_link(
    record: Recorded, tmp_path: Path
) -> None:
    real = tmp_path / "real"
    real.touch(0o640)
    real.chmod(0o640)
    record.path.symlink_to(real)
    numamirror_run("--json", record.path, "true")
    assert record.path.is_symlink() and record.read()["schema"] == 1
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


def test_a_device_is_written_to_and_not_replaced() -> None:
    before = Path("/dev/null").stat()
    assert numamirror_run("--json", "/dev/null", "true").returncode == 0
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    assert Path("/dev/null").stat().st_ino == before.st_ino


@pytest.fixture
def public_file() -> Iterator[Path]:
    """A file of somebody else's in a directory of theirs, which all may enter."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        file = Path(name) / "run.json"
        file.write_text("what stood there before " * 100)
        yield file


def test_a_file_in_a_directory_that_takes_no_other_is_written_in_place(public_file: Path) -> None:
    public_file.chmod(0o666)
    assert as_nobody(lambda: write_whole(public_file, "new")) == "None"
    assert public_file.read_text() == "new"
    assert [path.name for path in public_file.parent.iterdir()] == ["run.json"]


def test_a_file_that_may_be_written_and_not_read_is_taken(public_file: Path) -> None:
    public_file.chmod(0o602)
    assert as_nobody(lambda: OUTPUT_FILE.convert(str(public_file), None, None)) == str(public_file)
    assert as_nobody(lambda: write_whole(public_file, "new")) == "None"


def test_a_shells_process_substitution_gets_one_document(tmp_path: Path) -> None:
    done = _bash(f"{_RUN} --json >(cat >{tmp_path}/got) -- true; wait $!")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "got").read_text())["child"]["exit_code"] == 0


@pytest.mark.parametrize("file", ["/dev/stdout", "/dev/fd/1", "out"])
def test_a_file_that_the_program_writes_to_as_well_keeps_what_it_wrote(
    tmp_path: Path, file: str
) -> None:
    done = _bash(f"{_RUN} --json {file} -- echo from the program >out", tmp_path)
    assert done.returncode == 0, done.stderr
    first, _, document = (tmp_path / "out").read_text().partition("\n")
    assert first == "from the program"
    assert json.loads(document)["child"]["exit_code"] == 0
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_pipe_gets_the_document_behind_the_programs_output() -> None:
    done = _bash(f"{_RUN} --json /dev/stdout -- echo from the program | cat")
    first, _, document = done.stdout.partition("\n")
    assert first == "from the program"
    assert json.loads(document)["child"]["exit_code"] == 0


def test_a_named_pipe_that_nobody_reads_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    result = numamirror_run("--json", tmp_path / "pipe", "echo", "ran")
    assert (result.returncode, result.stdout) == (0, "ran\n")
    assert "the result could not be written: No such device or address" in result.stderr


_RUN = f"{' '.join(NUMAMIRROR)} run --report none"


def _bash(script: str, directory: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", script],
        cwd=directory,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
