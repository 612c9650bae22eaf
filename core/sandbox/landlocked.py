"""Tier T3: Landlock and a syscall filter around a command that runs on a copy of the project (SAFETY D18, D28).

For machines that let nobody make a namespace. The command's process gives up all but reading the system's programs and
changing its copy and its own scratch directory; it has no network and no unix sockets at all, and a supervisor ends
what it leaves behind. What Landlock does not cover is told in docs/safety.md: the metadata of files of the same user,
the list of processes, and below ABI 6 signals to them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import structs

from core.sandbox import places
from core.sandbox.box import BoxSpec, Tier
from core.sandbox.boxed_process import Launch, scratch_in
from core.sandbox.bwrap import copy_place, give_back, own_home
from core.sandbox.copies import CopyLimits, discard, materialise
from core.sandbox.landlock import EVERYTHING, READ, USE
from core.sandbox.launched_box import LaunchedBox
from core.sandbox.machine.toolchains import credentials
from core.sandbox.metadata import Metadata
from core.sandbox.runner import shell

LEAST_ABI = 3
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix", "/gnu", "/snap", "/proc")
_ENVIRONMENTS = (".venv", "venv", "env")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_VARIABLE = ("/var/lib/dpkg", "/var/lib/rpm", "/var/cache/fontconfig", "/var/lib/alternatives")


class LandlockBox(LaunchedBox):
    """Its copies are made in `state`, too, where they are thrown away."""

    def __init__(self, state: Path, copy_limits: CopyLimits | None = None) -> None:
        super().__init__(Tier.LANDLOCK, state)
        self._copy_limits = copy_limits

    def _prepare(self, spec: BoxSpec) -> Launch:
        scratch = scratch_in(self._state)
        home = scratch / "home"
        place = copy_place(spec, scratch_in(self._state))
        copy = materialise(withholding_hidden(spec), place, limits=self._copy_limits, link_held=True)
        home.mkdir(parents=True, mode=0o700)
        (scratch / "tmp").mkdir(mode=0o700)
        held = [spec.workspace / os.fsdecode(each) for each in copy.held]
        rules = [*_rules(spec, [*held, *_environments(spec)])]
        rules += [(str(place), EVERYTHING) for place in (copy.root, scratch)]
        before = Metadata(spec.workspace, copy.files)

        def finish(upper: Path | None) -> tuple[str, ...]:
            try:
                return (*give_back(copy, upper, mounted=False), *before.note())
            finally:
                discard(scratch)

        env = {**own_home(spec.env), "HOME": str(home), "TMPDIR": str(scratch / "tmp")}
        if spec.cache is not None:
            (home / ".cache").symlink_to(spec.cache)
        return Launch(
            order={
                "arguments": [os.fsencode(each) for each in (shell(), "-c", spec.command)],
                "env": {os.fsencode(name): os.fsencode(value) for name, value in env.items()},
                "cwd": os.fsencode(os.path.normpath(copy.root / spec.cwd)),
                "bubblewrap": False,
                "ground": None,
                "scratch": 0,
                "rules": rules,
                "families": [],
                "processes": spec.limits.processes,
                "open_files": spec.limits.open_files,
                "file_size": spec.limits.file_size,
                "memory": spec.limits.memory,
            },
            finish=lambda: finish(spec.upper),
            undo=lambda: finish(None),
        )


def withholding_hidden(spec: BoxSpec) -> BoxSpec:
    """What is hidden inside the workspace can't be covered in a copy; it is left out of it like what is withheld."""
    inside = [str(path.relative_to(spec.workspace)) for path in spec.hidden if path.is_relative_to(spec.workspace)]
    return structs.replace(spec, withheld=(*spec.withheld, *inside))


def _rules(spec: BoxSpec, held: list[Path]) -> Iterator[tuple[str, int]]:
    """What may be read, by name: a rule can't take back what a wider one gave."""
    yield from (
        (str(each), READ) for path in (*_SYSTEM, *_VARIABLE) for each in _without(Path(path).resolve(), spec.hidden)
    )
    yield from ((path, USE) for path in _DEVICES)
    masked = set(places.masked())
    for directory in ("/etc", "/etc/ssh", "/etc/ssl", "/etc/security"):
        yield from ((str(path), READ) for path in _readable_in(Path(directory), masked))
    bound = places.toolchains(spec.env)
    kept_out = (*_kept_out(spec), *credentials(bound))
    for path in (*bound, *spec.readable, *held):
        yield from ((str(each), READ) for each in _without(path, kept_out))
    if spec.cache is not None:
        yield str(spec.cache), EVERYTHING


def _environments(spec: BoxSpec) -> Iterator[Path]:
    """The project's virtual environments in use: their scripts name them by their own path, not by the copy's."""
    for path in spec.workspace.glob("*/pyvenv.cfg"):
        if path.parent.name in _ENVIRONMENTS and not path.parent.is_symlink():
            yield from _without(path.parent, _kept_out(spec))


def _kept_out(spec: BoxSpec) -> tuple[Path, ...]:
    return (*spec.hidden, *(spec.workspace / each for each in (*spec.withheld, *spec.masked)))


def _without(path: Path, hidden: tuple[Path, ...]) -> Iterator[Path]:
    """A path, or what is in it but for what is hidden."""
    if path in hidden:
        return
    if not any(each.is_relative_to(path) for each in hidden):
        yield path
        return
    for name in _names_in(path):
        yield from _without(path / name, hidden)


def _names_in(directory: Path) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _readable_in(directory: Path, masked: set[Path]) -> Iterator[Path]:
    """The entries of a directory but those that are masked or hold something masked."""
    for name in _names_in(directory):
        path = directory / name
        if not any(each == path or each.is_relative_to(path) for each in masked):
            yield path
