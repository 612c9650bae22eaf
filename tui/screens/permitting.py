"""What the user allows, refuses and trusts: answers of the bars on the main screen, and the list of what was kept."""

from __future__ import annotations

from typing import Any

from textual.content import Content

from core.protocol import commands, queries
from tui.screens.reviewing import ReviewingScreen
from tui.text import exposed, one_line
from tui.work import begin


class PermittingScreen(ReviewingScreen):
    """The bars' messages are matched by name, so that no bar is imported before it is needed."""

    def on_approval_bar_answered(self, event: Any) -> None:
        """The user decided about an approval."""
        self.send(commands.ApprovalAnswer(id=event.id, decision=event.decision, pattern=event.pattern))

    def on_approval_bar_typed(self, event: Any) -> None:
        """The user is typing a pattern: show what it would allow."""
        begin(self, self._preview, event.pattern, event.command, group="pattern", exclusive=True)

    async def _preview(self, pattern: str, command: str) -> None:
        found = await self.bridge.query(queries.PatternQuery(pattern=pattern, command=command))
        if isinstance(found, queries.PatternPreview):
            bar: Any = self.query_one("#approval")
            bar.preview(pattern, found)

    # Trust

    async def show_trust(self) -> None:
        """The question, as long as it is open; it steps aside for one that is put at the moment."""
        questions: Any = self.query("#question")
        is_asked = any(bar.display and not bar.is_folded for bar in questions)
        asked = None if self.state.approvals or self.state.awaited or is_asked else self.state.trust
        if asked is None and not self.query("#trust"):
            return
        if not self.query("#trust"):
            from tui.widgets.trust import TrustBar

            await self.query_one("#centre").mount(TrustBar(id="trust"), before="#prompt")
        bar: Any = self.query_one("#trust")
        bar.ask(asked)

    def action_answer_trust(self, trusted: bool) -> None:
        """Trust the project, or not now."""
        bars: Any = self.query("#trust")
        if not bars or not bars.first().display:
            self.say("Nothing is asked about trust.", "agent-tui permissions shows what is trusted.")
        elif bars.first().takes_answers:
            self.send(commands.TrustSet(trusted=trusted))

    # What was kept

    def action_permissions(self, argument: str = "") -> None:
        """List what is allowed and refused, or forget one of it."""
        word, _, identity = argument.partition(" ")
        if word == "remove" and identity.strip():
            begin(self, self._remove, identity.strip(), group="commands")
            return
        begin(self, self._show_permissions, group="picker", exclusive=True)

    async def _remove(self, identity: str) -> None:
        if await self.deliver(commands.PermissionRemove(id=identity)):
            self.say("Forgotten.")

    async def _show_permissions(self) -> None:
        found = await self.bridge.query(queries.PermissionsQuery())
        if not isinstance(found, queries.Permissions):
            self.say(getattr(found, "message", "The permissions can't be listed."), is_error=True)
            return
        from tui.screens.notes import Page

        _ = self.app.push_screen(Page("Permissions", permissions_text(found)))


def permissions_text(found: queries.Permissions) -> Content:
    """What holds, in the order of its strength within each source."""
    parts: list[tuple[str, str]] = [
        (f"This project is {'trusted' if found.trusted else 'not trusted'}.\n", "bold"),
        (f"Commands can reach: {', '.join(map(exposed, found.hosts)) or 'no host'}.\n\n", "$foreground 60%"),
    ]
    for each in found.kept:
        where = f" in {each.directory}" if each.directory != "." else ""
        what = (
            f"exactly {one_line(exposed(each.rule), 200)}{where}" if each.exactly else one_line(exposed(each.rule), 200)
        )
        parts += [
            (f"{each.choice:<6}", "$accent"),
            (f"{what}  ", ""),
            (f"{each.id or each.source}\n", "$foreground 60%"),
        ]
    if not found.kept:
        parts.append(("Nothing was allowed or refused for good.\n", ""))
    parts.append(("\n/permissions remove ID forgets one of them", "$foreground 60%"))
    return Content.assemble(*parts)
