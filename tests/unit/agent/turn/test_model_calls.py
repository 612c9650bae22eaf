from __future__ import annotations

import pytest

from core.agent.turn import model_calls
from core.errors import ProviderError


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(model_calls, "monotonic", lambda: now[0])
    return now


def waited(clock: list[float], code: str, *, retry_after: float | None = None, answered: bool = False) -> float:
    """Seconds from the first failure until it is given up."""
    backoff, begun = model_calls.Backoff(has_answered=answered), clock[0]
    while True:
        pause = backoff.compute_pause(ProviderError("no", code=code, retryable=True, retry_after=retry_after))
        if pause is None:
            return clock[0] - begun
        clock[0] += pause


def test_n16c_a_server_that_never_answered_is_given_up_after_three_seconds(clock):
    for _ in range(50):
        assert 0.3 < waited(clock, "unreachable") <= 2.5


@pytest.mark.parametrize("code", ["rate_limited", "overloaded", "server_failed", "unreachable"])
def test_n16c_a_server_that_has_answered_before_is_given_a_minute_and_a_half(clock, code):
    for _ in range(20):
        assert waited(clock, code, answered=True) == pytest.approx(90, abs=1)


def test_n16c_a_busy_server_need_not_say_for_how_long(clock):
    assert waited(clock, "rate_limited") == pytest.approx(90, abs=1)


def test_n16c_what_is_paid_for_each_time_is_tried_six_times(clock):
    for code in ("stream_cut", "stalled", "stream_invalid"):
        assert 10 < waited(clock, code) < 40


def test_n16c_a_server_that_asks_for_no_pause_is_left_alone_all_the_same(clock):
    backoff, pauses = model_calls.Backoff(), []
    while (
        pause := backoff.compute_pause(ProviderError("no", code="rate_limited", retryable=True, retry_after=0))
    ) is not None:
        pauses.append(pause)
        clock[0] += pause
    assert min(pauses[:-1]) >= model_calls.FLOOR
    assert len(pauses) < 15


def test_retry_after_is_honoured_as_far_as_the_budget_goes(clock):
    assert waited(clock, "rate_limited", retry_after=7) == pytest.approx(90, abs=15)
    assert waited(clock, "rate_limited", retry_after=3600) == 0


def test_what_can_not_succeed_is_not_tried_again():
    assert model_calls.Backoff().compute_pause(ProviderError("no", code="key_rejected")) is None


def test_n16c_a_server_that_restarts_while_it_is_busy_is_waited_for(clock):
    backoff = model_calls.Backoff()
    assert backoff.compute_pause(ProviderError("busy", code="overloaded", retryable=True)) is not None
    clock[0] += 30
    assert backoff.compute_pause(ProviderError("gone", code="unreachable", retryable=True)) is not None


def test_a_wait_that_is_longer_than_the_budget_is_told_with_its_length():
    error = ProviderError("Busy.", code="rate_limited", retryable=True, retry_after=300, hint="-")
    assert model_calls.Backoff().compute_pause(error) is None
    assert error.hint.startswith("It asks for a pause of 5 minutes. The limit for waiting on a model is 90 s.")
    assert error.hint.endswith("Send the prompt again later, or choose another model with /model.")


def test_who_gives_up_says_how_often_it_was_tried_and_for_how_long(clock):
    backoff = model_calls.Backoff()
    while True:
        error = ProviderError("Busy.", code="overloaded", retryable=True, hint="Try again in a moment.")
        if (pause := backoff.compute_pause(error)) is None:
            break
        clock[0] += pause
    assert error.hint == f"It was tried {backoff.attempt} times in 90 s. Try again in a moment."


def test_a_call_that_a_server_could_not_read_is_tried_six_times(clock):
    assert 10 < waited(clock, "call_malformed") < 40
