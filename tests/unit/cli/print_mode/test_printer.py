"""What a person at a terminal reads while a prompt runs without a screen: words and notes on one screen."""

from __future__ import annotations

import io

import pytest

from core.cli.print_mode.printer import TextPrinter
from core.protocol import documents as d
from core.protocol import events as ev


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def printed(*events: ev.AnyEvent, screen: io.StringIO | None = None) -> str:
    """What stands on a screen that both streams go to."""
    screen = screen or Terminal()
    printer = TextPrinter(screen, screen)
    for seq, event in enumerate(events):
        printer.event(ev.Envelope(session="s", seq=seq, at=0, event=event))
    return screen.getvalue()


def words(text: str) -> tuple[ev.AnyEvent, ...]:
    document = d.TextDocument(id="d", sequence=1, content=text)
    return ev.DocumentStarted(id="d", kind="text", sequence=1), ev.DocumentFinished(document=document)


REFUSED = ev.ErrorRaised(code="model_refused", message="p/m refused to answer.", hint="Rephrase it.")


@pytest.mark.parametrize("text", ["No.", "No.\n"])
def test_a_note_after_words_begins_a_line(text):
    assert printed(*words(text), REFUSED) == "No.\n! p/m refused to answer. Rephrase it.\n"


def test_a_pipe_gets_the_words_as_they_are():
    screen = io.StringIO()
    assert printed(*words("No."), screen=screen) == ""


@pytest.mark.parametrize(
    ("attempt", "delay", "told"),
    [(2, 1500, "Attempt 2 in 1.5 s."), (2, 0, "Trying again, attempt 2."), (1, 0, "Trying again.")],
)
def test_an_attempt_is_counted_only_where_it_is_one(attempt, delay, told):
    event = ev.StepRetried(step=1, attempt=attempt, delay_ms=delay, message="It is full.")
    assert printed(event) == f"! It is full. {told}\n"


@pytest.mark.parametrize("text", ["Done.", "Done.\n"])
@pytest.mark.parametrize("screen", [Terminal, io.StringIO], ids=["terminal", "pipe"])
def test_a_report_before_the_end_begins_a_line_and_the_end_adds_none(text, screen):
    stream = screen()
    printer = TextPrinter(stream, stream)
    for seq, event in enumerate(words(text)):
        printer.event(ev.Envelope(session="s", seq=seq, at=0, event=event))
    printer.notify(["Check: 2 tests passed", "Hunks: 1 checked"])
    printer.notify(["! a.py: not accepted"])
    report = "Check: 2 tests passed\nHunks: 1 checked\n! a.py: not accepted\n"
    assert stream.getvalue() in (f"Done.\n{report}", f"Done.\n\n{report}")
    assert not (screen is Terminal and "\n\n" in stream.getvalue())
