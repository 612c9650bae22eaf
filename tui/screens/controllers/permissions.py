"""What the user allows, refuses and trusts: answers of the bars on the main screen, and the list of what was kept."""

from __future__ import annotations

from typing import Any

from textual.content import Content

from core.protocol import commands, queries
from tui.screens.controllers.review import ReviewingScreen
from tui.text import expose_controls, fit_line
from tui.workers import start_worker


class PermittingScreen(ReviewingScreen):
    """The bars' messages are matched by name, so that no bar is imported before it is needed."""

    def on_approval_bar_decision_made(self, event: Any) -> None:
        """The user decided about an approval."""
        self.submit_soon(commands.ApprovalAnswer(id=event.id, decision=event.decision, pattern=event.pattern))

    def on_approval_bar_pattern_changed(self, event: Any) -> None:
        """The user is typing a pattern: show what it would allow."""
        start_worker(self, self._preview_pattern, event.pattern, event.command, group="pattern", exclusive=True)

    async def _preview_pattern(self, pattern: str, command: str) -> None:
        found = await self.bridge.query(queries.PatternQuery(pattern=pattern, command=command))
        if isinstance(found, queries.PatternAnswer):
            bar: Any = self.query_one("#approval")
            bar.show_preview(pattern, found)

    # Trust

    async def show_trust(self) -> None:
        """The question, as long as it is open; it steps aside for one that is put at the moment."""
        questions: Any = self.query("#question")
        is_asked = any(bar.display and not bar.is_folded for bar in questions)
        asked = None if self.state.approvals or self.state.awaited_question or is_asked else self.state.trust
        if asked is None and not self.query("#trust"):
            return
        if not self.query("#trust"):
            from tui.ask.trust_bar import TrustBar

            await self.query_one("#centre").mount(TrustBar(id="trust"), before="#prompt")
        bar: Any = self.query_one("#trust")
        bar.show(asked)

    def action_answer_trust(self, trusted: bool) -> None:
        """Trust the project, or not now."""
        bars: Any = self.query("#trust")
        if not bars or not bars.first().display:
            self.notify_user("Nothing is asked about trust.", "agent-tui permissions shows what is trusted.")
        elif bars.first().can_answer:
            self.submit_soon(commands.TrustSet(trusted=trusted))

    # What was kept

    def action_show_permissions(self, argument: str = "") -> None:
        """List the saved rules, or remove one of them."""
        word, _, identity = argument.partition(" ")
        if word == "remove" and identity.strip():
            start_worker(self, self._remove_rule, identity.strip(), group="commands")
            return
        start_worker(self, self._show_permissions, group="picker", exclusive=True)

    async def _remove_rule(self, identity: str) -> None:
        if await self.submit(commands.PermissionRemove(id=identity)):
            self.notify_user("Forgotten.")

    async def _show_permissions(self) -> None:
        found = await self.bridge.query(queries.PermissionsQuery())
        if not isinstance(found, queries.PermissionsAnswer):
            self.notify_user(getattr(found, "message", "The permissions can't be listed."), is_error=True)
            return
        from tui.screens.dialogs.pages import PageDialog

        _ = self.app.push_screen(PageDialog("Permissions", render_permissions(found)))


def render_permissions(found: queries.PermissionsAnswer) -> Content:
    """Render the rules in force, in the order of their strength within each source."""
    parts: list[tuple[str, str]] = [
        (f"This project is {'trusted' if found.trusted else 'not trusted'}.\n", "bold"),
        (f"Commands can reach: {', '.join(map(expose_controls, found.hosts)) or 'no host'}.\n\n", "$foreground 60%"),
    ]
    for each in found.kept:
        where = f" in {each.directory}" if each.directory != "." else ""
        what = (
            f"exactly {fit_line(expose_controls(each.rule), 200)}{where}"
            if each.exactly
            else fit_line(expose_controls(each.rule), 200)
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
