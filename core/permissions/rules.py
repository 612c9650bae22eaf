"""Permission rules: `Kind(pattern)` in the grammar of Cursor and Claude Code, from the configuration and from answers.

A command's pattern is compared with its text; `*` matches any characters. A path's pattern is one of
`core.text.path_patterns` over workspace-relative paths. A rule that allows reads no more than stars into it, since
names can hold brackets; a rule that denies or asks reads sets and braces both as a choice and literally, and covers
everything below a directory that it names in full. A host's pattern is a host, or `*.host` for its subdomains.
`Machine` is for commands that ask to leave the box, `Service` for ports and sockets of the machine: both allow only
full names. Rules that deny or ask compare paths as the most lenient file system would; a rule that allows compares them
literally.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from core.errors import ConfigError
from core.patterns import compile_lazily
from core.permissions.approval import is_service
from core.text.path_patterns import compile_pattern
from core.workspace.file_names import fold_name

PermissionChoice = Literal["allow", "ask", "deny"]
PermissionKind = Literal["Shell", "Read", "Write", "WebFetch", "Mcp", "Machine", "Service"]
KINDS: tuple[PermissionKind, ...] = ("Shell", "Read", "Write", "WebFetch", "Mcp", "Machine", "Service")
STRICTNESS: dict[PermissionChoice, int] = {"allow": 0, "ask": 1, "deny": 2}
_PATHS = frozenset({"Read", "Write"})
_RULE = compile_lazily(r"(?P<kind>[A-Za-z]+)\((?P<pattern>.+)\)", re.DOTALL)
_HOST = compile_lazily(r"\*|(?:\*\.)?(?!-)[a-z0-9-]{1,63}(?:\.(?!-)[a-z0-9-]{1,63})*")
MAX_STARS = 12


class PermissionRule(Struct, frozen=True, kw_only=True):
    """One rule. `source`: its origin for the user, a file or their answer. `exceptions`: patterns that it does not
    apply to, of a rule from another program where a later entry outweighs an earlier one."""

    choice: PermissionChoice
    kind: PermissionKind
    pattern: str
    source: str = ""
    exceptions: tuple[str, ...] = ()

    def matches(self, subject: str) -> bool:
        """True if the rule matches `subject`: a command, a workspace-relative path, a host, or `server:tool`."""
        if any(self._except(pattern).matches(subject) for pattern in self.exceptions):
            return False
        if self.kind in _PATHS:
            if self.choice == "allow":
                return compile_pattern(self.pattern, syntax="stars").fullmatch(subject) is not None
            wide_pattern = compile_pattern(_fold_path(self.pattern), below="named")
            return wide_pattern.fullmatch(_fold_path(subject)) is not None
        if self.kind == "WebFetch":
            return matches_host(self.pattern, subject)
        return compile_text_pattern(self.pattern).fullmatch(subject) is not None

    def _except(self, pattern: str) -> PermissionRule:
        return replace(self, choice="allow", pattern=pattern, exceptions=())

    def __str__(self) -> str:
        but = f" but not {', '.join(self.exceptions)}" if self.exceptions else ""
        return f"{self.kind}({self.pattern}){but}"


def parse_rule(text: str, choice: PermissionChoice, source: str = "") -> PermissionRule:
    """Parse a rule such as `Shell(git *)`. Raises `ConfigError` for anything else."""
    match = _RULE.fullmatch(text.strip())
    kind = next((candidate for candidate in KINDS if match is not None and match["kind"] == candidate), None)
    if match is None or kind is None or not match["pattern"].strip():
        raise ConfigError(f"`{text}` is not a permission rule.", hint=f"Write one of {', '.join(KINDS)}(pattern).")
    pattern = match["pattern"].strip()
    if pattern.count("*") > MAX_STARS:
        raise ConfigError(f"`{text}` has too many stars.", hint=f"At most {MAX_STARS}.")
    if kind == "Machine" and choice == "allow" and "*" in pattern:
        raise ConfigError(
            f"`{text}` does not name an exact command.", hint="An unsandboxed command is named in full, without `*`."
        )
    if kind == "Service" and choice == "allow" and not is_service(pattern):
        raise ConfigError(
            f"`{text}` does not name a service.", hint="Write Service(localhost:5432) or Service(docker)."
        )
    if kind == "WebFetch" and not _HOST.fullmatch(pattern.lower()):
        raise ConfigError(
            f"`{text}` does not name a host.", hint="Write WebFetch(example.org) or WebFetch(*.example.org)."
        )
    if kind in _PATHS and (pattern.startswith(("/", "~", "../")) or "/../" in pattern):
        raise ConfigError(f"`{text}` points outside the workspace.", hint="Paths are relative to the workspace.")
    return PermissionRule(choice=choice, kind=kind, pattern=pattern, source=source)


def select_rules(
    rules: Iterable[PermissionRule], kind: PermissionKind, *choices: PermissionChoice
) -> list[PermissionRule]:
    return [rule for rule in rules if rule.kind == kind and (not choices or rule.choice in choices)]


def find_strictest(rules: Iterable[PermissionRule]) -> PermissionRule | None:
    return max(rules, key=lambda rule: STRICTNESS[rule.choice], default=None)


def matches_host(pattern: str, host: str) -> bool:
    """True if a pattern matches a host: exact, `*.host` for all below it (not the host itself), `*` for any."""
    pattern = pattern.lower()
    if pattern == "*":
        return True
    if pattern.startswith("*."):
        return host.endswith(pattern[1:]) and len(host) > len(pattern) - 1
    return host == pattern


def _fold_path(path: str) -> str:
    """Fold every name of a path or pattern as a lenient file system does, except stars."""
    return "/".join(part if set(part) <= {"*"} else fold_name(part) for part in path.split("/"))


@lru_cache(maxsize=512)
def compile_text_pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)
