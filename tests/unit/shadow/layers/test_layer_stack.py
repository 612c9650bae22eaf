"""Directories in directories: what a tree costs is what it holds, however deep it is, and nothing calls itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from core.filesystem.overlay_support import make_whiteout
from core.filesystem.removal import remove_tree
from core.protocol.events import CheckpointCreated
from tests.support.deep import deepen
from tests.support.steps import few_calls_deep, steps_of
from tests.support.verdicts import accept_everything, reject_everything
from tests.unit.shadow.command_layer import Layer
from tests.unit.shadow.review_case import ReviewCase

LEVELS = 60
DEEP = 260  # levels, with
CALLS = 170  # calls for all that is done to them


Step = Callable[[], object]
Life = Callable[[ReviewCase, int], list[tuple[str, Step]]]


def command(review: ReviewCase, fill: Callable[[Path], object]) -> Step:
    def run() -> None:
        layer = Layer(review)
        fill(layer.dirs.upper)
        layer.absorb()

    return run


def small(upper: Path) -> None:
    (upper / "a").write_text("a")


def checkpoint(review: ReviewCase, name: str) -> None:
    generated = review.shadow.layers.freeze(name, len(review.events))
    review.emit(CheckpointCreated(id=name, seq=len(review.events), prompt=name, generated=generated))


def reviewed(review: ReviewCase, levels: int) -> list[tuple[str, Step]]:
    """Files that are reviewed one by one, and their removal."""
    return [
        ("a deep file", command(review, lambda upper: deepen(upper, levels, "x"))),
        ("another command", command(review, small)),
        ("checkpoint", lambda: checkpoint(review, "first")),
        ("another deep file", command(review, lambda upper: deepen(upper, levels, "y"))),
        ("reading it", lambda: review.shadow.read("d/" * levels + "x")),
        ("accept", lambda: accept_everything(review.shadow)),
        ("remove all", command(review, lambda upper: make_whiteout(upper / "d"))),
        ("a command over that", command(review, small)),
        ("accept the removal", lambda: accept_everything(review.shadow)),
        ("rewind", lambda: review.shadow.checkpoints.restore("first")),
    ]


def generated(review: ReviewCase, levels: int) -> list[tuple[str, Step]]:
    """What is decided as a whole."""

    def install(leaf: str) -> Step:
        def fill(upper: Path) -> None:
            (upper / "node_modules").mkdir()
            deepen(upper / "node_modules", levels, leaf)

        return command(review, fill)

    return [
        ("install", install("x")),
        ("another command", command(review, small)),
        ("install more", install("y")),
        ("look", review.shadow.check_bulks),
        ("checkpoint", lambda: checkpoint(review, "first")),
        ("install over a checkpoint", install("z")),
        ("accept", lambda: review.shadow.resolve_bulk("node_modules")),
        ("undo", review.shadow.undo),
        ("reject", lambda: review.shadow.resolve_bulk("node_modules", "reject")),
        ("rewind", lambda: review.shadow.checkpoints.restore("first")),
    ]


def empty(review: ReviewCase, levels: int) -> list[tuple[str, Step]]:
    """A directory with nothing in it, which git does not know."""
    return [
        ("make", command(review, lambda upper: deepen(upper, levels, ""))),
        ("another command", command(review, small)),
        ("a file in it", command(review, lambda upper: deepen(upper, levels, "y"))),
        ("accept", lambda: [review.shadow.resolve_bulk(bulk.root) for bulk in review.state.bulks]),
    ]


def the_users(review: ReviewCase, levels: int) -> list[tuple[str, Step]]:
    """What the project has, removed or replaced by a command."""
    deepen(review.root, levels, "x")

    def replaced(upper: Path) -> None:
        (upper / "d").write_text("no directory any more")

    return [
        ("a command", command(review, small)),
        ("remove", command(review, lambda upper: make_whiteout(upper / "d"))),
        ("a command over that", command(review, small)),
        ("reject", lambda: reject_everything(review.shadow)),
        ("put a file there", command(review, replaced)),
        ("accept", lambda: accept_everything(review.shadow)),
    ]


LIVES: list[Life] = [reviewed, generated, empty, the_users]


@pytest.mark.parametrize("life", LIVES, ids=lambda life: life.__name__)
def test_n15_twice_as_deep_is_twice_as_much_to_do(tmp_path, life):
    counts = []
    for levels in (LEVELS, 2 * LEVELS):
        review = ReviewCase(tmp_path / str(levels))
        counts.append([(name, steps_of(step)) for name, step in life(review, levels)])
    for (name, once), (_, twice) in zip(*counts, strict=True):
        assert twice < 2.5 * once, name


@pytest.mark.parametrize("life", LIVES, ids=lambda life: life.__name__)
def test_n15_no_depth_of_directories_is_too_much(tmp_path, life):
    review = ReviewCase(tmp_path)
    steps = life(review, DEEP)
    with few_calls_deep(CALLS):
        for _, step in steps:
            step()
        remove_tree(review.session)
    assert not review.session.exists()
    remove_tree(review.root)


def test_n15_what_lies_deeper_than_a_path_can_be_long_is_said_and_goes(review):
    layer = Layer(review)
    deepen(layer.dirs.upper, 25, "x", name="d" * 200)
    layer.put("a", b"a")
    effects = layer.absorb()
    assert effects.created == ("a",)
    assert any("its path is too long" in note for note in effects.notes)
    command(review, small)()
    assert "a" in review.state.changes
