"""Hunks that change a contract with code elsewhere: signatures and public names, schemas, migrations, dependencies.

They are read first: what is wrong there is wrong in many places. A name that begins with an underscore is private in
Python, and one that is not exported in the languages where that is said.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from core.patterns import compile_lazily
from core.protocol.review import Hunk
from core.syntax.symbols import Symbol, find_symbols
from core.workspace.file_names import fold_name

_DEPENDENCIES_TEXT: Final = """
    pyproject.toml setup.cfg setup.py package.json cargo.toml go.mod gemfile composer.json pom.xml build.gradle
    build.gradle.kts pipfile environment.yml"""
_DEPENDENCIES: Final = frozenset(_DEPENDENCIES_TEXT.split())
_REQUIREMENTS: Final = compile_lazily(r"(?:requirements|constraints)[\w.-]*\.(?:txt|in)")
_SCHEMA: Final = compile_lazily(r".*\.(?:proto|graphql|gql|avsc|xsd|thrift|prisma)|(?:schema|openapi|swagger)[\w.-]*")
_MIGRATION: Final = compile_lazily(r"(?:.*/)?(?:migrations?|migrate|alembic/versions)/[^/]+", re.IGNORECASE)
_CALLABLE: Final = frozenset({"function", "method"})
_MOST_LINES: Final = 20  # of a signature
_END: Final = compile_lazily(r"[:{;]\s*(?:#.*|//.*)?$|=>")


class Contract(NamedTuple):
    """The contract that a hunk changes, in words; `name`: that which code elsewhere uses, "" = none."""

    words: str
    name: str = ""


def find_file_contract(path: str) -> Contract | None:
    """Return the contract that any change of a file is one of, by its path; None = none."""
    name = fold_name(path.rpartition("/")[2])
    if name in _DEPENDENCIES or _REQUIREMENTS.fullmatch(name):
        return Contract("dependencies")
    if _MIGRATION.fullmatch(path):
        return Contract("migration")
    return Contract("schema") if _SCHEMA.fullmatch(name) else None


def find_contracts(path: str, old: str, new: str, hunks: tuple[Hunk, ...]) -> dict[str, Contract]:
    """Return the contracts that the hunks of a file of code change, by hunk. `old`, `new`: the text of both sides."""
    before, after = _read_signatures(path, old), _read_signatures(path, new)
    contracts = dict[str, Contract]()
    for name, (symbol, signature) in before.items():
        if name in after and after[name][1] != signature:
            first = after[name][0].first + 1
            hunk = next((hunk for hunk in hunks if _touches(hunk.new_start, hunk.new_lines, first, after[name])), None)
            words = f"signature of {name}"
        elif name not in after and not _is_private_module(path):
            hunk = next((hunk for hunk in hunks if _covers(hunk, symbol.first + 1)), None)
            words = f"{name} is gone"
        else:
            continue
        if hunk is not None and hunk.id not in contracts:
            contracts[hunk.id] = Contract(words, symbol.name)
    return contracts


def _is_private_module(path: str) -> bool:
    """Return True for a module whose names others have only by importing them, which a run would miss."""
    return any(part.startswith("_") and not part.startswith("__") for part in path.split("/")) and path.endswith(".py")


def _read_signatures(path: str, text: str) -> Mapping[str, tuple[Symbol, str]]:
    """Return the public definitions of a file with the text of their heads, without white space."""
    lines = text.split("\n")
    signatures = dict[str, tuple[Symbol, str]]()
    for symbol in find_symbols(path, text) or ():
        if not any(part.startswith("_") and not part.endswith("__") for part in symbol.qualified.split(".")):
            signatures.setdefault(symbol.qualified, (symbol, _read_head(lines, symbol)))
    return signatures


def _read_head(lines: list[str], symbol: Symbol) -> str:
    if symbol.kind not in _CALLABLE:
        return ""  # its name is its contract
    head = list[str]()
    for line in lines[symbol.first : min(symbol.last + 1, symbol.first + _MOST_LINES)]:
        head.append(line)
        if _END.search(line) and not line.lstrip().startswith("@"):
            break
    return "".join("".join(head).split())


def _touches(start: int, count: int, first: int, definition: tuple[Symbol, str]) -> bool:
    """Return True if lines of a hunk are in the head of a definition."""
    last = min(definition[0].last + 1, first + _MOST_LINES)
    return start <= last and start + max(count, 1) > first


def _covers(hunk: Hunk, line: int) -> bool:
    return hunk.old_start <= line < hunk.old_start + hunk.old_lines
