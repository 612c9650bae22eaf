"""The dialog of the permissions: what is allowed and refused, in this session and for good, and taking it back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from textual.content import Content

from core.protocol.queries import PermissionsAnswer, SavedPermission
from tui.keymap import format_first_key, get_bindings, get_keymap
from tui.screens.dialogs.listings.listing import ListingDialog
from tui.text import expose_line, expose_text
from tui.workers import start_worker

KEY_HINTS: Final = (("permissions.remove", "take back"), ("permissions.leave", "back"))
NOTHING: Final = "Nothing was allowed or refused, in this session or for good."
SESSION: Final = "this session"
_LONGEST: Final = 400
_ROLES: Final = {"allow": "$text-success", "ask": "$text-warning", "deny": "$text-error"}
Remove = Callable[[str], Awaitable[PermissionsAnswer | None]]


class PermissionsDialog(ListingDialog[None]):
    """Shows permissions. `remove` takes back the one of an id and returns what holds then, None = failed."""

    BINDINGS = get_bindings("permissions")

    def __init__(self, found: PermissionsAnswer, remove: Remove) -> None:
        super().__init__("Permissions")
        self._found = found
        self._remove = remove

    def set_up(self) -> None:
        self.show_keys(KEY_HINTS)
        self._show(0)

    def _show(self, at: int) -> None:
        trust = "This project is trusted" if self._found.trusted else "This project is not trusted"
        hosts = f"hosts: {', '.join(map(expose_text, self._found.hosts)) or 'none'}"
        services = ", ".join(map(expose_text, self._found.services)) or "none"
        notes = [f"Commands can reach {hosts} · services of your machine: {services}"]
        self.show_rows(f"{trust}.", [_format(each) for each in self._found.kept], notes, at)

    @property
    def _permission(self) -> SavedPermission | None:
        kept = self._found.kept
        return kept[self.marked] if self.marked is not None and self.marked < len(kept) else None

    def show_reason(self) -> None:
        permission = self._permission
        if permission is None:
            self.tell(NOTHING)
        elif not permission.id:
            self.tell(f"It stands in {permission.source}: take it out there.")
        elif permission.source == SESSION:
            self.tell(f"For this session. {self._format_key()} takes it back at once: no new connection is made.")
        else:
            self.tell(f"For good, until {self._format_key()}; or /permissions remove {permission.id}")

    def _format_key(self) -> str:
        return format_first_key("permissions.remove", get_keymap(self.app))

    def action_remove(self) -> None:
        if (permission := self._permission) is not None and permission.id:
            start_worker(self, self._submit, permission.id, group="permissions")

    async def _submit(self, identity: str) -> None:
        at = self.marked or 0
        if (found := await self._remove(identity)) is not None and self.is_attached:
            self._found = found
            self._show(at)


def _format(permission: SavedPermission) -> Content:
    where = f" in {expose_text(permission.directory)}" if permission.directory != "." else ""
    rule = expose_line(permission.rule, _LONGEST)
    what = f"exactly {rule}{where}" if permission.exactly else rule
    source = permission.source or "for good"
    return Content.assemble(
        (f"{permission.choice:<6}", _ROLES.get(permission.choice, "")),
        f"{what}  ",
        (expose_text(source), "$foreground 60%"),
    )
