"""The tiers that bubblewrap makes: for machines where it may do what we may not (SAFETY D17, C4).

T2a: bubblewrap lays the layers over the workspace itself (0.11 and newer). T2b: our launcher does, then bubblewrap
closes the box. T2c: the command gets a copy of the project, mounted where the project is.
"""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import structs

from core.sandbox import places
from core.sandbox.box import BoxSpec, Tier
from core.sandbox.boxed_process import Launch, scratch_in
from core.sandbox.copies import Copy, discard, materialise
from core.sandbox.differences import write_differences
from core.sandbox.launched_box import LaunchedBox
from core.sandbox.launcher import FILTER, READY, STATUS
from core.sandbox.machine.toolchains import credentials
from core.sandbox.masking.layer import lay
from core.sandbox.masking.settling import gone_with_their_directory, masks_beside, settle
from core.sandbox.mounts import mounts_below
from core.sandbox.runner import shell
from core.sandbox.seccomp import FAMILIES, NETWORK
from core.sandbox.view import KERNEL_SECRETS

CANDIDATES = ("/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap")
_FRESH = ("/tmp", "/var/tmp", "/run", "/sys", "/home")
_SHARES = 6  # /dev/shm, /tmp, /var/tmp, /run, the home, and a layer that is thrown away
_NOTHING = b"/dev/null"  # what lies over a file that is covered
_UNSHARED = ("user", "pid", "net", "ipc", "uts", "cgroup-try")


def find_bwrap(candidates: Iterable[str] = CANDIDATES, *, option: str = "") -> Path | None:
    """Bubblewrap where the system has it; never one that PATH, the project or another user could have put there. With
    `option`: the first that has it, if one does."""
    found = list(_installed(candidates))
    return next((each for each in found if option in options_of(each)), next(iter(found), None))


def _installed(candidates: Iterable[str]) -> Iterator[Path]:
    for each in candidates:
        try:
            info = Path(each).stat()
        except OSError:
            continue
        if stat.S_ISREG(info.st_mode) and info.st_uid == 0 and not info.st_mode & 0o022 and os.access(each, os.X_OK):
            yield Path(each)


def options_of(program: Path) -> frozenset[str]:
    """The options that this bubblewrap has, by its own account."""
    told = subprocess.run([program, "--help"], capture_output=True, text=True, check=False, env={}, timeout=5)
    return frozenset(word for word in (told.stdout + told.stderr).split() if word.startswith("--"))


class BwrapBox(LaunchedBox):
    """One of the three."""

    def __init__(self, tier: Tier, program: Path, options: frozenset[str], state: Path) -> None:
        super().__init__(tier, state)
        self._program = program
        self._options = options

    @property
    def _binds_the_machine(self) -> bool:
        """Rather than being started on overlays of it: then unix sockets of the machine are behind their names."""
        return self._tier is not Tier.BWRAP_MOUNTED

    def _prepare(self, spec: BoxSpec) -> Launch:
        prepare = {
            Tier.BWRAP_OVERLAY: self._over_by_bwrap,
            Tier.BWRAP_MOUNTED: self._over_by_launcher,
            Tier.BWRAP_COPY: self._on_copy,
        }[self._tier]
        return prepare(spec, scratch_in(self._state))

    def _over_by_bwrap(self, spec: BoxSpec, scratch: Path) -> Launch:
        """T2a."""
        masks = masks_beside(spec.upper) if spec.upper else scratch
        if spec.masked:
            lay(os.fsencode(masks), os.fsencode(spec.workspace), [os.fsencode(path) for path in spec.masked])
        sources = [spec.workspace, *([masks] if spec.masked else []), *reversed(spec.lowers)]  # bottom first
        layers = [word for source in sources for word in ("--overlay-src", str(source))]
        place = str(spec.workspace)
        if spec.upper is not None and spec.work is not None:
            laid = [*layers, "--overlay", str(spec.upper), str(spec.work), place]
        else:
            laid = [*layers, "--tmp-overlay", place]
        inside = [os.fsdecode(path) for path in mounts_below(os.fsencode(spec.workspace))]
        launch = self._launch(spec, [*laid, *(word for path in inside for word in ("--ro-bind", path, path))])

        def finish() -> tuple[str, ...]:
            try:
                return settle(spec)
            finally:
                discard(masks)

        launch.finish = launch.undo = finish
        return launch

    def _over_by_launcher(self, spec: BoxSpec, scratch: Path) -> Launch:
        """T2b."""
        place = str(spec.workspace)
        launch = self._launch(spec, ["--bind", place, place])
        launch.order["ground"] = {
            "workspace": os.fsencode(os.path.realpath(spec.workspace)),
            "lowers": [os.fsencode(lower) for lower in spec.lowers],
            "upper": os.fsencode(spec.upper) if spec.upper else b"",
            "work": os.fsencode(spec.work) if spec.work else b"",
            "masked": [os.fsencode(path) for path in spec.masked],
            "masks": os.fsencode(masks_beside(spec.upper)) if spec.upper else b"",
            "readable": [os.fsencode(path) for path in (*places.toolchains(spec.env), *spec.readable)],
            "cache": os.fsencode(spec.cache) if spec.cache else b"",
        }

        def finish() -> tuple[str, ...]:
            return settle(spec)

        def undo() -> None:
            finish()
            if spec.upper is not None and spec.work is not None:
                discard(spec.work / "work")  # an overlay of the kernel's takes none but its own

        launch.finish, launch.undo = finish, undo
        return launch

    def _on_copy(self, spec: BoxSpec, scratch: Path) -> Launch:
        """T2c."""
        copy = materialise(spec, copy_place(spec, scratch))
        place = str(spec.workspace)
        bound = ["--bind", str(copy.root), place]
        for held in copy.held:
            original = os.path.join(place, os.fsdecode(held))
            bound += ["--ro-bind", original, original]
        below = tuple(f"{os.fsdecode(held)}/" for held in copy.held)
        inside = tuple(each for each in spec.masked if each.startswith(below))
        launch = self._launch(structs.replace(spec, withheld=(*spec.withheld, *inside)), bound)
        launch.finish = lambda: give_back(copy, spec.upper, mounted=True)
        launch.undo = lambda: give_back(copy, None, mounted=True)
        return launch

    def _launch(self, spec: BoxSpec, workspace: list[str]) -> Launch:
        arguments = [str(self._program), *self._closed(), *_machine(spec, self._state), *self._beside(spec), *workspace]
        arguments += _covers([*spec.hidden, *(spec.workspace / each for each in spec.withheld)], spec)
        arguments += [word for place in ("/dev", "/sys", "/home") for word in self._shut(place, spec)]
        arguments += ["--chdir", os.path.normpath(spec.workspace / spec.cwd), "--json-status-fd", str(STATUS)]
        arguments += [
            "--seccomp",
            str(FILTER),
            "--",
            shell(),
            "-c",
            _begin(spec.limits.processes),
            shell(),
            spec.command,
        ]
        return Launch(
            order={
                "arguments": [os.fsencode(each) for each in arguments],
                "env": {os.fsencode(name): os.fsencode(value) for name, value in own_home(spec.env).items()},
                "cwd": b"/",
                "bubblewrap": True,
                "ground": None,
                "scratch": spec.limits.scratch // _SHARES,
                "rules": None,
                "families": list(NETWORK if self._binds_the_machine else FAMILIES),
                "processes": spec.limits.processes,
                "open_files": spec.limits.open_files,
                "file_size": spec.limits.file_size,
                "memory": spec.limits.memory,
            }
        )

    def _beside(self, spec: BoxSpec) -> Iterator[str]:
        """Where the machine's directories themselves are bound, what root can read in them and others can't is covered.
        A directory of the user's that lies there comes back."""
        if not self._binds_the_machine or os.getuid() != 0:
            return
        yield from _covers(places.not_for_everybody(), spec)
        for path in spec.readable:
            yield from ("--ro-bind-try", str(path), str(path))

    @staticmethod
    def _shut(place: str, spec: BoxSpec) -> Iterator[str]:
        """Places that are fresh, but not to be written to."""
        if Path(place).is_dir() and os.path.realpath(places.home(spec.env)) != place:
            yield from ("--remount-ro", place)

    def _closed(self) -> list[str]:
        """The namespaces and rights, as far as this bubblewrap knows the options; the filter covers the same ground."""
        wanted = [
            *(f"--unshare-{kind}" for kind in _UNSHARED),
            "--disable-userns",
            "--die-with-parent",
            "--new-session",
        ]
        return [
            *(option for option in wanted if option in self._options),
            *("--uid", str(os.getuid()), "--gid", str(os.getgid()), "--cap-drop", "ALL"),
        ]


def own_home(env: Mapping[str, str]) -> dict[str, str]:
    """The command's environment; a home that it can't have is replaced."""
    return {**env, "HOME": str(places.home(env))}


def copy_place(spec: BoxSpec, scratch: Path) -> Path:
    """Where a copy is made: on the layer's own file system, so that what changed can be moved into the layer."""
    if spec.upper is not None and spec.work is not None:
        return spec.work / "copy"
    return scratch


def give_back(copy: Copy, upper: Path | None, *, mounted: bool) -> tuple[str, ...]:
    """Write what changed into the layer, if there is one, and be rid of the copy. Notes for the user."""
    gone: tuple[str, ...] = ()
    try:
        if upper is not None:
            write_differences(copy, upper, mounted=mounted)
            gone = gone_with_their_directory(upper, copy.withheld)
    finally:
        discard(copy.root)
    held = ", ".join(sorted(os.fsdecode(each) for each in copy.held))
    return (*gone, *((f"Read-only in this tier, since too large to copy: {held}",) if held else ()))


def _begin(processes: int) -> str:
    """What the innermost shell does before the command: say that it runs, give up our descriptors, limit itself."""
    limit = f"ulimit -u {processes} 2>/dev/null || ulimit -p {processes} 2>/dev/null; "
    return f'printf r >&{READY}; exec {STATUS}>&- {READY}>&- {FILTER}<&-; {limit}exec "$0" -c "$1"'


def _machine(spec: BoxSpec, state: Path) -> Iterator[str]:
    """The machine as the command sees it, all but the workspace; what comes later lies over what came before.

    What is fresh and writable shares the scratch space evenly: bubblewrap can't give it as a whole.
    """
    size = ("--size", str(spec.limits.scratch // _SHARES))
    home = os.path.realpath(places.home(spec.env))
    yield from ("--ro-bind", "/", "/", "--dev", "/dev", *size, "--tmpfs", "/dev/shm")
    yield from ("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys")
    yield from _covers([Path(os.fsdecode(each)) for each in KERNEL_SECRETS], spec)
    for place in _FRESH:
        if Path(place).is_dir() and not Path(place).is_symlink():
            yield from (*size, "--tmpfs", place)
    yield from _covers([*places.masked(), state], spec)
    yield from (*size, "--tmpfs", home)
    link = places.home(spec.env)
    if str(link) != home and any(link.is_relative_to(fresh) for fresh in _FRESH):
        yield from ("--symlink", home, str(link))
    bound = places.toolchains(spec.env)
    for path in (*bound, *spec.readable):
        yield from ("--ro-bind-try", str(path), str(path))
    yield from _covers(credentials(bound), spec, bound)
    if spec.cache is not None:
        yield from ("--bind", str(spec.cache), os.path.join(home, ".cache"))


def _covers(paths: Iterable[Path], spec: BoxSpec, bound: Iterable[Path] = ()) -> Iterator[str]:
    """Nothing where these are. What is not there, or lies in a place that is fresh anyway, needs no cover. `bound` is
    what comes back in such a place, besides what the user added."""
    places_shown = (spec.workspace, *spec.readable, *(Path(os.path.realpath(each)) for each in bound))
    for path in paths:
        real = Path(os.path.realpath(path))
        shown = any(real.is_relative_to(each) for each in places_shown)
        if not os.path.lexists(real) or (not shown and any(real.is_relative_to(fresh) for fresh in _FRESH)):
            continue
        if real.is_dir():
            yield from ("--perms", "0555", "--tmpfs", str(real))
        else:
            yield from ("--ro-bind", os.fsdecode(_NOTHING), str(real))
