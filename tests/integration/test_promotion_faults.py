"""A promotion that can't be carried out says which file and why, and leaves every file as it was."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from core.errors import ReviewConflict
from core.shadow.promote import PromotionFailed
from tests.unit.shadow.desk import Desk

NOBODY = 65_534
PATHS = [f"d{number}/f" for number in range(1, 6)]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs files of another user")


@pytest.fixture
def place() -> Iterator[Path]:
    found = Path(tempfile.mkdtemp())
    found.chmod(0o755)
    yield found
    shutil.rmtree(found)


def proposed(place: Path, size: int = 1) -> Desk:
    desk = Desk(place)
    for number, path in enumerate(PATHS):
        desk.put(path, b"old %d\n" % number)
        desk.shadow.write(path, b"new %d\n" % number * (size if number == 2 else 1))
    return desk


def in_a_child(work: Callable[[], str]) -> str:
    """What `work` answers in a process of its own, whose limits and user it may change."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            answer = work()
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(writing, answer.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answers:
        answer = answers.read().decode()
    os.waitpid(child, 0)
    return answer


def accept_all(desk: Desk) -> str:
    desk.shadow.resolve("")
    return "accepted"


def still_as_before(desk: Desk) -> bool:
    whole = desk.files() == {path: b"old %d\n" % number for number, path in enumerate(PATHS)}
    return whole and list(desk.state.changes) == PATHS


def test_d4_p18_a_write_that_the_disk_refuses_changes_no_file(place):
    desk = proposed(place, size=20_000)

    def work() -> str:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, resource.RLIM_INFINITY))
        return accept_all(desk)

    answer = in_a_child(work)
    assert answer.startswith("PromotionFailed: d3/f can't be written: File too large")
    assert still_as_before(desk)
    assert accept_all(desk) == "accepted"
    assert desk.disk("d5/f") == b"new 4\n"


@as_root
@pytest.mark.parametrize("how", ["directory", "sticky"])
def test_p18_a_file_that_may_not_be_replaced_changes_no_file(place, how):
    desk = proposed(place)
    for each in (*place.rglob("*"), place):
        os.chown(each, NOBODY, NOBODY)
    third = desk.root / "d3"
    os.chown(third, 0, 0)
    os.chown(third / "f", 0, 0)
    # A directory nobody may write to fails at once; in a sticky one only the last step, the rename, is refused.
    third.chmod(0o755 if how == "directory" else 0o1777)

    def work() -> str:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        return accept_all(desk)

    assert "d3/f can't be written" in in_a_child(work)
    assert still_as_before(desk)


def test_p14_a_file_changed_between_the_check_and_the_rename_is_not_overwritten(place):
    def step(name: str) -> None:
        if name == f"prepared {PATHS[4]}":
            (place / "project" / PATHS[3]).write_bytes(b"mine\n")

    proposed(place)
    desk = Desk(place, step)
    for number, path in enumerate(PATHS):
        desk.shadow.write(path, b"new %d\n" % number)
    with pytest.raises(ReviewConflict, match=PATHS[3]):
        desk.shadow.resolve("")
    assert desk.files() == {path: b"old %d\n" % n if n != 3 else b"mine\n" for n, path in enumerate(PATHS)}
    assert desk.state.changes[PATHS[3]].conflict


def test_p15_a_name_that_somebody_took_meanwhile_is_not_overwritten(place):
    def step(name: str) -> None:
        if name == "verified fresh":
            (place / "project" / "fresh").write_bytes(b"mine\n")

    desk = Desk(place, step)
    desk.shadow.write("fresh", b"new\n")
    with pytest.raises(ReviewConflict):
        desk.shadow.resolve("fresh")
    assert desk.files() == {"fresh": b"mine\n"}


def test_d4_a_session_that_can_not_be_journalled_writes_nothing(place):
    desk = proposed(place)
    (desk.session / "journal.jsonl").mkdir()
    with pytest.raises(PromotionFailed, match="journal"):
        desk.shadow.resolve("")
    assert still_as_before(desk)


def test_p18_directories_made_for_a_promotion_that_failed_are_removed_again(place):
    def step(name: str) -> None:
        if name == "prepared fresh/deep/f":
            (place / "project" / "a").write_bytes(b"mine\n")

    desk = Desk(place, step)
    desk.put("a", b"old\n")
    desk.shadow.write("a", b"new\n")
    desk.shadow.write("fresh/deep/f", b"new\n")
    with pytest.raises(ReviewConflict):
        desk.shadow.resolve("")
    assert [each.name for each in desk.root.iterdir()] == ["a"]
