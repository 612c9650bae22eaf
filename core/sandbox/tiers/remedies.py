"""The reasons why a tier is not available, and the remedies: the signatures of degraded machines (SAFETY C9).

The narrowest remedy is given: a profile for this program before a switch for the whole system.
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


class MachineTraits(Struct, frozen=True, kw_only=True):
    """The switches of this machine about namespaces. None: it has no such switch."""

    user_namespaces: int | None = None
    apparmor_restricts: bool = False
    unprivileged_clone: bool = True
    is_container: bool = False
    is_filtered: bool = False
    is_root: bool = False


def read_machine_traits(proc: Path = Path("/proc"), root: Path = Path("/")) -> MachineTraits:
    """Read the traits from /proc and marker files; nothing is tried."""
    status = _read_text(proc / "self/status")
    limit = _read_text(proc / "sys/user/max_user_namespaces").strip()
    first = _read_text(proc / "1/cgroup")
    return MachineTraits(
        user_namespaces=int(limit) if limit.isdigit() else None,
        apparmor_restricts=_read_text(proc / "sys/kernel/apparmor_restrict_unprivileged_userns").strip() == "1",
        unprivileged_clone=_read_text(proc / "sys/kernel/unprivileged_userns_clone").strip() != "0",
        is_container=any((root / name).exists() for name in (".dockerenv", "run/.containerenv"))
        or any(word in first for word in ("docker", "kubepods", "containerd", "libpod")),
        is_filtered="\nSeccomp:\t2" in status,
        is_root=os.getuid() == 0,
    )


def find_errno(reason: str) -> str:
    """Return the name of the kernel's error in a reason, "" if there is none."""
    match = _ERRNO.search(reason)
    if match:
        return match[1]
    return next((name for text, name in _TEXTS.items() if text.lower() in reason.lower()), "")


def suggest_remedy(reason: str, traits: MachineTraits) -> str:
    """Return what to do about a refused namespace or mount, "" if there is nothing to advise."""
    signatures = (
        (traits.user_namespaces == 0 or find_errno(reason) in {"ENOSPC", "EUSERS"}, NAMESPACES_OFF),
        (not traits.unprivileged_clone and not traits.is_root, CLONE_OFF),
        ("pids control group" in reason, NO_PIDS_GROUP),
        (_is_about_proc(reason), PROC_MASKED),
        (traits.apparmor_restricts and not traits.is_root, describe_apparmor_profile()),
        (traits.is_container or traits.is_filtered, CONTAINER),
    )
    return next((advice for is_match, advice in signatures if is_match), "")


def _is_about_proc(reason: str) -> bool:
    return "mount proc" in reason.lower() or "fsmount proc" in reason or "create proc" in reason or "proc:" in reason


def describe_apparmor_profile() -> str:
    """Return how to give the interpreter that runs this program, and nothing else, an AppArmor profile."""
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


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
