"""What is durable before what: contents and intent before the first file, directories before the commit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from core.errors import ReviewConflict
from tests.support.verdicts import accept_everything
from tests.unit.shadow.command_layer import Layer
from tests.unit.shadow.review_case import ReviewCase


class Trace(list[str]):
    """The steps of a promotion, and the paths that are synced between them."""

    def between(self, start: str, end: str) -> set[str]:
        """The paths that are synced after one step and before another."""
        steps = self[self.index(start) : self.index(end)]
        return {step.removeprefix("sync ") for step in steps if step.startswith("sync ")}


@pytest.fixture
def trace(monkeypatch) -> Trace:
    steps, sync = Trace(), os.fsync

    def synced(descriptor: int) -> None:
        sync(descriptor)
        steps.append(f"sync {Path(f'/proc/self/fd/{descriptor}').readlink()}")

    monkeypatch.setattr(os, "fsync", synced)
    return steps


def test_contents_and_intent_are_durable_before_the_first_file_changes(tmp_path, trace):
    review = ReviewCase(tmp_path, trace.append)
    review.put("a", b"old\n")
    review.shadow.write("a", b"new\n")
    before = len(trace)
    review.shadow.resolve("a")
    done = {step.removeprefix("sync ") for step in trace[before : trace.index("intent")]}
    blobs = [
        review.shadow.blobs.directory / name[:2] / name[2:] for name in (review.state.verdicts[0].base_after.blob,)
    ]
    assert {str(review.session / "journal.jsonl"), *(str(path) for path in blobs)} <= done
    assert {str(path.parent) for path in blobs} <= done


@pytest.mark.parametrize("path", ["deep/edited", "made/new/created", "there/deleted", "top"])
def test_the_directory_of_each_file_is_durable_before_the_commit(tmp_path, trace, path):
    review = ReviewCase(tmp_path, trace.append)
    for old in ("deep/edited", "there/deleted", "top"):
        review.put(old, b"old\n")
    for new in ("deep/edited", "made/new/created", "top"):
        review.shadow.write(new, b"new\n")
    review.shadow.delete("there/deleted")
    accept_everything(review.shadow)
    assert str((review.root / path).parent) in trace.between(f"swapped {path}", "commit")


def two_pending(tmp_path, step) -> ReviewCase:
    review = ReviewCase(tmp_path, step)
    for path in ("one/a", "two/b"):
        review.put(path, b"old\n")
        review.shadow.write(path, b"new\n")
    return review


def test_the_directory_of_a_file_that_is_put_back_is_durable(tmp_path, trace):
    def step(name: str) -> None:
        trace.append(name)
        if name == "verified two/b":
            (review.root / "two/b").write_bytes(b"mine\n")

    review = two_pending(tmp_path, step)
    with pytest.raises(ReviewConflict):
        accept_everything(review.shadow)
    assert (review.root / "one/a").read_bytes() == b"old\n"
    trace.append("end")
    assert str(review.root / "one") in trace.between("verified two/b", "end")


class Killed(BaseException):
    """The process ends here."""


def test_the_directories_of_what_is_finished_after_a_crash_are_durable(tmp_path, trace):
    def die(name: str) -> None:
        if name == "swapped one/a":
            raise Killed

    review = two_pending(tmp_path, die)
    with pytest.raises(Killed):
        accept_everything(review.shadow)
    trace.append("start")
    again = ReviewCase(tmp_path, trace.append)
    assert again.shadow.recover() == ["Finished writing one/a, two/b."]
    assert again.files() == {"one/a": b"new\n", "two/b": b"new\n"}
    assert {str(review.root / "one"), str(review.root / "two")} <= trace.between("start", "cleaned")


def test_the_directories_of_a_bulk_are_durable_file_by_file(tmp_path, trace):
    review = ReviewCase(tmp_path, trace.append)
    review.put(".gitignore", b"out\n")
    layer = Layer(review)
    layer.put("out/sub/b", b"built\n")
    layer.absorb()
    review.shadow.resolve_bulk("out")
    assert str(review.root / "out/sub") in trace.between("directory out/sub", "put out/sub/b")
