"""Writes what the clients have of the description of the HTTP API, api/openapi.yaml: the dataclasses of the Python client, models.py,
and the interfaces of the TypeScript client, models.ts. It also writes the synchronous Python client, client.py, of the asynchronous
one, aio.py, which is written by hand. With --check nothing is written: it fails if a file is not what its source gives.
"""

from __future__ import annotations

import keyword
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
PYTHON = HERE / "python" / "src" / "rouse"
TYPESCRIPT = HERE / "typescript" / "src"
WIDTH = 140

# The schemas that the clients have, in place of all of them: what operators do is the business of the command line.
ROOTS = [
    "Spec", "When", "Timer", "Deleted", "Ran", "Created", "Record", "RecordGroups", "TimerOutcomes", "Explanation", "Next", "Simulated",
    "Backfilled", "BulkProgress", "Filter", "Calendar", "CalendarPut", "Clock", "SigningKey", "Fault", "Deadline", "Version", "Namespace",
]  # fmt: skip

# What clients send, in which times and durations can have further forms.
INPUTS = {"Spec", "When", "Retry", "Webhook", "CalendarRule", "Debounce", "Throttle", "Filter", "Day", "Quotas"}


class Schemas:
    """Some schemas and all that they refer to, each as a text of a language, after those that it refers to."""

    SIMPLE: dict[str, str]
    """What the types of JSON are in the language, and the schemas of a single value."""
    MORE: list[str] = []
    """The schemas that this language has in addition to ROOTS."""

    def __init__(self, schemas: dict[str, Any]) -> None:
        self.schemas = schemas
        self.done: dict[str, str] = {}
        self.aliases: dict[str, str] = {}
        for name in ROOTS + self.MORE:
            self.add(name)

    def add(self, name: str) -> None:
        """Adds the text of a schema, after those that it refers to."""
        if name in self.done:
            return
        self.done[name] = ""  # it may refer to itself
        text = self.text(name, *self.members(name))
        del self.done[name]
        self.done[name] = text

    def text(self, name: str, members: dict[str, Any], required: set[str]) -> str:
        """Returns the text of a schema."""
        raise NotImplementedError

    def about(self, name: str) -> str:
        """Returns the description of a schema."""
        return sentence(self.schemas[name].get("description", "").removeprefix(name + " is ").removeprefix(name + " "))

    def told(self, field: str, schema: dict[str, Any], none: str) -> str:
        """Returns the description of a member."""
        if field == "payload":
            return f"Any JSON value, delivered byte for byte; or bytes. {none} is no payload."
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

    def reference(self, name: str) -> str:
        """Returns the type of a schema that is referred to, and adds it."""
        if name in self.SIMPLE:
            return self.SIMPLE[name]
        if "enum" in self.schemas[name]:
            self.aliases[name] = self.alias(name, self.schemas[name])
        else:
            self.add(name)
        return name

    def alias(self, name: str, schema: dict[str, Any]) -> str:
        """Returns the text of a schema that is a choice of words."""
        raise NotImplementedError


class Dataclasses(Schemas):
    """The dataclasses of Python."""

    SIMPLE = {
        "string": "str", "integer": "int", "number": "float", "boolean": "bool",
        "Time": "datetime", "Duration": "timedelta", "Name": "str", "FireID": "str", "Number": "int",
    }  # fmt: skip
    # What a client writes can also be a text, as people write it.
    WRITTEN = {"datetime": "Union[datetime, str]", "timedelta": "Union[timedelta, str]"}

    def text(self, name: str, members: dict[str, Any], required: set[str]) -> str:
        lines = []
        for field, schema in sorted(members.items(), key=lambda m: m[0] not in required):
            if field == "payload_base64":
                continue  # bytes in payload
            kind = self.kind(schema)
            if name in INPUTS:
                kind = self.WRITTEN.get(kind, kind)
            attribute = field + "_" if keyword.iskeyword(field) else field
            default = ""
            if field not in required:
                kind, default = ("Any" if kind == "Any" else f"Optional[{kind}]"), " = None"
            if attribute != field:
                default = f' = field(default=None, metadata={{"json": "{field}"}})' if default else f' = field(metadata={{"json": "{field}"}})'
            lines.append(f"    {attribute}: {kind}{default}")
            told = self.told(field, schema, "None")
            if told:
                lines += textwrap.wrap(f'"""{told}"""', WIDTH, initial_indent="    ", subsequent_indent="    ")
        head = textwrap.wrap(f'"""{self.about(name)}"""', WIDTH, initial_indent="    ", subsequent_indent="    ")
        return "\n".join([f"@dataclass\nclass {name}:", *head, "", *lines])

    def alias(self, name: str, schema: dict[str, Any]) -> str:
        return f"{name} = Literal[{', '.join(repr(v) for v in schema['enum'])}]"

    def kind(self, schema: dict[str, Any]) -> str:
        """Returns the type of a member."""
        if "$ref" in schema:
            return self.reference(schema["$ref"].rsplit("/", 1)[1])
        if "enum" in schema:
            return f"Literal[{', '.join(repr(v) for v in schema['enum'])}]".replace("'", '"')
        if schema.get("format") == "date-time":
            return "datetime"
        if schema.get("type") == "array":
            return f"list[{self.kind(schema['items'])}]"
        if schema.get("type") == "object":
            return f"dict[str, {self.kind(schema['additionalProperties'])}]"
        return self.SIMPLE.get(schema.get("type", ""), "Any")


class Interfaces(Schemas):
    """The interfaces of TypeScript. Members have the names and forms of the API, so that nothing is translated."""

    SIMPLE = {
        "string": "string", "integer": "number", "number": "number", "boolean": "boolean",
        "Time": "Time", "Duration": "Duration", "Name": "string", "FireID": "string", "Number": "number",
    }  # fmt: skip
    MORE = ["Fire"]

    def text(self, name: str, members: dict[str, Any], required: set[str]) -> str:
        lines = []
        for field, schema in sorted(members.items(), key=lambda m: m[0] not in required):
            kind = self.kind(schema)
            if field == "payload_base64":
                if "payload" in members:
                    continue  # bytes in payload
                field, kind = "payload", "Uint8Array"
            if name in INPUTS and kind == "Time":
                kind = "Moment"
            end = "" if field in required else " | undefined" if name in INPUTS and kind != "unknown" else ""
            lines += comment(self.told(field, schema, "Undefined") if kind != "Uint8Array" else "", "  ")
            lines.append(f"  {field}{'' if field in required else '?'}: {kind}{end};")
        return "\n".join([*comment(self.about(name), ""), f"export interface {name} {{", *lines, "}"])

    def alias(self, name: str, schema: dict[str, Any]) -> str:
        union = textwrap.wrap(self.union(schema), WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
        return "\n".join([*comment(self.about(name) if "description" in schema else name + ".", ""), f"export type {name} =", *union]) + ";"

    @staticmethod
    def union(schema: dict[str, Any]) -> str:
        return " | ".join(f'"{word}"' for word in schema["enum"])

    def kind(self, schema: dict[str, Any]) -> str:
        """Returns the type of a member."""
        if "$ref" in schema:
            return self.reference(schema["$ref"].rsplit("/", 1)[1])
        if "enum" in schema:
            return self.union(schema)
        if schema.get("format") == "date-time":
            return "Time"
        if schema.get("type") == "array":
            return f"{self.kind(schema['items'])}[]"
        if schema.get("type") == "object":
            return f"{{ [name: string]: {self.kind(schema['additionalProperties'])} }}"  # Record is a schema
        return self.SIMPLE.get(schema.get("type", ""), "unknown")


def comment(text: str, indent: str) -> list[str]:
    """Returns a comment of TypeScript."""
    if not text:
        return []
    if len(indent + text) + 7 <= WIDTH:
        return [f"{indent}/** {text} */"]
    return [f"{indent}/**", *textwrap.wrap(text, WIDTH, initial_indent=indent + " * ", subsequent_indent=indent + " * "), f"{indent} */"]


def sentence(text: str) -> str:
    text = text.strip().replace("\\", "\\\\")
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "…")) or not text else ".")


def dataclasses(schemas: dict[str, Any]) -> str:
    m = Dataclasses(schemas)
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


def interfaces(schemas: dict[str, Any]) -> str:
    m = Interfaces(schemas)
    members = ", ".join(f'"{name}"' for name in m.members("Spec")[0] if name != "payload_base64")
    return "\n\n".join([
        "/** What requests and answers of the HTTP API contain. Made of api/openapi.yaml by generate.py: do not edit. */",
        '/** A time of RFC 3339, such as "2027-03-28T01:00:00Z": `new Date(time)` reads it. */\nexport type Time = string;',
        "/** A time that is sent: a Date, or a text of RFC 3339. */\nexport type Moment = Date | Time;",
        '/** A duration, such as "90s" or "1h30m0s": `milliseconds(duration)` reads it. */\nexport type Duration = string;',
        *(text for _, text in sorted(m.aliases.items())),
        *m.done.values(),
        "/** The members of a spec. */\nexport const specMembers = [\n"
        + "\n".join(textwrap.wrap(members, WIDTH, initial_indent="  ", subsequent_indent="  "))
        + "\n] as const satisfies readonly (keyof Spec)[];\n",
    ])  # fmt: skip


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
    text = (PYTHON / "aio.py").read_text()
    for pattern, to in SYNC:
        text = re.sub(pattern, to, text, flags=re.MULTILINE | (re.DOTALL if pattern.startswith('^"""') else 0), count=1 if pattern.startswith('^"""') else 0)
    return text


def main() -> int:
    wrong = 0
    schemas = yaml.safe_load((HERE.parent / "api" / "openapi.yaml").read_text())["components"]["schemas"]
    for path, text in (
        (PYTHON / "models.py", dataclasses(schemas)),
        (PYTHON / "client.py", sync()),
        (TYPESCRIPT / "models.ts", interfaces(schemas)),
    ):
        if "--check" not in sys.argv:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            print(f"{path} is not what its source gives: run {Path(__file__).name}", file=sys.stderr)
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
