"""The bars that ask have room for their keys, however much there is to be read."""

from __future__ import annotations

import pytest

from core.protocol import commands
from core.protocol.events import ApprovalRequested, SessionStarted, TrustStated

STARTED = SessionStarted(workspace="/shop", mode="agent", model="scripted/demo")

HOSTS = ("files.example.com", "files2.example.com", "third.example.org")
LONG = ApprovalRequested(
    id="apr_long",
    call="c1",
    kind="command",
    subject="".join(f"pip download https://{host}/wheel-{n}\n" for n in range(6) for host in HOSTS),
    containment="sandboxed; file changes go to review",
    network=HOSTS,
    permissions=("network",),
    reason=f"It asks to reach {', '.join(HOSTS)} for this one command.",
    explanation="To see whether the release can be downloaded.",
    options=("allow_once", "allow_session", "allow_always", "reject_once", "reject_always", "run_on_machine"),
)


@pytest.mark.slow
@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40)])
async def test_m6_every_key_is_seen_beside_a_long_command_and_all_of_the_rest_can_be_scrolled_to(
    stage, size, monkeypatch
):
    monkeypatch.setattr("tui.ask.approval_bar.GRACE", 0.0)
    async with stage([STARTED], size=size) as on:
        on.client.emit(LONG)
        await on.until(lambda: on.screen.query("#approval") and on.screen.query_one("#approval").has_focus)
        keys, bar = on.screen.query_one("#approval-keys"), on.screen.query_one("#approval")
        await on.until(lambda: keys.size.height and keys.region.bottom <= bar.content_region.bottom)
        rows = str(keys.render()).split("\n")
        assert len(rows) == keys.size.height
        for words in ("y once", "N never", "m on my machine"):
            assert any(words in row for row in rows), words
        assert not any(len(row.split()[-1]) == 1 for row in rows), "no choice is divided: no row ends with its key"
        subject, details = on.screen.query_one("#approval-subject"), on.screen.query_one("#approval-details")
        assert subject.size.height >= 2
        assert details.size.height >= 2
        await on.pilot.press(*["j"] * (subject.max_scroll_y + details.max_scroll_y))
        await on.until(lambda: subject.scroll_offset.y == subject.max_scroll_y)
        await on.until(lambda: details.scroll_offset.y == details.max_scroll_y)
        for down, up in (("j", "k"), ("down", "up")):
            await on.pilot.press(*[up] * (subject.max_scroll_y + details.max_scroll_y))
            await on.until(lambda: (subject.scroll_offset.y, details.scroll_offset.y) == (0, 0))
            await on.pilot.press(down)
            await on.until(lambda: subject.scroll_offset.y + details.scroll_offset.y == 1)
        await on.pilot.press("up")
        await on.pilot.press("y")
        await on.until(lambda: any(isinstance(command, commands.ApprovalAnswer) for command in on.client.commands))


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40)])
async def test_i1_the_keys_of_trust_are_seen_below_its_hooks_and_what_has_no_room_is_counted(stage, size):
    hooks = tuple(f"preToolUse [Bash]: ./scripts/guard-number-{n}.sh --strict --all-of-the-branches" for n in range(9))
    stated = TrustStated(state="asked", directory="/shop", holds=("AGENTS.md", ".claude/settings.json"), hooks=hooks)
    async with stage([STARTED, stated], size=size) as on:
        await on.until(lambda: on.screen.query("#trust") and on.screen.query_one("#trust").display)
        bar = on.screen.query_one("#trust")
        await on.until(lambda: bar.size.height)
        drawn = [bar.render_line(y).text for y in range(bar.size.height)]
        assert "y/f3 trust   n/f4 not now" in drawn[-1]
        hook_count = sum("guard-number-" in line for line in drawn)
        assert hook_count
        assert any(f"and {9 - hook_count} more: agent-tui hooks list" in line for line in drawn)
