"""The recipes of docs/recipes: each command line is one of ours, and each file is what its own
tool accepts."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from packaging_rig import REPOSITORY, need

RECIPES = REPOSITORY / "docs" / "recipes"
INSTALLED = "/opt/numamirror/bin/numamirror"


def lines_with_commands() -> dict[str, str]:
    """The options of each `numamirror run OPTIONS -- ...` in the recipes, by where it stands."""
    found = {}
    for file in sorted(RECIPES.iterdir()):
        text = file.read_text().replace("\\\n", " ")
        for number, match in enumerate(re.finditer(r"numamirror run\b(?: (.*?))?? -- ", text)):
            found[f"{file.name}-{number}"] = match[1] or ""
    return found


COMMANDS = lines_with_commands()


def test_the_recipes_have_commands() -> None:
    assert len(COMMANDS) > 8


@pytest.mark.parametrize("place", COMMANDS)
def test_every_command_line_is_one_that_we_accept(place: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "numamirror_cli", "run", "--dry-run"]
    command += [*shlex.split(COMMANDS[place]), "--", "true"]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", sorted(RECIPES.glob("*.md")), ids=lambda page: page.stem)
def test_every_page_says_how_to_check_it_and_how_to_undo_it(page: Path) -> None:
    assert re.search(r"^## Does it work\?\n\n.+", page.read_text(), re.MULTILINE)
    assert re.search(r"^## Undo\n\n.+", page.read_text(), re.MULTILINE)


@pytest.mark.parametrize("page", sorted(RECIPES.glob("*.md")), ids=lambda page: page.stem)
def test_every_file_beside_a_page_is_named_in_one(page: Path) -> None:
    pages = "".join(each.read_text() for each in RECIPES.glob("*.md"))
    beside = [file.name for file in RECIPES.iterdir() if file.suffix != ".md" and file.is_file()]
    assert [name for name in beside if f"`{name}`" not in pages] == []
    assert f"recipes/{page.name}" in (REPOSITORY / "README.md").read_text()


# ---- systemd ----


def verified(unit: str, directory: Path) -> str:
    """What systemd-analyze has against a unit of that directory."""
    analyze = need("systemd-analyze", "systemd")
    environment = {**os.environ, "SYSTEMD_UNIT_PATH": f"{directory}:"}
    done = subprocess.run(
        [analyze, "verify", "--man=no", "--recursive-errors=no", unit],
        env=environment, capture_output=True, text=True,
    )  # fmt: skip
    return done.stderr if done.returncode or "/llama" in done.stderr else ""


def put_unit(source: Path, target: Path) -> str:
    """With a program in place of the installed one, which systemd looks for."""
    target.parent.mkdir(exist_ok=True)
    target.write_text(source.read_text().replace(INSTALLED, "/bin/true"))
    return target.read_text()


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    put_unit(RECIPES / "llama-server.service", tmp_path / "llama-server.service")
    assert verified("llama-server.service", tmp_path) == ""


def test_systemd_would_not_accept_just_anything(tmp_path: Path) -> None:
    unit = tmp_path / "llama-server.service"
    text = put_unit(RECIPES / "llama-server.service", unit)
    unit.write_text(text.replace("KillMode=mixed", "KillMode=gently"))
    assert "kill mode" in verified("llama-server.service", tmp_path)


def test_systemd_accepts_the_drop_in_for_ollama(tmp_path: Path) -> None:
    unit = tmp_path / "llama-ollama.service"
    unit.write_text("[Service]\nType=simple\nExecStart=/bin/false serve\n")
    put_unit(RECIPES / "ollama.conf", tmp_path / "llama-ollama.service.d" / "ollama.conf")
    assert verified(unit.name, tmp_path) == ""


# ---- Kubernetes, llama-swap, Slurm ----


def test_kubernetes_accepts_the_pod() -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="pip install the extra `release`")
    import yaml

    pod = yaml.safe_load((RECIPES / "pod.yaml").read_text())
    validate.validate(pod, "1.31", strict=True)
    pod["spec"]["containers"][0]["securityContext"]["seccompProfil"] = {}
    with pytest.raises(validate.ValidationError):
        validate.validate(pod, "1.31", strict=True)


def test_the_pod_and_the_profile_agree_on_its_name() -> None:
    assert "localhostProfile: profiles/numa.json" in (RECIPES / "pod.yaml").read_text()
    assert "seccomp/profiles/numa.json" in (RECIPES / "kubernetes.md").read_text()


def test_llama_swaps_configuration_is_the_one_on_its_page() -> None:
    yaml = pytest.importorskip("yaml", reason="pip install the extra `release`")
    models = yaml.safe_load((RECIPES / "llama-swap.yaml").read_text())["models"]
    page = (RECIPES / "llama-swap.md").read_text()
    assert set(models) == {"large", "small"}
    for model in models.values():
        assert "--port ${PORT}" in model["cmd"]
        assert f"cmd: {model['cmd']}\n" in page


def test_the_job_script_is_sound() -> None:
    shellcheck = need("shellcheck", "shellcheck")
    done = subprocess.run(
        [shellcheck, "--shell=bash", RECIPES / "llama.sbatch"], capture_output=True, text=True
    )
    assert done.stdout == ""


# ---- programs that start the engine in turn, as ollama does ----


def test_the_preload_reaches_an_engine_that_the_program_starts(tmp_path: Path) -> None:
    sys.path.insert(0, str(REPOSITORY / "tests" / "engines"))
    import fetch

    try:
        libraries, model = fetch.node_llama_cpp(), fetch.gemma()
    except fetch.Unavailable as reason:
        pytest.skip(str(reason))
    driver = REPOSITORY / "tests" / "engines" / "drive_llama_ctypes.py"
    engine = [sys.executable, driver, "--engine-dir", libraries, "--model", model, "--n", "4"]
    server = [
        sys.executable,
        "-c",
        "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))",
    ]
    report = tmp_path / "run.json"
    command = [sys.executable, "-m", "numamirror_cli", "run", "--rehearse", "2"]
    command += ["--require", "mirror", "--json", str(report), "--", *server, *map(str, engine)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(report.read_text())["mirror"]["mirrored_bytes"] > 0
