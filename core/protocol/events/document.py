"""Events of documents while they grow and when they are whole."""

from __future__ import annotations

from core.protocol.documents import AnyDocument
from core.protocol.events.base import Event


class DocumentStarted(Event, frozen=True, kw_only=True, tag="document.started"):
    """`kind` is the document's `type`; `title` is a one-line text to show until it is finished."""

    id: str
    kind: str
    sequence: int
    title: str = ""
    language: str = ""


class DocumentDelta(Event, frozen=True, kw_only=True, tag="document.delta"):
    id: str
    text: str


class DocumentFinished(Event, frozen=True, kw_only=True, tag="document.finished"):
    document: AnyDocument
