"""One sequence from its beginning to its end, in a place of its own; processes that are to be killed are forked."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import struct
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from core.engine.shared.box import SharedBox
from core.filesystem.atomic_write import is_temporary_name
from core.sandbox.box import Tier
from tests.fuzz import actions as act
from tests.fuzz.disk import tree_of
from tests.fuzz.driver import Driver
from tests.fuzz.ending import faults_of_log, faults_of_place
from tests.fuzz.oracle import Allowance, Broken, Oracle
from tests.fuzz.project import settled_in

# Events of the interpreter that come right before something on a file system is written, moved or removed.
WRITES = frozenset({"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate"})


# What is known when a process has died: what has to be on disk, the session, and what its last effect may have done.
Report = tuple[Oracle, str, Allowance]
Tell = Callable[[object], None]


class KeptBoxes(SharedBox):
    """One box for many engines: what is found once is given up at the very end."""

    async def close(self) -> None:
        """An engine that ends leaves it to the next one."""

    async def give_up(self) -> None:
        await super().close()


class Player:
    """Plays sequences one after the other; those without a crash share a loop and a box."""

    def __init__(self, template: Path, places: Path, tier: Tier | None = None) -> None:
        self._template, self._places, self._wanted = template, places, tier
        self._runner: asyncio.Runner | None = None
        self._boxes: KeptBoxes | None = None
        self._threads = ThreadPoolExecutor()
        self._number = 0
        self.seen: Counter[str] = Counter()

    def faults(self, sequence: act.Sequence) -> list[str]:
        """What did not hold; nothing = all of it did."""
        self._number += 1
        place = self._places / f"{os.getpid()}-{self._number}"
        with settled_in(self._template, place) as project:
            try:
                *killed, last = _parts(sequence.actions)
                report: Report = (Oracle(tree_of(project)), "", Allowance())
                for part in killed:
                    report = _killed(project, report, part)
                faults = self._last(project, report, last)
                return faults + faults_of_place(place, report[0].exposed)
            except Broken as broken:
                return [str(broken)]
            except Exception:
                return [traceback.format_exc(limit=-6)]

    def _last(self, project: Path, report: Report, part: tuple[act.AnyAction, ...]) -> list[str]:
        if self._runner is None or self._boxes is None:
            self._runner, self._boxes = asyncio.Runner(), KeptBoxes(required_tier=self._wanted)
            self._runner.get_loop().set_default_executor(self._threads)
        driver = Driver(project, report[0], self._boxes)
        try:
            self._runner.run(_played(driver, report, part))
            return self._runner.run(_ended(driver))
        except BaseException:
            self._runner.run(driver.give_up())
            raise
        finally:
            self._wait_for_threads(self._runner.get_loop())
            self.seen.update(str(type(event).__struct_config__.tag) for event in driver.heard)

    def _wait_for_threads(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let what was begun in a thread come to its end, as the end of the program does."""
        begun, self._threads = self._threads, ThreadPoolExecutor()
        loop.set_default_executor(self._threads)
        begun.shutdown()

    @property
    def tier(self) -> str:
        """In which box commands ran."""
        return self._boxes.tier.value if self._boxes else "none"

    def close(self) -> None:
        """Give the box up."""
        if self._runner is not None and self._boxes is not None:
            self._runner.run(self._boxes.give_up())
            self._runner.close()
        self._runner = None


async def _played(driver: Driver, report: Report, part: tuple[act.AnyAction, ...]) -> None:
    _, session, may = report
    await driver.open(session, may)
    for action in part:
        await driver.perform(action)


async def _ended(driver: Driver) -> list[str]:
    runtime = await driver.close()
    if driver.said_something and not runtime.directory.log_path.exists():
        return ["the session is gone"]
    return [*faults_of_log(runtime), *sorted(driver.leaked())]


def _parts(actions: tuple[act.AnyAction, ...]) -> list[tuple[act.AnyAction, ...]]:
    """Cut behind each crash."""
    parts: list[list[act.AnyAction]] = [[]]
    for action in actions:
        parts[-1].append(action)
        if isinstance(action, act.Crash):
            parts.append([])
    return [tuple(part) for part in parts]


# processes that are killed


def _killed(project: Path, report: Report, part: tuple[act.AnyAction, ...]) -> Report:
    """Play a part in a process that is killed in its last action; what is known of it then."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _play_and_die(project, report, part, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        reports = list(_reports(stream.read()))
    _, status = os.waitpid(child, 0)
    if reports and isinstance(reports[-1], str):
        raise Broken(reports[-1])
    if not os.WIFSIGNALED(status):
        raise Broken(f"the process that was to be killed ended by itself: {status}")
    oracle, session, may = reports[-1]
    tree = {path: entry for path, entry in tree_of(project).items() if not is_temporary_name(path.rpartition("/")[2])}
    if faults := oracle.copy().check(tree, may):
        raise Broken("right after a crash: " + "; ".join(faults[:4]))
    return oracle, session, may


def _reports(data: bytes) -> Iterator[Report | str]:
    at = 0
    while at + 8 <= len(data):
        (size,) = struct.unpack_from("<Q", data, at)
        if at + 8 + size > len(data):
            return
        yield pickle.loads(data[at + 8 : at + 8 + size])
        at += 8 + size


def _play_and_die(project: Path, report: Report, part: tuple[act.AnyAction, ...], to: int) -> None:
    def tell(what: object) -> None:
        data = pickle.dumps(what)
        data = struct.pack("<Q", len(data)) + data
        while data:
            data = data[os.write(to, data) :]

    try:
        asyncio.run(_dying(project, report, part, tell))
    except BaseException as problem:
        tell(str(problem) if isinstance(problem, Broken) else traceback.format_exc(limit=-6))
    os.kill(os.getpid(), signal.SIGKILL)


async def _dying(project: Path, report: Report, part: tuple[act.AnyAction, ...], tell: Tell) -> None:
    oracle, session, _ = report

    def about_to(may: Allowance) -> None:
        tell((oracle, driver.session or session, may))

    driver = Driver(project, oracle, SharedBox(), about_to)
    *before, crash = part
    await _played(driver, report, tuple(before))
    tell((oracle, driver.session, Allowance()))
    _arm(crash.at)
    await driver.perform(crash.during)
    tell((oracle, driver.session, Allowance()))
    os.kill(os.getpid(), signal.SIGKILL)


def _arm(count: int) -> None:
    """Die at the write number `count` from now on."""
    left = [count]

    def hook(event: str, arguments: tuple) -> None:
        if event not in WRITES or (event == "open" and not _is_writing(arguments)):
            return
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def _is_writing(arguments: tuple) -> bool:
    flags = arguments[2] if len(arguments) > 2 else 0
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
