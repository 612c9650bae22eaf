"""The part of the screen's fold that subagents are: one block each time one goes to work, and who is at work now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from core.protocol import events

if TYPE_CHECKING:
    from tui.state import Topic, TranscriptBlock, ViewState

_ENDED: Final = {"done": "completed", "failed": "failed", "limit": "failed", "interrupted": "cancelled"}


def fold_crew(state: ViewState, event: events.AnyEvent, envelope: events.Envelope) -> frozenset[Topic] | None:
    """Take an event of a subagent in; None: it is none."""
    match event:
        case events.SubagentStarted():
            block = state.begin_block(f"sub:{envelope.seq}", "subagent", envelope.turn, event.title)
            block.subject = event.todo
            state.subagent_blocks[event.id] = block
            return frozenset({"blocks", "status", "plan"})
        case events.SubagentProgressed() | events.SubagentFinished() | events.SubagentMerged():
            if (found := state.subagent_blocks.get(event.id)) is None:
                return frozenset()
            found.revision += 1
            return _changed(state, found, event)
        case _:
            return None


def _changed(
    state: ViewState,
    block: TranscriptBlock,
    event: events.SubagentProgressed | events.SubagentFinished | events.SubagentMerged,
) -> frozenset[Topic]:
    match event:
        case events.SubagentProgressed():
            before = block.acts[-1:]
            block.acts, block.steps = event.acts, event.steps
            block.live = _files(event.changed)
            return frozenset({"blocks", "plan"} if block.acts[-1:] != before else {"blocks"})
        case events.SubagentFinished():
            block.status, block.acts, block.live = _ENDED[event.reason], event.acts, ""
            block.text, block.hint = event.said, event.message
            block.steps, block.usage, block.duration_ms = event.steps, event.usage, event.duration_ms
            state.add_usage(event.usage)
        case events.SubagentMerged():
            block.summary = _files(len(event.paths)) or "nothing changed"
            block.output = "\n".join((*event.paths, *event.notes))
            if event.refused:
                block.status, block.hint = "failed", f"could not be taken over: {', '.join(event.refused)}"
            if event.conflicts:
                block.level, block.hint = "conflict", f"in conflict: {', '.join(event.conflicts)}"
    return frozenset({"blocks", "status", "plan"})


def _files(count: int) -> str:
    return f"{count} file{'' if count == 1 else 's'}" if count else ""


def find_running_subagents(state: ViewState) -> dict[str, TranscriptBlock]:
    """The blocks of those at work now, by their todo."""
    return {block.subject: block for block in state.subagent_blocks.values() if block.is_running}
