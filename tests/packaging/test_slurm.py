"""The job of docs/recipes/llama.sbatch, submitted to a Slurm of one machine, this one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from packaging_rig import REPOSITORY, need

JOB = REPOSITORY / "docs" / "recipes" / "llama.sbatch"

# Slurm does without addresses of the loopback range, so the namespace's loopback has another one.
CONFIGURATION = """\
ClusterName=test
SlurmctldHost=localhost(10.77.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={work}/munge.socket
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
JobAcctGatherType=jobacct_gather/none
StateSaveLocation={work}/state
SlurmdSpoolDir={work}/spool
SlurmctldPidFile={work}/slurmctld.pid
SlurmdPidFile={work}/slurmd.pid
SlurmctldLogFile={work}/slurmctld.log
SlurmdLogFile={work}/slurmd.log
NodeName=localhost NodeAddr=10.77.0.1 CPUs={cpus} RealMemory=1000 State=UNKNOWN
PartitionName=all Nodes=localhost Default=YES State=UP
"""

# Everything ends with the namespace's first process.
SCRIPT = """\
ip link set lo up
ip addr add 10.77.0.1/32 dev lo
munged --foreground --force --key-file={work}/munge.key --socket={work}/munge.socket \\
       --pid-file={work}/munged.pid --log-file={work}/munged.log --seed-file={work}/seed &
for _ in $(seq 1200); do [ -S {work}/munge.socket ] && break; sleep 0.1; done
slurmctld -D &
slurmd -D -N localhost &
for _ in $(seq 600); do sinfo -h -o %T 2>/dev/null | grep -q idle && break; sleep 0.5; done
cd {work}/home
sbatch --test-only {job} model.gguf
timeout 600 sbatch --wait --output=job.out --error=job.err {job} model.gguf
"""

# What the job starts as its engine.
ENGINE = '#!/bin/sh\necho "arguments: $*"\n'


@dataclass(frozen=True)
class Ran:
    """code and said: of sbatch. out, err: of the job; report: what --json wrote."""

    code: int
    said: str
    out: str
    err: str
    report: dict[str, Any]


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    if os.getuid() != 0:
        pytest.skip("needs root to run a Slurm of its own")
    programs = {"slurmctld": "slurmctld", "slurmd": "slurmd", "sbatch": "slurm-client"}
    for program, package in {**programs, "munged": "munge", "ip": "iproute2"}.items():
        need(program, package)
    work = tmp_path_factory.mktemp("slurm")
    home = work / "home"
    for directory in (work / "state", work / "spool", home / "numamirror" / "bin"):
        directory.mkdir(parents=True)
    (home / "model.gguf").touch()
    put_program(home / "numamirror" / "bin" / "llama-server", ENGINE)
    ours = f'PYTHONPATH="{REPOSITORY}" exec "{sys.executable}" -m numamirror_cli "$@"'
    put_program(home / "numamirror" / "bin" / "numamirror", f"#!/bin/sh\n{ours}\n")
    (work / "munge.key").write_bytes(os.urandom(1024))
    (work / "munge.key").chmod(0o400)
    work.chmod(0o755)
    cpus = len(os.sched_getaffinity(0))
    (work / "slurm.conf").write_text(CONFIGURATION.format(work=work, cpus=cpus))
    alone = ["unshare", "--mount-proc", "--pid", "--net", "--fork", "--kill-child"]
    done = subprocess.run(
        [*alone, "bash", "-c", SCRIPT.format(work=work, job=JOB)],
        env={**os.environ, "HOME": str(home), "SLURM_CONF": str(work / "slurm.conf")},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=1200,
    )  # fmt: skip
    reports = list(home.glob("numamirror-*.json"))
    assert len(reports) == 1, done.stdout
    out, err = ((home / f"job.{part}").read_text() for part in ("out", "err"))
    return Ran(done.returncode, done.stdout, out, err, json.loads(reports[0].read_text()))


def put_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def test_slurm_accepts_it_and_it_ends_well(job: Ran) -> None:
    assert "sbatch: Job 1 to start at" in job.said
    assert job.code == 0, job.said


def test_the_engine_gets_its_model_and_as_many_threads_as_the_machine_has(job: Ran) -> None:
    cpus = len(os.sched_getaffinity(0))
    assert f"arguments: --model model.gguf --host 127.0.0.1 --port 8080 --threads {cpus}" in job.out


def test_slurm_binds_neither_its_threads_nor_its_memory(job: Ran) -> None:
    assert job.report["plan"]["caller_policy"] is None
    assert "set by the caller" not in job.err


def test_what_was_done_is_in_the_jobs_error_file_and_in_the_report(job: Ran) -> None:
    assert "numamirror: " in job.err
    assert job.report["child"]["exit_code"] == 0
