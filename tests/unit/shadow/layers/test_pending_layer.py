"""What commands see of a file that is the project's again: it has the time of now, and the user's later edit shows."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from core.ids import new_id
from core.protocol import events as ev
from core.protocol.review import ConflictChoice
from core.shadow.content.blob_store import BlobStore
from core.shadow.layers.layer_store import LayerStore
from core.shadow.layers.pending_layer import copy_seen
from core.shadow.shadow import Shadow
from core.state.review import ReviewState
from tests.unit.shadow.command_layer import Layer
from tests.unit.shadow.overlay_mount import needs_mounts, output, run
from tests.unit.shadow.review_case import ReviewCase

pytestmark = needs_mounts
OLD = 1_000_000_000  # seconds since 1970
TEXT = b"".join(b"line %d\n" % number for number in range(20))


@pytest.fixture
def old(tmp_path) -> ReviewCase:
    """A project of old files, with a build of them that commands left in an ignored directory."""
    review = ReviewCase(tmp_path)
    review.put(".gitignore", b"build/\n")
    for path in ("a.c", "lib/b.c", "lib/c.c"):
        os.utime(review.put(path, TEXT), (OLD, OLD))
    os.utime(review.root / "lib", (OLD, OLD))
    os.utime(review.root, (OLD, OLD))
    return review


def seen_time(review: ReviewCase, path: str) -> int:
    """The modification time that a command sees, in ns since 1970."""
    seconds, _, nanoseconds = output(review, f"stat -c %.9Y {path}").strip().partition(".")
    return int(seconds) * 10**9 + int(nanoseconds)


def kernel_now(review: ReviewCase) -> int:
    """Now, by the clock that the kernel sets times of files with."""
    mark = review.session / "mark"
    mark.write_bytes(b"")
    return mark.stat().st_mtime_ns


def edit(review: ReviewCase, path: str = "a.c") -> None:
    review.shadow.write(path, TEXT.replace(b"line 3\n", b"rejected\n"))
    run(review, "mkdir -p build; cat a.c lib/*.c > build/app")


def reject(review: ReviewCase) -> None:
    edit(review)
    review.shadow.resolve("a.c", (), "reject")


def reject_one_hunk(review: ReviewCase) -> None:
    review.shadow.write("a.c", TEXT.replace(b"line 3\n", b"rejected\n").replace(b"line 15\n", b"stays\n"))
    run(review, "mkdir -p build; cat a.c > build/app")
    review.shadow.resolve("a.c", (review.ids("a.c")[0],), "reject")


def reject_command_edit(review: ReviewCase) -> None:
    run(review, "echo more >> a.c; mkdir -p build; cat a.c > build/app")
    review.shadow.resolve("a.c", (), "reject")


def reject_deletion(review: ReviewCase) -> None:
    run(review, "rm a.c; mkdir -p build; touch build/app")
    review.shadow.resolve("a.c", (), "reject")


def reject_mode(review: ReviewCase) -> None:
    run(review, "chmod +x a.c; mkdir -p build; touch build/app")
    review.shadow.resolve("a.c", (), "reject")


def reject_rename(review: ReviewCase) -> None:
    run(review, "mv a.c z.c; mkdir -p build; touch build/app")
    review.shadow.resolve("z.c", (), "reject")
    for path in list(review.state.changes):
        review.shadow.resolve(path, (), "reject")


def take_back_by_tool(review: ReviewCase) -> None:
    edit(review)
    review.shadow.write("a.c", TEXT)


def check_out(review: ReviewCase) -> None:
    edit(review)
    run(review, "seq -f 'line %.0f' 0 19 > a.c; touch -d 2001-01-01 a.c")
    assert "a.c" not in review.state.changes


def undo_acceptance_and_reject(review: ReviewCase) -> None:
    edit(review)
    review.shadow.resolve("a.c")
    review.shadow.undo()
    review.shadow.resolve("a.c", (), "reject")


def rewind(review: ReviewCase) -> None:
    name = new_id("check")
    generated = review.shadow.layers.freeze(name, 1)
    review.emit(ev.CheckpointCreated(id=name, seq=1, prompt="", before=0, generated=generated))
    edit(review)
    review.shadow.checkpoints.restore(name)


def keep_mine(review: ReviewCase) -> None:
    edit(review)
    review.put("a.c", TEXT.replace(b"line 3\n", b"the user's\n"))
    os.utime(review.root / "a.c", (OLD, OLD))
    review.shadow.check_disk("a.c")
    output(review, "true")
    review.shadow.conflicts.resolve("a.c", [ConflictChoice(take="mine")])


def adopt_by_user(review: ReviewCase) -> None:
    """The user writes the same into the file, with the time of a file that is older."""
    edit(review)
    review.put("a.c", TEXT.replace(b"line 3\n", b"rejected\n"))
    os.utime(review.root / "a.c", (OLD, OLD))
    review.shadow.check_disk("a.c")
    assert "a.c" not in review.state.changes


WAYS: tuple[Callable[[ReviewCase], None], ...] = (
    *(reject, reject_one_hunk, reject_command_edit, reject_deletion, reject_mode, reject_rename, take_back_by_tool),
    *(check_out, undo_acceptance_and_reject, rewind, keep_mine, adopt_by_user),
)


def _look_at(path: Path) -> tuple[int, int, int, int]:
    """Return what tells one state of a file from another; reading it may set its access time."""
    look = path.stat()
    return look.st_ino, look.st_mode, look.st_size, look.st_mtime_ns


@pytest.mark.parametrize("go_back", WAYS, ids=lambda each: each.__name__)
def test_n28_a_file_that_goes_back_has_the_time_of_now_for_commands_and_its_own_on_disk(old, go_back):
    before = kernel_now(old)
    go_back(old)
    disk = _look_at(old.root / "a.c")
    assert seen_time(old, "a.c") >= before
    assert output(old, "cat a.c") == (old.shadow.read("a.c") or b"").decode()
    assert _look_at(old.root / "a.c") == disk
    if go_back not in {keep_mine, reject_one_hunk}:
        assert "a.c" not in old.state.changes


def test_n28_the_directory_of_a_rejected_new_file_has_the_time_of_now_and_loses_nothing(old):
    run(old, "echo new > lib/new.c; mkdir -p build; cat lib/*.c > build/app")
    after_build = kernel_now(old)
    old.shadow.resolve("lib/new.c", (), "reject")
    assert seen_time(old, "lib") >= after_build
    assert output(old, "ls lib").split() == ["b.c", "c.c"]


def test_n28_what_was_built_from_rejected_text_is_older_than_the_file_also_after_a_restart(old):
    edit(old, "lib/b.c")
    old.shadow.resolve("lib/b.c", (), "reject")
    old.shadow = Shadow(old.workspace, BlobStore(old.session / "blobs"), old.emit, old.state)
    assert seen_time(old, "lib/b.c") > seen_time(old, "build/app")
    old.shadow = Shadow(old.workspace, BlobStore(old.session / "blobs"), old.emit, old.state)
    assert seen_time(old, "lib/b.c") > seen_time(old, "build/app")


@pytest.mark.parametrize("age", [0, OLD], ids=["new", "with an old time"])
def test_n28_a_later_edit_of_the_users_shows_and_is_no_older(old, age):
    reject(old)
    renewed = seen_time(old, "a.c")
    changed = old.put("a.c", b"the user's\n")
    if age:
        os.utime(changed, (age, age))
    assert output(old, "cat a.c") == "the user's\n"
    assert seen_time(old, "a.c") >= renewed
    changed.unlink()
    assert "a.c" not in output(old, "ls").split()


def test_n28_what_goes_back_is_no_change_and_no_command_makes_one_of_it(old):
    reject(old)
    effects = run(old, "touch a.c; cat a.c > /dev/null")
    assert (effects.created, effects.edited, effects.deleted, old.state.changes) == ((), (), (), {})
    assert run(old, "rm a.c").deleted == ("a.c",)
    old.shadow.resolve("a.c")
    assert not (old.root / "a.c").exists()


def test_n28_an_accepted_file_is_the_users_own_and_no_older_for_commands(old):
    edit(old)
    built = seen_time(old, "build/app")
    old.shadow.resolve("a.c")
    assert seen_time(old, "a.c") > built
    assert old.shadow.prepare_lowers() == old.shadow.layers.list_uppers()


def test_n28_a_copy_of_the_layers_knows_what_was_seen_in_the_original(old, tmp_path):
    edit(old)
    old.shadow.resolve("a.c", (), "reject")
    copy = LayerStore(tmp_path / "state" / "other" / "layers")
    (tmp_path / "state" / "other").mkdir()
    copy_seen(old.shadow.layers, copy)
    child = Shadow(old.workspace, BlobStore(tmp_path / "state" / "other" / "blobs"), old.emit, ReviewState())
    lowers = child.prepare_lowers()
    assert [(lower / "a.c").read_bytes() for lower in lowers] == [TEXT]
    assert (lowers[0] / "a.c").stat().st_mtime_ns > OLD * 10**9


def test_n28_what_outputs_were_merged_without_counts_as_new(old):
    old.shadow.write("a.c", b"pending\n")
    before = seen_time(old, "a.c")
    old.shadow.renew(["a.c", "lib/b.c"])
    assert seen_time(old, "a.c") > before
    assert seen_time(old, "lib/b.c") > before
    assert output(old, "cat lib/b.c") == TEXT.decode()


def test_n28_a_file_that_a_running_command_sees_is_not_changed_under_it(old):
    edit(old)
    layer = Layer(old)
    lower = layer.dirs.lowers[0] / "a.c"
    seen = lower.read_bytes(), lower.stat().st_mtime_ns
    old.shadow.resolve("a.c", (), "reject")
    old.shadow.prepare_lowers()
    assert (lower.read_bytes(), lower.stat().st_mtime_ns) == seen
    layer.absorb()
    assert output(old, "cat a.c") == TEXT.decode()


def test_n28_nothing_is_copied_of_what_no_command_saw(old):
    old.shadow.write("a.c", b"pending\n")
    old.shadow.resolve("a.c", (), "reject")
    assert seen_time(old, "a.c") == OLD * 10**9
    assert not list(Path(old.shadow.layers.location).glob("pending-*"))


def test_n28_what_a_command_left_keeps_its_time_also_for_another_process(old):
    edit(old)
    run(old, "cat a.c > app")  # which git does not ignore
    built = seen_time(old, "app")
    old.shadow.resolve("a.c", (), "reject")
    old.shadow = Shadow(old.workspace, BlobStore(old.session / "blobs"), old.emit, old.state)
    assert seen_time(old, "app") == built
    assert seen_time(old, "a.c") > built
    old.shadow.write("app", b"by hand\n")
    assert seen_time(old, "app") > seen_time(old, "a.c")


def test_n28_what_a_link_leads_to_has_the_time_of_now_when_the_link_is_back(old):
    (old.root / "link.c").symlink_to("a.c")
    run(old, "ln -sfn lib/b.c link.c; mkdir -p build; cat link.c > build/app")
    built = kernel_now(old)
    old.shadow.resolve("link.c", (), "reject")
    assert seen_time(old, "$(readlink link.c)") >= built


@pytest.mark.parametrize("command", ["rm -r lib; echo x > lib", "rm -r lib; ln -s build lib"])
def test_n29_commands_run_where_the_user_has_a_directory_again_that_was_replaced(old, command):
    run(old, command)
    old.put("lib/b.c", b"the user's\n")
    for path in list(old.state.changes):
        old.shadow.check_disk(path)
    assert output(old, "echo ran; cat lib/b.c").split("\n")[0] == "ran"


def test_what_was_compiled_in_the_same_second_is_compiled_again(tmp_path):
    review = ReviewCase(tmp_path)
    review.put(".gitignore", b"__pycache__/\n")
    before = review.put("tax.py", b"RATE = 1\n").stat().st_mtime_ns
    check = "env -u PYTHONDONTWRITEBYTECODE python3 -c 'import tax; print(tax.RATE)'"
    rates = [output(review, check).strip()]
    for rate in (b"2", b"3", b"4"):
        review.shadow.write("tax.py", b"RATE = %b\n" % rate)
        rates.append(output(review, check).strip())
    review.shadow.resolve("tax.py", (), "accept")
    assert rates == ["1", "2", "3", "4"]
    assert (review.root / "tax.py").stat().st_mtime_ns // 10**9 > before // 10**9
