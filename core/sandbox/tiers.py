"""Which tier this machine offers: found by really running commands in it, kept for a day, never lowered in silence.

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
from core.sandbox import cures, self_test
from core.sandbox.box import Box, Tier

ORDER = (Tier.NAMESPACES, Tier.BWRAP_OVERLAY, Tier.BWRAP_MOUNTED, Tier.BWRAP_COPY, Tier.LANDLOCK)
_FILE = "box.json"
_KEPT_SECONDS = 24 * 3600


class TierReason(Struct, frozen=True, kw_only=True):
    """What came of trying a tier. `errno` is a name such as "EPERM", `cure` what its user can do; "" without.

    `too_slow`: it was not done in time, which says something of this moment and not of the machine.
    """

    tier: Tier
    ok: bool
    reason: str = ""
    errno: str = ""
    cure: str = ""
    too_slow: bool = False
    items: tuple[self_test.Item, ...] = ()


class TierReport(Struct, frozen=True, kw_only=True):
    """The tier in force, and what came of each that was tried, strongest first. `cached`: it was found earlier."""

    tier: Tier
    reasons: tuple[TierReason, ...] = ()
    cached: bool = False

    @property
    def lacking(self) -> tuple[TierReason, ...]:
        """Why each stronger tier is not used."""
        return tuple(each for each in self.reasons if not each.ok)


class _Kept(Struct, frozen=True):
    key: str
    at: float
    report: TierReport


class Unavailable(Exception):
    """A tier can't even be tried: why, and what would help."""

    def __init__(self, reason: str, cure: str, errno: str = "") -> None:
        super().__init__(reason)
        self.reason, self.cure, self.errno = reason, cure, errno


async def open_box(state: Path, *, wanted: Tier | None = None) -> tuple[Box | None, TierReport]:
    """The strongest box of this machine, and how it was found; None for T4, where nothing contains a command.

    `state` is a directory of ours, which commands never see. Reads one file when the tier was found within a day and
    nothing has changed since; else tries the tiers in turn, at most two seconds each. `wanted`: this tier or none.
    """
    if wanted is not None:
        return await _open_one(state, wanted)
    kept = await asyncio.to_thread(remembered, state)
    if kept is not None:
        with contextlib.suppress(Unavailable):
            box = None if kept.tier is Tier.NONE else make_box(kept.tier, state)
            return box, msgspec.structs.replace(kept, cached=True)
    report = await find_tier(state)
    return (None if report.tier is Tier.NONE else make_box(report.tier, state)), report


async def _open_one(state: Path, wanted: Tier) -> tuple[Box | None, TierReport]:
    if wanted is Tier.NONE:
        return None, TierReport(tier=Tier.NONE)
    found = await try_tier(wanted, state)
    tier = wanted if found.ok else Tier.NONE
    return (make_box(wanted, state) if found.ok else None), TierReport(tier=tier, reasons=(found,))


async def find_tier(state: Path, *, all_of_them: bool = False) -> TierReport:
    """Try the tiers in turn, up to the first that holds, and keep what was found.

    Where a tier was only too slow (a busy machine), nothing is kept: the next start tries again.
    """
    reasons: list[TierReason] = []
    for tier in ORDER:
        reasons.append(await try_tier(tier, state))
        if reasons[-1].ok and not all_of_them:
            break
    best = next((each.tier for each in reasons if each.ok), Tier.NONE)
    report = TierReport(tier=best, reasons=tuple(reasons))
    if not any(each.too_slow for each in reasons):
        await asyncio.to_thread(_keep, state, report)
    return report


async def try_tier(tier: Tier, state: Path) -> TierReason:
    """Run the self-test in a box of this tier."""
    here = cures.machine()
    try:
        box = make_box(tier, state)
    except Unavailable as why:
        return TierReason(tier=tier, ok=False, reason=why.reason, errno=why.errno, cure=why.cure)
    try:
        async with asyncio.timeout(self_test.SECONDS + 1):
            items = await self_test.try_box(box, state)
    except TimeoutError:
        reason = f"not done within {self_test.SECONDS:g} s; it is tried again at the next start"
        return TierReason(tier=tier, ok=False, reason=reason, too_slow=True)
    except ToolFailed as failure:
        reason = failure.message
        return TierReason(
            tier=tier, ok=False, reason=reason, errno=cures.errno_of(reason), cure=cures.cure(reason, here)
        )
    except OSError as error:
        return TierReason(tier=tier, ok=False, reason=f"the self-test could not be laid out in {state}: {error}")
    finally:
        await box.close()
    failed = [f"{each.name}: {each.found}" for each in items if not each.held]
    return TierReason(tier=tier, ok=not failed, reason="; ".join(failed), items=items)


def make_box(tier: Tier, state: Path) -> Box:
    """A box of this tier, untried. `Unavailable` when the machine lacks what it is made of."""
    return _MAKERS[tier](tier, state)


def _namespaces(_tier: Tier, _state: Path) -> Box:
    if sys.platform != "linux":
        raise Unavailable("only Linux has namespaces", "Use Linux, or WSL 2 on Windows.", "ENOSYS")
    from core.sandbox.namespaces import NamespaceBox

    return NamespaceBox()


def _bwrap(tier: Tier, state: Path) -> Box:
    from core.sandbox import bwrap

    program = bwrap.find_bwrap(option="--overlay-src" if tier is Tier.BWRAP_OVERLAY else "--bind")
    if program is None:
        raise Unavailable("bubblewrap is not installed", cures.NO_BWRAP, "ENOENT")
    options = bwrap.options_of(program)
    if tier is Tier.BWRAP_OVERLAY and "--overlay-src" not in options:
        raise Unavailable(f"{program} has no option --overlay", cures.OLD_BWRAP)
    return bwrap.BwrapBox(tier, program, options, state)


def _landlock(_tier: Tier, state: Path) -> Box:
    if sys.platform != "linux":
        raise Unavailable("only Linux has Landlock", "Use Linux, or WSL 2 on Windows.", "ENOSYS")
    from core.sandbox import landlock, landlocked

    version = landlock.abi()
    if version < landlocked.LEAST_ABI:
        what = f"has Landlock of ABI {version} only" if version else "has no Landlock"
        raise Unavailable(f"this kernel {what}", cures.NO_LANDLOCK, "" if version else "ENOSYS")
    if os.geteuid() == 0:
        raise Unavailable("as root all that root owns would be within a command's reach", cures.NOT_AS_ROOT, "EPERM")
    return landlocked.LandlockBox(state)


_MAKERS: dict[Tier, Callable[[Tier, Path], Box]] = {
    Tier.NAMESPACES: _namespaces,
    Tier.BWRAP_OVERLAY: _bwrap,
    Tier.BWRAP_MOUNTED: _bwrap,
    Tier.BWRAP_COPY: _bwrap,
    Tier.LANDLOCK: _landlock,
}


def _key(candidates: Sequence[str] = ()) -> str:
    """What, when it changes, makes a cached answer worthless."""
    from core.sandbox.bwrap import CANDIDATES

    parts: list[object] = [__version__, sys.version, os.path.realpath(sys.executable), *os.uname(), os.getuid()]
    parts.append(msgspec.structs.astuple(cures.machine()))
    for each in candidates or CANDIDATES:
        with contextlib.suppress(OSError):
            info = Path(each).stat()
            parts += [each, info.st_mtime_ns, info.st_size]
    return repr(parts)


def remembered(state: Path) -> TierReport | None:
    """What was found within a day on this machine as it is; None: it has to be found again."""
    try:
        kept = msgspec.json.decode((state / _FILE).read_bytes(), type=_Kept)
    except (OSError, msgspec.MsgspecError):
        return None
    age = time.time() - kept.at
    return kept.report if kept.key == _key() and 0 <= age < _KEPT_SECONDS else None


def _keep(state: Path, report: TierReport) -> None:
    """A report that can't be kept is found again; that is no reason to fail."""
    data = msgspec.json.encode(_Kept(_key(), time.time(), report))
    place = state / f"{_FILE}.{os.getpid()}"
    with contextlib.suppress(OSError):
        descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        place.replace(state / _FILE)
