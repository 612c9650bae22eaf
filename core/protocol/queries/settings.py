"""Queries about the settings and the manual: effective values with their sources, problems, and pages."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

from core.protocol.base import Answer, Query

SettingKind = Literal["flag", "choice", "number", "text", "list", "table"]
SettingOrigin = Literal["default", "user", "project", "command line", "environment"]


class SettingRow(Struct, frozen=True, kw_only=True):
    """One setting as it holds. `source`: where its value comes from, with the line; "" = the program's default.
    `meaning`: what it does, `valid`: what it may be. Values are without what looks like a key.

    `own`: what the user's own file says, None = nothing; `choices`: the words that it is one of; `elsewhere`: where it
    is changed if `setting.keep` can't, "" = it can; `begins`: when a change of it holds, "" = at once."""

    key: str
    value: Any = None
    default: Any = None
    source: str = ""
    meaning: str = ""
    valid: str = ""
    kind: SettingKind = "text"
    choices: tuple[str, ...] = ()
    origin: SettingOrigin = "default"
    own: Any = None
    elsewhere: str = ""
    begins: str = ""


class SettingsProblem(Struct, frozen=True, kw_only=True):
    """Something that is wrong with the configuration. `error`: nothing starts with it; `warning`: it has no effect, or
    another one than was meant."""

    level: Literal["error", "warning"]
    message: str
    hint: str = ""


class ConfigQuery(Query, frozen=True, kw_only=True, tag="config"):
    """The settings below a dotted key ("" = all, and what is set elsewhere), and what is wrong anywhere in the
    configuration."""

    key: str = ""


class ConfigAnswer(Answer, frozen=True, kw_only=True, tag="config"):
    """The settings in the order of the manual, and all problems at once."""

    settings: tuple[SettingRow, ...] = ()
    problems: tuple[SettingsProblem, ...] = ()


class ManualQuery(Query, frozen=True, kw_only=True, tag="manual"):
    """A page of the manual by its name, or the nearest one; "" = the list of pages alone."""

    page: str = ""


class ManualPage(Struct, frozen=True, kw_only=True):
    """One page of the manual: the name that it is asked for by, and its heading."""

    name: str
    title: str


class GuideQuery(Query, frozen=True, kw_only=True, tag="guide"):
    """The step of the tour that is next, and the hints that are known by now."""


class GuideAnswer(Answer, frozen=True, kw_only=True, tag="guide"):
    """`tour`: the step at which the tour was left, "new" = it has not begun, "" = there is none to be shown; `file`:
    one of the project's own to show it on. `shown`: how often each hint was, `used`: those whose key is known;
    `chosen`: entries of the palette, the last one first."""

    tour: str = ""
    file: str = ""
    shown: dict[str, int] = field(default_factory=dict)
    used: tuple[str, ...] = ()
    chosen: tuple[str, ...] = ()


class ManualAnswer(Answer, frozen=True, kw_only=True, tag="manual"):
    """`text`: the page as Markdown, "" = there is none of that name; `pages`: all that there are."""

    page: str = ""
    text: str = ""
    pages: tuple[ManualPage, ...] = ()
