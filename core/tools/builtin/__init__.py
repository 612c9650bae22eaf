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
        (
            *("Read", "ReadFile", "view_file", "readTool", "open_file", "view_image", "NotebookRead", "view"),
            *("read_file_range", "ReadMediaFile", "read_notebook"),
        ),
        is_essential=True,
    ),
    RegisteredTool(
        "list_dir",
        f"{_READING}.list_files:ListDir",
        ("LS", "list_directory", "list_files", "list", "view_subdirectory", "tree"),
        is_essential=True,
    ),
    RegisteredTool(
        "grep",
        f"{_READING}.grep:Grep",
        (
            *("Grep", "grep_search", "search_dir", "search_file", "grep_files", "search_files", "search_file_content"),
            *("Search", "search_by_regex", "ripgrep"),
        ),
        is_essential=True,
    ),
    RegisteredTool(
        "glob_file_search",
        f"{_READING}.list_files:GlobFileSearch",
        ("Glob", "file_search", "find_file", "file_glob_search", "find", "find_path", "find_by_name"),
    ),
    RegisteredTool(SEARCH_REPLACE.name, SEARCH_REPLACE.location, SEARCH_REPLACE.aliases, is_essential=True),
    RegisteredTool(
        "write",
        f"{_EDITING}.write:WriteTool",
        ("Write", "write_file", "create_file", "create", "write_to_file", "create_new_file", "save_file"),
        is_essential=True,
    ),
    RegisteredTool("delete_file", f"{_EDITING}.write:DeleteFile", ("Delete", "delete_path", "remove_file")),
    RegisteredTool(
        "run_terminal_cmd",
        f"{_TERMINAL}.run_terminal_cmd:RunTerminalCmd",
        (
            *("Shell", "Bash", "run_terminal_command", "run_shell_command", "shell_command", "local_shell"),
            *("exec_command", "execute_command", "execute_bash", "run_in_terminal", "terminal", "run_command"),
            *("execute", "launch_process"),
        ),
        is_essential=True,
    ),
    RegisteredTool("create_plan", f"{_BUILTIN}.plans:CreatePlan", ("CreatePlan",)),
    RegisteredTool("todo_write", f"{_BUILTIN}.plans:TodoWrite", ("TodoWrite", "write_todos", "SetTodoList", "todos")),
    RegisteredTool(
        "ask_question",
        f"{_BUILTIN}.dialogue:AskQuestion",
        (
            *("AskQuestion", "AskUserQuestion", "request_user_input", "ask_followup_question", "ask_user", "question"),
            "vscode_askQuestions",
        ),
    ),
    RegisteredTool("switch_mode", f"{_BUILTIN}.dialogue:SwitchMode", ("SwitchMode", "switch_agent")),
    RegisteredTool(
        "read_terminal",
        f"{_TERMINAL}.jobs:ReadTerminal",
        (
            *("list_terminals", "BashOutput", "TaskOutput", "job_output", "get_terminal_output", "read_process"),
            *("list_processes", "check_background_job", "command_status"),
        ),
    ),
    RegisteredTool(
        "write_terminal", f"{_TERMINAL}.jobs:WriteTerminal", ("write_stdin", "write_process", "send_to_terminal")
    ),
    RegisteredTool(
        "stop_terminal",
        f"{_TERMINAL}.jobs:StopTerminal",
        ("KillShell", "KillBash", "TaskStop", "job_kill", "kill_process", "kill_terminal"),
    ),
    RegisteredTool(
        "read_lints",
        f"{_READING}.read_lints:ReadLints",
        ("ReadLints", "get_errors", "diagnostics", "get_diagnostics", "lsp_diagnostics"),
    ),
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
    RegisteredTool("fetch_rules", f"{_BUILTIN}.guidance:FetchRules", ("FetchRules", "request_rule")),
    RegisteredTool("find_definition", f"{_BUILTIN}.names:FindDefinition", ("go_to_definition", "lsp_definition")),
    RegisteredTool(
        "codebase_search",
        f"{_READING}.codebase_search:CodebaseSearch",
        (
            *("SemanticSearch", "search_codebase", "codebase", "codebase_retrieval", "codebase_search_agent"),
            "search_workspace_symbols",
        ),
    ),
    RegisteredTool(
        "find_references",
        f"{_BUILTIN}.names:FindReferences",
        ("list_code_usages", "lsp_references", "vscode_listCodeUsages"),
        is_listed=False,
    ),
    RegisteredTool(
        "propose_memory", f"{_BUILTIN}.guidance:ProposeMemory", ("update_memory", "save_memory", "remember")
    ),
    RegisteredTool(
        "rename_symbol", f"{_BUILTIN}.names:RenameSymbol", ("lsp_rename", "vscode_renameSymbol"), is_listed=False
    ),
    RegisteredTool(
        "finish",
        f"{_BUILTIN}.dialogue:FinishTool",
        ("Finish", "attempt_completion", "submit", "complete_task", "submit_and_exit", "task_done"),
        is_listed=False,
    ),
    RegisteredTool(
        "task",
        f"{_BUILTIN}.task:TaskTool",
        ("Task", "Agent", "runSubagent", "spawn_agent", "new_task", "dispatch_agent", "delegate"),
    ),
    RegisteredTool(
        "activate_skill",
        f"{_BUILTIN}.guidance:ActivateSkill",
        ("Skill", "Skills", "read_skill", "use_skill", "load_skill"),
        is_listed=False,
    ),
    RegisteredTool(
        "edit_notebook",
        f"{_EDITING}.edit_notebook:EditNotebook",
        ("EditNotebook", "NotebookEdit", "edit_notebook_file"),
        is_listed=False,
    ),
    RegisteredTool("search_tools", "core.tools.external:SearchTools", ("ToolSearch",), is_listed=False),
    RegisteredTool(
        "web_fetch",
        f"{_BUILTIN}.web:WebFetch",
        (
            *("WebFetch", "fetch_url", "fetch", "fetch_webpage", "fetch_url_content", "read_web_page"),
            *("read_url_content", "agentic_fetch"),
        ),
        is_listed=False,
    ),
    RegisteredTool(
        "web_search", f"{_BUILTIN}.web:WebSearch", ("WebSearch", "search_web", "google_web_search"), is_listed=False
    ),
    RegisteredTool(
        "run_code", f"{_TERMINAL}.run_terminal_cmd:RunCode", ("code_mode", "programmatic_tool_calling"), is_listed=False
    ),
    RegisteredTool("consult_advisor", f"{_BUILTIN}.task:ConsultAdvisor", ("advisor",), is_listed=False),
    RegisteredTool("propose_goal", f"{_BUILTIN}.dialogue:ProposeGoal", ("set_goal",), is_listed=False),
    *(
        RegisteredTool(tool.name, tool.location, tool.aliases, is_listed=False)
        for tool in EDIT_TOOLS
        if tool is not SEARCH_REPLACE
    ),
    # Never offered: for models that know them from other agents.
    RegisteredTool("insert_lines", f"{_EDITING}.line_edits:InsertLines", is_listed=False),
    RegisteredTool("undo_edit", f"{_EDITING}.line_edits:UndoEdit", is_listed=False),
    RegisteredTool("read_many_files", f"{_READING}.read_many_files:ReadManyFiles", ("read_files",), is_listed=False),
    RegisteredTool("think", f"{_BUILTIN}.dialogue:ThinkTool", ("thinking", "sequentialthinking"), is_listed=False),
)
