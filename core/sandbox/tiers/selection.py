"""The tier that this machine offers: found by really running commands in it, cached for a day, never lowered silently.

The strongest that holds every attempt of the self-test is taken (SAFETY D15-D20, S12, S18). The report says of each
stronger one why it is not.
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
from core.records import decode_json
from core.sandbox.box import Box, Tier
from core.sandbox.tiers import remedies, self_test

TIERS_BY_STRENGTH = (Tier.NAMESPACES, Tier.BWRAP_OVERLAY, Tier.BWRAP_MOUNTED, Tier.BWRAP_COPY, Tier.LANDLOCK)
_CACHE_NAME = "box.json"
_CACHE_SECONDS = 24 * 3600


class TierTrial(Struct, frozen=True, kw_only=True):
    """The outcome of trying a tier. `errno`: a name such as "EPERM"; `cure`: what the user can do; "" without.

    `too_slow`: it was not done in time, which says something of this moment and not of the machine.
    """

    tier: Tier
    ok: bool
    reason: str = ""
    errno: str = ""
    cure: str = ""
    too_slow: bool = False
    items: tuple[self_test.SelfTestItem, ...] = ()


class TierReport(Struct, frozen=True, kw_only=True):
    """The tier in force, and what came of each that was tried, strongest first. `cached`: it was found earlier."""

    tier: Tier
    reasons: tuple[TierTrial, ...] = ()
    cached: bool = False


class _CachedReport(Struct, frozen=True):
    key: str
    at: float
    report: TierReport


class TierUnavailable(Exception):
    """A tier that can't even be tried: why, and what would help."""

    def __init__(self, reason: str, cure: str, errno: str = "") -> None:
        super().__init__(reason)
        self.reason, self.cure, self.errno = reason, cure, errno


async def open_box(state: Path, *, tier: Tier | None = None) -> tuple[Box | None, TierReport]:
    """Open the strongest box of this machine and report how it was found; None for T4, where nothing contains a
    command.

    `state`: a directory of ours, which commands never see. Reads one file if the tier was found within a day and
    nothing has changed since; else tries the tiers in turn, at most two seconds each. `tier`: this tier or none.
    """
    if tier is Tier.NONE:
        return None, TierReport(tier=Tier.NONE)
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


async def find_tier(state: Path, *, try_all: bool = False) -> TierReport:
    """Try the tiers in turn, up to the first that holds, and cache the report.

    If a tier was only too slow (a busy machine), nothing is cached: the next start tries again.
    """
    reasons: list[TierTrial] = []
    for tier in TIERS_BY_STRENGTH:
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
    traits = remedies.read_machine_traits()
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
        number, cure = remedies.find_errno(reason), remedies.suggest_remedy(reason, traits)
        return TierTrial(tier=tier, ok=False, reason=reason, errno=number, cure=cure)
    except OSError as error:
        return TierTrial(tier=tier, ok=False, reason=f"the self-test could not be laid out in {state}: {error}")
    finally:
        await box.close()
    failures = [f"{attempt.name}: {attempt.found}" for attempt in items if not attempt.held]
    return TierTrial(tier=tier, ok=not failures, reason="; ".join(failures), items=items)


def make_box(tier: Tier, state: Path) -> Box:
    """Build a box of this tier, untried. Raises `TierUnavailable` if the machine lacks what it is made of."""
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
        raise TierUnavailable("bubblewrap is not installed", remedies.NO_BWRAP, "ENOENT")
    options = bwrap.list_options(program)
    if tier is Tier.BWRAP_OVERLAY and "--overlay-src" not in options:
        raise TierUnavailable(f"{program} has no option --overlay", remedies.OLD_BWRAP)
    return bwrap.BwrapBox(tier, program, options, state)


def _make_landlock_box(_tier: Tier, state: Path) -> Box:
    if sys.platform != "linux":
        raise TierUnavailable("only Linux has Landlock", "Use Linux, or WSL 2 on Windows.", "ENOSYS")
    from core.sandbox.inside import landlock
    from core.sandbox.tiers import landlock_box

    version = landlock.get_abi_version()
    if version < landlock_box.MINIMUM_ABI:
        support = f"has Landlock of ABI {version} only" if version else "has no Landlock"
        raise TierUnavailable(f"this kernel {support}", remedies.NO_LANDLOCK, "" if version else "ENOSYS")
    if os.geteuid() == 0:
        raise TierUnavailable(
            "as root all that root owns would be within a command's reach", remedies.NOT_AS_ROOT, "EPERM"
        )
    return landlock_box.LandlockBox(state)


_BOX_MAKERS: dict[Tier, Callable[[Tier, Path], Box]] = {
    Tier.NAMESPACES: _make_namespace_box,
    Tier.BWRAP_OVERLAY: _make_bwrap_box,
    Tier.BWRAP_MOUNTED: _make_bwrap_box,
    Tier.BWRAP_COPY: _make_bwrap_box,
    Tier.LANDLOCK: _make_landlock_box,
}


def _build_cache_key(candidates: Sequence[str] = ()) -> str:
    from core.sandbox.tiers.bwrap import CANDIDATES

    parts: list[object] = [__version__, sys.version, os.path.realpath(sys.executable), *os.uname(), os.getuid()]
    parts.append(msgspec.structs.astuple(remedies.read_machine_traits()))
    for candidate in candidates or CANDIDATES:
        with contextlib.suppress(OSError):
            info = Path(candidate).stat()
            parts += [candidate, info.st_mtime_ns, info.st_size]
    return repr(parts)


def load_cached_report(state: Path) -> TierReport | None:
    """Return what was found within a day on this machine as it is; None: it has to be found again."""
    try:
        cached_report = decode_json((state / _CACHE_NAME).read_bytes(), _CachedReport)
    except (OSError, msgspec.MsgspecError):
        return None
    age = time.time() - cached_report.at
    return cached_report.report if cached_report.key == _build_cache_key() and 0 <= age < _CACHE_SECONDS else None


def _cache_report(state: Path, report: TierReport) -> None:
    """Cache a report. One that can't be cached is found again; that is no reason to fail."""
    data = msgspec.json.encode(_CachedReport(_build_cache_key(), time.time(), report))
    with contextlib.suppress(OSError):
        replace_file(state / _CACHE_NAME, data, durable=False)
