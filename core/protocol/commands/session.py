"""Commands about a session and its permissions, about settings of the user, and about background agents."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from core.ids import Id
from core.protocol.base import Command, ModeName
from core.protocol.messages import Effort
from core.protocol.queries.sessions import ExportFormat

Tag = Annotated[str, Meta(pattern=r"^[^\s,#]{1,40}$")]


class SessionOpen(Command, frozen=True, kw_only=True, tag="session.open"):
    """Start a session. `model` "" = the configured default; it may also name a script. `effort` as in `effort.set`."""

    mode: ModeName = "agent"
    model: str = ""
    effort: Effort | Literal[""] = ""
    demo: bool = False


class SessionResume(Command, frozen=True, kw_only=True, tag="session.resume"):
    """Load a session from its log and go on. `session` "" = the latest one of the workspace."""


class SessionFork(Command, frozen=True, kw_only=True, tag="session.fork"):
    """Start a second session with the state of this one, now or at the checkpoint `at`. The `Ack` names it; it is open.
    Refused while a turn or a command runs."""

    at: str = ""


class SessionRename(Command, frozen=True, kw_only=True, tag="session.rename"):
    title: str


class SessionTag(Command, frozen=True, kw_only=True, tag="session.tag"):
    """Set the tags of a session, () = none."""

    tags: tuple[Tag, ...] = ()


class SessionExport(Command, frozen=True, kw_only=True, tag="session.export"):
    """Write the session as a document (see `ExportQuery`) to a new file: `path`, below the workspace unless it is
    absolute."""

    path: str
    format: ExportFormat = "md"
    instance: str = ""


class SessionDelete(Command, frozen=True, kw_only=True, tag="session.delete"):
    """Delete a session that is open nowhere, with all that is kept of it. `confirmed`: also one in which something
    waits for the user; without it that is refused."""

    confirmed: bool = False


class SessionClose(Command, frozen=True, kw_only=True, tag="session.close"):
    """`discard`: leave nothing of the session."""

    discard: bool = False


class SessionDetach(Command, frozen=True, kw_only=True, tag="session.detach"):
    """Leave a session that goes on without a screen; whoever resumes it is back. `by_hangup`: the terminal is gone, so
    that settings decide. Refused where nobody could come back."""

    by_hangup: bool = False


class PendingKeep(Command, frozen=True, kw_only=True, tag="pending.keep"):
    """Keep what waits for a verdict, without the conversation, before a private session ends. The `Ack` names the
    session that has it; a running turn is stopped."""


class TrustSet(Command, frozen=True, kw_only=True, tag="trust.set"):
    """Trust the project of this session or not. A yes is saved; a no holds until the question comes up again."""

    trusted: bool


class MemoryAdd(Command, frozen=True, kw_only=True, tag="memory.add"):
    """Keep a note of the user's about the project."""

    text: str


class MemoryJudge(Command, frozen=True, kw_only=True, tag="memory.judge"):
    """Keep a note about the project, by its id, with `text` in place of its own if given; or drop it."""

    id: Id
    verdict: Literal["accept", "reject"]
    text: str = ""


class PermissionRemove(Command, frozen=True, kw_only=True, tag="permission.remove"):
    """Delete a saved permission, by its id."""

    id: Id


class ServerControl(Command, frozen=True, kw_only=True, tag="server.control"):
    """Switch an MCP server, or one `tool` of it, off or on; end it, or start it anew; say yes to the entry that has the
    `digest`, or take that back. What is switched and allowed is kept for the workspace."""

    server: str
    action: Literal["on", "off", "stop", "restart", "allow", "withdraw"]
    tool: str = ""
    digest: str = ""


class ThemeKeep(Command, frozen=True, kw_only=True, tag="theme.keep"):
    """Save the theme of the screen in the user's own configuration, by its name."""

    theme: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,60}$")]


class SettingKeep(Command, frozen=True, kw_only=True, tag="setting.keep"):
    """Save a setting in the user's own configuration, by its dotted key. `text`: the value as it stands in the file, a
    text or a choice without its quotes; None = the key is taken out, so that the default holds. Refused, with nothing
    written, if the file would not be valid."""

    key: Annotated[str, Meta(min_length=1, max_length=300)]
    text: Annotated[str, Meta(max_length=20_000)] | None = None


class GuideKeep(Command, frozen=True, kw_only=True, tag="guide.keep"):
    """Note how far the user is with the tour (the id of a step, "done" also for one that was skipped), that a hint was
    shown, or that its key was used, or which entry of the palette was chosen; for all sessions of the user."""

    tour: Annotated[str, Meta(pattern=r"^[a-z_]{0,40}$")] = ""
    shown: Annotated[str, Meta(pattern=r"^[a-z_]{0,40}$")] = ""
    used: Annotated[str, Meta(pattern=r"^[a-z_]{0,40}$")] = ""
    chosen: Annotated[str, Meta(max_length=200)] = ""


class ProviderConfigure(Command, frozen=True, kw_only=True, tag="provider.configure"):
    """Save a key (in the keyring, else a 0600 file) and a base URL for a provider; `model` becomes the default."""

    provider: str
    key: str = ""
    base_url: str = ""
    model: str = ""


class BackgroundStart(Command, frozen=True, kw_only=True, tag="background.start"):
    """Give a task to a background agent in the shadow of this workspace, with the mode and model of the session."""

    text: str


class BackgroundMessage(Command, frozen=True, kw_only=True, tag="background.message"):
    """Tell an agent something: it steers one that runs, and is the next prompt of one that has ended."""

    id: Id
    text: str


class BackgroundStop(Command, frozen=True, kw_only=True, tag="background.stop"):
    """Stop an agent; what it did is kept. The agents are those that `BackgroundQuery` lists."""

    id: Id


class BackgroundDelete(Command, frozen=True, kw_only=True, tag="background.delete"):
    """Forget an agent that has ended, with all that it left."""

    id: Id


class BackgroundPull(Command, frozen=True, kw_only=True, tag="background.pull"):
    """Bring the work of an agent that has ended into the sessions of this workspace, to be reviewed there."""

    id: Id
