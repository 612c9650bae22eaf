"""Messages of the files to the main screen.

They are separate from the widgets, so that typed handlers need no import of a widget.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from textual.message import Message


@dataclass
class FileSelected(Message, namespace="file_tree"):
    """A file was chosen."""

    path: str


@dataclass
class MentionRequested(Message, namespace="preview"):
    """Requests a mention of a file in the prompt; with its lines `start` to `end` (from 1), unless they are 0."""

    path: str
    start: int = 0
    end: int = 0


@dataclass
class LookupRequested(Message, namespace="preview"):
    """Requests a lookup of the name at a position, from 1."""

    kind: Literal["definition", "references", "hover"]
    path: str
    line: int
    column: int
    name: str


@dataclass
class RenameRequested(Message, namespace="preview"):
    """Requests a rename of the name at a position, from 1, and of all its uses."""

    path: str
    line: int
    column: int
    name: str
    new_name: str


class BackRequested(Message, namespace="preview"):
    """Requests the previous position."""
