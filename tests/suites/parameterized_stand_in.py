"""The part of the package `parameterized` that Hugging Face's test files use, for machines without it."""

import inspect
import sys
from functools import wraps
from types import ModuleType


class parameterized:
    @staticmethod
    def expand(cases, **_):
        """Adds a method per case and removes the decorated one."""
        namespace = inspect.currentframe().f_back.f_locals

        def decorate(method):
            for number, case in enumerate(cases):
                case = case if isinstance(case, (tuple, list)) else (case,)
                name = f"{method.__name__}_{number}_" + "_".join(str(part) for part in case[:2])
                namespace[name] = _bound(method, case)

        return decorate


def _bound(method, case):
    @wraps(method)
    def run(self, *args, **kwargs):
        return method(self, *case, *args, **kwargs)

    del run.__wrapped__
    return run


def parameterized_class(*_, **__):
    return lambda decorated: decorated


def install() -> None:
    try:
        import parameterized as installed  # noqa: F401
    except ImportError:
        module = ModuleType("parameterized")
        module.parameterized, module.parameterized_class = parameterized, parameterized_class
        sys.modules["parameterized"] = module
