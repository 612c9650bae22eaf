"""What it takes to undo verdicts on bulks is bounded, and what can't be undone is never needed for anything else."""

from __future__ import annotations

import os

import pytest

from core.errors import CommandRejected
from core.protocol.events import AnyEvent, LayersChanged, VerdictGiven
from core.shadow.bulk import layer_transfer as transfer
from core.shadow.content.blob_store import BlobStore
from core.shadow.layers import layer_store as layers_module
from core.shadow.promotion.promotion import PromotionFailed
from core.shadow.shadow import Shadow
from tests.unit.shadow.command_layer import Layer
from tests.unit.shadow.review_case import ReviewCase

pytestmark = pytest.mark.skipif(
    "not __import__('tests.unit.shadow.layers.test_layer_store', fromlist=['x']).can_make_whiteouts()"
)


def accepted(review: ReviewCase, *roots: str) -> list[str]:
    """Bulks of 40 KB, accepted one after the other. The ids of the verdicts."""
    review.put(".gitignore", b"".join(f"{root}/\n".encode() for root in roots))
    for root in roots:
        layer = Layer(review)
        layer.put(f"{root}/big", b"x" * 40_000)
        layer.absorb()
        review.shadow.resolve_bulk(root)
    return [verdict.id for verdict in review.state.verdicts]


def retained(review: ReviewCase) -> set[str]:
    return {path.name for path in review.shadow.layers.location.iterdir() if "verdict_" in path.name}


def started_again(review: ReviewCase) -> Shadow:
    shadow = Shadow(review.workspace, BlobStore(review.session / "blobs"), review.emit, review.state)
    shadow.recover()
    return shadow


def test_the_oldest_verdicts_can_not_be_undone_when_it_takes_too_much(review, monkeypatch):
    monkeypatch.setattr(layers_module, "MAX_UNDO_BYTES", 150_000)
    first, second, third = accepted(review, "one", "two", "three")
    assert retained(review) == {second, third}
    with pytest.raises(CommandRejected, match="no longer stored"):
        review.shadow.undo(first)
    review.shadow.undo(third)
    review.shadow.undo(second)
    assert (review.disk("one/big"), review.disk("two/big"), review.disk("three/big")) == (b"x" * 40_000, None, None)
    assert review.shadow.read("three/big") == review.shadow.read("two/big") == b"x" * 40_000


def test_the_latest_verdict_can_be_undone_whatever_it_takes(review, monkeypatch):
    monkeypatch.setattr(layers_module, "MAX_UNDO_BYTES", 1)
    *_, last = accepted(review, "one", "two")
    assert retained(review) == {last}
    review.shadow.undo()
    assert review.disk("two/big") is None


def test_a_start_removes_what_no_verdict_needs_any_more(review, monkeypatch):
    first, second = accepted(review, "one", "two")
    (review.shadow.layers.location / "verdict_of_nobody" / "saved").mkdir(parents=True)
    started_again(review)
    assert retained(review) == {first, second}
    monkeypatch.setattr(layers_module, "MAX_UNDO_BYTES", 1)
    started_again(review)
    assert retained(review) == {second}


def test_a_command_can_run_although_undoing_would_take_all_the_room(review):
    accepted(review, "one", "two")
    review.shadow.layers.quota = 30_000
    layer = Layer(review)
    layer.put("two/more", b"more")
    layer.absorb()
    assert (retained(review), review.shadow.read("two/more")) == (set(), b"more")


def test_what_was_taken_back_stays_whatever_undoing_takes(review, monkeypatch):
    first, _ = accepted(review, "one", "two")
    review.shadow.undo(first)
    monkeypatch.setattr(layers_module, "MAX_UNDO_BYTES", 1)
    monkeypatch.setattr(layers_module, "QUOTA", 60_000)
    shadow = started_again(review)
    shadow.drop_layer(shadow.open_layer())
    assert (shadow.read("one/big"), [bulk.root for bulk in review.state.bulks]) == (b"x" * 40_000, ["one"])


class Died(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("fails", [OSError(28, "No space left on device"), Died()], ids=["refused", "killed"])
@pytest.mark.parametrize("undoes", [False, True], ids=["accept", "undo"])
def test_n15_no_temporary_file_stays_when_carrying_a_bulk_is_cut_off(review, monkeypatch, fails, undoes):
    review.put("one/big", b"old")
    accepted(review, "one")
    if not undoes:
        review.shadow.undo()
    whole = transfer.copy_file

    def half(source: tuple[int, bytes], target: tuple[int, bytes], *, sync: bool) -> None:
        if b".agent-tui-" not in target[1]:
            whole(source, target, sync=sync)
            return
        os.close(os.open(target[1], os.O_WRONLY | os.O_CREAT | os.O_EXCL, dir_fd=target[0]))
        raise fails

    with monkeypatch.context() as patch:
        patch.setattr(transfer, "copy_file", half)
        with pytest.raises((PromotionFailed, Died)):
            review.shadow.undo() if undoes else review.shadow.resolve_bulk("one")
    started_again(review)
    assert [path for path in review.files() if ".agent-tui-" in path] == []


@pytest.mark.parametrize("last", [LayersChanged, VerdictGiven], ids=["after_the_log_has_it", "before"])
def test_a_verdict_that_a_crash_cut_off_is_told_once(review, last):
    review.put(".gitignore", b"one/\n")
    layer = Layer(review)
    layer.put("one/a", b"x")
    layer.absorb()

    def dies(event: AnyEvent) -> None:
        if isinstance(event, last):
            raise Died
        review.emit(event)

    with pytest.raises(Died):
        Shadow(review.workspace, BlobStore(review.session / "blobs"), dies, review.state).resolve_bulk("one")
    assert review.disk("one/a") == b"x"
    started_again(review)
    verdict_ids = [
        emitted_event.verdict.id for emitted_event in review.events if isinstance(emitted_event, VerdictGiven)
    ]
    assert (len(verdict_ids), verdict_ids) == (1, [verdict.id for verdict in review.state.verdicts])
    assert review.state.bulks == ()
