"""The names that other agents have for the commands of the prompt: Claude Code, Codex, opencode, aider, Cursor, Gemini.

A name that means one of our commands is that command (`/clear` is `/new`), unless it is a command of the user's own.
One that has no counterpart here is answered with what to do instead. No name of ours stands here.
"""

from __future__ import annotations

from typing import Final

# word: our command, and the argument that it stands for if any
ALIASES: Final[dict[str, str]] = {
    "about": "status",
    "add-memory": "memory",
    "agent": "mode agent",
    "allowed-tools": "permissions",
    "approvals": "policy",
    "architect": "mode plan",
    "ask": "mode ask",
    "auto-run": "policy",
    "bashes": "jobs",
    "branch": "fork",
    "chat-mode": "mode",
    "checkpoint": "rewind",
    "clear": "new",
    "code": "mode agent",
    "collab": "mode",
    "compress": "compact",
    "connect": "login",
    "continue": "sessions",
    "copy-conversation-id": "status",
    "cost": "status",
    "debug": "mode debug",
    "debug-config": "config",
    "exit": "quit",
    "keybindings": "keys",
    "keymap": "keys",
    "map": "index",
    "mcps": "mcp",
    "new-chat": "new",
    "open": "sessions",
    "output-style": "rules",
    "personality": "rules",
    "preferences": "config",
    "privacy-settings": "permissions",
    "ps": "jobs",
    "q": "quit",
    "reasoning-effort": "effort",
    "remember": "memory",
    "reset": "new",
    "restore": "rewind",
    "sandbox": "status",
    "security-review": "review",
    "session": "sessions",
    "settings": "config",
    "stats": "status",
    "statusline": "status",
    "stop": "jobs",
    "subagents": "agents",
    "summarize": "compact",
    "tasks": "jobs",
    "themes": "theme",
    "think-tokens": "effort",
    "thinking": "effort",
    "timeline": "rewind",
    "title": "rename",
    "todo": "plan",
    "todos": "plan",
    "tokens": "context",
    "usage": "status",
    "variants": "effort",
    "version": "status",
    "view-plan": "plan",
    "web": "fetch",
    "weak-model": "models",
    "editor-model": "models",
}

_ELSEWHERE: Final = "Leave with /quit and run `agent-tui {}`."
_FILES: Final = "Write @ and a file's name in the prompt; what goes along stands above it."
_SHELL: Final = "Write ! and the command in the prompt."
_EDITOR: Final = "{app.editor} writes the prompt in your $EDITOR."
_KEYS: Final = "/login pastes a key, in the place of the one that is kept; /help models tells where it lies."
_LEFT_OUT: Final = "There is nothing like it here. /help lists what there is."
_REPORT: Final = "`agent-tui report` writes a report without your code, for you to send."

ADVICE: Final[dict[str, str]] = {
    **dict.fromkeys(("add", "read-only", "mention", "ls", "load"), _FILES),
    **dict.fromkeys(("drop", "untag"), "Take its chip above the prompt away, or see /context."),
    **dict.fromkeys(("run", "shell", "git", "test", "lint"), _SHELL),
    **dict.fromkeys(("editor", "edit"), _EDITOR),
    **dict.fromkeys(("paste", "image"), "{prompt.attach} attaches the picture on the clipboard."),
    **dict.fromkeys(("doctor", "debug-info"), _ELSEWHERE.format("doctor")),
    **dict.fromkeys(("bug", "feedback", "report"), _REPORT),
    **dict.fromkeys(("logout", "auth", "setup-token"), _KEYS),
    **dict.fromkeys(("add-dir", "directory"), "Start in the directory that holds both: `agent-tui DIRECTORY`."),
    **dict.fromkeys(
        ("plugin", "plugins", "extensions", "reload-plugins"), "Folders of plug-ins are read: /help extending."
    ),
    **dict.fromkeys(("share", "unshare", "save"), "/export writes the session to a file."),
    "clean": "/jobs lists the commands in the background, and stops them.",
    **dict.fromkeys(("redo",), "What was taken back waits in the review ({app.review}) and can be judged again."),
    **dict.fromkeys(("ok", "apply"), "/accept accepts what waits, {app.review} goes to the review."),
    **dict.fromkeys(("details", "verbose"), "{app.chat}, then {transcript.toggle} opens a row of the conversation."),
    **dict.fromkeys(("multiline-mode",), "{prompt.newline} starts a new line, a pasted one is kept."),
    **dict.fromkeys(
        ("terminal-setup", "setup-terminal"), "Nothing to set up; /help terminals tells what yours can do."
    ),
    **dict.fromkeys(("pr-comments", "pr_comments"), "`/review PR` reads a pull request; /pr opens one."),
    **dict.fromkeys(("ide", "acp"), "Editors speak to it over ACP: /help acp."),
    **dict.fromkeys(
        ("remote-control", "remote-env", "serve"), "`agent-tui serve --web` serves the session: /help api."
    ),
    **dict.fromkeys(("goal", "loop"), "Write it as a prompt; /plan and /build work through several steps."),
    **dict.fromkeys(("side", "btw"), "/fork goes on in a second session with all of this one."),
    **dict.fromkeys(("worktree", "new-worktree"), "Agents in the background work in a clone: /background."),
    **dict.fromkeys(
        ("voice", "fast", "upgrade", "stickers", "mobile", "desktop", "passes", "experimental", "max-mode"), _LEFT_OUT
    ),
    **dict.fromkeys(("release-notes", "changelog"), "CHANGELOG.md of the project tells what is new."),
    **dict.fromkeys(("install-github-app",), "How it runs in CI: /help ci."),
}
