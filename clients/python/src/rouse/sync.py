"""`python -m rouse.sync MODULE:HANDLERS --url URL` makes the timers that an application declares, and deletes those that it declares no more.

The client is configured by `ROUSE_SERVER`, `ROUSE_KEY` and the other variables.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import os
import sys

from .client import Client
from .errors import RouseError
from .handlers import Handlers

__all__ = ["main"]


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(prog="python -m rouse.sync", description="Makes the timers that an application declares.")
    parser.add_argument("handlers", metavar="MODULE:HANDLERS", help="such as app.main:handlers")
    parser.add_argument("--url", required=True, help="where the application has its handlers; {name} stands for the name of a timer")
    args = parser.parse_args()
    module, _, name = args.handlers.partition(":")
    sys.path.insert(0, os.getcwd())
    handlers = getattr(importlib.import_module(module), name or "handlers")
    if not isinstance(handlers, Handlers):
        sys.exit(f"{args.handlers} is no rouse.Handlers")
    try:
        with Client() as client:
            done = handlers.sync(client, args.url)
    except (RouseError, ValueError) as error:
        sys.exit(str(error))
    for outcome, names in dataclasses.asdict(done).items():
        for timer in sorted(names):
            print(outcome, timer)


if __name__ == "__main__":
    main()
