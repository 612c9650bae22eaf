"""Why a tier is not to be had, and what its user can do about it: the signatures of degraded machines (SAFETY C9).

A cure is the narrowest one that helps: a profile for this program before a switch for the whole system.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from msgspec import Struct

_ERRNO = re.compile(r"[\[(](E[A-Z0-9]+)[\])]")
_TEXTS = {
    "Operation not permitted": "EPERM",
    "Permission denied": "EACCES",
    "No space left on device": "ENOSPC",
    "Invalid argument": "EINVAL",
    "Function not implemented": "ENOSYS",
    "No permissions to create new namespace": "EPERM",
    "Too many users": "EUSERS",
}


class Machine(Struct, frozen=True, kw_only=True):
    """What this machine says about namespaces. None: it has no such switch."""

    user_namespaces: int | None = None
    apparmor_restricts: bool = False
    unprivileged_clone: bool = True
    in_container: bool = False
    filtered: bool = False
    root: bool = False


def machine(proc: Path = Path("/proc"), root: Path = Path("/")) -> Machine:
    """Read from files only; nothing is tried."""
    status = _read(proc / "self/status")
    limit = _read(proc / "sys/user/max_user_namespaces").strip()
    first = _read(proc / "1/cgroup")
    return Machine(
        user_namespaces=int(limit) if limit.isdigit() else None,
        apparmor_restricts=_read(proc / "sys/kernel/apparmor_restrict_unprivileged_userns").strip() == "1",
        unprivileged_clone=_read(proc / "sys/kernel/unprivileged_userns_clone").strip() != "0",
        in_container=any((root / name).exists() for name in (".dockerenv", "run/.containerenv"))
        or any(word in first for word in ("docker", "kubepods", "containerd", "libpod")),
        filtered="\nSeccomp:\t2" in status,
        root=os.getuid() == 0,
    )


def errno_of(reason: str) -> str:
    """The name of the kernel's error in a reason, "" when it tells none."""
    found = _ERRNO.search(reason)
    if found:
        return found[1]
    return next((name for text, name in _TEXTS.items() if text.lower() in reason.lower()), "")


def cure(reason: str, here: Machine) -> str:
    """What to do about a refused namespace or mount, "" when there is nothing to advise."""
    signatures = (
        (here.user_namespaces == 0 or errno_of(reason) in {"ENOSPC", "EUSERS"}, NAMESPACES_OFF),
        (not here.unprivileged_clone and not here.root, CLONE_OFF),
        ("pids control group" in reason, NO_PIDS_GROUP),
        (_is_proc(reason), PROC_MASKED),
        (here.apparmor_restricts and not here.root, apparmor_advice()),
        (here.in_container or here.filtered, CONTAINER),
    )
    return next((advice for found, advice in signatures if found), "")


def _is_proc(reason: str) -> bool:
    return "mount proc" in reason.lower() or "fsmount proc" in reason or "create proc" in reason or "proc:" in reason


def apparmor_advice() -> str:
    """The profile is for the interpreter that runs this program, and for nothing else."""
    program = os.path.realpath("/proc/self/exe")
    return (
        "AppArmor keeps programs without a profile from user namespaces (Ubuntu 23.10 and newer). Give this one a "
        f"profile: put the line `profile agent-tui {program} flags=(unconfined) {{ userns, }}`, after the lines "
        "`abi <abi/4.0>,` and `include <tunables/global>`, into /etc/apparmor.d/agent-tui, then run "
        "`sudo apparmor_parser -r /etc/apparmor.d/agent-tui`. Or install bubblewrap with the profile "
        "bwrap-userns-restrict of the package apparmor-profiles."
    )


NAMESPACES_OFF = (
    "User namespaces are switched off here. To allow them: `sudo sysctl user.max_user_namespaces=15000`, and the same "
    "line in a file of /etc/sysctl.d to keep it."
)
CLONE_OFF = (
    "Only root may make user namespaces here. To allow them: `sudo sysctl kernel.unprivileged_userns_clone=1`, and the "
    "same line in a file of /etc/sysctl.d to keep it."
)
PROC_MASKED = (
    "Parts of /proc are covered here, as in containers, and the kernel then refuses a fresh one. Run the container "
    "with `--security-opt systempaths=unconfined` (Docker), `--security-opt unmask=ALL` (Podman) or "
    "`procMount: Unmasked` (Kubernetes)."
)
CONTAINER = (
    "A container's syscall filter forbids namespaces or mounts. Run it with "
    "`--security-opt seccomp=unconfined --security-opt systempaths=unconfined` (Docker), with "
    "`--security-opt seccomp=unconfined --security-opt unmask=ALL` (Podman), or run agent-tui outside of it."
)
NO_PIDS_GROUP = "Run agent-tui as an ordinary user, or let it have a control group of its own with the pids controller."
NOT_AS_ROOT = "Run agent-tui as an ordinary user."
NO_BWRAP = "Install the package bubblewrap."
OLD_BWRAP = "bubblewrap 0.11 or newer has the option; T2b and T2c do without it."
NO_LANDLOCK = (
    "Linux 6.2 or newer has it (ABI 3), if `landlock` is in the list that /sys/kernel/security/lsm shows; the kernel "
    "option `lsm=` sets that list."
)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
