"""The screen's fold of what is said to a running turn: it waits above the prompt until a model was sent it, and stands
in the transcript where the model read it; what was given back belongs into the prompt."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from core.protocol import events
from core.protocol.documents import ToolCallDocument
from core.protocol.messages import AssistantMessage, Attachment, ToolMessage

if TYPE_CHECKING:
    from tui.state import ViewState

SEARCHED: Final = 200  # blocks before the last one


@dataclass(slots=True)
class SteeringQueue:
    """`queued`: text and seq by id, in the order of typing; `returned`: what is to be offered in the prompt, `draft`:
    what stood there when the user left. `attached`: what a prompt can send, by its label; `labels`: those of requests.
    """

    queued: dict[str, tuple[str, int]] = field(default_factory=dict)
    returned: list[tuple[str, int]] = field(default_factory=list)

    draft: str = ""
    attached: dict[str, Attachment] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)

    def list_after(self, seq: int) -> list[str]:
        """What the user said after that event and no model was sent."""
        return [text for text, at in (*self.queued.values(), *self.returned) if at > seq]

    def begin_turn(self) -> None:
        """Something newer is said: what was left before is not offered any more."""
        self.returned.clear()
        self.draft = ""

    def take_returned(self) -> str:
        """What was given back, as one text; it is not offered again."""
        text = "\n".join(text for text, _ in self.returned)
        self.returned.clear()
        return text


def fold_said(state: ViewState, event: events.AnyEvent, envelope: events.Envelope) -> bool | None:
    """Take in an event about what was said meanwhile. Whether the transcript has changed; None: it is no such event."""
    said = state.steering
    match event:
        case events.TurnSteered(id=""):  # of an older program, which did not say what became of it
            state.add_prompt("steer", envelope, event.text)
            return True
        case events.TurnSteered():
            said.queued[event.id] = (event.text, envelope.seq)
            said.returned.clear()
            return False
        case events.MessageAppended(steers=ids) | events.SteerDelivered(ids=ids) if ids:
            for text in [said.queued.pop(each)[0] for each in ids if each in said.queued]:
                state.add_prompt("steer", envelope, text)
            _show(state, event)
            return True
        case events.SteerReturned():
            said.queued.pop(event.id, None)
            said.returned.append((event.text, envelope.seq))
            return False
        case events.DraftKept():
            said.draft = event.text
            return False
        case _:
            return _fold_attached(state, event)


def _fold_attached(state: ViewState, event: events.AnyEvent) -> bool | None:
    if isinstance(event, events.AttachmentAdded):
        state.steering.attached[event.label] = event.attachment
        state.steering.labels[event.request] = event.label
        return False
    return True if _show(state, event) else None


def _show(state: ViewState, event: events.AnyEvent) -> bool:
    """Keep what goes with a message at the block that shows it: the user's words, or the call whose result it is."""
    if not isinstance(event, events.MessageAppended) or isinstance(event.message, AssistantMessage):
        return False
    message = event.message
    if not message.attachments:
        return False
    for block in reversed(state.blocks[-SEARCHED:]):
        call = block.document.metadata.tool_call_id if isinstance(block.document, ToolCallDocument) else ""
        is_it = call == message.call_id if isinstance(message, ToolMessage) else block.kind in {"prompt", "steer"}
        if is_it:
            block.attachments = message.attachments
            block.revision += 1
            return True
    return False
