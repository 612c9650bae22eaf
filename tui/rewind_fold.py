"""The screen's fold of going back: where each checkpoint stands in the transcript, and what was left behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.protocol import events
from tui.asking_fold import mark_asked, rewind_asked

if TYPE_CHECKING:
    from tui.state import ViewState


def fold_rewind(state: ViewState, event: events.AnyEvent) -> bool | None:
    """Take in an event that is about checkpoints. Whether the transcript is another one; None: it was no such event."""
    match event:
        case events.CheckpointCreated(id=name):
            state.checkpoint_marks[name] = (len(state.left_transcripts), len(state.blocks))
            mark_asked(state, name)
            return False
        case events.ConversationRewound(checkpoint=name) if name in state.checkpoint_marks:
            line, count = state.checkpoint_marks[name]
            state.left_transcripts.append(state.blocks)
            state.blocks = state.left_transcripts[line][:count]
            state.suggestion = None
            rewind_asked(state, name)
            return True
        case _:
            return None


def describe_restore(event: events.CheckpointRestored) -> str:
    """What a restore did to the files, in a sentence."""
    count = len(event.files)
    if not count:
        return "The files were as they had been: nothing was taken back."
    return (
        f"{count} file{' was' if count == 1 else 's were'} taken back to how {'it' if count == 1 else 'they'} had been."
    )
