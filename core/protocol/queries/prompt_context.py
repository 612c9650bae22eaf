"""The context of a prompt besides its words: asked for while it is typed, and what a request is made of."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from core.protocol.queries.base import Answer, Query

ContextKind = Literal[
    "file", "folder", "symbol", "diff", "branch", "terminal", "plan", "session", "rule", "page", "agent", "resource"
]


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
