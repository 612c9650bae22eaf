"""The built-in tools. A tool is its module here, its text `core/prompts/tools/<name>.md`, and its row in `BUILTIN`."""

from __future__ import annotations

from typing import Final

from core.edit_formats import EDIT_TOOLS, SEARCH_REPLACE
from core.tools.base import RegisteredTool

_READING: Final = "core.tools.builtin.reading"
_EDITING: Final = "core.tools.builtin.editing"
_TERMINAL: Final = "core.tools.builtin.terminal"
_PLANNING: Final = "core.tools.builtin.planning"
_DEBUGGING: Final = "core.tools.builtin.debugging"
_NAMES: Final = "core.tools.builtin.names"
_WEB: Final = "core.tools.builtin.web"

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
        f"{_READING}.list_dir:ListDir",
        ("LS", "list_directory", "list_files", "list"),
        is_essential=True,
    ),
    RegisteredTool(
        "grep",
        f"{_READING}.grep:Grep",
        ("Grep", "grep_search", "search_dir", "search_file", "grep_files", "search_files", "search_file_content"),
        is_essential=True,
    ),
    RegisteredTool(
        "glob_file_search", f"{_READING}.glob_file_search:GlobFileSearch", ("Glob", "file_search", "find_file")
    ),
    RegisteredTool(SEARCH_REPLACE.name, SEARCH_REPLACE.location, SEARCH_REPLACE.aliases, is_essential=True),
    RegisteredTool(
        "write",
        f"{_EDITING}.write:WriteTool",
        ("Write", "write_file", "create_file", "create", "write_to_file"),
        is_essential=True,
    ),
    RegisteredTool("delete_file", f"{_EDITING}.delete_file:DeleteFile", ("Delete",)),
    RegisteredTool(
        "run_terminal_cmd",
        f"{_TERMINAL}.run_terminal_cmd:RunTerminalCmd",
        (
            *("Shell", "Bash", "run_terminal_command", "run_shell_command", "shell_command", "local_shell"),
            *("exec_command", "execute_command", "execute_bash"),
        ),
        is_essential=True,
    ),
    RegisteredTool("create_plan", f"{_PLANNING}.create_plan:CreatePlan", ("CreatePlan",)),
    RegisteredTool("todo_write", f"{_PLANNING}.todo_write:TodoWrite", ("TodoWrite",)),
    RegisteredTool(
        "ask_question",
        f"{_PLANNING}.ask_question:AskQuestion",
        ("AskQuestion", "AskUserQuestion", "request_user_input", "ask_followup_question"),
    ),
    RegisteredTool("switch_mode", f"{_PLANNING}.switch_mode:SwitchMode", ("SwitchMode",)),
    RegisteredTool(
        "read_terminal", f"{_TERMINAL}.read_terminal:ReadTerminal", ("list_terminals", "BashOutput", "TaskOutput")
    ),
    RegisteredTool("write_terminal", f"{_TERMINAL}.write_terminal:WriteTerminal", ("write_stdin",)),
    RegisteredTool("stop_terminal", f"{_TERMINAL}.stop_terminal:StopTerminal", ("KillShell", "KillBash", "TaskStop")),
    RegisteredTool("read_lints", f"{_READING}.read_lints:ReadLints", ("ReadLints",)),
    RegisteredTool("update_plan", f"{_PLANNING}.update_plan:UpdatePlan", ("UpdatePlan", "edit_plan")),
    RegisteredTool("hypotheses_set", f"{_DEBUGGING}.hypotheses_set:HypothesesSetTool"),
    RegisteredTool("hypothesis_verdict", f"{_DEBUGGING}.hypothesis_verdict:HypothesisVerdict"),
    RegisteredTool("probe_add", f"{_DEBUGGING}.probe_add:ProbeAdd"),
    RegisteredTool("probe_remove", f"{_DEBUGGING}.probe_remove:ProbeRemove"),
    RegisteredTool("reproduce", f"{_DEBUGGING}.reproduce:Reproduce"),
    RegisteredTool("read_probe_log", f"{_DEBUGGING}.read_probe_log:ReadProbeLog"),
    RegisteredTool("call_tool", "core.tools.call_tool:CallTool", ("CallTool",), is_essential=True),
    RegisteredTool(
        "run_python", f"{_TERMINAL}.run_python:RunPython", ("execute_ipython_cell", "execute_python"), is_listed=False
    ),
    RegisteredTool("fetch_rules", f"{_READING}.fetch_rules:FetchRules", ("FetchRules",)),
    RegisteredTool("find_definition", f"{_NAMES}.find_definition:FindDefinition", ("go_to_definition",)),
    RegisteredTool("codebase_search", f"{_READING}.codebase_search:CodebaseSearch", ("SemanticSearch",)),
    RegisteredTool(
        "find_references", f"{_NAMES}.find_references:FindReferences", ("list_code_usages",), is_listed=False
    ),
    RegisteredTool("propose_memory", f"{_PLANNING}.propose_memory:ProposeMemory", ("update_memory", "save_memory")),
    RegisteredTool("rename_symbol", f"{_NAMES}.rename_symbol:RenameSymbol", is_listed=False),
    RegisteredTool(
        "finish", f"{_PLANNING}.finish:FinishTool", ("Finish", "attempt_completion", "submit"), is_listed=False
    ),
    RegisteredTool("task", "core.tools.builtin.agents.task:TaskTool", ("Task", "Agent"), is_listed=False),
    RegisteredTool("activate_skill", f"{_READING}.activate_skill:ActivateSkill", ("Skill",), is_listed=False),
    RegisteredTool(
        "edit_notebook", f"{_EDITING}.edit_notebook:EditNotebook", ("EditNotebook", "NotebookEdit"), is_listed=False
    ),
    RegisteredTool("search_tools", "core.tools.external:SearchTools", ("ToolSearch",), is_listed=False),
    RegisteredTool("web_fetch", f"{_WEB}.web_fetch:WebFetch", ("WebFetch", "fetch_url"), is_listed=False),
    RegisteredTool(
        "web_search", f"{_WEB}.web_search:WebSearch", ("WebSearch", "search_web", "google_web_search"), is_listed=False
    ),
    *(
        RegisteredTool(tool.name, tool.location, tool.aliases, is_listed=False)
        for tool in EDIT_TOOLS
        if tool is not SEARCH_REPLACE
    ),
)
