"""Commands about background agents; each is about one of the agents that `BackgroundQuery` lists."""

from __future__ import annotations

from core.protocol.commands.base import Command


class BackgroundStart(Command, frozen=True, kw_only=True, tag="background.start"):
    """Give a task to a background agent in the shadow of this workspace, with the mode and model of the session."""

    text: str


class BackgroundMessage(Command, frozen=True, kw_only=True, tag="background.message"):
    """Tell an agent something: it steers one that runs, and is the next prompt of one that has ended."""

    id: str
    text: str


class BackgroundStop(Command, frozen=True, kw_only=True, tag="background.stop"):
    """Stop an agent; what it did is kept."""

    id: str


class BackgroundDelete(Command, frozen=True, kw_only=True, tag="background.delete"):
    """Forget an agent that has ended, with all that it left."""

    id: str


class BackgroundPull(Command, frozen=True, kw_only=True, tag="background.pull"):
    """Bring the work of an agent that has ended into the sessions of this workspace, to be reviewed there."""

    id: str
