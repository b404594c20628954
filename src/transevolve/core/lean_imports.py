"""Imports transformers and torch without the parts that a process that only predicts does not use.

When it is imported, transformers also imports distributed training, accelerate, SciPy, scikit-learn, Pillow and torch's
compiler, and searches every model it has for public names; together they take longer than torch itself. Here its own
availability checks report those packages as missing, its public names are those of the Auto classes, and a stand-in
for `torch._dynamo` provides the decorators that keep functions from being compiled. Any other use of `torch._dynamo`
loads the real module.
"""

import importlib.metadata
import sys
from collections.abc import Callable
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from .after_import import after_import

MISSING = ("accelerate", "scipy", "sklearn", "torch_distributed", "vision")
CHECKS = "transformers.utils.import_utils"
COMPILER = "torch._dynamo"
HIGHER_ORDER = f"{COMPILER}._trace_wrapped_higher_order_op"
"""The only part of the compiler that transformers imports."""


def lean_imports() -> None:
    """Applies to all later imports of this process; does nothing once torch or transformers is loaded."""
    if "torch" in sys.modules or "transformers" in sys.modules:
        return
    sys.meta_path.insert(0, _CompilerFinder())
    original = importlib.metadata.packages_distributions
    # transformers asks for the import names of all installed packages; without them it tries the names of packages.
    importlib.metadata.packages_distributions = dict

    def reduce_checks() -> None:
        importlib.metadata.packages_distributions = original
        _reduce(sys.modules[CHECKS])

    after_import(CHECKS, reduce_checks)


def _reduce(checks: Any) -> None:
    for name in MISSING:
        setattr(checks, f"is_{name}_available", lambda *_, **__: False)
    original = checks.define_import_structure

    def names(path: str | Path, prefix: str | None = None) -> Any:
        folder = Path(path) if Path(path).is_dir() else Path(path).parent
        if folder.name != "models":
            return original(path, prefix)
        return original(folder / "auto", f"{prefix}.auto" if prefix else "auto")

    checks.define_import_structure = names


class _CompilerFinder(MetaPathFinder, Loader):
    """Finds the stand-in; the import of another part of the compiler turns it into the real module."""

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname == COMPILER:
            real = PathFinder.find_spec(fullname, path)
            if real is not None:
                spec = ModuleSpec(fullname, self, origin=real.origin, is_package=True)
                spec.submodule_search_locations = real.submodule_search_locations
                return spec
        if fullname.startswith(f"{COMPILER}.") and fullname != HIGHER_ORDER:
            stand_in = sys.modules[COMPILER]
            if isinstance(stand_in, _Compiler):
                stand_in.load()
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Compiler(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


class _Compiler(ModuleType):
    """A stand-in for `torch._dynamo`, until another attribute is used."""

    @staticmethod
    def disable(fn: Callable[..., Any] | None = None, *_: Any, **__: Any) -> Any:
        return (lambda function: function) if fn is None else fn

    @staticmethod
    def allow_in_graph(fn: Any) -> Any:
        return fn

    @staticmethod
    def assume_constant_result(fn: Any) -> Any:
        return fn

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {COMPILER!r} has no attribute {name!r}")
        self.load()
        return getattr(self, name)

    def load(self) -> None:
        """Runs the real module in this one."""
        self.__class__ = ModuleType  # pyright: ignore[reportAttributeAccessIssue]
        real = PathFinder.find_spec(COMPILER, sys.modules["torch"].__path__)
        assert real is not None
        assert real.loader is not None
        self.__spec__, self.__loader__, self.__file__ = real, real.loader, real.origin
        real.loader.exec_module(self)
