"""Diagnostics of code, and places of names in it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Severity = Literal["error", "warning", "information", "hint"]


class Diagnostic(Struct, frozen=True, kw_only=True):
    """A finding of a language server or a linter in the pending version of a file.

    `path` is relative to the workspace. Lines and columns are 1-indexed and counted in characters; `end_column` is the
    column after the last character. A line or column 0 is unknown. `code` "" = none; `source`: the tool that reported
    it ("ty", "ruff").
    """

    path: str
    line: int
    column: int = 1
    end_line: int = 0
    end_column: int = 0
    severity: Severity = "error"
    message: str = ""
    code: str = ""
    source: str = ""


class Place(Struct, frozen=True, kw_only=True):
    """A place of a name. `path` is relative to the workspace, or absolute outside of it; `text` is its line."""

    path: str
    line: int
    column: int = 1
    end_line: int = 0
    text: str = ""
