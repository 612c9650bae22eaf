"""One block of the transcript, as the fold of the events makes it."""

from __future__ import annotations

from dataclasses import dataclass

from core.protocol import events
from core.protocol.documents import AnyDocument, FileEditDocument, TextDocument
from core.protocol.messages import Attachment, Usage
from core.state.receipt import Receipt


@dataclass(slots=True, eq=False)
class TranscriptBlock:
    """One item of the transcript: a prompt, a document, a notice, the end of a turn.

    `kind` is a document's type or one of prompt, steer, notice, error_raised, turn_end. `live` is the text streamed so
    far (empty once `document` is present), `output` the latest output of a running tool. `revision` increases with
    every change, so that a stale drawing can be detected. `subject` of a call is a path or a command, `summary` its
    outcome; of a subagent, its todo, and `acts` its actions; `folded` are the preceding edits of the same file; an
    ended turn has its `receipt`. `program`: the key of the program that made the call, "" = the model made it;
    `hidden_calls`: calls of a program that have no row any more. `is_beside`: a pane beside the transcript shows it.
    """

    key: str
    kind: str
    turn: str = ""
    revision: int = 0
    title: str = ""
    text: str = ""
    hint: str = ""
    level: str = ""
    document: AnyDocument | None = None
    language: str = ""
    live: str = ""
    output: str = ""
    duration_ms: int = 0
    status: str = ""
    subject: str = ""
    summary: str = ""
    usage: Usage | None = None
    steps: int = 0
    acts: tuple[events.SubagentAction, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    folded: tuple[FileEditDocument, ...] = ()
    receipt: Receipt | None = None
    program: str = ""
    hidden_calls: int = 0
    is_beside: bool = False

    @property
    def target(self) -> str:
        """The key of the block that this one is about, "" = of none."""
        return self.document.metadata.about if isinstance(self.document, TextDocument) else ""

    def has_key(self, key: str) -> bool:
        """Return True if this is the block of a document, also of one that is folded into it, or of a turn."""
        return key in {self.key, self.turn} or any(document.id == key for document in self.folded)

    @property
    def is_running(self) -> bool:
        """True from its start until it is finished or voided."""
        return self.status == "running"
