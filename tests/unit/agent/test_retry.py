from __future__ import annotations

import pytest

from core.agent import retry
from core.errors import ProviderError


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(retry, "monotonic", lambda: now[0])
    return now


def waited(clock: list[float], code: str, *, retry_after: float | None = None, call: float = 0.0) -> float:
    """Seconds from the first failure until it is given up; each attempt takes `call` seconds."""
    backoff, begun = retry.Backoff(), clock[0]
    while True:
        pause = backoff.pause(ProviderError("no", code=code, retryable=True, retry_after=retry_after))
        if pause is None:
            return clock[0] - begun
        clock[0] += pause + call


def test_a_server_that_is_not_there_is_given_up_after_three_seconds(clock):
    for _ in range(50):
        assert 0.3 < waited(clock, "unreachable") <= 2.5


def test_a_busy_server_is_given_time(clock):
    for code in ("rate_limited", "overloaded", "server_failed", "stream_cut"):
        assert waited(clock, code) > 10


def test_retry_after_is_honoured_as_far_as_the_budget_goes(clock):
    assert waited(clock, "rate_limited", retry_after=7) == pytest.approx(35)
    assert waited(clock, "rate_limited", retry_after=3600) == 0


def test_what_can_not_succeed_is_not_tried_again():
    assert retry.Backoff().pause(ProviderError("no", code="key_rejected")) is None


def test_a_server_that_restarts_while_it_is_busy_gets_the_short_budget_from_then_on(clock):
    backoff = retry.Backoff()
    assert backoff.pause(ProviderError("busy", code="overloaded", retryable=True)) is not None
    clock[0] += 30
    assert backoff.pause(ProviderError("gone", code="unreachable", retryable=True)) is not None
