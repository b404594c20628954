"""The command line's door. It stands outside the package, whose import takes seconds, so that help takes none.

A command is a module with a dataclass `Options`, a `run(options) -> int`, and a line in `COMMANDS`; it may have an
`expand(arguments)` that replaces what was typed by what it stands for.
"""

import os
import sys
import traceback
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module, metadata


@dataclass(frozen=True)
class Command:
    module: str
    summary: str


COMMANDS = {
    "train": Command(
        "transevolve.commands.train", "train a model, evaluate it, write a run folder; goes on after a stop"
    ),
    "evaluate": Command("transevolve.commands.evaluate", "reload a run's model and score it"),
    "predict": Command("transevolve.commands.predict", "labels for texts: arguments, a file, or standard input"),
    "translate": Command("transevolve.commands.translate", "translate sentences: arguments, a file, or standard input"),
    "average": Command("transevolve.commands.average", "the mean of a run's last checkpoints, as a run of its own"),
    "explain": Command("transevolve.commands.explain", "what a classifier does with a text, depth by depth: a page"),
    "report": Command("transevolve.commands.report", "runs side by side: curves, results, confusion, benchmarks"),
    "export": Command("transevolve.commands.export", "a run's model as ONNX, torch program or Hugging Face folder"),
    "recipes": Command("transevolve.commands.recipes", "the recipes that come with the package, or one of them"),
    "sweep": Command("transevolve.commands.sweep", "one recipe over variants, systems, settings and seeds: one table"),
    "bench speed": Command("transevolve.commands.bench_speed", "how fast systems are, side by side, interleaved"),
    "bench decode": Command("transevolve.commands.bench_decode", "how fast translation decodes, next to Marian"),
    "bench memory": Command("transevolve.commands.bench_memory", "how much memory systems need, each on its own"),
    "systems": Command("transevolve.commands.systems", "TransEvolve's variants and backends, and every other system"),
    "doctor": Command("transevolve.commands.doctor", "whether this machine is ready, and what would fail on it"),
}


class UsageError(Exception):
    """Something the user can mend, with a message that says how."""


def main(argv: list[str] | None = None) -> int:
    """Runs one command. 0: done; 2: an error, told in one line; 130: interrupted."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    code = 0
    try:
        code = _answer(arguments)
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit) as error:
        if not isinstance(error, BrokenPipeError) and not isinstance(error.__context__, BrokenPipeError):
            raise
        # Whoever read the output has gone (rich exits then); Python would complain when it flushes what is left.
        for stream in (sys.stdout, sys.stderr):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return code


def _answer(arguments: list[str]) -> int:
    debug = "--debug" in arguments
    arguments = [a for a in arguments if a != "--debug"]
    try:
        return _dispatch(arguments)
    except BrokenPipeError:
        raise
    except KeyboardInterrupt:
        print("transevolve: stopped", file=sys.stderr)
        return 130
    except Exception as error:
        if debug:
            traceback.print_exc()
        print(f"transevolve: error: {_one_line(error)}", file=sys.stderr)
        return 2


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(overview())
        return 0
    if arguments[0] == "--version":
        print(f"transevolve {metadata.version('transevolve')}")
        return 0
    if arguments[1:] in ([], ["-h"], ["--help"]) and any(name.startswith(f"{arguments[0]} ") for name in COMMANDS):
        print(overview(f"{arguments[0]} "))
        return 0
    name, rest = _find(arguments)
    module = import_module(COMMANDS[name].module)
    from transevolve.config.command_line import parse
    from transevolve.core.errors import UserError

    try:
        if hasattr(module, "expand"):
            rest = module.expand(rest)
        options = parse(module.Options, rest, f"transevolve {name}", COMMANDS[name].summary)
        return 0 if options is None else module.run(options)
    except UserError as error:
        raise UsageError(str(error)) from error


def overview(group: str = "") -> str:
    """The help of the program, or of the commands that share a first word."""
    chosen = {name: command for name, command in COMMANDS.items() if name.startswith(group)}
    width = max(map(len, chosen))
    lines = [f"  {name:<{width}}  {command.summary}" for name, command in chosen.items()]
    usage = f"usage: transevolve {group}COMMAND [OPTIONS]" if group else "usage: transevolve COMMAND [OPTIONS]"
    hint = "COMMAND --help shows its options, --debug the traceback of an error, --version the version."
    return "\n".join([usage, "", *lines, "", hint])


def _find(arguments: list[str]) -> tuple[str, list[str]]:
    for words in (2, 1):
        name = " ".join(arguments[:words])
        if name in COMMANDS:
            return name, arguments[words:]
    first = arguments[0]
    if first.startswith("-"):
        raise UsageError(f"unknown option {first!r} before a command; see `transevolve --help`")
    group = [name.removeprefix(f"{first} ") for name in COMMANDS if name.startswith(f"{first} ")]
    if group:
        raise UsageError(f"unknown command '{first} {arguments[1]}'{_instead(arguments[1], group)}")
    firsts = list(dict.fromkeys(name.split()[0] for name in COMMANDS))
    raise UsageError(f"unknown command {first!r}{_instead(first, firsts)}")


def _instead(name: str, known: list[str]) -> str:
    close = get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(known)}"


def _one_line(error: Exception) -> str:
    message = " ".join(str(error).split()) or "no message"
    if isinstance(error, (UsageError, ValueError, OSError)):
        return message
    return f"{type(error).__name__}: {message}; --debug shows where"
