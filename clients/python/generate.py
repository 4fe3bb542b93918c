"""Writes src/rouse/models.py, the dataclasses of the HTTP API, and src/rouse/client.py, the synchronous client.

The first is made of api/openapi.yaml, the second of src/rouse/aio.py, which is written by hand. With --check nothing is written: it
fails if a file is not what its source gives.
"""

from __future__ import annotations

import keyword
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
SOURCE = HERE / "src" / "rouse"
WIDTH = 140

# The schemas that the client has, in place of all of them: what operators do is the business of the command line.
ROOTS = [
    "Spec", "When", "Timer", "Deleted", "Ran", "Created", "Record", "RecordGroups", "TimerOutcomes", "Explanation", "Next", "Simulated",
    "Backfilled", "BulkProgress", "Filter", "Calendar", "CalendarPut", "Clock", "SigningKey", "Fault", "Deadline", "Version", "Namespace",
]  # fmt: skip

SIMPLE = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}
NAMED = {"Time": "datetime", "Duration": "timedelta", "Name": "str", "FireID": "str", "Number": "int"}
# What a client writes can also be a text, as people write it.
WRITTEN = {"datetime": "Union[datetime, str]", "timedelta": "Union[timedelta, str]"}
INPUTS = {"Spec", "When", "Retry", "Webhook", "CalendarRule", "Debounce", "Throttle", "Filter", "Day", "Quotas"}


class Models:
    """The dataclasses of some schemas and of all that they refer to."""

    def __init__(self, schemas: dict[str, Any]) -> None:
        self.schemas = schemas
        self.done: dict[str, str] = {}
        self.aliases: dict[str, str] = {}

    def add(self, name: str) -> None:
        """Adds the class of a schema, after those that it refers to."""
        if name in self.done:
            return
        self.done[name] = ""  # it may refer to itself
        members, required = self.members(name)
        lines = []
        for field, schema in sorted(members.items(), key=lambda m: m[0] not in required):
            if field == "payload_base64":
                continue  # bytes in payload
            kind = self.kind(schema, name)
            attribute = field + "_" if keyword.iskeyword(field) else field
            default = ""
            if field not in required:
                kind, default = ("Any" if kind == "Any" else f"Optional[{kind}]"), " = None"
            if attribute != field:
                default = f' = field(default=None, metadata={{"json": "{field}"}})' if default else f' = field(metadata={{"json": "{field}"}})'
            lines.append(f"    {attribute}: {kind}{default}")
            told = self.told(field, schema)
            if told:
                lines += textwrap.wrap(f'"""{told}"""', WIDTH, initial_indent="    ", subsequent_indent="    ")
        about = sentence(self.schemas[name].get("description", "").removeprefix(name + " is ").removeprefix(name + " "))
        head = textwrap.wrap(f'"""{about}"""', WIDTH, initial_indent="    ", subsequent_indent="    ")
        del self.done[name]
        self.done[name] = "\n".join([f"@dataclass\nclass {name}:", *head, "", *lines])

    def told(self, field: str, schema: dict[str, Any]) -> str:
        if field == "payload":
            return "Any JSON value, delivered byte for byte; or bytes. None is no payload."
        return sentence(schema.get("description", ""))

    def members(self, name: str) -> tuple[dict[str, Any], set[str]]:
        """Returns the members of a schema with those of what it is made of, and which of them are required."""
        schema = self.schemas[name]
        members: dict[str, Any] = {}
        required: set[str] = set()
        for part in schema.get("allOf", []):
            more, needed = self.members(part["$ref"].rsplit("/", 1)[1])
            members.update(more)
            required |= needed
        members.update(schema.get("properties", {}))
        required |= set(schema.get("required", []))
        if name == "Spec":  # it has a schedule, or one of these
            members.update(self.schemas["Coalesce"]["properties"])
        if name in ("Spec", "Timer"):
            required.discard("schedule")
        return members, required

    def kind(self, schema: dict[str, Any], of: str) -> str:
        """Returns the type of a member."""
        kind = self.plain(schema)
        return WRITTEN.get(kind, kind) if of in INPUTS else kind

    def plain(self, schema: dict[str, Any]) -> str:
        if "$ref" in schema:
            name: str = schema["$ref"].rsplit("/", 1)[1]
            if name in NAMED:
                return NAMED[name]
            target = self.schemas[name]
            if "enum" in target:
                self.aliases[name] = f"{name} = Literal[{', '.join(repr(v) for v in target['enum'])}]"
                return name
            self.add(name)
            return name
        if "enum" in schema:
            return f"Literal[{', '.join(repr(v) for v in schema['enum'])}]".replace("'", '"')
        if schema.get("format") == "date-time":
            return "datetime"
        if schema.get("type") == "array":
            return f"list[{self.plain(schema['items'])}]"
        if schema.get("type") == "object":
            return f"dict[str, {self.plain(schema['additionalProperties'])}]"
        return SIMPLE.get(schema.get("type", ""), "Any")


def sentence(text: str) -> str:
    text = text.strip().replace("\\", "\\\\")
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "…")) or not text else ".")


def models() -> str:
    schemas = yaml.safe_load((HERE.parent.parent / "api" / "openapi.yaml").read_text())["components"]["schemas"]
    m = Models(schemas)
    for name in ROOTS:
        m.add(name)
    aliases = "\n".join(
        "\n    ".join(textwrap.wrap(line.replace("'", '"'), WIDTH)).replace("Literal[", "Literal[\n    ", 1)[:-1] + ",\n]"
        for _, line in sorted(m.aliases.items())
    )
    exported = sorted([*m.aliases, *m.done], key=str.lower)
    return (
        '"""What requests and answers of the HTTP API contain. Made of api/openapi.yaml by generate.py: do not edit."""\n\n'
        "from __future__ import annotations\n\n"
        "from dataclasses import dataclass, field\nfrom datetime import datetime, timedelta\nfrom typing import Any, Literal, Optional, Union\n\n"
        "__all__ = [\n" + "".join(f'    "{name}",\n' for name in exported) + "]\n\n" + aliases + "\n\n\n" + "\n\n\n".join(m.done.values()) + "\n"
    )


# How the synchronous client differs from the other one, in order.
SYNC = [
    (r'^""".*?"""', '"""The synchronous client. Made of aio.py by generate.py: do not edit."""'),
    (r"\basync (def|with|for) ", r"\1 "),
    (r"\bawait ", ""),
    (r"\basyncio\.sleep\b", "time.sleep"),
    (r"^import asyncio\n", ""),
    (r"\bAsync(Client|Iterator|Transport|BaseTransport|HTTPTransport)\b", r"\1"),
    (r"\bStopAsyncIteration\b", "StopIteration"),
    (r"\b__a(enter|exit|iter|next)__", r"__\1__"),
    (r"\baclose\b", "close"),
    (r"\baiter_lines\b", "iter_lines"),
    (r"\baread\b", "read"),
    (r"rouse\.aio\b", "rouse"),
]


def sync() -> str:
    text = (SOURCE / "aio.py").read_text()
    for pattern, to in SYNC:
        text = re.sub(pattern, to, text, flags=re.MULTILINE | (re.DOTALL if pattern.startswith('^"""') else 0), count=1 if pattern.startswith('^"""') else 0)
    return text


def main() -> int:
    wrong = 0
    for name, text in (("models.py", models()), ("client.py", sync())):
        path = SOURCE / name
        if "--check" not in sys.argv:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            print(f"{path} is not what its source gives: run {Path(__file__).name}", file=sys.stderr)
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
