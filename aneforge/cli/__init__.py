"""The command `aneforge`. One module a command; each is imported when it is used.

Exit codes: 0 fine; 1 the model's fault; 2 usage or platform; 3 it ran, but a check failed. All JSON carries
`schema_version`.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import sys
from collections.abc import Sequence

import aneforge
from aneforge import _collision

# name -> what it is for; the module of that name has configure(parser) and main(arguments) -> exit code.
COMMANDS = {
    "demo": "say what is on photographs, on the engine (or its emulation) and on the CPU",
    "run": "run a model once and say what came out and where it ran",
    "explain": "say for every node of a model where it runs, and why",
    "check": "run a model in fp32 and in the engine's arithmetic and say where they part, and why",
    "export": "write a model as a Core ML package, or as the text and weights of its program",
    "ops": "list the ONNX operators that have an engine form",
    "cache": "show or clear what is kept on disk",
    "doctor": "check this installation and this machine",
}

OK, MODEL, USAGE, CHECK = 0, 1, 2, 3


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code."""
    try:
        _collision.check_package(aneforge)
    except ImportError as error:
        print(f"aneforge: error: {error}", file=sys.stderr)
        return USAGE
    arguments = _parser().parse_args(argv)
    logging.basicConfig(level=logging.DEBUG if arguments.debug else logging.WARNING, format="aneforge: %(message)s")
    from .errors import explained

    with explained(arguments.debug) as outcome:
        outcome.code = importlib.import_module(f".{arguments.command}", __name__).main(arguments)
    return outcome.code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="aneforge", description="ONNX models on the Apple Neural Engine.")
    version = f"{aneforge.__distribution__} {aneforge.__version__}"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, purpose in COMMANDS.items():
        command = commands.add_parser(name, help=purpose, description=f"aneforge {name}: {purpose}.")
        command.add_argument("--debug", action="store_true", help="show tracebacks and log everything")
        # The demo takes nothing and imports much: it is left alone until it runs.
        if name != "demo":
            importlib.import_module(f".{name}", __name__).configure(command)
    return parser
