"""What a bulk is counted as: the files, bytes and removals of all of its places."""

from __future__ import annotations

import pytest

from tests.unit.shadow.command_layer import Layer
from tests.unit.shadow.review_case import ReviewCase

pytestmark = pytest.mark.skipif(
    "not __import__('tests.unit.shadow.layers.test_layer_store', fromlist=['x']).can_make_whiteouts()"
)


def counts(review: ReviewCase) -> dict[str, tuple[int, int, int]]:
    return {bulk.root: (bulk.files, bulk.bytes, bulk.deleted) for bulk in review.state.bulks}


def test_the_bytes_of_a_bulk_are_those_of_all_of_its_files(review):
    review.put(".gitignore", b"out\n*.log\n")
    layer = Layer(review)
    layer.put("out/a", b"x" * 1_000)
    layer.put("out/deep/b", b"y" * 234)
    layer.put("one.log", b"12345")
    layer.put("sub/two.log", b"1234567")
    layer.absorb()
    assert counts(review) == {"**/*.log": (2, 12, 0), "out": (2, 1_234, 0)}


def test_a_link_counts_its_target_and_a_removal_nothing(review):
    review.put(".gitignore", b"out\n")
    review.put("out/old", b"z" * 50)
    layer = Layer(review)
    (layer.dirs.upper / "out").mkdir()
    (layer.dirs.upper / "out/link").symlink_to("target")
    layer.delete("out/old")
    layer.absorb()
    assert counts(review) == {"out": (1, len("target"), 1)}


def test_what_a_second_command_replaces_is_counted_once(review):
    review.put(".gitignore", b"out\n")
    for data in (b"x" * 100, b"x" * 30):
        layer = Layer(review)
        layer.put("out/a", data)
        layer.absorb()
    assert counts(review) == {"out": (1, 30, 0)}
