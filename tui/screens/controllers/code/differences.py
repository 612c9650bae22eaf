"""The controller of `/diff`: what waits, or else what was accepted and is in no commit yet, as a patch."""

from __future__ import annotations

from typing import Final, Literal

from core.protocol import queries
from tui.commit.patch_dialog import PatchDialog
from tui.quantities import count
from tui.screens.controller import Controller, ScreenContext, in_worker
from tui.screens.controllers.terminal.copying import CopyController
from tui.text import format_path

Which = Literal["pending", "accepted"]
TITLES: Final[dict[Which, str]] = {
    "pending": "What waits for your review",
    "accepted": "What you accepted, and is in no commit yet",
}


class DifferenceController(Controller):
    """Shows changes as a patch, and copies it."""

    def __init__(self, context: ScreenContext, copying: CopyController) -> None:
        super().__init__(context)
        self._copying = copying

    @in_worker("diff")
    async def action_show_diff(self, path: str = "") -> None:
        """Show what waits, of one path if it is named; where nothing does, what no commit has yet."""
        paths = (path.removeprefix("./").rstrip("/"),) if path else ()
        waits = bool(self.context.state.changes or self.context.state.bulks)
        for which in ("pending", "accepted") if waits else ("accepted",):
            question = queries.PatchQuery(which=which, paths=paths)
            found = await self.context.query(question, queries.PatchAnswer, "The changes can't be shown.")
            if found is None:
                return
            if found.patch or found.left_out:
                self._show(which, found)
                return
        where = f" in {format_path(path, 100)}" if path else ""
        self.context.notify_user(f"Nothing waits{where}, and nothing accepted waits for a commit.")

    def _show(self, which: Which, found: queries.PatchAnswer) -> None:
        patch = found.patch.decode("utf-8", "replace")
        lines = patch.split("\n")
        added = sum(line.startswith("+") and not line.startswith("+++ ") for line in lines)
        removed = sum(line.startswith("-") and not line.startswith("--- ") for line in lines)
        title = f"{TITLES[which]} · {count('file', len(found.paths))} +{added:,} -{removed:,}"
        left = "; ".join(f"{format_path(path, 60)}: {why}" for path, why in found.left_out[:3])
        note = f"Not in it: {left}{' …' if len(found.left_out) > 3 else ''}" if left else ""
        self.context.show(PatchDialog(title, patch, note, self._copying.copy))
