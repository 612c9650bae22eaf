"""The controller of code reviews: it starts one, and carries out what is decided on its findings."""

from __future__ import annotations

from textual import on

from core.protocol import commands
from core.protocol.review import Finding
from tui.findings.pane import FindingList
from tui.findings.rows import format_finding
from tui.screens.controller import Controller, ScreenContext
from tui.screens.controllers.panes import PaneController
from tui.screens.controllers.terminal.copying import CopyController

NOTHING_OPEN = "No finding is open any more."


class FindingController(Controller):
    """Has code reviewed, and findings fixed, dismissed, opened and copied."""

    def __init__(self, context: ScreenContext, panes: PaneController, copying: CopyController) -> None:
        super().__init__(context)
        self._panes, self._copying = panes, copying

    def action_review(self, target: str = "") -> None:
        """Have the agent review the current branch, or what is named."""
        text = f"/review {target}".strip()
        self.context.prompt.past.add(text)
        self.context.transcript.follow_end()
        self.context.submit_soon(commands.TurnSubmit(text=text, anyway=True))

    async def action_show_findings(self, _: str = "") -> None:
        await self._panes.show("findings")

    @on(FindingList.Chosen)
    async def _use(self, event: FindingList.Chosen) -> None:
        match event.use:
            case "open":
                await self._open(event.findings[0])
            case "copy":
                self._copying.copy(format_finding(event.findings[0]))
            case "dismiss":
                ids = tuple(finding.id for finding in event.findings)
                self.context.submit_soon(commands.FindingsDismiss(ids=ids))
            case "fix":
                self._fix(event.findings)

    async def _open(self, finding: Finding) -> None:
        if not finding.path:
            self.context.notify_user("This finding names no place.")
            return
        await self._panes.preview_file(finding.path, finding.start)
        if self._panes.preview is not None:
            self._panes.preview.focus()

    def _fix(self, findings: tuple[Finding, ...]) -> None:
        if not findings:
            self.context.notify_user(NOTHING_OPEN, "x opens a dismissed one again.")
            return
        self.context.transcript.follow_end()
        self.context.submit_soon(commands.FindingsFix(ids=tuple(finding.id for finding in findings)))
