"""What is decided in bulk, and the project that moves on below it meanwhile."""

from __future__ import annotations

import pytest

from core.errors import ReviewConflict
from tests.unit.shadow.command_layer import Layer

pytestmark = pytest.mark.skipif(
    "not __import__('tests.unit.shadow.layers.test_layer_store', fromlist=['x']).can_make_whiteouts()"
)


@pytest.mark.parametrize("way", ["edited", "created", "removed", "in a replaced directory"])
def test_p15_it_is_told_that_the_project_has_moved_on_below_a_bulk_until_it_is_back(review, way):
    review.put(".gitignore", b"out/\n")
    review.put("out/a", b"old")
    review.put("out/d/old", b"old")
    layer = Layer(review)
    layer.put("out/a", b"new")
    layer.put("out/b", b"b")
    layer.replace("out/d")
    layer.absorb()
    review.shadow.check_bulks()
    assert [bulk.conflict for bulk in review.state.bulks] == [""]
    running = Layer(review)  # while a command runs over the layers nothing is set aside
    match way:
        case "edited":
            review.put("out/a", b"mine")
        case "created":
            review.put("out/b", b"mine")
        case "removed":
            (review.root / "out/a").unlink()
        case _:
            review.put("out/d/mine", b"mine")
    review.shadow.check_bulks()
    assert ["changed in the project" in bulk.conflict for bulk in review.state.bulks] == [True]
    running.put("out/more", b"more")
    running.absorb()
    assert [bool(bulk.conflict) for bulk in review.state.bulks] == [True]
    for path in {"out/b", "out/d/mine"} & set(review.files()):
        (review.root / path).unlink()
    review.put("out/a", b"old")
    review.shadow.check_bulks()
    assert [bulk.conflict for bulk in review.state.bulks] == [""]


def test_a_directory_can_not_take_the_place_of_a_file_whose_deletion_is_not_accepted(review):
    review.put("a", b"mine\n")
    layer = Layer(review)
    (layer.dirs.upper / "a").mkdir()
    layer.absorb()
    with pytest.raises(ReviewConflict, match="is a file in the project"):
        review.shadow.resolve_bulk("a")
    assert review.files() == {"a": b"mine\n"}
    review.shadow.resolve("a")
    review.shadow.resolve_bulk("a")
    assert (review.root / "a").is_dir()
