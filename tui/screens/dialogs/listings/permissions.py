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

    def __init__(self, answer: PermissionsAnswer, remove: Remove) -> None:
        super().__init__("Permissions")
        self._found = answer
        self._remove = remove

    def set_up(self) -> None:
        self.show_keys(KEY_HINTS)
        self._show(0)

    def _show(self, index: int) -> None:
        trust = "This project is trusted" if self._found.trusted else "This project is not trusted"
        hosts = f"hosts: {', '.join(map(expose_text, self._found.hosts)) or 'none'}"
        services = ", ".join(map(expose_text, self._found.services)) or "none"
        notes = [f"Commands can reach {hosts} · services of your machine: {services}"]
        self.show_rows(f"{trust}.", [_format(permission) for permission in self._found.kept], notes, index)

    @property
    def _permission(self) -> SavedPermission | None:
        permissions = self._found.kept
        return permissions[self.marked] if self.marked is not None and self.marked < len(permissions) else None

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
        index = self.marked or 0
        if (answer := await self._remove(identity)) is not None and self.is_attached:
            self._found = answer
            self._show(index)


def _format(permission: SavedPermission) -> Content:
    location = f" in {expose_text(permission.directory)}" if permission.directory != "." else ""
    rule = expose_line(permission.rule, _LONGEST)
    label = f"exactly {rule}{location}" if permission.exactly else rule
    source = permission.source or "for good"
    return Content.assemble(
        (f"{permission.choice:<6}", _ROLES.get(permission.choice, "")),
        f"{label}  ",
        (expose_text(source), "$foreground 60%"),
    )
