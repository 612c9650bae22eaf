"""Verdicts on everything that is pending, as the tests give them."""

from __future__ import annotations

from core.protocol.review import VerdictRecord
from core.shadow.shadow import Shadow


def accept_everything(shadow: Shadow) -> list[VerdictRecord]:
    """Accept every change that is not protected, in one transaction."""
    shadow.refresh_annotations()
    return shadow.accept_files([change.path for change in shadow.list_changes() if not change.protected])


def reject_everything(shadow: Shadow) -> None:
    """Reject every change that is not protected."""
    for change in shadow.list_changes():
        if not change.protected and change.path in shadow.state.changes:  # else it went with its rename
            shadow.resolve(change.path, (), "reject")
