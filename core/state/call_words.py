"""Descriptions of calls, while they run and after their end: no row has the name of one of our tools."""

from __future__ import annotations

from typing import Final

# While it runs, and after its end.
_WORDS: Final = {
    "read_file": ("Reading", "Read"),
    "read_many_files": ("Reading", "Read"),
    "list_dir": ("Listing", "Listed"),
    "grep": ("Searching for", "Searched for"),
    "glob_file_search": ("Finding files", "Found files"),
    "codebase_search": ("Searching for", "Searched for"),
    "find_definition": ("Looking up", "Looked up"),
    "find_references": ("Finding uses of", "Found uses of"),
    "rename_symbol": ("Renaming", "Renamed"),
    "search_replace": ("Editing", "Edited"),
    "multi_edit": ("Editing", "Edited"),
    "edit_file": ("Editing", "Edited"),
    "apply_patch": ("Editing", "Edited"),
    "edit_blocks": ("Editing", "Edited"),
    "file_edit": ("Editing", "Edited"),
    "edit_notebook": ("Editing", "Edited"),
    "insert_lines": ("Editing", "Edited"),
    "undo_edit": ("Undoing an edit of", "Undid an edit of"),
    "write": ("Writing", "Wrote"),
    "delete_file": ("Deleting", "Deleted"),
    "run_terminal_cmd": ("Running", "Ran"),
    "run_python": ("Running Python", "Ran Python"),
    "run_code": ("Running a program", "Ran a program"),
    "read_terminal": ("Looking at jobs", "Looked at jobs"),
    "write_terminal": ("Typing into a job", "Typed into a job"),
    "stop_terminal": ("Stopping a job", "Stopped a job"),
    "read_lints": ("Checking", "Checked"),
    "fetch_rules": ("Reading rules", "Read rules"),
    "activate_skill": ("Opening the skill", "Opened the skill"),
    "create_plan": ("Planning", "Planned"),
    "update_plan": ("Changing the plan", "Changed the plan"),
    "todo_write": ("Updating todos", "Updated todos"),
    "ask_question": ("Asking", "Asked"),
    "switch_mode": ("Asking to switch to mode", "Asked to switch to mode"),
    "propose_goal": ("Proposing the goal", "Proposed the goal"),
    "propose_memory": ("Proposing to remember", "Proposed to remember"),
    "think": ("Thinking", "Thought"),
    "finish": ("Finishing", "Finished"),
    "consult_advisor": ("Consulting the advisor:", "Consulted the advisor:"),
    "task": ("Giving a task", "Gave a task"),
    "call_tool": ("Calling", "Called"),
    "search_tools": ("Looking for tools", "Looked for tools"),
    "hypotheses_set": ("Writing down hypotheses", "Wrote down hypotheses"),
    "hypothesis_verdict": ("Judging", "Judged"),
    "probe_add": ("Adding a probe", "Added a probe"),
    "probe_remove": ("Removing probes", "Removed probes"),
    "read_probe_log": ("Reading the probes", "Read the probes"),
    "reproduce": ("Reproducing", "Reproduced"),
    "debugger": ("Debugging", "Debugged"),
    "web_fetch": ("Fetching", "Fetched"),
    "web_search": ("Searching the web for", "Searched the web for"),
}
# What was tried by a call that changed nothing.
_ATTEMPTS: Final = {
    "Edited": "Edit",
    "Wrote": "Write",
    "Deleted": "Delete",
    "Renamed": "Rename",
    "Undid an edit of": "Undo an edit of",
}
_OPERATIONS: Final = {"create": "Created", "edit": "Edited", "delete": "Deleted", "rename": "Renamed"}


def describe_call(tool: str, *, is_running: bool, has_failed: bool = False) -> str:
    """Return the description of a call; the name of a foreign tool is returned unchanged."""
    running, ended_label = _WORDS.get(tool, (tool, tool))
    if has_failed:
        return _ATTEMPTS.get(ended_label, ended_label)
    return running if is_running else ended_label


def describe_edit(operation: str, *, has_failed: bool) -> str:
    """Return the word for the operation on a file: as a result, or as the aim of a failed edit."""
    return operation.capitalize() if has_failed else _OPERATIONS[operation]
