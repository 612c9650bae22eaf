"""What is decided in bulk, and the project that moves on below it meanwhile."""

from __future__ import annotations

import pytest

from core.errors import ReviewConflict
from tests.unit.shadow.command_layer import Layer

pytestmark = pytest.mark.skipif(
    "not __import__('tests.unit.shadow.layers.test_layer_store', fromlist=['x']).can_make_whiteouts()"
)


@pytest.mark.parametrize("way", ["edited", "created", "removed", "in a replaced directory"])
def test_p15_it_is_told_that_the_project_has_moved_on_below_a_bulk_until_it_is_back(desk, way):
    desk.put(".gitignore", b"out/\n")
    desk.put("out/a", b"old")
    desk.put("out/d/old", b"old")
    layer = Layer(desk)
    layer.put("out/a", b"new")
    layer.put("out/b", b"b")
    layer.replace("out/d")
    layer.absorb()
    desk.shadow.check_bulks()
    assert [bulk.conflict for bulk in desk.state.bulks] == [""]
    match way:
        case "edited":
            desk.put("out/a", b"mine")
        case "created":
            desk.put("out/b", b"mine")
        case "removed":
            (desk.root / "out/a").unlink()
        case _:
            desk.put("out/d/mine", b"mine")
    desk.shadow.check_bulks()
    assert ["changed in the project" in bulk.conflict for bulk in desk.state.bulks] == [True]
    layer = Layer(desk)
    layer.put("out/more", b"more")
    layer.absorb()
    assert [bool(bulk.conflict) for bulk in desk.state.bulks] == [True]
    for path in {"out/b", "out/d/mine"} & set(desk.files()):
        (desk.root / path).unlink()
    desk.put("out/a", b"old")
    desk.shadow.check_bulks()
    assert [bulk.conflict for bulk in desk.state.bulks] == [""]


def test_a_directory_can_not_take_the_place_of_a_file_whose_deletion_is_not_accepted(desk):
    desk.put("a", b"mine\n")
    layer = Layer(desk)
    (layer.dirs.upper / "a").mkdir()
    layer.absorb()
    with pytest.raises(ReviewConflict, match="is a file in the project"):
        desk.shadow.resolve_bulk("a")
    assert desk.files() == {"a": b"mine\n"}
    desk.shadow.resolve("a")
    desk.shadow.resolve_bulk("a")
    assert (desk.root / "a").is_dir()
