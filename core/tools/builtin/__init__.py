"""The built-in tools. A tool is its class here, its text `core/prompts/tools/<name>.md`, and its row in `BUILTIN`."""

from __future__ import annotations

from typing import Final

from core.edit_formats import EDIT_TOOLS, SEARCH_REPLACE
from core.tools.base import RegisteredTool

_BUILTIN: Final = "core.tools.builtin"
_READING: Final = f"{_BUILTIN}.reading"
_EDITING: Final = f"{_BUILTIN}.editing"
_TERMINAL: Final = f"{_BUILTIN}.terminal"

# The order is part of every request's prefix: append only.
BUILTIN: Final = (
    RegisteredTool(
        "read_file",
        f"{_READING}.read_file:ReadFile",
        ("Read", "ReadFile", "view_file", "readTool", "open_file", "view_image", "NotebookRead"),
        is_essential=True,
    ),
    RegisteredTool(
        "list_dir",
        f"{_READING}.list_files:ListDir",
        ("LS", "list_directory", "list_files", "list"),
        is_essential=True,
    ),
    RegisteredTool(
        "grep",
        f"{_READING}.grep:Grep",
        ("Grep", "grep_search", "search_dir", "search_file", "grep_files", "search_files", "search_file_content"),
        is_essential=True,
    ),
    RegisteredTool("glob_file_search", f"{_READING}.list_files:GlobFileSearch", ("Glob", "file_search", "find_file")),
    RegisteredTool(SEARCH_REPLACE.name, SEARCH_REPLACE.location, SEARCH_REPLACE.aliases, is_essential=True),
    RegisteredTool(
        "write",
        f"{_EDITING}.write:WriteTool",
        ("Write", "write_file", "create_file", "create", "write_to_file"),
        is_essential=True,
    ),
    RegisteredTool("delete_file", f"{_EDITING}.write:DeleteFile", ("Delete",)),
    RegisteredTool(
        "run_terminal_cmd",
        f"{_TERMINAL}.run_terminal_cmd:RunTerminalCmd",
        (
            *("Shell", "Bash", "run_terminal_command", "run_shell_command", "shell_command", "local_shell"),
            *("exec_command", "execute_command", "execute_bash"),
        ),
        is_essential=True,
    ),
    RegisteredTool("create_plan", f"{_BUILTIN}.plans:CreatePlan", ("CreatePlan",)),
    RegisteredTool("todo_write", f"{_BUILTIN}.plans:TodoWrite", ("TodoWrite",)),
    RegisteredTool(
        "ask_question",
        f"{_BUILTIN}.dialogue:AskQuestion",
        ("AskQuestion", "AskUserQuestion", "request_user_input", "ask_followup_question"),
    ),
    RegisteredTool("switch_mode", f"{_BUILTIN}.dialogue:SwitchMode", ("SwitchMode",)),
    RegisteredTool("read_terminal", f"{_TERMINAL}.jobs:ReadTerminal", ("list_terminals", "BashOutput", "TaskOutput")),
    RegisteredTool("write_terminal", f"{_TERMINAL}.jobs:WriteTerminal", ("write_stdin",)),
    RegisteredTool("stop_terminal", f"{_TERMINAL}.jobs:StopTerminal", ("KillShell", "KillBash", "TaskStop")),
    RegisteredTool("read_lints", f"{_READING}.read_lints:ReadLints", ("ReadLints",)),
    RegisteredTool("update_plan", f"{_BUILTIN}.plans:UpdatePlan", ("UpdatePlan", "edit_plan")),
    RegisteredTool("hypotheses_set", f"{_BUILTIN}.debugging:HypothesesSetTool"),
    RegisteredTool("hypothesis_verdict", f"{_BUILTIN}.debugging:HypothesisVerdict"),
    RegisteredTool("probe_add", f"{_BUILTIN}.debugging:ProbeAdd"),
    RegisteredTool("probe_remove", f"{_BUILTIN}.debugging:ProbeRemove"),
    RegisteredTool("reproduce", f"{_BUILTIN}.debugging:Reproduce"),
    RegisteredTool("read_probe_log", f"{_BUILTIN}.debugging:ReadProbeLog"),
    RegisteredTool("call_tool", "core.tools.call_tool:CallTool", ("CallTool",), is_essential=True),
    RegisteredTool(
        "run_python",
        f"{_TERMINAL}.run_terminal_cmd:RunPython",
        ("execute_ipython_cell", "execute_python"),
        is_listed=False,
    ),
    RegisteredTool("fetch_rules", f"{_BUILTIN}.guidance:FetchRules", ("FetchRules",)),
    RegisteredTool("find_definition", f"{_BUILTIN}.names:FindDefinition", ("go_to_definition",)),
    RegisteredTool("codebase_search", f"{_READING}.codebase_search:CodebaseSearch", ("SemanticSearch",)),
    RegisteredTool("find_references", f"{_BUILTIN}.names:FindReferences", ("list_code_usages",), is_listed=False),
    RegisteredTool("propose_memory", f"{_BUILTIN}.guidance:ProposeMemory", ("update_memory", "save_memory")),
    RegisteredTool("rename_symbol", f"{_BUILTIN}.names:RenameSymbol", is_listed=False),
    RegisteredTool(
        "finish", f"{_BUILTIN}.dialogue:FinishTool", ("Finish", "attempt_completion", "submit"), is_listed=False
    ),
    RegisteredTool("task", f"{_BUILTIN}.task:TaskTool", ("Task", "Agent"), is_listed=False),
    RegisteredTool("activate_skill", f"{_BUILTIN}.guidance:ActivateSkill", ("Skill",), is_listed=False),
    RegisteredTool(
        "edit_notebook", f"{_EDITING}.edit_notebook:EditNotebook", ("EditNotebook", "NotebookEdit"), is_listed=False
    ),
    RegisteredTool("search_tools", "core.tools.external:SearchTools", ("ToolSearch",), is_listed=False),
    RegisteredTool("web_fetch", f"{_BUILTIN}.web:WebFetch", ("WebFetch", "fetch_url"), is_listed=False),
    RegisteredTool(
        "web_search", f"{_BUILTIN}.web:WebSearch", ("WebSearch", "search_web", "google_web_search"), is_listed=False
    ),
    *(
        RegisteredTool(tool.name, tool.location, tool.aliases, is_listed=False)
        for tool in EDIT_TOOLS
        if tool is not SEARCH_REPLACE
    ),
)
