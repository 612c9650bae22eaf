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
from core.filesystem import atomic_write
from core.protocol.events import Notice
from core.shadow.promotion import file_swap as swapping
from core.shadow.promotion.promotion import PromotionFailed
from tests.support.verdicts import accept_everything
from tests.unit.shadow.review_case import ReviewCase

NOBODY = 65_534
PATHS = [f"d{number}/f" for number in range(1, 6)]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs files of another user")


@pytest.fixture
def place() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def proposed(place: Path, size: int = 1) -> ReviewCase:
    review = ReviewCase(place)
    for number, path in enumerate(PATHS):
        review.put(path, b"old %d\n" % number)
        review.shadow.write(path, b"new %d\n" % number * (size if number == 2 else 1))
    return review


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


def accept_all(review: ReviewCase) -> str:
    accept_everything(review.shadow)
    return "accepted"


def still_as_before(review: ReviewCase) -> bool:
    whole = review.files() == {path: b"old %d\n" % number for number, path in enumerate(PATHS)}
    return whole and list(review.state.changes) == PATHS


def test_d4_p18_a_write_that_the_disk_refuses_changes_no_file(place):
    review = proposed(place, size=20_000)

    def work() -> str:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, resource.RLIM_INFINITY))
        return accept_all(review)

    answer = in_a_child(work)
    assert answer.startswith("PromotionFailed: d3/f can't be written: File too large")
    assert still_as_before(review)
    assert accept_all(review) == "accepted"
    assert review.disk("d5/f") == b"new 4\n"


@as_root
@pytest.mark.parametrize("how", ["directory", "sticky"])
def test_p18_a_file_that_may_not_be_replaced_changes_no_file(place, how):
    review = proposed(place)
    for path in (*place.rglob("*"), place):
        os.chown(path, NOBODY, NOBODY)
    third = review.root / "d3"
    os.chown(third, 0, 0)
    os.chown(third / "f", 0, 0)
    # A directory nobody may write to fails at once; in a sticky one only the last step, the rename, is refused.
    third.chmod(0o755 if how == "directory" else 0o1777)

    def work() -> str:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        return accept_all(review)

    assert "d3/f can't be written" in in_a_child(work)
    assert still_as_before(review)


def test_p14_a_file_changed_between_the_check_and_the_rename_is_not_overwritten(place):
    def step(name: str) -> None:
        if name == f"prepared {PATHS[4]}":
            (place / "project" / PATHS[3]).write_bytes(b"mine\n")

    proposed(place)
    review = ReviewCase(place, step)
    for number, path in enumerate(PATHS):
        review.shadow.write(path, b"new %d\n" % number)
    with pytest.raises(ReviewConflict, match=PATHS[3]):
        accept_everything(review.shadow)
    assert review.files() == {path: b"old %d\n" % n if n != 3 else b"mine\n" for n, path in enumerate(PATHS)}
    assert review.state.changes[PATHS[3]].conflict


def test_p15_a_name_that_somebody_took_meanwhile_is_not_overwritten(place):
    def step(name: str) -> None:
        if name == "verified fresh":
            (place / "project" / "fresh").write_bytes(b"mine\n")

    review = ReviewCase(place, step)
    review.shadow.write("fresh", b"new\n")
    with pytest.raises(ReviewConflict):
        review.shadow.resolve("fresh")
    assert review.files() == {"fresh": b"mine\n"}


def test_d4_a_session_that_can_not_be_journalled_writes_nothing(place):
    review = proposed(place)
    (review.session / "journal.jsonl").mkdir()
    with pytest.raises(PromotionFailed, match="journal"):
        accept_everything(review.shadow)
    assert still_as_before(review)


def test_p18_directories_made_for_a_promotion_that_failed_are_removed_again(place):
    def step(name: str) -> None:
        if name == "prepared fresh/deep/f":
            (place / "project" / "a").write_bytes(b"mine\n")

    review = ReviewCase(place, step)
    review.put("a", b"old\n")
    review.shadow.write("a", b"new\n")
    review.shadow.write("fresh/deep/f", b"new\n")
    with pytest.raises(ReviewConflict):
        accept_everything(review.shadow)
    assert [path.name for path in review.root.iterdir()] == ["a"]


def racing(place: Path, at: str, do: Callable[[], object], content: dict[str, bytes]) -> ReviewCase:
    """A review with these files, on which `do` is done once, at a step of the promotion."""
    todo = [do]

    def step(name: str) -> None:
        if name == at and todo:
            todo.pop()()

    review = ReviewCase(place, step)
    for path, data in content.items():
        review.put(path, data)
    return review


def notices(review: ReviewCase) -> list[str]:
    return [event.hint for event in review.events if isinstance(event, Notice)]


def test_n15_what_is_saved_after_the_last_check_is_on_disk_afterwards_and_the_change_is_merged_or_in_conflict(place):
    root = place / "project"
    review = racing(place, "verified a", lambda: (root / "a").write_bytes(b"mine\n"), {"a": b"old\n"})
    review.shadow.write("a", b"new\n")
    with pytest.raises(ReviewConflict):
        review.shadow.resolve("a")
    assert review.files() == {"a": b"mine\n"}
    assert review.state.changes["a"].conflict


def test_n15_a_file_that_an_editor_replaces_after_the_last_check_keeps_what_the_editor_wrote(place):
    root = place / "project"

    def save() -> None:
        (root / "saving").write_bytes(b"one\ntwo\nthree\nMINE\n")
        (root / "saving").rename(root / "a")

    review = racing(place, "verified a", save, {"a": b"one\ntwo\nthree\nfour\n"})
    review.shadow.write("a", b"ONE\ntwo\nthree\nfour\n")
    with pytest.raises(ReviewConflict):
        review.shadow.resolve("a")
    assert review.files() == {"a": b"one\ntwo\nthree\nMINE\n"}
    review.shadow.resolve("a")
    assert review.files() == {"a": b"ONE\ntwo\nthree\nMINE\n"}


def test_n15_a_file_that_is_to_go_stays_when_it_is_written_after_the_last_check(place):
    root = place / "project"
    review = racing(place, "verified a", lambda: (root / "a").write_bytes(b"mine\n"), {"a": b"old\n"})
    review.shadow.delete("a")
    with pytest.raises(ReviewConflict):
        review.shadow.resolve("a")
    assert review.files() == {"a": b"mine\n"}


def test_n15_a_file_that_became_a_directory_after_the_last_check_stays_one(place):
    root = place / "project"

    def make() -> None:
        (root / "a").unlink()
        (root / "a").mkdir()
        (root / "a/mine").write_bytes(b"mine\n")

    review = racing(place, "verified a", make, {"a": b"old\n"})
    review.shadow.write("a", b"new\n")
    with pytest.raises((ReviewConflict, PromotionFailed)):
        review.shadow.resolve("a")
    assert review.files() == {"a/mine": b"mine\n"}


@pytest.mark.parametrize("done", ["edited", "deleted"])
def test_n15_what_an_editor_writes_into_the_file_that_was_open_comes_back(place, done):
    root = place / "project"
    review = racing(place, "swapped a", lambda: os.pwrite(editor, b"mine", 0), {"a": b"old\n"})
    editor = os.open(root / "a", os.O_WRONLY)
    review.shadow.write("a", b"new\n") if done == "edited" else review.shadow.delete("a")
    with pytest.raises(ReviewConflict):
        review.shadow.resolve("a")
    os.close(editor)
    assert review.files() == {"a": b"mine"}


def test_n15_what_an_editor_writes_into_the_old_file_after_the_commit_is_kept_beside_it(place):
    root = place / "project"
    review = racing(place, "commit", lambda: os.pwrite(editor, b"mine", 0), {"d/a": b"old\n"})
    editor = os.open(root / "d/a", os.O_WRONLY)
    review.shadow.write("d/a", b"new\n")
    review.shadow.resolve("d/a")
    os.close(editor)
    ((backup_path, data),) = (entry for entry in review.files().items() if entry[0] != "d/a")
    assert (review.disk("d/a"), data) == (b"new\n", b"mine")
    assert backup_path.startswith("d/a.kept-")
    assert notices(review) == [f"That program's version is saved as {backup_path}."]


def test_n15_a_crash_between_the_exchange_and_the_look_gives_the_user_s_bytes_back(place):
    root = place / "project"

    def work() -> str:
        review = racing(place, "verified a", lambda: (root / "a").write_bytes(b"mine\n"), {"a": b"old\n"})
        review.shadow.write("a", b"new\n")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(swapping, "_has_state", lambda *_: os._exit(0))
            review.shadow.resolve("a")
        return "not reached"

    assert in_a_child(work) == ""
    assert case_of(place).shadow.recover() == ["An interrupted write of a was undone."]
    assert case_of(place).files() == {"a": b"mine\n"}


def case_of(place: Path) -> ReviewCase:
    return ReviewCase(place)


def test_d6_what_was_committed_stays_when_the_user_edits_one_of_the_files_before_the_next_start(place):
    def work() -> str:
        review = racing(place, "commit", lambda: os._exit(0), {"a": b"old a\n", "b": b"old b\n"})
        for path in ("a", "b"):
            review.shadow.write(path, b"new\n")
        return accept_all(review)

    assert in_a_child(work) == ""
    (place / "project/a").write_bytes(b"mine\n")
    review = case_of(place)
    assert review.shadow.recover() == ["Finished writing a, b."]
    assert review.files() == {"a": b"mine\n", "b": b"new\n"}
    assert {verdict.path for verdict in review.state.verdicts} == {"a", "b"}


def test_n15_a_torn_temporary_file_of_a_crash_is_removed_at_the_next_start(place):
    def work() -> str:
        review = racing(place, "prepared a", lambda: os._exit(0), {"a": b"old\n"})
        review.shadow.write("a", b"new and long\n")
        return accept_all(review)

    assert in_a_child(work) == ""
    (left,) = (place / "project").glob(".agent-tui-*")
    left.write_bytes(b"new and")
    case_of(place).shadow.recover()
    assert case_of(place).files() == {"a": b"old\n"}


def test_n15_temporary_files_go_also_when_their_directory_was_moved_away_meanwhile(place):
    root = place / "project"
    paths = [f"d/{number}" for number in range(40)]
    review = racing(place, "verified d/7", lambda: (root / "d").rename(root / "moved"), dict.fromkeys(paths, b"old\n"))
    for path in paths:
        review.shadow.write(path, b"new\n")
    with pytest.raises((ReviewConflict, PromotionFailed)):
        accept_everything(review.shadow)
    assert [path for path in review.files() if ".agent-tui-" in path or ".kept-" in path] == []


def test_n15_without_the_call_that_exchanges_names_a_file_is_still_replaced_and_taken_back(place, monkeypatch):
    monkeypatch.setattr(swapping, "exchange_names", lambda *_: False)
    monkeypatch.setattr(atomic_write, "_load_rename_call", lambda: None)
    review = proposed(place)
    review.shadow.write("fresh", b"fresh\n")
    review.shadow.delete(PATHS[4])
    assert accept_all(review) == "accepted"
    expected_files = {path: b"new %d\n" % number for number, path in enumerate(PATHS[:4])}
    assert review.files() == {**expected_files, "fresh": b"fresh\n"}
    for record in list(review.state.verdicts):
        review.shadow.undo(record.id)
    assert review.files() == {path: b"old %d\n" % number for number, path in enumerate(PATHS)}
