from __future__ import annotations

import time

from core.ids import new_id


def test_ids_sort_in_the_order_in_which_they_were_made():
    ids = [new_id("note") for _ in range(2_000)]
    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)


def test_ids_sort_after_the_clock_was_set_back(monkeypatch):
    first = new_id("note")
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now - 60_000_000_000)
    assert first < new_id("note")
