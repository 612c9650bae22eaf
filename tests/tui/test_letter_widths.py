"""Letters that terminals disagree about: what stands behind them stays in its column, in a terminal of its own kind."""

from __future__ import annotations

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment
from textual.strip import Strip

from tests.support.terminals import TMUX, Tmux
from tui.terminal.frames import render_strip

CONSOLE = Console(color_system=None, force_terminal=True)
TEXTS = [
    "日本語のテスト",
    "한국어 시험",
    "thumb 👍🏽 up",
    "family 👨👩👧 here",
    "heart ❤️ key 1️⃣ flag 🇩🇪.",
    "combining e\u0301 a\u0308 o\u0302\u0323",
    "शुद्ध हिन्दी क्षि",
    "ไทย กำ น้ำ",
    "שלום עולם",
    "مرحبا بالعالم",
    "ＡＢＣ wide",
    "မြန်မာ ខ្មែរ",
]


@pytest.fixture
def tmux(tmp_path):
    server = Tmux(tmp_path)
    yield server
    server.run("kill-server")


def find_column(tmux: Tmux, row: int, sign: str) -> str:
    """The column of a sign, by the terminal's own count."""
    tmux.run("send-keys", "-X", "top-line")
    if row:
        tmux.run("send-keys", "-N", str(row), "-X", "cursor-down")
    tmux.run("send-keys", "-X", "start-of-line")
    tmux.run("send-keys", "-X", "jump-forward", sign)
    return tmux.run("display-message", "-p", "#{copy_cursor_x}").strip()


@pytest.mark.skipif(not TMUX, reason="there is no tmux here")
def test_what_stands_behind_stays_in_its_column(tmux, tmp_path):
    rows = []
    for y, text in enumerate(TEXTS):
        pane = Strip([Segment(text), Segment(" " * (40 - cell_len(text)))])
        rows.append(f"\x1b[{y + 1};1H" + render_strip(pane, 0, CONSOLE) + Strip([Segment("|x")]).render(CONSOLE))
    (tmp_path / "rows").write_text("".join(rows) + "\x1b[20;1Hdone")
    tmux.start("sh", "-c", f"stty -echo; cat {tmp_path}/rows; sleep 100")
    screen_text = tmux.until("done")
    tmux.run("copy-mode")
    assert [find_column(tmux, row, "|") for row in range(len(TEXTS))] == ["40"] * len(TEXTS)
    without_gaps = "".join(
        screen_text.replace("🏽", "").split()
    )  # tmux may draw a letter narrower, and a skin tone apart
    assert [text for text in TEXTS if "".join(text.replace("🏽", "").split()) not in without_gaps] == []


def test_plain_text_is_written_as_it_is():
    strip = Strip([Segment("plain ✓ → 日本")])
    assert render_strip(strip, 7, CONSOLE) == strip.render(CONSOLE)


def test_a_cell_that_a_terminal_leaves_is_blank_and_not_what_was_there_before():
    written = render_strip(Strip([Segment("a ❤️ b")]), 3, CONSOLE)
    assert written == "a   \x1b[6G❤️\x1b[8G b"
