"""Messages of the files, which the main screen carries out.

They stand apart from the widgets, so that their handlers can be typed without a widget being imported.
"""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message


@dataclass
class FileSelected(Message, namespace="file_tree"):
    """A file was chosen."""

    path: str
