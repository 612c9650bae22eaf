"""Snippets: texts that the user puts into a prompt by name, `;name`, and sees there before anything is sent.

A file is a text, with a description before it if it has front matter. Nothing in it is run or filled in.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from core.extensions.keys import describe_unknown_key, get_line, read_name, sort_keys
from core.extensions.places import ExtensionFolder, Scope, SkippedFile, UnusableFile, collect_extensions

MAX_SUMMARY: Final = 200
_KEYS: Final = {"description": "description"}


class SnippetFile(Struct, frozen=True, kw_only=True):
    """A text with a name. `$0` in it is where the cursor goes."""

    name: str
    description: str
    text: str
    path: str
    scope: Scope
    problems: tuple[str, ...] = ()


class SnippetSet(Struct, frozen=True, kw_only=True):
    """The snippets that count, the strongest first, and the files that make none, with the reason for each."""

    snippets: tuple[SnippetFile, ...] = ()
    skipped: tuple[SkippedFile, ...] = ()


def load_snippets(folders: Iterable[ExtensionFolder]) -> SnippetSet:
    """Load the snippets of these folders, the strongest first."""
    snippets, skipped_files = collect_extensions(
        "snippet", folders, lambda folder: folder.list_files("snippets", ".md"), _read_snippet
    )
    return SnippetSet(snippets=snippets, skipped=skipped_files)


def _read_snippet(folder: ExtensionFolder, path: str) -> SnippetFile:
    text = folder.read_text(path)
    if not text.body:
        raise UnusableFile("it says nothing")
    values, unknown = sort_keys(text.front, _KEYS)
    problems = [*text.notes, *(describe_unknown_key(key, _KEYS) for key in unknown)]
    name = read_name(path.rpartition("/")[2].removesuffix(".md"), problems)
    first = next((line.strip(" #*-") for line in text.body.splitlines() if line.strip(" #*-")), "")
    return SnippetFile(
        name=folder.qualify(name),
        description=(get_line(values, "description") or first)[:MAX_SUMMARY],
        text=text.body,
        path=folder.show(path),
        scope=folder.scope,
        problems=tuple(problems),
    )
