"""Runs a function once a module has been imported, without importing it."""

import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any


def after_import(name: str, action: Callable[[], Any]) -> None:
    """Calls `action` immediately if the module is loaded, else right after its import."""
    if name in sys.modules:
        action()
    else:
        sys.meta_path.insert(0, _ImportHook(name, action))


class _ImportHook(MetaPathFinder):
    def __init__(self, name: str, action: Callable[[], Any]):
        self.name, self.action = name, action

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_then_act(module: ModuleType) -> None:
                execute(module)
                self.action()

            spec.loader.exec_module = execute_then_act
        return spec
