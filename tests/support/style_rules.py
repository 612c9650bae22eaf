"""Which rules of the style sheets hold for a widget, found once for all apps of a process.

Every app of the Pilot tests has the same widgets in the same places, and Textual looks for their rules among all there
are, for each of their components too, whenever one of them changes. What it finds depends on nothing but the rules of
the sheet, and the names and states of the widget and of all that it stands in, unless a rule asks for its neighbours:
Textual itself keeps no such answer. That is the key here; the answer is Textual's own.
"""

from __future__ import annotations

from typing import Any

import pytest
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.css.types import CSSLocation
from textual.dom import DOMNode

Key = tuple[Any, ...]

MOST = 20_000  # answers
PARSED: dict[Key, list[RuleSet]] = {}
STATES: dict[tuple[RuleSet, ...], list[str]] = {}  # those that the rules of a sheet ask for
ANSWERS: dict[Key, tuple[Any, dict[str, Any]]] = {}
FLAGS = ("_has_hover_style", "_has_focus_within", "_has_order_style", "_has_odd_or_even")


def remember_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have style sheets parsed once, and their rules found once, for all apps of this process; for one test."""
    parse, apply = Stylesheet._parse_rules, Stylesheet.apply
    parent: tuple[Any, Key] = (None, ())  # the last widget: its components come next

    def parsed(self: Stylesheet, css: str, read_from: CSSLocation, *args: Any, **kwargs: Any) -> list[RuleSet]:
        key = (css, read_from, args, *sorted(kwargs.items()), *self._variables.items())
        if key not in PARSED:
            PARSED[key] = parse(self, css, read_from, *args, **kwargs)
        return PARSED[key]

    def applied(self: Stylesheet, node: DOMNode, *, animate: bool = False, cache: Any = None) -> None:
        nonlocal parent
        if type(node) is DOMNode and node._parent is parent[0]:
            key = (*node._classes, parent[1])
        else:
            key = _describe(self, node)
            parent = node, key
        if answer := ANSWERS.get(key):
            rules, flags = answer
            vars(node).update(flags)
            self.replace_rules(node, rules, animate=animate)
            self._process_component_classes(node)
            return
        answers: dict[Any, Any] = {}  # where Textual leaves the one of this node
        apply(self, node, animate=animate, cache=answers)
        for rules in answers.values():
            _remember(key, (rules, {name: vars(node)[name] for name in FLAGS}))

    monkeypatch.setattr(Stylesheet, "_parse_rules", parsed)
    monkeypatch.setattr(Stylesheet, "apply", applied)


def _remember(key: Key, answer: tuple[Any, dict[str, Any]]) -> None:
    if len(ANSWERS) >= MOST:
        ANSWERS.clear()
    ANSWERS[key] = answer


def _describe(sheet: Stylesheet, node: Any) -> Key:
    """Return all that the rules of a node and of its components depend on, but for its neighbours."""
    states = _list_states(sheet)
    key: list[Any] = [id(states)]
    while isinstance(node, DOMNode):
        holds = node._PSEUDO_CLASSES
        key += (node._css_type_names, node._id, frozenset(node._classes))
        key += [holds[state](node) for state in states if state in holds]  # type: ignore[arg-type]
        node = node._parent
    return tuple(key)


def _list_states(sheet: Any) -> list[str]:
    """Return the states that the rules of a sheet ask for: the same list for the same rules."""
    rules, states = vars(sheet).get("known_states", (None, []))
    if rules is not sheet.rules:  # a list that is made anew when they change
        names = set().union(*(rule.pseudo_classes for rule in sheet.rules))
        states = STATES.setdefault(tuple(sheet.rules), sorted(names - Stylesheet._EXCLUDE_PSEUDO_CLASSES_FROM_CACHE))
        sheet.known_states = sheet.rules, states
    return states
