"""What all hooks of an event say together."""

from __future__ import annotations

import pytest

from core.hooks.session_hooks import HookOutcome


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("no push\n", "The hook `guard` refused it: no push."),
        ("Not on Fridays!", "The hook `guard` refused it: Not on Fridays!"),
        ("", "The hook `guard` refused it."),
    ],
)
def test_a_refusal_is_a_sentence_that_another_can_follow(reason, told):
    assert HookOutcome(permission="deny", decider="`guard`", reason=reason).describe_refusal() == told
