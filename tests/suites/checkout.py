"""Imports Hugging Face's test files from a checkout, which may be of another version than the installed package."""

import importlib
import re
import sys
from types import ModuleType

import parameterized_stand_in


def load(name: str) -> ModuleType:
    """A module of the checkout; names that the installed transformers does not have are None in it."""
    parameterized_stand_in.install()
    while True:
        try:
            return importlib.import_module(name)
        except ImportError as error:
            absent = re.match(r"cannot import name '(\w+)' from '([\w.]+)'", str(error))
            if absent is None or absent[2] not in sys.modules:
                raise
            setattr(sys.modules[absent[2]], absent[1], None)
