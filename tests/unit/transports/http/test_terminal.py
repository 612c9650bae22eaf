"""Tickets of terminals, and the environment of a screen in a tab."""

from __future__ import annotations

import pytest

from core.errors import CommandRejected
from core.transports.http import terminal
from core.transports.http.terminal import MAX_TERMINALS, TICKET_SECONDS, Tickets, build_environment, clamp_size


def test_a_ticket_opens_its_session_once_and_soon(monkeypatch):
    now = 100.0
    monkeypatch.setattr(terminal, "monotonic", lambda: now)
    tickets = Tickets()
    first, second = tickets.issue("ses_a"), tickets.issue("ses_b")
    assert (tickets.redeem(first), tickets.redeem(first), tickets.redeem("guessed")) == ("ses_a", None, None)
    now += TICKET_SECONDS
    assert tickets.redeem(second) is None
    for _ in range(MAX_TERMINALS):
        tickets.issue("ses_a")
    with pytest.raises(CommandRejected):
        tickets.issue("ses_a")
    now += TICKET_SECONDS
    assert tickets.redeem(tickets.issue("ses_a")) == "ses_a"


def test_a_screen_in_a_tab_gets_no_key_of_a_provider():
    environ = {"OPENAI_API_KEY": "sk-1", "PATH": "/bin", "AGENT_TUI_STATE_DIR": "/s", "LC_ALL": "C"}
    env = build_environment(environ, (90, 30))
    assert environ.keys() & env.keys() == {"PATH", "AGENT_TUI_STATE_DIR", "LC_ALL"}
    assert (env["COLUMNS"], env["ROWS"]) == ("90", "30")


@pytest.mark.parametrize(
    ("said", "size"), [(("90", "30"), (90, 30)), (("1", "0"), (20, 5)), ((10**9, 10**9), (1000, 500))]
)
def test_a_size_is_one_that_can_be_drawn(said, size):
    assert clamp_size(*said) == size


@pytest.mark.parametrize("said", ["", "wide", "nan"])
def test_what_is_no_size_is_refused(said):
    with pytest.raises(ValueError, match="invalid literal"):
        clamp_size(said, said)
