"""The boxes of this machine for tests: every tier that it offers, for every user that a test can be.

A test asks for the fixture `boxed` and runs commands with it; it runs once for each tier and user. As root the ordinary
user is another process (`box_driver`), so that nothing of root's is left to it.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from core.filesystem.removal import remove_tree
from core.sandbox.box import Box, BoxLimits, BoxRequest, BoxResult, Tier
from core.sandbox.inside import landlock
from core.sandbox.tiers.landlock_box import MINIMUM_ABI, LandlockBox
from core.sandbox.tiers.project_survey import CopyLimits
from core.sandbox.tiers.selection import TIERS_BY_STRENGTH, make_box
from tests.support.box_tiers import offered

ROOT = Path(__file__).parents[2]
# Digits for `sleep` by which the commands of this worker are known: others run the same tests beside it.
MARK = f"8{os.getpid():07}"
ORDINARY = 45_678
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"

# A busy machine copies slowly, and how long a copy may take is not what these cases are about.
PATIENT = CopyLimits(seconds=60.0)


def make_patient_box(tier: Tier, state: Path) -> Box:
    box = make_box(tier, state)
    return LandlockBox(state, PATIENT) if isinstance(box, LandlockBox) else box


# One for each tier that a machine may offer: from a state directory to the box.
MAKERS: dict[Tier, Callable[[Path], Box]] = {tier: partial(make_patient_box, tier) for tier in TIERS_BY_STRENGTH}


# What a script in the box is refused, or not, each in a line.
ATTEMPT = """
import os, socket, sys
def attempt(what, act):
    try:
        act()
        print(what, "WENT THROUGH")
    except OSError as error:
        print(what, "refused:", error.strerror)
"""


class Apart(Struct, frozen=True):
    """What a process that ran a command saw right after its end: the machine's command lines, its growth in bytes."""

    alive: tuple[str, ...]
    grown: int

    def lives(self, mark: str) -> bool:
        return any(mark in line for line in self.alive)


class Ran(Struct, frozen=True):
    """How a command ended, all that it printed, and the layer that holds what it changed."""

    exit: BoxResult
    output: str
    upper: Path | None = None
    apart: Apart | None = None

    @property
    def code(self) -> int | None:
        return self.exit.exit_code


class Boxed(Struct):
    """One tier for one user, with a workspace, a home and a place for layers that belong to that user."""

    tier: Tier
    uid: int
    root: Path
    layers: int = 0
    opened: list[Box] = field(default_factory=list)

    @property
    def workspace(self) -> Path:
        return self.root / "work" / "project"

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def state(self) -> Path:
        return self.root / "state"

    def env(self) -> dict[str, str]:
        return {"HOME": str(self.home), "PATH": SYSTEM_PATH, "LANG": "C.UTF-8", "TERM": "dumb"}

    def write(self, path: str, content: str | bytes = "", *, mode: int = 0o644) -> Path:
        """A file below the root that belongs to the user, as do the directories made for it."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content if isinstance(content, bytes) else content.encode())
        target.chmod(mode)
        self.give(target)
        return target

    def give(self, path: Path) -> None:
        """Make the user the owner of a path and of everything between it and the root."""
        while path != self.root.parent:
            os.chown(path, self.uid, self.uid, follow_symlinks=False)
            path = path.parent

    def layer(self) -> tuple[Path, Path]:
        """A fresh pair of directories for what a command changes."""
        self.layers += 1
        pair = (self.state / f"upper{self.layers}", self.state / f"work{self.layers}")
        for place in pair:
            place.mkdir()
            self.give(place)
        return pair

    def spec(self, command: str, **changes: Any) -> BoxRequest:
        """What to run: by default with a fresh layer, in the workspace, with our state hidden."""
        if "upper" not in changes:
            changes["upper"], changes["work"] = self.layer()
        changes.setdefault("env", self.env())
        changes.setdefault("hidden", (self.state,))
        changes.setdefault("limits", BoxLimits(seconds=30))
        return BoxRequest(workspace=changes.pop("workspace", self.workspace), command=command, **changes)

    async def run(self, command: str, **changes: Any) -> Ran:
        """Run a command to its end, as the user; `changes` are fields of the `BoxRequest`."""
        spec = self.spec(command, **changes)
        return await (self._here(spec) if self.uid == os.geteuid() else self._there(spec, None))

    async def run_apart(self, command: str, env: Mapping[str, str] | None = None, **changes: Any) -> Ran:
        """The same in a process of its own, which has more in its environment than the command is given."""
        return await self._there(self.spec(command, **changes), env or {})

    def program(self, script: str, *words: str) -> tuple[str, ...]:
        """The command line of a Python program of the user's."""
        start = (sys.executable,) if self.uid == os.geteuid() else as_user(self.uid)
        return (*start, "-c", script, *words)

    def program_env(self) -> dict[str, str]:
        return {**self.env(), "PYTHONPATH": f"{ROOT}:{packages()}", "PYTHONDONTWRITEBYTECODE": "1"}

    def box(self) -> Box:
        """The box in this very process: only for a test that is the user itself."""
        if not self.opened:
            self.opened.append(MAKERS[self.tier](self.state))
        return self.opened[0]

    async def close(self) -> None:
        for box in self.opened:
            await box.close()
        self.opened.clear()

    async def _here(self, spec: BoxRequest) -> Ran:
        pieces: list[str] = []
        running = await self.box().start(spec, pieces.append)
        exit = await running.wait()  # noqa: A001
        return Ran(exit, "".join(pieces), spec.upper)

    async def _there(self, spec: BoxRequest, env: Mapping[str, str] | None) -> Ran:
        """`env` None: any process of the user's will do."""
        arguments = (self.tier, self.uid, {**self.program_env(), **(env or {})})
        order = msgspec.json.encode({"state": str(self.state), "spec": spec}, enc_hook=str)
        driver = _idle.pop((self.tier, self.uid), None) if env is None else None
        if driver is None or not driver.lives:  # a test may end all that this process has started
            driver = _Driver(*arguments)
        answer = await asyncio.to_thread(driver.ask, order, keep=env is None)
        apart = Apart(tuple(answer["alive"]), answer["grown"])
        return Ran(msgspec.convert(answer["exit"], BoxResult), answer["output"], spec.upper, apart)


class _Driver:
    """A process of a user's that runs commands in boxes of one tier; see `box_driver`."""

    def __init__(self, tier: Tier, uid: int, env: Mapping[str, str]) -> None:
        self._key = (tier, uid)
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the driver
        self._process = subprocess.Popen(
            [*as_user(uid), str(ROOT / "tests" / "support" / "box_driver.py"), str(tier)],
            env=env,
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
        )

    @property
    def lives(self) -> bool:
        return self._process.poll() is None

    def ask(self, order: bytes, *, keep: bool) -> dict[str, Any]:
        """Have a command run; then the driver waits for the next one, or ends."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(order + b"\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer.endswith(b"\n") or not keep or _idle.setdefault(self._key, self) is not self:
            self.end()
        if not answer.endswith(b"\n"):
            self._complaints.seek(0)
            raise AssertionError(self._complaints.read().decode())
        result: dict[str, Any] = json.loads(answer)
        return result

    def end(self) -> None:
        with suppress(BrokenPipeError):
            self._process.communicate()
        self._process.wait()


_idle: dict[tuple[Tier, int], _Driver] = {}


@atexit.register
def _end_all() -> None:
    while _idle:
        _idle.popitem()[1].end()


def packages() -> Path:
    return Path(msgspec.__file__).parents[1]


def as_user(uid: int) -> tuple[str, ...]:
    """The start of a command line that runs a Python program as another user."""
    become = (
        f"import os, sys; os.setgroups([]); os.setgid({uid}); os.setuid({uid}); os.execv(sys.argv[1], sys.argv[1:])"
    )
    return (sys.executable, "-c", become, sys.executable if uid == os.geteuid() else ordinary_python())


@cache
def ordinary_python() -> str:
    """An interpreter that an ordinary user can start and that loads what this one has loaded."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for candidate in (sys.executable, f"/usr/local/bin/{version}", f"/usr/bin/{version}"):
        if os.access(candidate, os.X_OK) and _serves(candidate):
            return candidate
    return ""


def _serves(python: str) -> bool:
    become = f"import os, sys; os.setgroups([]); os.setgid({ORDINARY}); os.setuid({ORDINARY})"
    command = [sys.executable, "-c", f"{become}; os.execv(sys.argv[1], sys.argv[1:])", python, "-c", "import msgspec"]
    env = {"PYTHONPATH": str(packages()), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, env=env, cwd="/", capture_output=True, check=False).returncode == 0


def boxes() -> Iterable[Tier]:
    """Every tier that the machine offers."""
    return offered()


def users() -> Iterable[int]:
    """The user that runs the tests, and as root an ordinary one too."""
    return (0, ORDINARY) if os.geteuid() == 0 and ordinary_python() else (os.geteuid(),)


def cases() -> list[tuple[Tier, int]]:
    """Every tier for every user that it is offered to: Landlock's is not for root."""
    pairs = [(tier, uid) for tier in boxes() for uid in users()]
    if os.geteuid() == 0 and ORDINARY in users() and landlock.get_abi_version() >= MINIMUM_ABI:
        pairs.append((Tier.LANDLOCK, ORDINARY))
    return pairs


@contextmanager
def place_of(uid: int) -> Iterator[Path]:
    """A directory that the user can reach and owns, with a workspace, a home and a state directory in it."""
    root = Path(tempfile.mkdtemp(prefix="box-", dir="/var/tmp")).resolve()
    try:
        root.chmod(0o755)
        for name, mode in (("work/project", 0o755), ("home", 0o700), ("state", 0o700)):
            (root / name).mkdir(parents=True, mode=mode)
        for place in (root, root / "work", *(root / name for name in ("work/project", "home", "state"))):
            os.chown(place, uid, uid)
        yield root
    finally:
        remove_tree(root)


def is_whiteout(path: Path) -> bool:
    info = path.lstat()
    return stat.S_ISCHR(info.st_mode) and info.st_rdev == 0


def tree(root: Path) -> Mapping[str, tuple[int, bytes]]:
    """Everything below a directory: mode and content (a link's target) by relative path."""
    entries: dict[str, tuple[int, bytes]] = {}
    for path in sorted(root.rglob("*")):
        info = path.lstat()
        content = os.fsencode(os.readlink(path)) if path.is_symlink() else b""  # noqa: PTH115
        if stat.S_ISREG(info.st_mode):
            content = path.read_bytes()
        entries[str(path.relative_to(root))] = (info.st_mode, content)
    return entries
