"""A process that dies at any step of a promotion leaves whole files, and the next start comes to one of two ends."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from core.protocol.events import AnyEvent
from tests.support.verdicts import accept_everything
from tests.unit.shadow.review_case import ReviewCase

OLD = {"a": b"a1\na2\na3\n", "gone": b"gone\n", "pic": b"\0old", "run": b"#!/bin/sh\n"}
NEW = {"a": b"A1\na2\nA3\n", "made/deep/n": b"new\n", "pic": b"\0new!", "run": b"#!/bin/sh\n"}
CRASHED = 42


class LoggedCase(ReviewCase):
    """A review whose events go to a file, one write each, before they count: as the engine's log does it."""

    def __init__(self, place: Path, step: Callable[[str], None]) -> None:
        super().__init__(place, step)
        self._log = self.session / "log.jsonl"
        lines = self._log.read_bytes().splitlines() if self._log.exists() else []
        for line in lines:
            super().emit(msgspec.json.decode(line, type=AnyEvent))

    def emit(self, event: AnyEvent) -> None:
        with self._log.open("ab", buffering=0) as file:
            file.write(msgspec.json.encode(event) + b"\n")
        super().emit(event)


def crash_at(number: int) -> Callable[[str], None]:
    left = iter(range(number))

    def step(_: str) -> None:
        if next(left, None) is None:
            os._exit(CRASHED)

    return step


def in_a_process_that_dies(work: Callable[[ReviewCase], object], place: Path, at: int) -> bool:
    """Run `work` in a child that exits at step `at`; whether it got that far."""
    child = os.fork()
    if child == 0:
        try:
            work(LoggedCase(place, crash_at(at)))
        except BaseException:
            os._exit(1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in {0, CRASHED}
    return code == CRASHED


def propose(place: Path) -> None:
    review = LoggedCase(place, lambda _: None)
    for path, data in OLD.items():
        review.put(path, data)
    for path, data in NEW.items():
        review.shadow.write(path, data, None, 0o755 if path == "run" else None)
    review.shadow.delete("gone")


def accept_all(review: ReviewCase) -> None:
    accept_everything(review.shadow)


def accept_one_hunk(review: ReviewCase) -> None:
    review.shadow.resolve("a", (review.ids("a")[0],))


def undo_the_deletion(review: ReviewCase) -> None:
    review.shadow.undo(next(verdict.id for verdict in review.state.verdicts if verdict.path == "gone"))


def undo_the_creation(review: ReviewCase) -> None:
    review.shadow.undo(next(verdict.id for verdict in review.state.verdicts if verdict.path.startswith("made")))


def look(review: ReviewCase) -> tuple[dict[str, bytes], bool]:
    return review.files(), bool(stat.S_IMODE((review.root / "run").stat().st_mode) & 0o100)


SCENES: list[tuple[Callable[[ReviewCase], None], list[Callable[[ReviewCase], None]]]] = [
    (accept_all, []),
    (accept_one_hunk, []),
    (undo_the_deletion, [accept_all]),
    (undo_the_creation, [accept_all]),
]


@pytest.mark.parametrize(("work", "before"), SCENES, ids=[work.__name__ for work, _ in SCENES])
def test_d3_d6_d1_a_crash_at_any_step_ends_before_or_after_and_never_between(work, before, tmp_path):
    def ready(name: str) -> Path:
        place = tmp_path / name
        propose(place)
        for action in before:
            action(LoggedCase(place, lambda _: None))
        return place

    first = ready("untouched")
    old = look(LoggedCase(first, lambda _: None))
    pending_before = LoggedCase(first, lambda _: None).shadow.list_changes()
    work(LoggedCase(first, lambda _: None))
    after = LoggedCase(first, lambda _: None)
    new, pending_after, verdicts_after = look(after), after.shadow.list_changes(), len(after.state.verdicts)

    ends = []
    for at in range(1000):
        place = ready(f"at{at}")
        if not in_a_process_that_dies(work, place, at):
            break
        left = {path: data for path, data in LoggedCase(place, lambda _: None).files().items() if ".tmp" not in path}
        assert all(data in {old[0].get(path), new[0].get(path)} for path, data in left.items())
        in_a_process_that_dies(lambda review: review.shadow.recover(), place, at % 3)
        review = LoggedCase(place, lambda _: None)
        review.shadow.recover()
        assert review.shadow.recover() == []
        state, pending = look(review), review.shadow.list_changes()
        if state == old:
            assert pending == pending_before
        else:
            assert state == new
            assert pending == pending_after
            assert len(review.state.verdicts) == verdicts_after
        ends.append(state == new)
    assert len(ends) >= 6
    assert ends == sorted(ends)
    assert set(ends) == {False, True}


def test_d6_a_file_that_the_user_edits_after_the_crash_is_kept_and_the_rest_taken_back(tmp_path):
    propose(tmp_path)
    steps = []
    child = os.fork()
    if child == 0:

        def step(name: str) -> None:
            if name == "swapped gone":
                os._exit(CRASHED)

        accept_everything(LoggedCase(tmp_path, step).shadow)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == CRASHED
    review = LoggedCase(tmp_path, steps.append)
    review.put("pic", b"mine")
    assert "undone" in review.shadow.recover()[0]
    assert review.files() == {**OLD, "pic": b"mine"}


def test_d2_a_torn_journal_is_read_up_to_the_tear(tmp_path):
    propose(tmp_path)
    review = LoggedCase(tmp_path, lambda _: None)
    (review.session / "journal.jsonl").write_bytes(b'{"type":"intent","id":"x","wri\n\0\0\0')
    assert review.shadow.recover() == []
    accept_everything(review.shadow)
    assert review.files() == NEW


def test_d6_events_told_late_never_undo_what_was_proposed_since(tmp_path):
    propose(tmp_path)
    assert in_a_process_that_dies(accept_one_hunk, tmp_path, 7)
    review = LoggedCase(tmp_path, lambda _: None)
    assert review.disk("a") == b"A1\na2\na3\n"
    review.shadow.write("a", b"A1\na2\nsomething else\n")
    waiting = review.state.changes["a"]
    review.shadow.recover()
    assert review.state.changes["a"] == waiting
    review.shadow.resolve("a")
    assert review.disk("a") == b"A1\na2\nsomething else\n"
