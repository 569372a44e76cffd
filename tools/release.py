"""`make release`: a dry run. Checks that everything about the version agrees, builds source and
wheels, and says what is left to do by hand. Uploads and tags nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from numamirror_cli import __version__  # noqa: E402


def problems() -> list[str]:
    """What stands against a release of this tree, each as a sentence."""
    found = []
    changes = (REPOSITORY / "CHANGELOG.md").read_text()
    newest = re.search(r"^## (\S+) \((\d{4}-\d\d-\d\d)\)$", changes, re.MULTILINE)
    if newest is None or newest[1] != __version__:
        found.append(f"CHANGELOG.md: the newest section is not '## {__version__} (YEAR-MONTH-DAY)'")
    if f"v{__version__}" in output("git", "tag", "--list").split():
        found.append(f"v{__version__} is tagged already: numamirror_cli/__init__.py has the number")
    if changed := output("git", "status", "--porcelain", "--untracked-files=no").splitlines():
        found.append(f"not committed: {', '.join(line[3:] for line in changed)}")
    man = [sys.executable, str(REPOSITORY / "tools" / "make_man.py"), "--check"]
    checked = subprocess.run(man, capture_output=True, text=True)
    if checked.returncode:
        found.append(f"manual pages: {checked.stderr.strip()}")
    return found


def output(*command: str) -> str:
    return subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout


def build_source() -> Path:
    build = [sys.executable, "-m", "build", "--sdist", "--outdir", str(REPOSITORY / "dist")]
    subprocess.run([*build, str(REPOSITORY)], check=True, stdout=subprocess.DEVNULL)
    return REPOSITORY / "dist" / f"numamirror-{__version__}.tar.gz"


def main() -> None:
    print(f"numamirror {__version__}")
    against = problems()
    for problem in against:
        print(f"  - {problem}")
    source = build_source()
    for file in (source, *sorted(source.parent.glob(f"numamirror-{__version__}-*.whl"))):
        print(f"  dist/{file.name}: {file.stat().st_size / 1024:.0f} KiB")
    if against:
        sys.exit("not ready")
    print(
        "left to do: make test test-packaging; tag it, upload dist/, paste the section of changes"
    )


if __name__ == "__main__":
    main()
