"""Tools on the wire: the permissions of a request, and the way in which a tool is offered to the model."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

OTHER_TOOLS: Final = "*"  # In a request: every tool that it does not name.
ToolScope = Literal["workspace", "changed"]


class ToolSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool by its name. `enabled`: it may be called; `require_approval`: the user is asked about each call of it.

    `allowed_paths`: directories, files and patterns (`*` crosses directories) outside of which it finds, reads and
    changes nothing, () = all of the project. `scope` "changed": only files that wait for a verdict.
    """

    enabled: bool = True
    scope: ToolScope = "workspace"
    allowed_paths: tuple[Annotated[str, Meta(min_length=1)], ...] = ()
    require_approval: bool = False

    def __post_init__(self) -> None:
        for path in self.allowed_paths:
            if path.startswith(("/", "~")) or ".." in path.split("/"):
                raise ValueError(f"allowed_paths has {path[:200]!r}, which points outside the project")

    @property
    def is_narrowed(self) -> bool:
        """True if it is limited to a part of the project."""
        return bool(self.allowed_paths) or self.scope != "workspace"


class ToolRow(Struct, frozen=True, kw_only=True):
    """A tool as a session has it. `access`: what it needs; `tokens`: that its description takes in a request, 0 = none.

    `state`: "listed" in every request; "told" beside the list; "callable" without the model being told, by a dialect's
    or another agent's name for it; "absent": a call of it is refused, and `reason` says why; of others it says what
    narrows them.
    """

    name: str
    access: str
    state: Literal["listed", "told", "callable", "absent"]
    tokens: int = 0
    reason: str = ""
    aliases: tuple[str, ...] = ()
    server: str = ""
