import inspect
import sys

import pytest


@pytest.fixture(autouse=True)
def _unwrapped(monkeypatch):
    """Dynamo cannot trace methods and properties that jaxtyping wraps, even while its checks are disabled."""
    modules = [module for name, module in sys.modules.items() if name.startswith("transevolve.evolution.")]
    for kind in {one for module in modules for one in vars(module).values() if inspect.isclass(one)}:
        for name, member in list(vars(kind).items()):
            if inspect.isfunction(member) and hasattr(member, "__wrapped__"):
                monkeypatch.setattr(kind, name, member.__wrapped__)
            if isinstance(member, property) and hasattr(member.fget, "__wrapped__"):
                monkeypatch.setattr(kind, name, member.getter(member.fget.__wrapped__))
