"""Messages of the files, which the main screen carries out.

They stand apart from the widgets, so that their handlers can be typed without a widget being imported.
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
    """A file is to be mentioned in the prompt; with its lines `start` to `end` (from 1), unless they are 0."""

    path: str
    start: int = 0
    end: int = 0


@dataclass
class LookupRequested(Message, namespace="preview"):
    """Something is asked about the name at a place, from 1."""

    kind: Literal["definition", "references", "hover"]
    path: str
    line: int
    column: int
    name: str


@dataclass
class RenameRequested(Message, namespace="preview"):
    """The name at a place, from 1, is to become another one wherever it is used."""

    path: str
    line: int
    column: int
    name: str
    new_name: str


class BackRequested(Message, namespace="preview"):
    """The place before is to be shown again."""
