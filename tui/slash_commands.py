"""The slash commands of the prompt, and the names that other agents have for them.

An alias of Claude Code, Codex, opencode, aider, Cursor or Gemini runs our command (`/clear` runs `/new`), unless the
user has a command of that name. An alias without a counterpart is answered with an alternative.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from core.modes import Mode
from core.patterns import compile_lazily
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
    "side": "btw",
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
_FILES: Final = "Type @ and a file name; attached files appear above the prompt."
_SHELL: Final = "Type ! and the command in the prompt."
_EDITOR: Final = "{app.editor} writes the prompt in your $EDITOR."
_KEYS: Final = "/login replaces the saved key; /help models says where it is stored."
_LEFT_OUT: Final = "Not available here. /help lists the commands."
_REPORT: Final = "`agent-tui report` writes a report you can send, without your code."
ADVICE: Final[dict[str, str]] = {
    **dict.fromkeys(("add", "read-only", "mention", "ls", "load"), _FILES),
    **dict.fromkeys(("drop", "untag"), "Remove its chip above the prompt, or see /context."),
    **dict.fromkeys(("run", "shell", "git", "test", "lint"), _SHELL),
    **dict.fromkeys(("editor", "edit"), _EDITOR),
    **dict.fromkeys(("paste", "image"), "{prompt.attach} attaches the picture on the clipboard."),
    **dict.fromkeys(("doctor", "debug-info"), _ELSEWHERE.format("doctor")),
    **dict.fromkeys(("bug", "feedback", "report"), _REPORT),
    **dict.fromkeys(("logout", "auth", "setup-token"), _KEYS),
    **dict.fromkeys(("add-dir", "directory"), "Start in the parent of both: `agent-tui DIRECTORY`."),
    **dict.fromkeys(
        ("plugin", "plugins", "extensions", "reload-plugins"), "Plug-in folders are loaded: /help rules-and-skills."
    ),
    **dict.fromkeys(("share", "unshare", "save"), "/export writes the session to a file."),
    "clean": "/jobs lists and stops background commands.",
    **dict.fromkeys(("redo",), "Undone verdicts are pending again in the review ({app.review})."),
    **dict.fromkeys(("ok", "apply"), "/accept accepts pending changes; {app.review} opens the review."),
    **dict.fromkeys(("details", "verbose"), "{app.chat}, then {transcript.toggle} opens a row of the conversation."),
    **dict.fromkeys(("multiline-mode",), "{prompt.newline} starts a new line; pasted ones are kept."),
    **dict.fromkeys(
        ("terminal-setup", "setup-terminal"), "Nothing to set up; /help settings says what yours supports."
    ),
    **dict.fromkeys(("pr-comments", "pr_comments"), "`/review PR` reads a pull request; /pr opens one."),
    **dict.fromkeys(("ide", "acp"), "Editors connect over ACP: /help editors."),
    **dict.fromkeys(
        ("remote-control", "remote-env", "serve"), "`agent-tui serve --web` serves the session: /help http."
    ),
    **dict.fromkeys(("worktree", "new-worktree"), "Background agents work in a clone: /background."),
    **dict.fromkeys(
        ("voice", "upgrade", "stickers", "mobile", "desktop", "passes", "experimental", "max-mode"), _LEFT_OUT
    ),
    **dict.fromkeys(("release-notes", "changelog"), "See the project's CHANGELOG.md."),
    **dict.fromkeys(("install-github-app",), "To run in CI: /help headless."),
}
_COMMAND_WORD: Final = compile_lazily(r"/([A-Za-z0-9][\w.:-]*)(?=\s|$)")
_UNFIT: Final = 4
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
    SlashCommand("help", "pages.show_help", "How to use agent-tui", "TOPIC"),
    SlashCommand("tour", "guide.begin", "A one-minute tour of the main keys"),
    SlashCommand("mode", "modes.choose_mode", "Switch the mode", " | ".join(Mode)),
    SlashCommand("model", "models.choose_model", "Choose the model", "PROVIDER/NAME"),
    SlashCommand(
        "effort", "models.choose_effort", "Set how hard the model thinks", "low | medium | high | … | default"
    ),
    SlashCommand("fast", "models.choose_tier", "Switch the fast service tier on or off", "standard | flex | 2h | 8h"),
    SlashCommand("models", "models.show_models", "Which model does what, and its cost so far"),
    SlashCommand("limits", "turn.change_limits", "Show or set the limits of a turn", _LIMITS),
    SlashCommand("policy", "turn.choose_policy", "Choose who approves commands", "auto | confirm | human"),
    SlashCommand("login", "providers.paste_key", "Paste a provider's key", "PROVIDER"),
    SlashCommand("new", "sessions.new_session", "Start a new session"),
    SlashCommand("sessions", "sessions.choose_session", "Resume another session"),
    SlashCommand("resume", "sessions.choose_session", "Resume another session", "ID"),
    SlashCommand("rename", "sessions.rename_session", "Rename this session", "TITLE"),
    SlashCommand("tag", "sessions.tag_session", "Tag this session; no tag removes all", "TAG ..."),
    SlashCommand(
        "export",
        "sessions.export_session",
        "Export this session to a file",
        "md | html | json | atif | mini | preds, FILE",
    ),
    SlashCommand("tree", "sessions.show_forks", "Show sessions and their forks"),
    SlashCommand("compact", "turn.compact", "Compact the history"),
    SlashCommand("status", "pages.show_status", "The status bar in full"),
    SlashCommand("context", "pages.show_context", "What the model is sent, by part"),
    SlashCommand("rules", "pages.show_rules", "Rules for the agent, and why each applies"),
    SlashCommand("hooks", "pages.show_hooks", "Hooks: what runs when, and its last result"),
    SlashCommand("skills", "pages.show_skills", "Skills the agent can use, and why"),
    SlashCommand("mcp", "pages.show_servers", "MCP servers: status, tools on and off"),
    SlashCommand("tools", "pages.show_tools", "Tools: tokens, and why some are missing"),
    SlashCommand("agents", "agents.show_kinds", "Subagents, and problems in their files"),
    SlashCommand("background", "background.show_background", "Background agents: list, or start one", "TASK", True),
    SlashCommand("best", "agents.try_several", "Run a prompt several times and compare", "N or MODELS, PROMPT", True),
    SlashCommand("explain", "pages.explain_call", "Preview what a custom command sends", "NAME ARGUMENTS"),
    SlashCommand("memory", "pages.show_memory", "Project notes: add, edit, remove", "NOTE"),
    SlashCommand(
        "goal", "prompt.set_goal", "Go on until a condition holds", "CONDITION [--check COMMAND] | stop", True
    ),
    SlashCommand(
        "loop", "prompt.repeat", "Send a prompt again and again", "10m PROMPT [--when COMMAND --prints TEXT] | stop"
    ),
    SlashCommand("btw", "asides.ask", "Ask beside the work; nothing of it stays", "QUESTION", True),
    SlashCommand("init", "prompt.write_instructions", "Let the agent write AGENTS.md, for your review", "what matters"),
    SlashCommand("search", "search.search", "Search the project", "words, a name, or a question"),
    SlashCommand("fetch", "prompt.mention_page", "Add a web page to the prompt", "URL"),
    SlashCommand("index", "search.show_index", "Status of the project index"),
    SlashCommand("history", "sessions.load_history", "Load older answers of a long session"),
    SlashCommand("rewind", "rewind.rewind", "Rewind files, conversation or both"),
    SlashCommand("fork", "sessions.fork_session", "Continue in a copy of this session"),
    SlashCommand("jobs", "jobs.show_jobs", "Background commands: show, stop, restart", "ID | all"),
    SlashCommand("ports", "jobs.show_ports", "Servers of the agent: open one in your browser", "PORT"),
    SlashCommand("queue", "queue.show_queue", "Queued messages: edit, cancel, send now"),
    SlashCommand("reset_shell", "turn.reset_shell", "Reset the agent's shell to the project directory"),
    SlashCommand("permissions", "questions.show_permissions", "Show or remove saved permissions", "remove ID"),
    SlashCommand("accept", "review.accept_all", "Accept pending changes", "PATH | PATTERN | all"),
    SlashCommand("reject", "review.reject_all", "Reject pending changes", "PATH | PATTERN | all"),
    SlashCommand("proof", "proof.show_proof", "What the check says about each hunk", "run | stop | verify"),
    SlashCommand("bisect", "prompt.bisect", "Find the tool call that broke the check", "COMMAND"),
    SlashCommand("undo", "review.undo_verdict", "Undo the last verdict"),
    SlashCommand("commit", "commits.commit", "Commit what you accepted, and nothing else", "PATH ..."),
    SlashCommand("pr", "commits.open_pull_request", "Push the branch and open a pull request"),
    SlashCommand("diff", "commits.show_diff", "Pending changes as a patch, else uncommitted ones", "PATH"),
    SlashCommand("review", "findings.review", "Let the agent review code", "pending | BRANCH | PR | A..B"),
    SlashCommand("findings", "findings.show_findings", "Findings of the last code review"),
    SlashCommand("comments", "review.send_comments", "Look over your comments and send them"),
    SlashCommand("plan", "panes.open_plan", "Show the plan"),
    SlashCommand("plans", "plan.choose_plan", "Choose another plan", "FILE"),
    SlashCommand("build", "plan.build_plan", "Build the plan", "parallel [N] | fresh | TODO | FILE"),
    SlashCommand("copy", "copying.copy", "Copy the last answer, or part of the work", "code [N] | hunk | patch | runs"),
    SlashCommand("config", "pages.show_config", "Search, change and check settings", "KEY"),
    SlashCommand("theme", "pages.choose_theme", "Choose a theme (colours)", "NAME"),
    SlashCommand("keys", "pages.show_keys", "All keys", is_for_screen=True),
    SlashCommand("vim", "prompt.toggle_vim", "Turn Vim keys in the prompt on or off", is_for_screen=True),
    SlashCommand("detach", "sessions.detach", "Quit, but keep the session running"),
    SlashCommand("quit", "sessions.quit", "Quit", is_for_screen=True),
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
        return f"No {match.group()} here. {advice}"
    if target := ALIASES.get(word):
        return f"{match.group()} is /{target} and takes no text. Switch first, then send it."
    suggestions = difflib.get_close_matches(word, [*_BY_WORD, *ALIASES], n=3, cutoff=0.6)
    suggestion = (
        f"Did you mean {' or '.join(f'/{word}' for word in suggestions)}?"
        if suggestions
        else "/help lists the commands."
    )
    return f"{match.group()} is not a command. {suggestion} To send it as text, start with a space."


def find_completions(pattern: str, own_commands: Sequence[PromptCommand] = ()) -> list[tuple[str, str]]:
    """Return `(word, explanation)` of the commands that match `pattern`: the one of this name, built-in commands with
    this prefix, then the user's, then those with the prefix after a scope or plug-in, then commands that contain it
    (`shell`), then aliases.

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
    if word == pattern:
        return 0
    if word.startswith(pattern):
        return 1
    if word.rpartition(":")[2].startswith(pattern):
        return 2
    return 3 if len(pattern) > 1 and pattern in word else _UNFIT


def _explain(label: str, argument: str) -> str:
    return f"{label}  ({argument})" if argument else label


def _explain_alias(target: str) -> str:
    word, _, argument = target.partition(" ")
    return f"= /{target} · {_BY_WORD[word].label if not argument else 'Switch the mode'}"


def can_run_as_is(text: str, word: str) -> bool:
    """True if a completed command can run immediately: it takes no argument, or it was typed in full."""
    target, _, argument = ALIASES.get(word, word).partition(" ")
    return text.strip() == f"/{word}" or bool(argument) or not getattr(_BY_WORD.get(target), "argument", "needed")
