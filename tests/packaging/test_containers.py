"""What docs/recipes/containers.md and systemd.md say of seccomp, tried in containers of runc."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging_rig import REPOSITORY, need, need_file
from paths import cache_dir

RECIPES = REPOSITORY / "docs" / "recipes"
NUMA_CALLS = {"get_mempolicy", "mbind", "move_pages", "set_mempolicy"}
PODMANS_PROFILE = ("/usr/share/containers/seccomp.json", "golang-github-containers-common")
OCI_SCHEMA = (
    "/usr/share/gocode/src/github.com/opencontainers/runtime-spec/schema/config-schema.json",
    "golang-github-opencontainers-specs-dev",
)
# Of the host, for the container to use; /run and /sys besides, as a container has them.
BOUND = ("/usr", "/bin", "/lib", "/lib64", "/etc")

Profile = dict[str, Any]


# ---- profiles ----


@pytest.fixture(scope="module")
def podmans() -> Profile:
    profile: Profile = json.loads(need_file(*PODMANS_PROFILE).read_text())
    return profile


@pytest.fixture(scope="module")
def without_numa_calls(podmans: Profile) -> Profile:
    """As Docker's default is without CAP_SYS_NICE: none of the four is let through."""
    rules = [
        {**rule, "names": sorted(set(rule["names"]) - NUMA_CALLS)} for rule in podmans["syscalls"]
    ]
    return {**podmans, "defaultErrnoRet": 1, "syscalls": [rule for rule in rules if rule["names"]]}


@pytest.fixture(scope="module")
def merged(podmans: Profile, tmp_path_factory: pytest.TempPathFactory) -> Profile:
    """What the page's own command makes of Podman's profile."""
    need("jq", "jq")
    work = tmp_path_factory.mktemp("merge")
    (work / "default.json").write_text(json.dumps(podmans))
    shutil.copy(RECIPES / "numa-syscalls.json", work)
    (command,) = re.findall(
        r"```sh\n(jq .*?)```", (RECIPES / "containers.md").read_text(), re.DOTALL
    )
    subprocess.run(["bash", "-euc", command], cwd=work, check=True)
    profile: Profile = json.loads((work / "numa.json").read_text())
    return profile


@pytest.fixture(scope="module")
def system_service() -> Profile:
    """What SystemCallFilter=@system-service lets through."""
    need("systemd-analyze", "systemd")
    names = sorted(set(calls_of("@system-service")))
    assert len(names) > 200
    allow = {"names": names, "action": "SCMP_ACT_ALLOW"}
    return {"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 1, "syscalls": [allow]}


def calls_of(group: str) -> Iterator[str]:
    shown = ["systemd-analyze", "syscall-filter", group]
    done = subprocess.run(shown, capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines()[1:]:
        name = line.strip()
        if name.startswith("@"):
            yield from calls_of(name)
        elif name and not name.startswith("#"):
            yield name


def test_the_addition_names_the_four_calls_and_no_others() -> None:
    rule = json.loads((RECIPES / "numa-syscalls.json").read_text())
    assert set(rule["names"]) == NUMA_CALLS
    assert rule["action"] == "SCMP_ACT_ALLOW"


def test_podmans_profile_refuses_to_move_pages_by_name(podmans: Profile) -> None:
    refused = [rule for rule in podmans["syscalls"] if "move_pages" in rule["names"]]
    assert [rule["action"] for rule in refused] == ["SCMP_ACT_ERRNO"]


def test_the_merged_profile_changes_the_four_calls_and_nothing_else(
    podmans: Profile, merged: Profile
) -> None:
    assert actions(merged) == {
        **actions(podmans),
        **{call: {"SCMP_ACT_ALLOW"} for call in NUMA_CALLS},
    }
    assert {**merged, "syscalls": []} == {**podmans, "syscalls": []}


def actions(profile: Profile) -> dict[str, set[str]]:
    """Call -> its actions in that profile, conditions left aside."""
    found: dict[str, set[str]] = {}
    for rule in profile["syscalls"]:
        for name in rule["names"]:
            found.setdefault(name, set()).add(rule["action"])
    return found


def test_the_oci_schema_accepts_a_container_with_the_merged_profile(
    merged: Profile, tmp_path: Path
) -> None:
    validator = oci_validator(need_file(*OCI_SCHEMA))
    config = configuration(merged, ["true"], tmp_path)
    assert [error.message for error in validator.iter_errors(config)] == []
    config["linux"]["seccomp"]["syscalls"][-1]["action"] = "SCMP_ACT_PERMIT"
    assert list(validator.iter_errors(config)) != []


def oci_validator(file: Path) -> Any:
    """Its parts name one another by relative paths."""
    jsonschema = pytest.importorskip("jsonschema", reason="pip install the extra `dev`")
    from referencing import Registry, Resource
    from referencing.jsonschema import DRAFT4

    def retrieve(uri: str) -> Resource[Any]:
        text = Path(uri.removeprefix("file://")).read_text()
        return Resource(contents={**json.loads(text), "id": uri}, specification=DRAFT4)

    registry: Registry[Any] = Registry(retrieve=retrieve)
    return jsonschema.Draft4Validator({"$ref": file.as_uri()}, registry=registry)


# ---- containers ----


def test_without_the_calls_the_engine_runs_and_each_refusal_is_said(
    without_numa_calls: Profile, tmp_path: Path
) -> None:
    done = mirrored_in_container(without_numa_calls, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "France" in done.stdout
    blocked = re.findall(r"(\w+): EPERM: blocked by the container's seccomp profile", done.stderr)
    assert set(blocked) >= {"get_mempolicy", "move_pages"}
    assert "could not be sampled" in done.stderr


def test_with_podmans_profile_pages_are_found_through_get_mempolicy(
    podmans: Profile, tmp_path: Path
) -> None:
    done = mirrored_in_container(podmans, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "get_mempolicy is asked where pages lie" in done.stderr
    assert "could not be sampled" not in done.stderr


def test_with_the_merged_profile_nothing_is_refused(merged: Profile, tmp_path: Path) -> None:
    done = mirrored_in_container(merged, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "coverage" in done.stderr
    assert "EPERM" not in done.stderr


def test_under_systemds_filter_for_services_nothing_is_refused(
    system_service: Profile, tmp_path: Path
) -> None:
    done = mirrored_in_container(system_service, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "coverage" in done.stderr
    assert "EPERM" not in done.stderr


def mirrored_in_container(profile: Profile, work: Path) -> subprocess.CompletedProcess[str]:
    """`numamirror run` with a real engine, in a container with that profile and no capability."""
    if os.getuid() != 0 or platform.machine() != "x86_64":
        pytest.skip("needs root on x86_64 to make containers")
    pytest.importorskip("xllamacpp", reason="pip install the extra `demo`")
    runc = need("runc", "runc")
    sys.path.insert(0, str(REPOSITORY / "tests" / "engines"))
    import fetch

    need_a_container(runc, work / "empty")
    run = [sys.executable, "-m", "numamirror_cli", "run", "--rehearse", "2", "--require", "mirror"]
    engine = [sys.executable, str(RECIPES / "answer.py"), "-m", str(fetch.gemma())]
    config = configuration(profile, [*run, "--report", "summary", "--", *engine], work)
    return in_container(runc, config, work)


def need_a_container(runc: str, work: Path) -> None:
    """Skips where even `true` runs in none: within a container that may not make others."""
    work.mkdir()
    config = configuration({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": []}, ["true"], work)
    done = in_container(runc, config, work)
    if done.returncode:
        pytest.skip(f"no container can be made here: {done.stderr.strip()[-300:]}")


def in_container(runc: str, config: dict[str, Any], work: Path) -> subprocess.CompletedProcess[str]:
    (work / "rootfs").mkdir()
    (work / "config.json").write_text(json.dumps(config))
    name = f"numamirror-test-{os.getpid()}"
    return subprocess.run(
        [runc, "run", "--bundle", str(work), name],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600,
    )  # fmt: skip


def configuration(profile: Profile, command: list[str], work: Path) -> dict[str, Any]:
    """An OCI runtime configuration: the host's programs, a profile, no capabilities."""
    seen = [*BOUND, str(REPOSITORY), sys.prefix, sys.base_prefix, str(cache_dir())]
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(Path.home()),
        "PYTHONPATH": str(REPOSITORY),
        "PYTHONDONTWRITEBYTECODE": "1",
        **{
            key: os.environ[key]
            for key in ("XDG_CACHE_HOME", "NUMAMIRROR_SHIM")
            if key in os.environ
        },
    }
    return {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": 0, "gid": 0},
            "args": command,
            "env": [f"{key}={value}" for key, value in environment.items()],
            "cwd": "/",
            "noNewPrivileges": True,
        },
        "root": {"path": str(work / "rootfs")},
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
            {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"},
            bound("/sys"),
            *map(bound, dict.fromkeys(seen)),
            *(
                bound(str(Path(os.environ[key]).parent))
                for key in ("NUMAMIRROR_SHIM",)
                if key in os.environ
            ),
        ],
        "linux": {
            "namespaces": [{"type": kind} for kind in ("pid", "mount", "ipc", "uts")],
            "seccomp": as_a_runtime_gets_it(profile),
        },
    }


def bound(path: str) -> dict[str, Any]:
    return {"destination": path, "type": "bind", "source": path, "options": ["rbind", "ro"]}


def as_a_runtime_gets_it(profile: Profile) -> dict[str, Any]:
    """Docker and Podman keep the rules that hold for this processor and these capabilities."""
    rules = [rule for rule in profile["syscalls"] if holds(rule)]
    kept = ("names", "action", "args", "errnoRet")
    return {
        "defaultAction": profile["defaultAction"],
        "defaultErrnoRet": profile.get("defaultErrnoRet", 1),
        "architectures": ["SCMP_ARCH_X86_64"],
        "syscalls": [{key: rule[key] for key in kept if rule.get(key)} for rule in rules],
    }


def holds(rule: dict[str, Any]) -> bool:
    only_if, unless = rule.get("includes") or {}, rule.get("excludes") or {}
    here = "amd64" in only_if.get("arches", ["amd64"]) and "amd64" not in unless.get("arches", [])
    return here and not only_if.get("caps")
