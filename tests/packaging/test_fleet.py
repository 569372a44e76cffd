"""docs/fleet.md: workers on many machines, as Slurm and Kubernetes start them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from packaging_rig import REPOSITORY, need
from test_slurm import CONFIGURATION, SCRIPT, put_program

FLEET = REPOSITORY / "docs" / "fleet"
PAGE = (REPOSITORY / "docs" / "fleet.md").read_text()

# What a task starts as its worker.
WORKER = '#!/bin/sh\necho "task $SLURM_PROCID: $(taskset -pc $$ | sed "s/.*: //"): $*"\n'


@dataclass(frozen=True)
class Ran:
    """said: of sbatch; out, err: of the job; reports: what --json wrote, by task."""

    said: str
    out: str
    err: str
    reports: list[dict[str, Any]]


@pytest.fixture(scope="module")
def two_tasks(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """The job with two tasks on one machine, this one."""
    cpus = len(os.sched_getaffinity(0))
    if os.getuid() != 0 or cpus < 2:
        pytest.skip("needs root, to run a Slurm of its own, and two CPUs")
    programs = {"slurmctld": "slurmctld", "slurmd": "slurmd", "sbatch": "slurm-client"}
    for program, package in {**programs, "munged": "munge", "ip": "iproute2"}.items():
        need(program, package)
    work = tmp_path_factory.mktemp("fleet")
    tools = work / "home" / "numamirror" / "bin"
    for directory in (work / "state", work / "spool", tools):
        directory.mkdir(parents=True)
    put_program(tools / "ggml-rpc-server", WORKER)
    ours = f'PYTHONPATH="{REPOSITORY}" exec "{sys.executable}" -m numamirror_cli "$@"'
    put_program(tools / "numamirror", f"#!/bin/sh\n{ours}\n")
    (work / "munge.key").write_bytes(os.urandom(1024))
    (work / "munge.key").chmod(0o400)
    work.chmod(0o755)
    (work / "slurm.conf").write_text(CONFIGURATION.format(work=work, cpus=cpus))
    job = f"--nodes=1 --ntasks=2 --ntasks-per-node=2 {FLEET / 'workers.sbatch'}"
    variables = {
        "HOME": str(work / "home"),
        "SLURM_CONF": str(work / "slurm.conf"),
        "RPC_HOST": "127.0.0.1",
    }
    done = subprocess.run(
        ["unshare", "--mount-proc", "--pid", "--net", "--fork", "--kill-child",
         "bash", "-c", SCRIPT.format(work=work, job=job)],
        env={**os.environ, **variables}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=1200,
    )  # fmt: skip
    out, err = ((work / "home" / f"job.{part}").read_text() for part in ("out", "err"))
    reports = sorted((work / "home").glob("worker-*.json"))
    return Ran(done.stdout, out, err, [json.loads(report.read_text()) for report in reports])


def test_two_workers_start_on_ports_of_their_own(two_tasks: Ran) -> None:
    assert "--host 127.0.0.1 --port 50052" in two_tasks.out, two_tasks
    assert "--host 127.0.0.1 --port 50053" in two_tasks.out
    assert [report["child"]["exit_code"] for report in two_tasks.reports] == [0, 0]


def test_slurms_binding_of_the_workers_is_kept(two_tasks: Ran) -> None:
    lines = sorted(line for line in two_tasks.out.splitlines() if line.startswith("task"))
    bound = [line.split(": ")[1] for line in lines]
    assert len(bound) == 2, two_tasks
    assert bound[0] != bound[1]
    cpus = len(os.sched_getaffinity(0))
    assert all(line.endswith(f"--threads {cpus // 2}") for line in lines)


def test_the_job_script_is_sound() -> None:
    shellcheck = need("shellcheck", "shellcheck")
    done = subprocess.run(
        [shellcheck, "--shell=bash", FLEET / "workers.sbatch"], capture_output=True, text=True
    )
    assert done.stdout == ""


def test_kubernetes_accepts_each_document() -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="pip install the extra `release`")
    import yaml

    documents = list(yaml.safe_load_all((FLEET / "workers.yaml").read_text()))
    assert [document["kind"] for document in documents] == [
        "Service",
        "StatefulSet",
        "NetworkPolicy",
    ]
    for document in documents:
        validate.validate(document, "1.31", strict=True)
    pod = documents[1]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["resources"]["requests"] == container["resources"]["limits"]
    assert container["resources"]["limits"]["cpu"].isdigit()  # the static CPU manager's condition
    container["securityContext"] = yaml.safe_load("capabilities: {add: [SYS_NICE]}")
    assert "capabilities: {add: [SYS_NICE]}" in PAGE
    validate.validate(documents[1], "1.31", strict=True)
    pod["nodeSelektor"] = {}
    with pytest.raises(validate.ValidationError):
        validate.validate(documents[1], "1.31", strict=True)


def test_the_label_on_the_page_is_the_one_that_is_asked_for() -> None:
    assert "numamirror/mirror-nodes=2" in PAGE
    assert 'numamirror/mirror-nodes: "2"' in (FLEET / "workers.yaml").read_text()


def test_topology_has_what_the_label_needs() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "numamirror_cli", "topology", "--json"],
        cwd=REPOSITORY, capture_output=True, text=True, check=True,
    )  # fmt: skip
    machine = json.loads(done.stdout)
    assert len(machine["mirror_nodes"]) >= 1
    assert machine["home"]["node"] in machine["mirror_nodes"]
    for label, value in labels().items():
        done = subprocess.run(
            [need("jq", "jq"), value], input=json.dumps(machine), capture_output=True, text=True
        )
        assert done.stderr == "" and done.stdout.strip().isdigit(), label


def labels() -> dict[str, str]:
    """Label and jq's words for its value, of the table on the page."""
    rows = re.findall(r"^\| `(numamirror/[\w-]+)` \| `(.+)` \|$", PAGE, re.MULTILINE)
    assert len(rows) == 5
    return {label: value.replace("\\|", "|") for label, value in rows}


def test_the_files_that_the_page_names_exist() -> None:
    for name in ("fleet/workers.sbatch", "fleet/workers.yaml", "recipes/kubernetes.md"):
        assert f"]({name})" in PAGE and Path(REPOSITORY / "docs" / name).exists()
