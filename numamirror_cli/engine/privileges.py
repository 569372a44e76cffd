"""Whether starting a file raises privileges, so that the loader ignores LD_PRELOAD for it.

The kernel then sets AT_SECURE, and ld.so(8) drops preloads ("secure-execution mode"). The rule is
cap_bprm_creds_from_file() in security/commoncap.c.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Caller:
    """Who starts the program: real ids, and whether no_new_privs forbids any raise."""

    uid: int
    gid: int
    no_new_privileges: bool = False


def this_caller() -> Caller:
    """The calling process."""
    return Caller(os.getuid(), os.getgid(), _no_new_privileges())


def raised_privilege(path: Path, caller: Caller) -> str:
    """What the file raises when that caller starts it: "setuid", "setgid", "file capabilities".

    "" when nothing is raised, or when the file's rights cannot be read.
    """
    try:
        status = path.stat()
        mounted_nosuid = bool(os.statvfs(path).f_flag & os.ST_NOSUID)
    except OSError:
        return ""
    if caller.no_new_privileges or mounted_nosuid:
        return ""
    if status.st_mode & stat.S_ISUID and status.st_uid != caller.uid:
        return "setuid"
    # Without the group's execute bit, setgid once meant mandatory locking and raises nothing.
    raises_group = status.st_mode & stat.S_ISGID and status.st_mode & stat.S_IXGRP
    if raises_group and status.st_gid != caller.gid:
        return "setgid"
    if caller.uid != 0 and _has_capabilities(path):
        return "file capabilities"
    return ""


def _has_capabilities(path: Path) -> bool:
    try:
        return bool(os.getxattr(path, "security.capability"))
    except OSError:
        return False


def _no_new_privileges() -> bool:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return False
    return any(line.split() == ["NoNewPrivs:", "1"] for line in lines)
