"""The slash commands of the prompt, and the names that other agents have for them.

An alias of Claude Code, Codex, opencode, aider, Cursor or Gemini runs our command (`/clear` runs `/new`), unless the
user has a command of that name. An alias without a counterpart is answered with an alternative.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from core.modes import Mode
from core.protocol.queries import PromptCommand
from tui.key_table import KEYS

# alias: our command, with an argument if the alias implies one
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
        ("plugin", "plugins", "extensions", "reload-plugins"), "Folders of plug-ins are read: /help rules-and-skills."
    ),
    **dict.fromkeys(("share", "unshare", "save"), "/export writes the session to a file."),
    "clean": "/jobs lists the commands in the background, and stops them.",
    **dict.fromkeys(("redo",), "What was taken back waits in the review ({app.review}) and can be judged again."),
    **dict.fromkeys(("ok", "apply"), "/accept accepts what waits, {app.review} goes to the review."),
    **dict.fromkeys(("details", "verbose"), "{app.chat}, then {transcript.toggle} opens a row of the conversation."),
    **dict.fromkeys(("multiline-mode",), "{prompt.newline} starts a new line, a pasted one is kept."),
    **dict.fromkeys(("terminal-setup", "setup-terminal"), "Nothing to set up; /help settings tells what yours can do."),
    **dict.fromkeys(("pr-comments", "pr_comments"), "`/review PR` reads a pull request; /pr opens one."),
    **dict.fromkeys(("ide", "acp"), "Editors speak to it over ACP: /help editors."),
    **dict.fromkeys(
        ("remote-control", "remote-env", "serve"), "`agent-tui serve --web` serves the session: /help http."
    ),
    **dict.fromkeys(("goal", "loop"), "Write it as a prompt; /plan and /build work through several steps."),
    **dict.fromkeys(("side", "btw"), "/fork goes on in a second session with all of this one."),
    **dict.fromkeys(("worktree", "new-worktree"), "Agents in the background work in a clone: /background."),
    **dict.fromkeys(
        ("voice", "fast", "upgrade", "stickers", "mobile", "desktop", "passes", "experimental", "max-mode"), _LEFT_OUT
    ),
    **dict.fromkeys(("release-notes", "changelog"), "CHANGELOG.md of the project tells what is new."),
    **dict.fromkeys(("install-github-app",), "How it runs in CI: /help headless."),
}
_COMMAND_WORD: Final = re.compile(r"/([A-Za-z0-9][\w.:-]*)(?=\s|$)")
_UNFIT: Final = 3
_SCOPES: Final = ("project:", "user:")


class SlashCommand(NamedTuple):
    """`/word argument`: runs the action `controller.name` with the text behind the word, which `argument` describes.
    That of one that `takes_prompt` may have several lines. One that `is_for_screen` needs no session."""

    word: str
    action: str
    label: str
    argument: str = ""
    takes_prompt: bool = False
    is_for_screen: bool = False


_LIMITS: Final = "steps N | cost DOLLARS | tokens N"


SLASH_COMMANDS: Final[tuple[SlashCommand, ...]] = (
    SlashCommand("help", "pages.show_help", "What can be done, and how", "topic"),
    SlashCommand("tour", "guide.begin", "A minute with the keys that matter, on this project"),
    SlashCommand("mode", "modes.choose_mode", "Switch the mode", " | ".join(Mode)),
    SlashCommand("model", "models.choose_model", "Choose the model", "provider/name"),
    SlashCommand("effort", "models.choose_effort", "How much the model thinks", "low | medium | high | … | default"),
    SlashCommand("models", "models.show_models", "Which model does what, and what it has cost"),
    SlashCommand("limits", "turn.change_limits", "What a turn may use: see, change", _LIMITS),
    SlashCommand("policy", "turn.choose_policy", "Who decides on commands", "auto | confirm | human"),
    SlashCommand("login", "providers.paste_key", "Paste a key…", "provider"),
    SlashCommand("new", "sessions.new_session", "Start a new session"),
    SlashCommand("sessions", "sessions.choose_session", "Go on with another session"),
    SlashCommand("resume", "sessions.choose_session", "Go on with another session", "id"),
    SlashCommand("rename", "sessions.rename_session", "Give this session a title", "TITLE"),
    SlashCommand("tag", "sessions.tag_session", "Tag this session; without a tag: take them away", "TAG ..."),
    SlashCommand(
        "export", "sessions.export_session", "Write this session to a file, to keep or share", "md | html | json, FILE"
    ),
    SlashCommand("tree", "sessions.show_forks", "Which session was forked from which"),
    SlashCommand("compact", "turn.compact", "Make the history shorter"),
    SlashCommand("status", "pages.show_status", "All that the status bar tells, in words"),
    SlashCommand("context", "pages.show_context", "What the model is sent, by part"),
    SlashCommand("rules", "pages.show_rules", "What the agent is told to keep to, and why"),
    SlashCommand("hooks", "pages.show_hooks", "What runs at which event, and how it ended last"),
    SlashCommand("skills", "pages.show_skills", "Skills that the agent can open, and why"),
    SlashCommand("mcp", "pages.show_servers", "MCP servers: how they go, their tools on and off"),
    SlashCommand("tools", "pages.show_tools", "What the model can call, its tokens, why one is absent"),
    SlashCommand("agents", "agents.show_kinds", "Kinds of subagents, and what is wrong with a file"),
    SlashCommand(
        "background", "background.show_background", "Agents in the background, or a task for one", "TASK", True
    ),
    SlashCommand("best", "agents.try_several", "Try a prompt several times, and compare", "N or MODELS, PROMPT", True),
    SlashCommand("explain", "pages.explain_call", "What a command of yours would send", "NAME ARGUMENTS"),
    SlashCommand("memory", "pages.show_memory", "Notes about the project: keep, edit, forget", "what to remember"),
    SlashCommand("init", "prompt.write_instructions", "Let the agent write AGENTS.md, for your review", "what matters"),
    SlashCommand("search", "search.search", "Search the project", "words, a name, or a question"),
    SlashCommand("fetch", "prompt.mention_page", "Take a page of the web into the prompt", "URL"),
    SlashCommand("index", "search.show_index", "How far the index of the project is"),
    SlashCommand("history", "sessions.load_history", "Load the older answers of a long session"),
    SlashCommand("rewind", "rewind.rewind", "Go back to an earlier prompt: files, conversation or both"),
    SlashCommand("fork", "sessions.fork_session", "Go on in a second session with all of this one"),
    SlashCommand("jobs", "turn.show_jobs", "Commands in the background: see, stop", "id, or all"),
    SlashCommand("queue", "queue.show_queue", "Messages that wait to be sent: edit, cancel, send now"),
    SlashCommand("reset_shell", "turn.reset_shell", "Commands start in the workspace again"),
    SlashCommand("permissions", "questions.show_permissions", "What is allowed and refused; take it back", "remove ID"),
    SlashCommand("accept", "review.accept_all", "Accept pending changes", "path, or all"),
    SlashCommand("reject", "review.reject_all", "Reject pending changes", "path, or all"),
    SlashCommand("undo", "review.undo_verdict", "Take the last verdict back"),
    SlashCommand("commit", "commits.commit", "Commit what you accepted, and nothing else", "PATH ..."),
    SlashCommand("pr", "commits.open_pull_request", "Push the branch, and open a pull request"),
    SlashCommand("diff", "commits.show_diff", "What waits, as a patch; else what no commit has yet", "PATH"),
    SlashCommand("review", "findings.review", "Let the agent review code", "pending | BRANCH | PR | A..B"),
    SlashCommand("findings", "findings.show_findings", "What the last code review has found"),
    SlashCommand("comments", "review.send_comments", "Look at your comments and send them"),
    SlashCommand("plan", "panes.open_plan", "Show the plan"),
    SlashCommand("plans", "plan.choose_plan", "Choose another plan of the project", "FILE"),
    SlashCommand("build", "plan.build_plan", "Work the plan", "parallel [N] | fresh | TODO | FILE"),
    SlashCommand("copy", "copying.copy", "Copy the last answer, or what is named", "code [N] | hunk | patch | runs"),
    SlashCommand("config", "pages.show_config", "Settings: search them, change them, see what is wrong", "KEY"),
    SlashCommand("theme", "pages.choose_theme", "Choose the colours", "name"),
    SlashCommand("keys", "pages.show_keys", "All keys", is_for_screen=True),
    SlashCommand("vim", "prompt.toggle_vim", "Vim's keys in the prompt: on, off", is_for_screen=True),
    SlashCommand("detach", "sessions.detach", "Leave, and let the session go on without a screen"),
    SlashCommand("quit", "sessions.quit", "Leave", is_for_screen=True),
)


_BY_WORD: Final = {each.word: each for each in SLASH_COMMANDS}


def parse_slash_command(text: str) -> tuple[SlashCommand, str] | None:
    """Parse a prompt as `(command, argument)`; None when it is not a command of this program."""
    prompt = text.strip()
    if not text.startswith("/") or not (words := prompt[1:].split(maxsplit=1)):
        return None
    command = _BY_WORD.get(words[0])
    if command is None or ("\n" in prompt and not command.takes_prompt):
        return None
    return command, words[1] if len(words) > 1 else ""


def parse_alias(text: str) -> tuple[SlashCommand, str] | None:
    """Parse a prompt that uses another agent's name for one of our commands; None = it does not.

    An alias that implies an argument accepts none, so that no typed text is dropped.
    """
    word, _, rest = text.strip().removeprefix("/").partition(" ")
    target, _, argument = ALIASES.get(word, "").partition(" ")
    if not text.startswith("/") or not target or (argument and rest.strip()):
        return None
    return parse_slash_command(f"/{target} {argument or rest}".rstrip())


def find_action(reference: str) -> str:
    """Return the action of a command of the screen (`/context`), or of a key by its id (`app.review`)."""
    if reference.startswith("/"):
        return next(f"{command.action}('')" for command in SLASH_COMMANDS if f"/{command.word}" == reference)
    return next(key.action for key in KEYS if key.id == reference)


def is_called(text: str, names: Collection[str]) -> bool:
    """True if a prompt calls one of these user's commands; a scope may precede its name."""
    match = _COMMAND_WORD.match(text)
    word = match.group(1) if match else ""
    return word in names or (word.startswith(_SCOPES) and word.partition(":")[2] in names)


def describe_unknown_command(text: str) -> str:
    """Explain an unknown command, with the nearest ones or an alternative; "" = the text is a prompt. Braces hold ids
    of keys.

    A path is a prompt, and so is text after a leading space. The engine checks commands of MCP servers.
    """
    match = _COMMAND_WORD.match(text)
    if match is None or match.group(1).startswith("mcp__"):
        return ""
    if "\n" in text.strip() or parse_slash_command(text) or parse_alias(text) or os.path.lexists(match.group()):
        return ""
    import difflib

    word = match.group(1).lower()
    if advice := ADVICE.get(word):
        return f"There is no {match.group()} here. {advice}"
    if target := ALIASES.get(word):
        return f"{match.group()} is /{target}, without words behind it. Switch first, then send them."
    suggestions = difflib.get_close_matches(word, [*_BY_WORD, *ALIASES], n=3, cutoff=0.6)
    suggestion = (
        f"Did you mean {' or '.join(f'/{word}' for word in suggestions)}?"
        if suggestions
        else "/help lists the commands."
    )
    return f"{match.group()} is no command. {suggestion} To send it as it is, put a space before it."


def find_completions(pattern: str, own_commands: Sequence[PromptCommand] = ()) -> list[tuple[str, str]]:
    """Return `(word, explanation)` of the commands that match `pattern`: built-in commands with this prefix, then the
    user's, then those with the prefix after a scope or plug-in, then commands that contain it (`shell`), then aliases.

    A user's command that a built-in one shadows is listed with its scope.
    """
    words = {command.word for command in SLASH_COMMANDS}
    completions = [(command.word, _explain(command.label, command.argument)) for command in SLASH_COMMANDS]
    for prompt_command in own_commands:
        name = f"{prompt_command.scope}:{prompt_command.name}" if prompt_command.name in words else prompt_command.name
        completions.append(
            (
                name,
                f"[{prompt_command.scope} {prompt_command.kind}]"
                f" {_explain(prompt_command.description, prompt_command.hint)}",
            )
        )
    ranking = [(_rank_word(completion[0], pattern), completion) for completion in completions]
    fitting = [completion for rank in range(_UNFIT) for word_rank, completion in ranking if word_rank == rank]
    known_words = {word for word, _ in completions}
    others = sorted(word for word in ALIASES if pattern and word.startswith(pattern) and word not in known_words)
    return [*fitting, *((word, _explain_alias(ALIASES[word])) for word in others)]


def _rank_word(word: str, pattern: str) -> int:
    """Return the rank of a word for a typed pattern, 0 = best, `_UNFIT` = no match."""
    if word.startswith(pattern):
        return 0
    if word.rpartition(":")[2].startswith(pattern):
        return 1
    return 2 if len(pattern) > 1 and pattern in word else _UNFIT


def _explain(label: str, argument: str) -> str:
    return f"{label}  ({argument})" if argument else label


def _explain_alias(target: str) -> str:
    word, _, argument = target.partition(" ")
    return f"= /{target} · {_BY_WORD[word].label if not argument else 'Switch the mode'}"


def can_run_as_is(text: str, word: str) -> bool:
    """True if a completed command can run immediately: it takes no argument, or it was typed in full."""
    target, _, argument = ALIASES.get(word, word).partition(" ")
    return text.strip() == f"/{word}" or bool(argument) or not getattr(_BY_WORD.get(target), "argument", "needed")
