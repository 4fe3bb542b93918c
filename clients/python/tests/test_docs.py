"""The examples of the docstrings and of the README run, against a development server."""

from __future__ import annotations

import doctest
import threading
import unittest
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import rouse
import rouse.client
import rouse.testing

README = Path(__file__).parent.parent / "README.md"
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL


class Docs(unittest.TestCase):
    def run_examples(self, text: str, name: str) -> int:
        """Runs the examples of a text, and returns how many there are."""
        with rouse.testing.DevServer() as server, server.client() as client:
            names: dict[str, Any] = {
                "rouse": rouse, "client": client, "server": server.address, "datetime": datetime, "timedelta": timedelta, "timezone": timezone, "threading": threading,
            }  # fmt: skip
            test = doctest.DocTestParser().get_doctest(text, names, name, name, 0)
            printed: list[str] = []
            result = doctest.DocTestRunner(optionflags=FLAGS).run(test, out=printed.append)
            self.assertEqual(result.failed, 0, "".join(printed))
            return result.attempted

    def test_the_methods_of_the_client(self) -> None:
        # One after another in the order of the file: each goes on with what those before it have created.
        client = rouse.client.Client
        texts = [client.__doc__ or ""] + [m.__doc__ or "" for n, m in vars(client).items() if callable(m) and not n.startswith("_")]
        self.assertGreater(self.run_examples("\n\n".join(texts), "Client"), 35)

    def test_the_modules(self) -> None:
        for module in (rouse.testing, rouse.webhooks.verify, rouse.Handlers):
            self.assertGreater(self.run_examples(module.__doc__ or "", repr(module)), 0)

    def test_the_readme(self) -> None:
        self.assertGreater(self.run_examples(README.read_text().replace("```", "\n"), "README.md"), 10)


if __name__ == "__main__":
    unittest.main()
