from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.lazy import EDITS, one


@pytest.mark.parametrize("seed", range(4))
def test_a_random_lazy_edit_is_made_as_meant_or_refused(seed):
    outcomes = Counter(one(seed * 200 + number) for number in range(200))
    assert not [kind for (how, kind) in outcomes if how == "wrong"]
    assert {kind for (how, kind) in outcomes if how == "right"} == {edit.__name__ for edit in EDITS}
    assert sum(count for (how, _), count in outcomes.items() if how == "right") >= 189
