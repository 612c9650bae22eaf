"""The choice of the tier: found by really running commands in a box, cached for a day, never lowered silently.

The strongest tier that holds every attempt of the self-test is taken. The report says why each stronger one is not
available, and suggests the narrowest remedy: a profile for this program before a switch for the whole system.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from core import __version__
from core.errors import ToolFailed
from core.filesystem.atomic_write import replace_file
from core.filesystem.overlay_support import can_be_lower, find_file_system_type
from core.patterns import compile_lazily
from core.records import decode_json
from core.sandbox.box import Box, Tier
from core.sandbox.host_view import find_container_signs
from core.sandbox.tiers import self_test

_ERRNO = compile_lazily(r"[\[(](E[A-Z0-9]+)[\])]")
_TEXTS = {
    "Operation not permitted": "EPERM",
    "Permission denied": "EACCES",
    "No space left on device": "ENOSPC",
    "Invalid argument": "EINVAL",
    "Function not implemented": "ENOSYS",
    "No permissions to create new namespace": "EPERM",
    "Too many users": "EUSERS",
}
TIERS_BY_STRENGTH = (Tier.NAMESPACES, Tier.BWRAP_OVERLAY, Tier.BWRAP_MOUNTED, Tier.BWRAP_COPY, Tier.LANDLOCK)
_CACHE_NAME = "box.json"
_CACHE_SECONDS = 24 * 3600

NAMESPACES_OFF = (
    "User namespaces are turned off here. To allow them: `sudo sysctl user.max_user_namespaces=15000`; "
    "to keep that, add the line to a file in /etc/sysctl.d."
)

CLONE_OFF = (
    "Only root may create user namespaces here. To allow them: `sudo sysctl "
    "kernel.unprivileged_userns_clone=1`; to keep that, add the line to a file in /etc/sysctl.d."
)

PROC_MASKED = (
    "Parts of /proc are masked here, as in containers, so the kernel refuses a fresh one. Run the "
    "container with `--security-opt systempaths=unconfined` (Docker), `--security-opt unmask=ALL` "
    "(Podman) or `procMount: Unmasked` (Kubernetes)."
)

CONTAINER = (
    "A container's syscall filter forbids namespaces or mounts. Run it with `--security-opt "
    "seccomp=unconfined --security-opt systempaths=unconfined` (Docker), with `--security-opt "
    "seccomp=unconfined --security-opt unmask=ALL` (Podman), or run agent-tui outside it."
)

NO_PIDS_GROUP = "Run agent-tui as an ordinary user, or give it its own control group with the pids controller."

NOT_AS_ROOT = "Run agent-tui as an ordinary user."

NO_BWRAP = "Install the package bubblewrap."

OLD_BWRAP = "bubblewrap 0.11 or newer has this option; T2b and T2c work without it."

NO_LANDLOCK = (
    "Linux 6.2 or newer has it (ABI 3), if /sys/kernel/security/lsm lists `landlock`; the kernel "
    "option `lsm=` sets that list."
)


NO_OVERLAY = "the project is on a file system ({}) that overlays don't support"

NO_OVERLAY_CURE = (
    "Each command works on a copy, and changes that other programs make may be noticed late. A project in the home of "
    "Linux (under WSL: ~, not /mnt/c) is faster."
)


class TierTrial(Struct, frozen=True, kw_only=True):
    """The outcome of trying a tier. `errno`: a name such as "EPERM"; `cure`: advice for the user; "" without.

    `too_slow`: the test was not done in time, perhaps because the machine was busy.
    """

    tier: Tier
    ok: bool
    reason: str = ""
    errno: str = ""
    cure: str = ""
    too_slow: bool = False
    items: tuple[self_test.SelfTestItem, ...] = ()


class TierReport(Struct, frozen=True, kw_only=True):
    """The tier in force, and the outcome of every trial, strongest first. `cached`: loaded from the cache."""

    tier: Tier
    reasons: tuple[TierTrial, ...] = ()
    cached: bool = False


class _CachedReport(Struct, frozen=True):
    key: str
    at: float
    report: TierReport


class TierUnavailable(Exception):
    """A tier that can't even be tried, with the reason and a remedy."""

    def __init__(self, reason: str, cure: str, errno: str = "") -> None:
        super().__init__(reason)
        self.reason, self.cure, self.errno = reason, cure, errno


def list_tiers() -> tuple[Tier, ...]:
    """Return the tiers that this system may have, strongest first."""
    return (Tier.SEATBELT,) if sys.platform == "darwin" else TIERS_BY_STRENGTH


async def open_box(
    state: Path, *, tier: Tier | None = None, workspace: Path | None = None
) -> tuple[Box | None, TierReport]:
    """Open the strongest box of this machine and report its trials; None for T4, where nothing contains a command.

    `state`: our directory, which commands never see. Reads one file if the tier was determined within a day and nothing
    has changed since; else tries the tiers in turn, at most two seconds per tier. `tier`: this tier or none; the tiers
    that the user chooses hold nothing that a self-test could try. `workspace`: where overlays do not show its files,
    the strongest tier that works on a copy is taken.
    """
    if tier is Tier.NONE:
        return None, TierReport(tier=Tier.NONE)
    if tier is not None and not tier.is_walled:
        return make_box(tier, state), TierReport(tier=tier)
    kind = find_file_system_type(workspace) if workspace is not None else ""
    if tier is None and not can_be_lower(kind):
        return await _open_copying_box(state, kind)
    if tier is not None:
        trial = await try_tier(tier, state)
        report = TierReport(tier=tier if trial.ok else Tier.NONE, reasons=(trial,))
        return (make_box(tier, state) if trial.ok else None), report
    cached_report = await asyncio.to_thread(load_cached_report, state)
    if cached_report is not None:
        with contextlib.suppress(TierUnavailable):
            box = None if cached_report.tier is Tier.NONE else make_box(cached_report.tier, state)
            return box, msgspec.structs.replace(cached_report, cached=True)
    report = await find_tier(state)
    return (None if report.tier is Tier.NONE else make_box(report.tier, state)), report


async def _open_copying_box(state: Path, kind: str) -> tuple[Box | None, TierReport]:
    """Open the strongest box that works on a copy, for a project on a file system of this type."""
    reasons = [TierTrial(tier=Tier.NAMESPACES, ok=False, reason=NO_OVERLAY.format(kind), cure=NO_OVERLAY_CURE)]
    for tier in (Tier.BWRAP_COPY, Tier.LANDLOCK):
        reasons.append(await try_tier(tier, state))
        if reasons[-1].ok:
            return make_box(tier, state), TierReport(tier=tier, reasons=tuple(reasons))
    return None, TierReport(tier=Tier.NONE, reasons=tuple(reasons))


async def find_tier(state: Path, *, try_all: bool = False) -> TierReport:
    """Try the tiers in turn, up to the first that holds, and cache the report.

    If a tier was only too slow (a busy machine), nothing is cached: the next start tries again.
    """
    reasons: list[TierTrial] = []
    for tier in list_tiers():
        reasons.append(await try_tier(tier, state))
        if reasons[-1].ok and not try_all:
            break
    best = next((trial.tier for trial in reasons if trial.ok), Tier.NONE)
    report = TierReport(tier=best, reasons=tuple(reasons))
    if not any(trial.too_slow for trial in reasons):
        await asyncio.to_thread(_cache_report, state, report)
    return report


async def try_tier(tier: Tier, state: Path) -> TierTrial:
    """Run the self-test in a box of this tier."""
    traits = read_machine_traits()
    try:
        box = make_box(tier, state)
    except TierUnavailable as why:
        return TierTrial(tier=tier, ok=False, reason=why.reason, errno=why.errno, cure=why.cure)
    try:
        async with asyncio.timeout(self_test.SECONDS + 1):
            items = await self_test.run_self_test(box, state)
    except TimeoutError:
        reason = f"not done within {self_test.SECONDS:g} s; it is tried again at the next start"
        return TierTrial(tier=tier, ok=False, reason=reason, too_slow=True)
    except ToolFailed as failure:
        reason = failure.message
        number, cure = find_errno(reason), suggest_remedy(reason, traits)
        return TierTrial(tier=tier, ok=False, reason=reason, errno=number, cure=cure)
    except OSError as error:
        return TierTrial(tier=tier, ok=False, reason=f"the self-test could not be set up in {state}: {error}")
    finally:
        await box.close()
    failures = [f"{attempt.name}: {attempt.found}" for attempt in items if not attempt.held]
    return TierTrial(tier=tier, ok=not failures, reason="; ".join(failures), items=items)


def make_box(tier: Tier, state: Path) -> Box:
    """Build a box of this tier without a trial. Raises `TierUnavailable` if the machine lacks its prerequisites."""
    return _BOX_MAKERS[tier](tier, state)


def _make_namespace_box(_tier: Tier, _state: Path) -> Box:
    if sys.platform != "linux":
        raise TierUnavailable("only Linux has namespaces", "Use Linux, or WSL 2 on Windows.", "ENOSYS")
    from core.sandbox.tiers.namespaces import NamespaceBox

    return NamespaceBox()


def _make_bwrap_box(tier: Tier, state: Path) -> Box:
    from core.sandbox.tiers import bwrap

    program = bwrap.find_bwrap(option="--overlay-src" if tier is Tier.BWRAP_OVERLAY else "--bind")
    if program is None:
        raise TierUnavailable("bubblewrap is not installed", NO_BWRAP, "ENOENT")
    options = bwrap.list_options(program)
    if tier is Tier.BWRAP_OVERLAY and "--overlay-src" not in options:
        raise TierUnavailable(f"{program} has no option --overlay", OLD_BWRAP)
    return bwrap.BwrapBox(tier, program, options, state)


def _make_landlock_box(_tier: Tier, state: Path) -> Box:
    if sys.platform != "linux":
        raise TierUnavailable("only Linux has Landlock", "Use Linux, or WSL 2 on Windows.", "ENOSYS")
    from core.sandbox.inside import kernel, landlock
    from core.sandbox.tiers import landlock_box

    version = landlock.get_abi_version()
    if version < landlock_box.MINIMUM_ABI:
        support = f"has Landlock of ABI {version} only" if version else "has no Landlock"
        raise TierUnavailable(f"this kernel {support}", NO_LANDLOCK, "" if version else "ENOSYS")
    if os.geteuid() == 0 and kernel.CHANGE_OF_USER & ~kernel.read_capabilities():
        raise TierUnavailable("root has not the capabilities to run commands as another user", NOT_AS_ROOT, "EPERM")
    return landlock_box.LandlockBox(state)


def _make_seatbelt_box(_tier: Tier, state: Path) -> Box:
    from core.sandbox.tiers import seatbelt_box

    if Tier.SEATBELT not in list_tiers():
        raise TierUnavailable("only macOS has Seatbelt", "", "ENOSYS")
    if not os.access(seatbelt_box.PROGRAM, os.X_OK):
        raise TierUnavailable(f"{seatbelt_box.PROGRAM} is missing", "", "ENOENT")
    return seatbelt_box.SeatbeltBox(state)


def _make_container_box(tier: Tier, state: Path) -> Box:
    from core.sandbox.tiers.landlock_box import ContainerBox

    return ContainerBox(tier, state)


_BOX_MAKERS: dict[Tier, Callable[[Tier, Path], Box]] = {
    Tier.NAMESPACES: _make_namespace_box,
    Tier.BWRAP_OVERLAY: _make_bwrap_box,
    Tier.BWRAP_MOUNTED: _make_bwrap_box,
    Tier.BWRAP_COPY: _make_bwrap_box,
    Tier.LANDLOCK: _make_landlock_box,
    Tier.SEATBELT: _make_seatbelt_box,
    Tier.CONTAINER: _make_container_box,
    Tier.IN_PLACE: _make_container_box,
}


def _build_cache_key(candidates: Sequence[str] = ()) -> str:
    from core.sandbox.tiers.bwrap import CANDIDATES

    parts: list[object] = [__version__, sys.version, os.path.realpath(sys.executable), *os.uname(), os.getuid()]
    parts.append(msgspec.structs.astuple(read_machine_traits()))
    for candidate in candidates or CANDIDATES:
        with contextlib.suppress(OSError):
            info = Path(candidate).stat()
            parts += [candidate, info.st_mtime_ns, info.st_size]
    return repr(parts)


def load_cached_report(state: Path) -> TierReport | None:
    """Return the report of the last day for this state of the machine; None: the tiers must be tried again."""
    try:
        cached_report = decode_json((state / _CACHE_NAME).read_bytes(), _CachedReport)
    except (OSError, msgspec.MsgspecError):
        return None
    age = time.time() - cached_report.at
    return cached_report.report if cached_report.key == _build_cache_key() and 0 <= age < _CACHE_SECONDS else None


def _cache_report(state: Path, report: TierReport) -> None:
    """Cache a report. A failure is ignored: the tiers are tried again at the next start."""
    data = msgspec.json.encode(_CachedReport(_build_cache_key(), time.time(), report))
    with contextlib.suppress(OSError):
        replace_file(state / _CACHE_NAME, data, durable=False)


class MachineTraits(Struct, frozen=True, kw_only=True):
    """This machine's settings about namespaces. None: it has no such setting."""

    user_namespaces: int | None = None
    apparmor_restricts: bool = False
    unprivileged_clone: bool = True
    is_container: bool = False
    is_filtered: bool = False
    is_root: bool = False


def read_machine_traits(proc: Path = Path("/proc"), root: Path = Path("/")) -> MachineTraits:
    """Read the traits from /proc and marker files, without any trial."""
    status = _read_text(proc / "self/status")
    limit = _read_text(proc / "sys/user/max_user_namespaces").strip()
    return MachineTraits(
        user_namespaces=int(limit) if limit.isdigit() else None,
        apparmor_restricts=_read_text(proc / "sys/kernel/apparmor_restrict_unprivileged_userns").strip() == "1",
        unprivileged_clone=_read_text(proc / "sys/kernel/unprivileged_userns_clone").strip() != "0",
        is_container=bool(find_container_signs({}, root, proc)),
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
    """Return a remedy for a refused namespace or mount, "" if none is known."""
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
    """Return instructions for an AppArmor profile for the interpreter that runs this program, and nothing else."""
    program = os.path.realpath("/proc/self/exe")
    return (
        "AppArmor denies user namespaces to programs without a profile (Ubuntu 23.10 and newer). Give "
        f"this program one: put the line `profile agent-tui {program} flags=(unconfined) {{ userns, "
        "}`, after the lines `abi <abi/4.0>,` and `include <tunables/global>`, into "
        "/etc/apparmor.d/agent-tui, then run `sudo apparmor_parser -r /etc/apparmor.d/agent-tui`. Or "
        "install bubblewrap with the profile bwrap-userns-restrict from the package apparmor-profiles."
    )


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
