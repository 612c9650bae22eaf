"""Events of checkpoints: made, restored, and the conversation taken back to one."""

from __future__ import annotations

from msgspec import Struct

from core.protocol.events.base import Event


class CheckpointCreated(Event, frozen=True, kw_only=True, tag="checkpoint.created"):
    """The session as it was after event `seq`: the pending review, and what commands left beside it (`generated`:
    there was any).

    `prompt`: what the user was about to say; "" with `before`, the checkpoint that was about to be restored.
    """

    id: str
    seq: int
    prompt: str = ""
    before: str = ""
    generated: bool = False


class SkippedPath(Struct, frozen=True, kw_only=True):
    """A path that a restore did not touch, and why."""

    path: str
    reason: str


class CheckpointRestored(Event, frozen=True, kw_only=True, tag="checkpoint.restored"):
    """The files are as they were at `checkpoint`, but for those that were left alone. `id`: the checkpoint made before,
    by which this is taken back. `files`: paths whose pending state or content on disk has changed."""

    id: str
    checkpoint: str
    files: tuple[str, ...] = ()
    left: tuple[SkippedPath, ...] = ()


class ConversationRewound(Event, frozen=True, kw_only=True, tag="conversation.rewound"):
    """The history and the transcript are what they were after event `to_seq`, at `checkpoint`. Nothing of the
    log goes; a checkpoint made before this brings back what was left."""

    to_seq: int
    checkpoint: str
