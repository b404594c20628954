"""The command line: `transevolve`, `python -m transevolve`, or `main([...])` from Python.

A command is a module in `commands/` with a dataclass `Options` and a `run(options) -> int`, and a line in `COMMANDS`.
Only the module of the command that runs is imported.
"""

import os
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, TextIO

from cyclopts import (
    App,
    Argument,
    CoercionError,
    CycloptsError,
    MissingArgumentError,
    Parameter,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)
from cyclopts.help import ColumnSpec, DefaultFormatter, DescriptionRenderer, HelpEntry

from . import __version__
from .config.command_line import as_command, convert
from .core.environment import tune_environment
from .core.errors import UserError, nearest, suggestion
from .core.files import NO_SPACE
from .core.lean_imports import lean_imports

COMMANDS = {
    "train": "Train a model, evaluate it and write a run folder; the same command resumes after a stop.",
    "prepare": "Read, split and tokenize the data of a training, and store them in the cache.",
    "pretrain": "Train a language model on texts without labels, to start other models from (`--model.start`).",
    "plan": "Estimate the steps, time and memory of a training on this machine.",
    "evaluate": "Reload the model of a run and score it.",
    "predict": "Predict labels for texts: arguments, a file, or standard input.",
    "translate": "Translate sentences: arguments, a file, or standard input.",
    "generate": "Continue texts with a causal language model: arguments, a file, or standard input.",
    "embed": "Write a vector for each text of a file.",
    "average": "Average the last checkpoints of a run into a new run.",
    "explain": "Show how a classifier processes a text, depth by depth, on a page.",
    "report": "Compare runs on one page: curves, results, confusion matrices, benchmarks.",
    "export": "Export the model of a run to ONNX, a torch program or a Hugging Face folder.",
    "quantize": "Make an int8 model of a run, for predict, translate, evaluate and serve.",
    "serve": "Serve a model over HTTP: JSON in and out, batched, with a page to try it.",
    "recipes": "List the bundled recipes, or print one.",
    "sweep": "Train one recipe over variants, systems, settings and seeds, and tabulate the results.",
    "bench speed": "Measure the speed of systems side by side, interleaved.",
    "bench decode": "Measure the decoding speed of translation, compared with Marian.",
    "bench memory": "Measure the memory of systems, each in a separate process.",
    "systems": "List the variants and backends of TransEvolve, and every other system.",
    "cache": "List the contents of the cache folder, or clear it.",
    "doctor": "Check whether this machine is ready, and what would fail on it.",
}
GROUPS = {"bench": "Measure systems side by side: speed, decode, memory."}
LEAN = ("predict", "translate", "generate", "embed", "explain", "serve")
"""Commands that only run a trained model; each starts as a separate process."""
COMPLETION = "--install-completion"
IN_WORDS = {"STR": "TEXT", "INT": "NUMBER", "FLOAT": "NUMBER", "CHOICE": "NAME"}
METAVARS = re.compile(r"\b(STR|INT|FLOAT|CHOICE)\b")
END, TRUTH = "--", ("true", "false", "yes", "no", "null")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns 0 on success, 2 on an error, and 130 if interrupted."""
    tune_environment()
    words = list(sys.argv[1:] if argv is None else argv)
    if argv is None and words and words[0] in LEAN:
        lean_imports()
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    try:
        code = _run(words)
    except (BrokenPipeError, SystemExit) as error:
        if not isinstance(error, BrokenPipeError) and not isinstance(error.__context__, BrokenPipeError):
            raise
        # The reader closed the output; flushing the rest would print an error.
        discard(sys.stdout, sys.stderr)
        code = 0
    return code


def discard(*streams: TextIO) -> None:
    for stream in streams:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _run(words: list[str]) -> int:
    end = words.index(END) if END in words else len(words)
    debug = "--debug" in words[:end]
    words[:end] = [word for word in words[:end] if word != "--debug"]
    try:
        run, options = parse(words)
        code = run(options) or 0
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("transevolve: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        raise
    except Exception as error:
        if debug:
            traceback.print_exc()
        print(f"transevolve: error: {one_line(error)}", file=sys.stderr)
        if is_full_output(error):
            discard(sys.stdout)
        return 2


def parse(words: list[str]) -> tuple[Callable[[Any], int | None], Any]:
    """The function to run, and its options."""
    for word in words:
        if "\0" in word or any("\ud800" <= letter <= "\udfff" for letter in word):
            raise UserError(f"{word!a:.80} contains a NUL or bytes that are not UTF-8: write it as text")
    words = join_truth(words)
    app = build_app(words)
    command, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False, verbose=False)
    name = next((name for name in COMMANDS if words[: len(name.split())] == name.split()), None)
    if name is None or command.__name__ != "command":
        return lambda _: command(*bound.args, **bound.kwargs), None
    after_end = len(words) - words.index(END) - 1 if END in words else 0
    for text in bound.args[: len(bound.args) - after_end]:
        if str(text).startswith("--"):
            known = [flag for argument in arguments_of(name) for flag in argument.names]
            flag = str(text).partition("=")[0]
            raise UserError(f"unknown option {flag!r}{nearest(flag, known)}; a text that starts with -- goes after --")
    return module_of(name).run, command(*bound.args, **bound.kwargs)


def join_truth(words: list[str]) -> list[str]:
    """Replace `--group.flag true` by `--group.flag=true`, because a flag takes no separate value."""
    joined: list[str] = []
    for place, word in enumerate(words):
        if word == END:
            return joined + words[place:]
        before = joined[-1] if joined else ""
        if word.lower() in TRUTH and before.startswith("--") and "." in before and "=" not in before:
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def module_of(name: str) -> Any:
    return import_module(f"transevolve.commands.{name.replace(' ', '_')}")


def arguments_of(name: str) -> list[Argument]:
    """All arguments of a command, with their help."""
    app = root = build_app(name.split())
    for word in name.split():
        app = app[word]
    return list(app.assemble_argument_collection(default_parameter=root.default_parameter, parse_docstring=True))


def build_app(words: list[str]) -> App:
    """The app with all commands; only the command in `words` has its parameters."""
    app = App(
        name="transevolve",
        help="Transformer depth as the evolution of interacting particles: train, evaluate, predict, measure.\n\n"
        "COMMAND --help shows the options of a command, --debug the traceback of an error.",
        help_flags=["--help", "-h"],
        help_formatter=DefaultFormatter(column_specs=columns),
        help_format="plaintext",
        version=f"transevolve {__version__}",
        default_parameter=Parameter(
            name_transform=lambda name: name,
            converter=convert,
            consume_multiple=True,
            allow_repeating=True,
            negative_iterable=(),
            json_dict=False,
            json_list=False,
        ),
        suppress_keyboard_interrupt=False,
    )
    groups = {name: App(name=name, help=summary) for name, summary in GROUPS.items()}
    for group in groups.values():
        app.command(group)
    for place, (name, summary) in enumerate(COMMANDS.items()):
        *group, last = name.split()
        wanted = words[: len(name.split())] == name.split() or COMPLETION in words
        command = as_command(module_of(name).Options, summary) if wanted else lambda: None
        (groups[group[0]] if group else app).command(
            command, name=last, help=None if wanted else summary, sort_key=place
        )
    app.register_install_completion_command(COMPLETION, help="Install shell completion.")
    return app


def columns(console: Any, options: Any, entries: list[HelpEntry]) -> tuple[ColumnSpec, ...]:
    """Help columns: names are not truncated, and a nested flag shows one of its two names."""

    def name(entry: HelpEntry) -> str:
        shown = entry.display_labels_with_metavar
        label = shown[0] if "." in shown[0] else " ".join(shown)
        return METAVARS.sub(lambda kind: IN_WORDS[kind[0]], label)

    about = ColumnSpec(renderer=DescriptionRenderer(), overflow="fold")
    return ColumnSpec(renderer=name, style="cyclopts.name", no_wrap=True), about


def is_full_output(error: Exception) -> bool:
    """Whether standard output is a file on a full disk; `report_full_disk` names other files."""
    return isinstance(error, OSError) and error.errno in NO_SPACE and error.filename is None


def one_line(error: Exception) -> str:
    if isinstance(error, UnknownOptionError):
        name = (error.token.keyword or error.token.value).partition("=")[0]
        known = [name for argument in error.argument_collection for name in argument.names]
        return f"unknown option {name!r}" + (nearest(name, known) or "; --help lists the options")
    if isinstance(error, UnknownCommandError) and error.unused_tokens and error.app is not None:
        name, known = error.unused_tokens[0], [command for command in error.app if not command.startswith("-")]
        if name.startswith("-"):
            return f"unknown option {name!r} before a command; see `transevolve --help`"
        return f"unknown command {' '.join([*(error.command_chain or ()), name])!r}" + suggestion(name, known)
    if isinstance(error, UnusedCliTokensError) and error.unused_tokens:
        return f"unexpected argument {error.unused_tokens[0]!r}; --help shows what the command takes"
    if isinstance(error, MissingArgumentError) and error.argument is not None:
        return f"{error.argument.name} is required; --help shows what the command takes"
    if isinstance(error, CoercionError) and error.msg and error.argument is not None:
        return f"{error.argument.name}: {error.msg}"
    if is_full_output(error):
        return "could not write the output: no space left on the disk"
    message = " ".join(str(error).split()) or "no message"
    if isinstance(error, UserError | CycloptsError | ValueError | OSError):
        return message
    return f"{type(error).__name__}: {message}; --debug shows where"
