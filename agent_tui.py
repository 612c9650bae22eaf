"""Launcher and composition root: puts this installation first on sys.path, parses the arguments, starts a front end.

A project may have its own `core`, `tui`, `json.py` or `sitecustomize.py`, and PYTHONPATH may point at it; none of them
may change or break this program. So only os and sys are imported before sys.path is in order, and modules that the
start-up took from the project are dropped. If Python was configured to look for modules in the project, the program
restarts itself isolated, or refuses to run if Python has already run code of the project, which nobody has trusted yet.
Last, the project is removed from PATH and similar variables (`core.search_paths`).

Only this file imports both `core` and `tui`. It parses on every Python 3, so that it can name the required version.
"""

import os
import sys

if sys.version_info < (3, 11):
    sys.exit("agent-tui needs Python 3.11 or newer; this is %d.%d (%s)." % (*sys.version_info[:2], sys.executable))

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from core.arguments import Arguments
    from core.cli.arguments import CommandLine

OWN_PACKAGES = ("core", "tui")
# Modules with the interpreter's state, or loaded before any path of the project is searched.
UNTOUCHABLE = ("__main__", "builtins", "codecs", "encodings", "importlib", "io", "os", "site", "sys", "warnings")
WEB_DRIVER = "textual.drivers.web_driver:WebDriver"

# Variables with the directories from which Python loads code before ours runs.
HOMES = ("PYTHONHOME", "PYTHONUSERBASE", "PYTHONPYCACHEPREFIX")


def own_root() -> str:
    """Return the directory that holds our `core` and `tui`: that of this file in a checkout, agent_tui_app below it in
    a wheel."""
    directory = os.path.dirname(os.path.realpath(__file__))
    installed_root = os.path.join(directory, "agent_tui_app")
    return installed_root if os.path.isdir(installed_root) else directory


def _project_entries(root: str) -> "set[str]":
    """Return the current directory and the entries of PYTHONPATH as real paths, without our own root."""
    python_path = os.environ.get("PYTHONPATH", "")
    entries = {""}.union(python_path.split(os.pathsep) if python_path else ())
    return {path for path in map(_real, entries) if path != root}


def _real(entry: str) -> str:
    try:
        return os.path.realpath(entry or os.getcwd())
    except OSError:  # the current directory was removed
        return entry


def _is_of_a_project(entry: str, root: str) -> bool:
    """Return True if a module search path is relative, or lies in the current directory or one that is to be opened."""
    real = _real(entry)
    if real == root:
        return False
    directories = [word for word in sys.argv[1:] if not word.startswith("-") and os.path.isdir(word)]
    return not os.path.isabs(entry) or any(_lies_under(real, _real(directory)) for directory in ("", *directories))


def _list_project_entries(root: str) -> "list[str]":
    """Return the entries of PYTHONPATH that lead into a project, and the current directory if `python -m` put it
    first."""
    if sys.flags.ignore_environment:
        return []
    python_path = os.environ.get("PYTHONPATH", "")
    first = [] if sys.flags.safe_path else [entry for entry in sys.path[:1] if _real(entry) == _real("")]
    return [
        entry
        for entry in (*(python_path.split(os.pathsep) if python_path else ()), *first)
        if _is_of_a_project(entry, root)
    ]


def isolation() -> "tuple[str, ...]":
    """Return the Python options that isolate a process as much as this one."""
    if not sys.flags.ignore_environment:
        return ()
    return ("-I",) if sys.flags.isolated else ("-E", "-P")


def start_isolated() -> None:
    """Restart without paths that lead into a project; raises SystemExit if code of the project has run."""
    if sys.flags.ignore_environment:
        return
    root = own_root()
    homes = [name for name in HOMES if os.environ.get(name) and _is_of_a_project(os.environ[name], root)]
    entries = _list_project_entries(root)
    places = [_real(entry) for entry in entries]
    ran = sorted(
        name
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] not in ("__main__", "agent_tui")
        and any(_lies_under(_location(module), directory) for directory in places)
        and not _lies_under(_location(module), root)
    )
    if homes or ran:
        names = homes or ["PYTHONPATH"]
        problem = f"has run its {ran[0]} already" if ran else "takes its own code from there"
        sys.exit(
            f"agent-tui: {' and '.join(names)} leads into the project, and Python {problem}, before anybody trusted"
            " it.\n"
            f"           Start it without: env {' '.join('-u ' + name for name in names)} agent-tui"
        )
    if entries:
        site = sys.modules.get("site")
        users = getattr(site, "USER_SITE", None) if getattr(site, "ENABLE_USER_SITE", False) else None
        options = ("-E", "-P") if users and _lies_under(root, os.path.realpath(users)) else ("-I",)
        os.execv(sys.executable, [sys.executable, *options, os.path.realpath(__file__), *sys.argv[1:]])


def _lies_under(path: str, directory: str) -> bool:
    if sys.platform == "darwin":  # its file systems ignore case
        path, directory = path.lower(), directory.lower()
    return path == directory or path.startswith(os.path.join(directory, ""))


def _location(module: "ModuleType") -> str:
    """Return the file of a module, or the first directory of a namespace package; empty for a built-in."""
    file = getattr(module, "__file__", None)
    if not isinstance(file, str):
        file = next(iter(getattr(module, "__path__", ())), "")
    return os.path.realpath(file) if file else ""


def _is_intruder(name: str, module: "ModuleType", root: str, project: "set[str]") -> bool:
    top = name.partition(".")[0]
    if top in OWN_PACKAGES:
        return not _lies_under(_location(module), root)
    if not project or top not in sys.stdlib_module_names:
        return False  # check files only where a project could have put one
    location = _location(module)
    library = os.path.dirname(os.path.realpath(os.__file__))
    if not location or _lies_under(location, library) or _lies_under(location, root):
        return False
    return any(_lies_under(location, entry) for entry in project)


def _holds_one_of(module: "ModuleType", evicted_modules: "dict[str, ModuleType]") -> bool:
    names, modules = set(evicted_modules), {id(evicted_module) for evicted_module in evicted_modules.values()}
    return any(
        id(value) in modules or getattr(value, "__module__", None) in names for value in list(vars(module).values())
    )


def _evict_intruders(root: str, project: "set[str]") -> None:
    """Drop modules of the project that replaced ours or the standard library's, and the modules that were built on
    them."""
    evicted_modules = {
        name: module for name, module in sys.modules.items() if _is_intruder(name, module, root, project)
    }
    latest = dict(evicted_modules)
    while latest:
        for name in latest:
            del sys.modules[name]
        standard = {
            name: module
            for name, module in sys.modules.items()
            if name.partition(".")[0] in sys.stdlib_module_names and name.partition(".")[0] not in UNTOUCHABLE
        }
        latest = {name: module for name, module in standard.items() if _holds_one_of(module, evicted_modules)}
        evicted_modules.update(latest)


def put_own_code_first() -> None:
    """Order sys.path: our root, the installation, then the project's entries, which some installations need."""
    root = own_root()
    project = _project_entries(root)
    others = [entry for entry in sys.path if _real(entry) != root]
    installation_entries = [entry for entry in others if _real(entry) not in project]
    project_entries = [entry for entry in others if _real(entry) in project]
    sys.path[:] = [root, *installation_entries, *project_entries]
    _evict_intruders(root, project)


def _start(line: "CommandLine") -> int:
    import gc

    from core.user_dirs import require_home

    require_home()
    if line.front == "screen":
        return _run_screen(line, line.build)
    arguments = _open_session(_open_review(line.build()))
    if arguments.front == "screen":
        return _run_screen(arguments, lambda: arguments)
    try:
        run = find_front_end(arguments)
    finally:
        gc.freeze()
        gc.enable()
    return run(arguments)


def _run_screen(options: "Any", build: "Callable[[], Any]") -> int:
    """Run the screen. `options`: what the first frame depends on; `build` builds the arguments while that is shown."""
    if _lacks_terminal():
        from core.exits import ExitCode

        return ExitCode.USAGE
    from core.user_dirs import get_config_dir
    from tui.first_frame import open_early

    with open_early(options, get_config_dir()) as early:
        arguments = build()
        if arguments.continue_last or arguments.resume:
            from core.cli.sessions import choose_session

            arguments = choose_session(arguments)
        return load_screen()(arguments, early)


def _lacks_terminal() -> bool:
    """Report a missing terminal for keys (standard input) or pictures (standard error). Returns True if one is missing.
    A screen in a browser needs none."""
    if os.environ.get("TEXTUAL_DRIVER") == WEB_DRIVER:
        return False
    streams = (("standard input", sys.stdin), ("standard error", sys.stderr))
    missing = [name for name, stream in streams if stream is None or not stream.isatty()]
    if missing and sys.stderr is not None:
        sys.stderr.write(
            f"agent-tui: the screen needs a terminal for {' and '.join(missing)}. Nothing was started.\n"
            "Without one: agent-tui -p PROMPT, or agent-tui -p with the prompt on standard input.\n"
        )
    return bool(missing)


def _open_review(arguments: "Arguments") -> "Arguments":
    """Return the arguments of a screen on the session that waits for a review, if that is requested and there is
    one."""
    if arguments.front != "review":
        return arguments
    from core.arguments import ScreenArguments
    from core.cli.review import ReviewArguments, find_session_to_review

    if not isinstance(arguments, ReviewArguments) or arguments.print_only:
        return arguments
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return arguments
    session = find_session_to_review(arguments.directory)
    if not session:
        return arguments
    return ScreenArguments(
        directory=arguments.directory, resume=session, pane="review", private=False, program=own_program()
    )


def _open_session(arguments: "Arguments") -> "Arguments":
    """Return the arguments of a screen on the session that `attach` names or finds, or the same arguments for a
    list."""
    if arguments.front != "attach":
        return arguments
    from core.cli.attach import AttachArguments, choose_running

    choice = choose_running(arguments) if isinstance(arguments, AttachArguments) else None
    if choice is None:
        return arguments
    from core.arguments import ScreenArguments

    session, directory = choice
    return ScreenArguments(directory=directory, resume=session, program=own_program())


def own_program() -> "tuple[str, ...]":
    """Return the argv prefix that starts this same program again, as isolated as it is now."""
    return (sys.executable, *isolation(), os.path.realpath(__file__))


def load_screen() -> "Callable[..., int]":
    """Load the screen with its connection to an engine, without tree-sitter (Textual highlights with Pygments instead)
    and without OpenSSL, which takes a megabyte: asyncio imports it if it can, and the screen connects to no address."""
    for name in ("tree_sitter", "ssl"):
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # makes imports of it fail

    from core.transports.stdio_client import reach_engine
    from tui.app import run

    def show(arguments: "Any", early: "Any" = None) -> int:
        return run(arguments, reach_engine, early=early, save_fault=lambda fault: _save_crash(fault, arguments))

    return show


def _save_crash(fault: BaseException, arguments: "Any") -> str:
    """Save a crash report of the screen, unless the session is private. Returns the sentence about it."""
    from core.crash_reports import save_crash_report, set_enabled, describe_crash_report

    set_enabled(not arguments.private)
    return describe_crash_report(save_crash_report(fault, "the screen"))


def find_front_end(arguments: "Arguments") -> "Callable[[Any], int]":
    """Return the function that runs a command line without a screen: mostly `run` of its module in `core.cli`."""
    from importlib import import_module

    from core.cli.parsing import locate_subcommand

    if arguments.front == "engine":
        from core.transports.stdio_server import serve

        return serve
    if arguments.front == "print":
        return _run_print
    if arguments.front == "doctor":
        return _run_doctor
    if arguments.front in {"config", "report"}:
        return _run_upkeep
    run: "Callable[[Any], int]" = import_module(locate_subcommand(arguments.front)).run
    return run


def _run_print(arguments: "Any") -> int:
    from core.cli.print_mode.headless import run_print

    return run_print(arguments, check_interface=_check_interface)


def _check_interface(settings: "Any") -> "Any":
    """Return the problems of the screen's settings; the screen's code is loaded only if the user has any."""
    from core.engine.queries.sessions import THEMES_DIRECTORY
    from core.user_dirs import get_config_dir

    themes = get_config_dir() / THEMES_DIRECTORY
    if not (any((settings.theme, settings.keymap, settings.syntax)) or themes.is_dir()):
        return ()
    from tui.settings_check import check_interface

    return check_interface(settings.theme, settings.keymap, syntax=settings.syntax, themes=themes)


def _run_upkeep(arguments: "Any") -> int:
    """Run `config` or `report`, which check the screen's settings, too."""
    if arguments.front == "report":
        from core.cli.report import run as run_report

        return run_report(arguments, check_interface=_check_interface)
    from core.cli.config import run
    from tui.files.editors import find_editor_command

    return run(arguments, check_interface=_check_interface, find_editor=find_editor_command)


def _run_doctor(arguments: "Any") -> int:
    from core.cli.doctor import run
    from tui.clipboard import describe_clipboard

    return run(arguments, clipboard=describe_clipboard)


def _explain(problem: Exception) -> int:
    """Print one line instead of a traceback; AGENT_TUI_TRACEBACK=1 shows the traceback."""
    from core.errors import AgentTuiError
    from core.exits import ExitCode

    if os.environ.get("AGENT_TUI_TRACEBACK"):
        raise problem
    if isinstance(problem, BrokenPipeError):  # the reader of our output is gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return ExitCode.FAILED
    text = str(problem) or type(problem).__name__
    if isinstance(problem, AgentTuiError):
        text = problem.format_with_hint()
    elif isinstance(problem, ImportError):
        text = f"the installation is incomplete: {text}. Install agent-tui again; inside a checkout: make clean run"
    else:
        from core.crash_reports import save_crash_report, describe_crash_report

        report = describe_crash_report(save_crash_report(problem, "the program"))
        text = f"unexpected fault: {type(problem).__name__}: {text}. {report}"
    from core.text.display_names import to_one_line

    first, *others = map(to_one_line, text.split("\n"))  # mistakes of a settings file, one a line
    sys.stderr.write("".join(f"{line}\n" for line in (f"agent-tui: {first}", *(f"  {line}" for line in others))))
    return ExitCode.FAILED


def main() -> int:
    """Run the command line in sys.argv. Returns the exit code; raises SystemExit after --help and for wrong
    arguments."""
    import gc

    gc.disable()  # a start makes many objects and little garbage; the screen enables it again after its first frame
    start_isolated()
    os.umask(os.umask(0o077) & 0o077)  # a umask that restricts the user would lock the program out of its files
    put_own_code_first()
    from core.cli.streams import prepare_output

    prepare_output()
    from core.search_paths import clean_environment

    clean_environment(own_program())
    from core.cli.arguments import check
    from core.exits import ExitCode

    try:
        try:
            if sys.argv[1:] == ["edits", "apply"]:
                from core.transports.edit_service import run

                gc.enable()
                return run()
            return _start(check(sys.argv[1:], program=own_program()))
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except Exception as problem:
        return _explain(problem)
    finally:
        _detach_stderr()
        _skip_last_collection()


def _detach_stderr() -> None:
    """Redirect a standard error that can't be written: flushing it at exit would make Python end with 120."""
    try:
        if sys.__stderr__ is not None:
            sys.__stderr__.flush()
    except (OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _skip_last_collection() -> None:
    """Exempt all objects from the garbage collection at the end of the interpreter: it takes 120 ms, a sixth of a short
    `-p` run, and frees only memory that the system is about to reclaim."""
    import gc

    gc.freeze()


if __name__ == "__main__":
    sys.exit(main())
