"""The scopes of the key table: what each is called where keys are listed, and which of its keys only move a cursor."""

from __future__ import annotations

from typing import Final

# Letters that only move a cursor, so that they act at once and can be told from a sentence by what follows.
CURSOR_KEYS: Final = frozenset(
    f"{scope}.{name}"
    for scope, names in {
        "transcript": "previous next top bottom",
        "code": "top bottom",
        "review": "next previous next_file previous_file mark_down mark_up",
        "conflict": "next previous",
        "comments": "down up",
        "context": "down up",
        "rules": "down up",
        "hooks": "down up",
        "skills": "down up",
        "servers": "down up",
        "kinds": "down up",
        "tools": "down up",
        "permissions": "down up",
        "memory": "down up",
        "agents": "down up",
        "compared": "down up",
        "rewind": "down up",
        "consent": "down up",
        "cursor": "down up mark_down mark_up next_name previous_name",
        "hits": "down up",
        "todos": "down up top bottom",
        "plantext": "down up mark_down mark_up top bottom",
        "approval": "down up",
    }.items()
    for name in names.split()
)


SCOPE_TITLES: Final = {
    "app": "Everywhere",
    "prompt": "Prompt",
    "context": "Parts of the context",
    "rules": "List of rules",
    "hooks": "List of hooks",
    "skills": "List of skills",
    "servers": "List of MCP servers",
    "kinds": "List of kinds of subagents",
    "tools": "List of tools",
    "permissions": "List of permissions",
    "memory": "Notes about the project",
    "chips": "What goes with the prompt",
    "transcript": "Conversation",
    "code": "Text pane",
    "lines": "Long lines of a file or a change",
    "review": "Review",
    "changes": "List of changes",
    "editor": "Editor of a hunk",
    "reason": "Reason or comment",
    "conflict": "Conflict",
    "comments": "Comments",
    "rewind": "Going back",
    "picture": "Picture",
    "files": "Files",
    "preview": "File preview",
    "cursor": "Cursor in a file",
    "search": "Search",
    "hits": "List of places",
    "find": "Finding a file",
    "plan": "Plan",
    "todos": "Todos of a plan",
    "plantext": "Text of a plan",
    "planeditor": "Editor of a plan",
    "debug": "Debug board",
    "agents": "Subagents",
    "subagent": "Conversation of a subagent",
    "best": "Candidates",
    "compared": "Hunks of a candidate",
    "approval": "Approval",
    "question": "Question",
    "picker": "List",
    "sessions": "Sessions",
    "welcome": "Welcome",
    "address": "Address of a model server",
    "key": "Key of a model API",
    "confirm": "Yes or no",
    "consent": "Yes or no to a change",
    "page": "Page",
}
