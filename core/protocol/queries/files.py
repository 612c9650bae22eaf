"""Queries about the files of the workspace with the shadow over it, their index and the names in them, and the context
of a prompt."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from core.protocol.base import Answer, Query
from core.protocol.events.session import IndexStatus
from core.protocol.language import Place

SearchKind = Literal["all", "symbols", "text", "meaning"]
ContextKind = Literal[
    "file", "folder", "symbol", "diff", "branch", "terminal", "plan", "session", "rule", "page", "agent", "resource"
]


class TreeQuery(Query, frozen=True, kw_only=True, tag="tree"):
    """The entries of one directory ("" = the workspace), shadow over workspace."""

    path: str = ""


class FileQuery(Query, frozen=True, kw_only=True, tag="file"):
    """The text of a file for preview, in the pending or the workspace's version; at most `max_bytes`."""

    path: str
    side: Literal["pending", "workspace"] = "pending"
    max_bytes: int = 2_000_000


class PlanFilesQuery(Query, frozen=True, kw_only=True, tag="plan.files"):
    """The files of plans, where this session keeps them."""


class FindQuery(Query, frozen=True, kw_only=True, tag="find"):
    """Files (and `directories`) whose paths match `pattern` best, fuzzily."""

    pattern: str
    limit: int = 20
    directories: bool = False


class TreeEntry(Struct, frozen=True, kw_only=True, array_like=True):
    """One entry. `mark`: the pending operation (create, edit, delete), "" = none; "edit" = something is below."""

    name: str
    kind: Literal["directory", "file", "symlink", "other"]
    ignored: bool = False
    mark: str = ""


class TreeAnswer(Answer, frozen=True, kw_only=True, tag="tree"):
    """Directories first, then files, each by name; `truncated`: number of entries left out."""

    path: str
    entries: tuple[TreeEntry, ...]
    truncated: int = 0


class PlanFilesAnswer(Answer, frozen=True, kw_only=True, tag="plan.files"):
    """`place`: the folder of plans, absolute where it is outside of the project; the `paths` in it, by name."""

    place: str
    paths: tuple[str, ...] = ()


class FileAnswer(Answer, frozen=True, kw_only=True, tag="file"):
    """`problem` says why there is no text (binary, too large, missing, not a regular file)."""

    path: str
    text: str
    language: str = ""
    size: int = 0
    problem: str = ""


class FindAnswer(Answer, frozen=True, kw_only=True, tag="found"):
    paths: tuple[str, ...]


class SearchHit(Struct, frozen=True, kw_only=True):
    """A place that was found: lines `start` to `end` (1-indexed, inclusive) of `path`, relative to the workspace.

    `symbol` is what stands there ("Class.method", "" = nothing that has a name), `text` its first lines. Hits are
    compared by `score` within one answer only. `is_changed`: the text is the shadow's, not the workspace's.
    """

    path: str
    start: int
    end: int
    symbol: str = ""
    kind: str = ""
    score: float = 0.0
    text: str = ""
    is_changed: bool = False


class SearchQuery(Query, frozen=True, kw_only=True, tag="search"):
    """The places of the project that answer `text` best, shadow over workspace, best first.

    "symbols" compares names, fuzzily; "text" finds exact text; "meaning" ranks by words and meaning; "all" has
    the lines in which the text stands first, then what the three fused find besides.
    `directories` limits it to what lies below them.
    """

    text: str
    kind: SearchKind = "all"
    directories: tuple[str, ...] = ()
    limit: int = 50


class SearchAnswer(Answer, frozen=True, kw_only=True, tag="search"):
    """`hits`, best first, and how far the index was when it was asked. `related_from`: the place of the first that is
    only related, where all kinds were asked for; None: they are not told apart."""

    hits: tuple[SearchHit, ...] = ()
    related_from: int | None = None
    status: IndexStatus = IndexStatus()


class IndexQuery(Query, frozen=True, kw_only=True, tag="index"):
    """Progress of the index of the workspace."""


class IndexAnswer(Answer, frozen=True, kw_only=True, tag="index"):
    status: IndexStatus = IndexStatus()


class _PositionQuery(Query, frozen=True, kw_only=True):
    """Base of the queries about a position in the pending version of a file: 1-indexed, in characters."""

    path: str
    line: int
    column: int = 1


class DefinitionQuery(_PositionQuery, frozen=True, kw_only=True, tag="definition"):
    """The places where the name at a place is defined."""


class ReferencesQuery(_PositionQuery, frozen=True, kw_only=True, tag="references"):
    """The places where the name at a place is used, its definition among them."""


class HoverQuery(_PositionQuery, frozen=True, kw_only=True, tag="hover"):
    """The signature and documentation of the name at a place."""


class LocationsAnswer(Answer, frozen=True, kw_only=True, tag="locations"):
    """Places in the order of path and line. `problem`: why there are none or not all, for the user."""

    places: tuple[Place, ...] = ()
    problem: str = ""


class HoverAnswer(Answer, frozen=True, kw_only=True, tag="hover"):
    """`text` is Markdown, "" = nothing is known of it."""

    text: str = ""


class PromptContextQuery(Query, frozen=True, kw_only=True, tag="prompt.context"):
    """Everything that `text`, sent as it stands, would bring with it. `pasted`: spans of it (in characters) in which
    nothing is looked for; `excluded`: keys of what the user has removed."""

    text: str
    pasted: tuple[tuple[int, int], ...] = ()
    excluded: tuple[str, ...] = ()


class ContextItem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A thing that goes with a prompt. `key` is the same as long as it is the same thing; `label` is short, for a chip;
    `start` and `end` are its lines (1-indexed, inclusive; 0 = all of it). `origin`: mentioned with `@`, or found by its
    name; `reason`: one sentence for the user. `places`: of a name with several definitions, `path:start-end` each."""

    key: str
    kind: ContextKind
    label: str
    path: str = ""
    start: int = 0
    end: int = 0
    origin: Literal["mention", "found"] = "mention"
    reason: str = ""
    places: tuple[str, ...] = ()


class ContextProblem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A mention that names nothing, for which a prompt is refused; excluded by its `key`, it is sent as text."""

    key: str
    message: str
    hint: str = ""


class PromptContextAnswer(Answer, frozen=True, kw_only=True, tag="prompt.context"):
    """In the order of the prompt, mentions first."""

    items: tuple[ContextItem, ...] = ()
    problems: tuple[ContextProblem, ...] = ()


class CompletionQuery(Query, frozen=True, kw_only=True, tag="completion"):
    """Words that can stand behind an `@` and match `pattern`, best first: special words, paths and symbols."""

    pattern: str
    limit: int = 12


class Completion(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A word to put behind the `@`, and what it is in a few words."""

    word: str
    note: str = ""


class CompletionAnswer(Answer, frozen=True, kw_only=True, tag="completion"):
    completions: tuple[Completion, ...] = ()
