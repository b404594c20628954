"""YAML of plain values, for recipes and flags: no tags, no aliases, no key twice. Whatever is wrong is a YAMLError.

Numbers are what people take for numbers: YAML 1.1 would read 12:30:45 as 45,045 and 010 as 8.
"""

import re
import sys
from typing import Any

import yaml
from yaml.constructor import ConstructorError

INT, FLOAT, TIMESTAMP = (f"tag:yaml.org,2002:{name}" for name in ("int", "float", "timestamp"))
WHOLE = re.compile(r"[-+]?(0|[1-9][\d_]*|0x[\da-fA-F_]+|0b[01_]+)$")
DECIMAL = re.compile(
    r"[-+]?((\d[\d_]*\.[\d_]*|\.\d[\d_]*)([eE][-+]?\d+)?|\d[\d_]*[eE][-+]?\d+|\.(inf|Inf|INF))$|\.(nan|NaN|NAN)$"
)
MOST_BRACKETS = 1000


class PlainLoader(yaml.SafeLoader):
    """Written in Python: the one in C runs out of stack, and the process with it, where values nest deeply."""


PlainLoader.yaml_implicit_resolvers = {
    letter: [(tag, pattern) for tag, pattern in known if tag not in (INT, FLOAT, TIMESTAMP)]
    for letter, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
PlainLoader.add_implicit_resolver(INT, WHOLE, list("-+0123456789"))
PlainLoader.add_implicit_resolver(FLOAT, DECIMAL, list("-+0123456789."))


def load_plain(text: str) -> Any:
    if text.count("[") + text.count("{") > MOST_BRACKETS:
        raise yaml.YAMLError(f"more than {MOST_BRACKETS} brackets")
    try:
        loader = PlainLoader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        _check(node)
        value = loader.construct_document(node)
    except RecursionError as error:
        raise yaml.YAMLError("it nests too deeply") from error
    except (ValueError, AttributeError, TypeError, LookupError) as error:
        raise yaml.YAMLError(str(error)) from error
    if isinstance(value, int) and abs(value) > sys.float_info.max:
        raise yaml.YAMLError("the number is too large")
    return value


def _check(root: yaml.Node) -> None:
    """An alias could stand for itself, or a few lines for billions of values; of two values for a key, one is lost."""
    waiting, met = [root], set()
    while waiting:
        node = waiting.pop()
        if id(node) in met:
            raise ConstructorError(problem="an alias; write the value out", problem_mark=node.start_mark)
        met.add(id(node))
        if isinstance(node, yaml.MappingNode):
            keys = set()
            for key, value in node.value:
                if isinstance(key, yaml.ScalarNode) and key.value in keys:
                    raise ConstructorError(problem=f"{key.value!r} stands here twice", problem_mark=key.start_mark)
                keys.add(key.value if isinstance(key, yaml.ScalarNode) else id(key))
                waiting += [key, value]
        elif isinstance(node, yaml.SequenceNode):
            waiting += node.value
