"""Import of a provider's SDK without the parts that are never used.

A plain `import anthropic` takes 1,400 ms of processor time and 78 MB, and `import openai` 710 ms and 61 MB; here it is
530 ms and 50 MB, and 590 ms and 57 MB. Nearly all of the rest is generated pydantic models that a streamed chat never
touches: the package's `__init__` names them all, and the client class imports a few of them for its annotations. So:

(1) The packages of an SDK are in `sys.modules` before their code has run. The first missing name is looked up in the
text of a package's `__init__`, and only the module that defines that name is imported. If the text does not tell, the
real `__init__` runs, and the package is an ordinary one from then on. (2) A few functions (`DEFERRED`) whose modules
import hundreds of models, and which run only after an error or for tracing, import their module when they are called.
(3) A few type aliases (`OPAQUE`) that are only used in annotations are not resolved at all. Without (2) and (3),
anthropic takes 60 ms more.

Nothing of the SDK is changed or copied, and all of it can still be imported. If any of this fails, as with another
version of the SDK, the loaded modules are dropped and the plain import is made: slower, with the same result.
"""

from __future__ import annotations

import ast
import gc
import importlib
import importlib.util
import os
import sys
import threading
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Literal

from core.syntax.python_parser import parse_python

Sdk = Literal["openai", "anthropic"]

DEFERRED: Final = {
    "anthropic._error_classes": frozenset({"make_status_error"}),
    "anthropic.lib._tracing": frozenset({"finish_api_call_span"}),
}
OPAQUE: Final = {
    "anthropic.types.message_create_params": frozenset({"MessageCreateParamsBase"}),
    "anthropic.types.beta.message_create_params": frozenset({"MessageCreateParamsBase"}),
}
_WAITING_BRANCHES: Final = ("types", "lib", "resources")
_OF_THE_CODE: Final = ("__all__", "__version__")  # The import system asks for other such names, which need no code.
_import_lock = threading.Lock()


class WaitingModule(ModuleType):
    """A module or package whose code runs only when a missing name can't be provided more cheaply."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in _OF_THE_CODE:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if name in DEFERRED.get(self.__name__, ()):
            return _build_waiting_function(self, name)
        if name in OPAQUE.get(self.__name__, ()):
            return object
        attribute = self._from_its_own_module(name) if hasattr(self, "__path__") else None
        if attribute is None:
            _run(self)
            attribute = getattr(self, name)
        return attribute

    def _from_its_own_module(self, name: str) -> Any:
        """Return the name as one relative import of `__init__` would bind it; None if it is bound otherwise."""
        index = self.__dict__.get("__waiting_names__")
        if index is None:
            index = self.__dict__["__waiting_names__"] = _find_relative_imports(self)
        if name not in index:
            full = f"{self.__name__}.{name}"
            return importlib.import_module(full) if importlib.util.find_spec(full) else None
        module, original = index[name]
        value = getattr(importlib.import_module(f"{self.__name__}.{module}"), original)
        self.__dict__[name] = value
        return value


def _find_relative_imports(package: ModuleType) -> dict[str, tuple[str, str]]:
    """Return `{name: (module below the package, name in it)}` from the top level of the package's `__init__`."""
    spec = package.__spec__
    loader = spec.loader if spec else None
    source = getattr(loader, "get_source", lambda _: None)(package.__name__)
    statements = parse_python(source).body if source else []
    imports = [
        statement
        for statement in statements
        if isinstance(statement, ast.ImportFrom) and statement.level == 1 and statement.module
    ]
    return {
        alias.asname or alias.name: (str(import_from.module), alias.name)
        for import_from in imports
        for alias in import_from.names
    }


def _build_waiting_function(module: ModuleType, name: str) -> Any:
    def call_when_loaded(*args: Any, **kwargs: Any) -> Any:
        _run(module)
        return getattr(module, name)(*args, **kwargs)

    call_when_loaded.__name__ = name
    return call_when_loaded


def _run(module: ModuleType) -> None:
    """Execute the module's own code; it is an ordinary module from here on."""
    if not isinstance(module, WaitingModule):
        return
    object.__setattr__(module, "__class__", ModuleType)
    loader = module.__spec__.loader if module.__spec__ else None
    if loader is None:
        raise ImportError(f"{module.__name__} has no loader", name=module.__name__)
    loader.exec_module(module)


def load_sdk(sdk: Sdk) -> ModuleType:
    """Return the module that holds the SDK's `AsyncOpenAI` or `AsyncAnthropic`, `AsyncStream` and `Timeout`. Safe to
    call from any thread. Raises ImportError if the SDK is not installed or can't be loaded at all."""
    with _import_lock:
        if sdk in sys.modules:
            return importlib.import_module(f"{sdk}._client")
        pausing = gc.isenabled()
        gc.disable()  # An import creates many objects and hardly any garbage.
        try:
            return _load_lean(sdk)
        except Exception:  # Whatever the reason, fall back to the plain import.
            return load_sdk_plainly(sdk)
        finally:
            if pausing:
                gc.enable()


def _load_lean(sdk: Sdk) -> ModuleType:
    _skip_plugins()
    spec = PathFinder.find_spec(sdk)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"No module named {sdk!r}", name=sdk)
    root = Path(spec.origin).parent
    _register(sdk, Path(spec.origin))
    for branch in _WAITING_BRANCHES:
        for directory, _, names in os.walk(root / branch):
            if "__init__.py" in names:
                package = Path(directory)
                _register(".".join((sdk, *package.relative_to(root).parts)), package / "__init__.py")
    for name in (*DEFERRED, *OPAQUE):
        if name.startswith(f"{sdk}.") and name not in sys.modules:
            _register(name, root.joinpath(*name.split(".")[1:]).with_suffix(".py"))
    client = importlib.import_module(f"{sdk}._client")
    for name in ("AsyncStream", "Timeout"):
        getattr(client, name)
    return client


def _skip_plugins() -> None:
    """Tell pydantic that it has no plug-ins: looking for them reads the metadata of every installed package (25 ms),
    and one that happens to be installed would run inside this program."""
    loader = importlib.import_module("pydantic.plugin._loader")
    if getattr(loader, "_plugins", ...) is None:
        loader._plugins = {}  # type: ignore[attr-defined]


def _register(name: str, path: Path) -> None:
    """Add a module to `sys.modules` whose code has not run."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None:
        raise ImportError(f"{path} is no module", name=name)
    module = importlib.util.module_from_spec(spec)
    module.__class__ = WaitingModule
    sys.modules[name] = module


def load_sdk_plainly(sdk: Sdk) -> ModuleType:
    """Return the same module by the SDK's own import; remains of a lean import are dropped."""
    for name in [module_name for module_name in sys.modules if module_name == sdk or module_name.startswith(sdk + ".")]:
        del sys.modules[name]
    importlib.invalidate_caches()
    importlib.import_module(sdk)
    return importlib.import_module(f"{sdk}._client")
