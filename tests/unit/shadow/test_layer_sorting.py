"""What a command left is sorted by meaning: what is read line by line, and what is decided as a whole."""

from __future__ import annotations

import pytest

from core.shadow import layer_sorting
from tests.unit.shadow.command_layer import Layer


@pytest.mark.parametrize(("size", "is_bulk"), [(100, False), (101, True)])
def test_a_file_larger_than_what_can_be_edited_is_decided_as_a_whole(review, monkeypatch, size, is_bulk):
    monkeypatch.setattr(layer_sorting, "MAX_EDITED_BYTES", 100)
    layer = Layer(review)
    layer.put("data.csv", b"x" * size)
    effects = layer.absorb()
    assert [(bulk.root, bulk.kind, bulk.files, bulk.bytes) for bulk in review.state.bulks] == (
        [("data.csv", "large", 1, size)] if is_bulk else []
    )
    assert list(review.state.changes) == ([] if is_bulk else ["data.csv"])
    assert any("accepted or rejected as a whole" in note for note in effects.notes) is is_bulk
