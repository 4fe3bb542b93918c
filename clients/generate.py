"""Writes what the clients have of the description of the HTTP API, api/openapi.yaml: the dataclasses of the Python client, models.py, the
interfaces of the TypeScript client, models.ts, and the records of the Java client, package model. It also writes the synchronous clients
of the asynchronous ones, which are written by hand: client.py of aio.py, and the methods of RouseClient.java of those of
RouseAsyncClient.java. With --check nothing is written: it fails if a file is not what its source gives.
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
JAVA = HERE / "java" / "src" / "main" / "java" / "io" / "github" / "rousehq" / "rouse"
WIDTH = 140

# The schemas that the clients have, in place of all of them: what operators do is the business of the command line.
ROOTS = [
    "Spec", "When", "Timer", "Deleted", "Ran", "Created", "Record", "RecordGroups", "TimerOutcomes", "Explanation", "Next", "Simulated",
    "Backfilled", "BulkProgress", "Filter", "Calendar", "CalendarPut", "Clock", "SigningKey", "Fault", "Deadline", "Version", "Namespace",
    "Fire", "Limit", "PutLimit", "Badge",
]  # fmt: skip

# What clients send, in which times and durations can have further forms.
INPUTS = {
    "Spec", "When", "Retry", "Webhook", "CalendarRule", "Debounce", "Throttle", "Filter", "Day", "Quotas", "PutLimit", "LimitRate",
    "Notify", "NotifyRule",
}  # fmt: skip


class Schemas:
    """Some schemas and all that they refer to, each as a text of a language, after those that it refers to."""

    SIMPLE: dict[str, str]
    """What the types of JSON are in the language, and the schemas of a single value."""

    def __init__(self, schemas: dict[str, Any]) -> None:
        self.schemas = schemas
        self.done: dict[str, str] = {}
        self.aliases: dict[str, str] = {}
        for name in ROOTS:
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
        """Returns the members of a schema, and which of them are required."""
        schema = self.schemas[name]
        required = set(schema.get("required", []))
        if name == "Timer":  # it has a schedule as its spec has one
            required.discard("schedule")
        return schema.get("properties", {}), required

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
            kind = self.kind(schema)
            if field == "payload_base64":
                if "payload" in members:
                    continue  # bytes in payload
                field, kind = "payload", "bytes"
            if name in INPUTS:
                kind = self.WRITTEN.get(kind, kind)
            attribute = field + "_" if keyword.iskeyword(field) else field
            default = ""
            if field not in required:
                kind, default = ("Any" if kind == "Any" else f"Optional[{kind}]"), " = None"
            if attribute != field:
                default = f' = field(default=None, metadata={{"json": "{field}"}})' if default else f' = field(metadata={{"json": "{field}"}})'
            lines.append(f"    {attribute}: {kind}{default}")
            told = self.told(field, schema, "None") if kind != "Optional[bytes]" else ""
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
            one = self.kind(schema["items"])
            return f"({one})[]" if " | " in one else f"{one}[]"
        if schema.get("type") == "object":
            return f"{{ [name: string]: {self.kind(schema['additionalProperties'])} }}"  # Record is a schema
        return self.SIMPLE.get(schema.get("type", ""), "unknown")


class Records(Schemas):
    """The records of Java, a file for each. What a client writes has a builder."""

    SIMPLE = {
        "string": "String", "integer": "long", "number": "double", "boolean": "boolean",
        "Time": "Instant", "Duration": "Duration", "Name": "String", "FireID": "String", "Number": "long",
    }  # fmt: skip
    BOXED = {"long": "Long", "double": "Double", "boolean": "Boolean"}
    IMPORTS = {
        "Instant": "java.time.Instant", "Duration": "java.time.Duration", "LocalDate": "java.time.LocalDate", "OffsetDateTime": "java.time.OffsetDateTime",
        "List": "java.util.List", "Map": "java.util.Map", "Objects": "java.util.Objects", "Payload": "io.github.rousehq.rouse.Payload",
        "Nullable": "org.jspecify.annotations.Nullable",
    }  # fmt: skip

    # Schemas with a name that java.lang has, or that means nothing without the others.
    NAMES = {"Record": "FireRecord", "Fail": "Failure", "Bulk": "BulkOptions", "Poll": "PollOptions", "Simulate": "SimulateOptions"}
    # Members that are arguments of the methods.
    ARGUMENTS = {"Fail": {"token"}, "Bulk": {"action", "filter"}, "Simulate": {"until"}}
    # Options that are parameters of an operation: its id, those that are arguments of the method, and a description.
    OPTIONS = {
        "ListOptions": ("listTimers", {"prefix", "name", "label", "state", "due_from", "due_until", "text", "target", "code"}, "The order of a list, and how many rows a page of it has"),
        "RecordsOptions": ("namespaceRecords", set(), "Which records are listed, and in which order"),
        "AggregateOptions": ("aggregateRecords", {"by"}, "Which records are summed up"),
        "PoolCallOptions": ("callPool", {"pool", "key"}, "How a request to a pool is handled"),
    }
    # Parameters that may be given more than once, or that Java cannot have as the name of a member.
    PARAMETERS = {"label": "labels", "state": "states", "ending": "endings", "cause": "causes", "wait": "wait_for"}
    # Members whose names every object of Java has as methods.
    RENAMED = {"wait": "wait_for", "notify": "notify_target"}
    DURATIONS = {"wait", "deadline", "keep", "timeout", "step"}
    # Members that an operation of the HTTP API has elsewhere.
    MORE = {
        "RecordsOptions": {"name": {"$ref": "#/components/schemas/Name", "description": "Of one timer. Prefix and labels are for all of the namespace."}},
        "PoolCallOptions": {"content_type": {"type": "string", "description": "Of the body; default application/octet-stream."}},
    }  # fmt: skip
    # Choices of words that are arguments of methods.
    WORDS = {"BulkAction": ("Bulk", "action"), "CreateMode": ("BatchCreate", "mode"), "GroupBy": ("RecordGroups", "by")}

    def __init__(self, description: dict[str, Any]) -> None:
        schemas = description["components"]["schemas"]
        parameters = description["components"]["parameters"]
        schemas = {**schemas, "RecordGroups": {**schemas["RecordGroups"], "by": parameters["by"]["schema"]}}
        self.enums: dict[tuple[str, ...], str] = {}
        self.nested: list[str] = []
        for name, (schema, member) in self.WORDS.items():
            choice = schemas[schema].get("properties", {}).get(member) or schemas[schema][member]
            self.enums[tuple(choice["enum"])] = name
        self.inputs = INPUTS | {"Bulk", "Poll", "Simulate", "Fail", "AdvanceClock", *self.OPTIONS}
        operations = {o["operationId"]: o for path in description["paths"].values() for o in path.values()}
        for name, (id, arguments, text) in self.OPTIONS.items():
            members: dict[str, Any] = {}
            for reference in operations[id]["parameters"]:
                parameter = parameters[reference["$ref"].rsplit("/", 1)[1]] if "$ref" in reference else reference
                member = parameter["name"]
                if parameter["in"] != "query" or member in arguments or member == "page_token" and name != "AggregateOptions":
                    continue
                kind = parameter["schema"]
                if member in self.DURATIONS:
                    kind = {"$ref": "#/components/schemas/Duration"}
                elif member == "label":
                    kind = {"type": "object", "additionalProperties": {"type": "string"}}
                members[self.PARAMETERS.get(member, member)] = {**kind, "description": parameter.get("description", "") if member != "label" else "Those that the timer must have."}
            schemas[name] = {"description": text, "properties": {**self.MORE.get(name, {}), **members}}
        super().__init__(schemas)
        for name in ("Bulk", "Poll", "Simulate", "Fail", "AdvanceClock", *self.OPTIONS):
            self.add(name)
        for values, name in self.enums.items():
            if name in self.WORDS:
                self.aliases[name] = self.enum(name, list(values), "", {"BulkAction": "What is done to timers", "CreateMode": "What becomes of names that exist", "GroupBy": "The property by which records are summed up"}[name])

    def text(self, name: str, members: dict[str, Any], required: set[str]) -> str:
        self.nested.append("")
        record, lines, parameters, copies = self.NAMES.get(name, name), [], [], []
        setters, fields, first = [], [], []
        members = {self.RENAMED.get(f, f): m for f, m in members.items() if f not in self.ARGUMENTS.get(name, set())}
        for field, schema in sorted(members.items(), key=lambda m: m[0] not in required):
            kind = self.kind(schema, record, field)
            if field == "payload_base64":
                if "payload" in members:
                    continue
                field, kind = "payload", "Payload"
            elif field == "payload":
                kind = "Payload"
            member, given = camel(field), kind
            if kind.startswith(("List<", "Map<")):
                copies.append(f"        {member} = Values.copy({member});")
            elif field not in required:
                outer, dot, inner = self.BOXED.get(kind, kind).rpartition(".")
                kind = f"{outer}{dot}@Nullable {inner}"
            elif name in self.inputs:
                copies.append(f'        Objects.requireNonNull({member}, "{field}");')
            told = javadoc(self.told(field, schema, "Null"))
            lines.append(f"        {kind} {member}")
            parameters += wrapped(f"@param {member} {told or 'its ' + field.replace('_', ' ')}", " * ", " *     ")
            if name not in self.inputs:
                continue
            if field in required:
                first.append((given, member))
            else:
                setters.append("\n".join([
                    *comment(told or f"Sets its {field.replace('_', ' ')}.", "        "),
                    f"        public Builder {member}({given} {member}) {{", f"            this.{member} = {member};", "            return this;", "        }",
                ]))  # fmt: skip
            empty = " = List.of()" if kind.startswith("List<") else " = Map.of()" if kind.startswith("Map<") else ""
            fields.append((f"        private {kind} {member}{empty};", member))
        body = []
        if copies:
            body += ["", *comment("Checks and copies the members.", "    "), f"    public {record} {{", *copies, "    }"]
        if name == "Timer":
            spec = ", ".join(camel(m) if m in members else "null" for m in ordered(*self.members("Spec")) if m != "payload_base64")
            body += ["", *comment("Returns the part of it that clients define, to create another one with it.", "    "), "    public Spec spec() {"]
            body += wrapped(f"return new Spec({spec});", "        ", "            ") + ["    }"]
        if name in self.inputs:
            body += ["", *self.builder(record, first, fields, setters)]
        nested = self.nested.pop()
        head = ["/**", *wrapped(javadoc(self.about(name) if name not in self.OPTIONS else sentence(self.schemas[name]["description"])), " * ", " * "), " *", *parameters, " */"]
        return "\n".join([*head, f"public record {record}(", ",\n".join(lines) + ") {", *([nested] if nested else []), *body, "}"])

    def builder(self, record: str, first: list[tuple[str, str]], fields: list[tuple[str, str]], setters: list[str]) -> list[str]:
        """Returns the builder of a record."""
        given = ", ".join(f"{kind} {member}" for kind, member in first)
        names = ", ".join(member for _, member in first)
        lines = [
            *comment(f"Returns a builder of {record}.", "    "), f"    public static Builder builder({given}) {{", f"        return new Builder({names});", "    }", "",
            *comment("Returns a builder that has all of this.", "    "), "    public Builder toBuilder() {", f"        Builder copy = new Builder({names});",
            *(f"        copy.{member} = {member};" for _, member in fields if member not in {m for _, m in first}), "        return copy;", "    }", "",
            *comment(f"Builds a {record}. Members that are not set have their defaults.", "    "), "    public static final class Builder {",
            *(text for text, _ in fields), "", f"        private Builder({given}) {{", *(f"            this.{member} = {member};" for _, member in first), "        }", "",
        ]  # fmt: skip
        for setter in setters:
            lines += [setter, ""]
        all_ = ", ".join(member for _, member in fields)
        lines += [*comment(f"Returns the {record}.", "        "), f"        public {record} build() {{", *wrapped(f"return new {record}({all_});", "            ", "                ")]
        return [*lines, "        }", "    }"]

    def alias(self, name: str, schema: dict[str, Any]) -> str:
        return self.enum(name, schema["enum"], "", self.about(name) if "description" in schema else name)

    @staticmethod
    def enum(name: str, words: list[str], indent: str, about: str) -> str:
        """Returns the text of an enum. A word that this version does not know has a constant of its own."""
        lines = [*comment(javadoc(sentence(about)), indent), f"{indent}public enum {name} {{"]
        for word in words:
            lines += [f'{indent}    /** {word}. */', f'{indent}    {word.upper()}("{word}"),']
        lines += [
            f"{indent}    /** A word of a later server, which this version does not know. */", f'{indent}    UNRECOGNIZED("unrecognized");', "",
            f"{indent}    private final String text;", "", f"{indent}    {name}(String text) {{", f"{indent}        this.text = text;", f"{indent}    }}", "",
            f"{indent}    /** Returns the word, as the API has it. */", f"{indent}    @Override", f"{indent}    public String toString() {{", f"{indent}        return text;", f"{indent}    }}", f"{indent}}}",
        ]  # fmt: skip
        return "\n".join(lines)

    def kind(self, schema: dict[str, Any], record: str, field: str) -> str:
        """Returns the type of a member of a record."""
        if "$ref" in schema:
            name = schema["$ref"].rsplit("/", 1)[1]
            return self.NAMES.get(self.reference(name), self.reference(name))
        if "enum" in schema:
            words = tuple(schema["enum"])
            if words not in self.enums:
                name = camel(field.removesuffix("s"))
                name = name[0].upper() + name[1:]
                self.enums[words] = f"{record}.{name}"
                self.nested[-1] += "\n" + self.enum(name, list(words), "    ", f"What {field.removesuffix('s').replace('_', ' ')} can be")
            return self.enums[words]
        if schema.get("format") in ("date-time", "date"):
            return {"date-time": "OffsetDateTime", "date": "LocalDate"}[schema["format"]]  # a time with its zone, unlike Time
        if schema.get("type") == "array":
            return f"List<{self.boxed(schema['items'], record, field)}>"
        if schema.get("type") == "object":
            return f"Map<String, {self.boxed(schema['additionalProperties'], record, field)}>"
        return self.SIMPLE.get(schema.get("type", ""), "Object")

    def boxed(self, schema: dict[str, Any], record: str, field: str) -> str:
        kind = self.kind(schema, record, field)
        return self.BOXED.get(kind, kind)

    def files(self) -> dict[Path, str]:
        """Returns the files of the package."""
        out = {}
        for name, text in {**self.aliases, **self.done}.items():
            imports = [full for short, full in self.IMPORTS.items() if re.search(rf"(?<![\w.]){short}\b", re.sub(r"/\*\*.*?\*/", "", text, flags=re.DOTALL))]
            groups = [sorted(i for i in imports if i.startswith(prefix)) for prefix in ("io.", "java.", "org.")]
            lines = "\n\n".join("\n".join(f"import {i};" for i in group) for group in groups if group)
            head = "// Made of api/openapi.yaml by generate.py: do not edit.\n\npackage io.github.rousehq.rouse.model;\n\n"
            out[JAVA / "model" / f"{self.NAMES.get(name, name)}.java"] = head + (lines + "\n\n" if lines else "") + text + "\n"
        return out


def ordered(members: dict[str, Any], required: set[str]) -> list[str]:
    """Returns the names of members in the order that records have them."""
    return sorted(members, key=lambda m: m not in required)


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def javadoc(text: str) -> str:
    """Returns a text as Javadoc has it."""
    text = text.replace("\\\\", "\\")
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("@", "&#64;")


def wrapped(text: str, indent: str, more: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=more, break_on_hyphens=False)


# The methods of the asynchronous Java client of which the synchronous one has its own, or none.
OWN = {"builder", "within", "withIdempotencyKey", "namespace", "close", "subscribe"}
BEGIN, END = "    // Methods made of RouseAsyncClient.java by generate.py: do not edit.\n", "    // End of what is made of RouseAsyncClient.java.\n"
METHOD = re.compile(
    r"(?P<doc>    /\*\*(?:(?!\*/).)*\*/\n)    public (?:CompletableFuture<(?P<future>[^;{]*?)>|Async(?P<listing>Listing<\w+>)) (?P<name>\w+)\((?P<parameters>[^{]*?)\) \{\n",
    re.DOTALL,
)


def blocking() -> str:
    """Returns RouseClient.java with the methods of RouseAsyncClient.java."""
    methods, text = [], (JAVA / "RouseAsyncClient.java").read_text()
    for section in re.split(r"(?=^    // [A-Z].*\n\n    /\*\*)", text, flags=re.MULTILINE):
        title = re.match(r"    // .*\n", section)
        found = [m for m in METHOD.finditer(section) if m["name"] not in OWN]
        if title and found:
            methods.append(title[0])
        for m in found:
            doc = m["doc"].replace(".join()", "").replace("RouseAsyncClient", "RouseClient").replace("AsyncListing", "Listing")
            doc = re.sub(r"^     \* @return (?:a future of |the future of )?", "     * @return ", doc, flags=re.MULTILINE)
            names = ", ".join(part.split()[-1] for part in re.sub(r"<[^<>]*(<[^<>]*>)?[^<>]*>", "", m["parameters"]).split(",") if part.strip())
            call = f"async.{m['name']}({names})"
            if m["listing"]:
                kind, line = m["listing"], f"return new Listing<>({call});"
            else:
                kind, line = (m["future"], f"return Calls.await({call});") if m["future"] != "Void" else ("void", f"Calls.await({call});")
                kind = {"Long": "long"}.get(kind, kind)
            methods.append(f"{doc}    public {kind} {m['name']}({m['parameters']}) {{\n        {line}\n    }}\n")
    path = JAVA / "RouseClient.java"
    before, _, rest = path.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n" + "\n".join(methods) + f"\n{END}{after}"


def comment(text: str, indent: str) -> list[str]:
    """Returns a comment of TypeScript or Java."""
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
    timer = m.members("Timer")[0]
    members = ", ".join(f'"{name}"' for name in m.members("Spec")[0] if name in timer and name != "payload_base64")
    return "\n\n".join([
        "/** What requests and answers of the HTTP API contain. Made of api/openapi.yaml by generate.py: do not edit. */",
        '/** A time of RFC 3339, such as "2027-03-28T01:00:00Z": `new Date(time)` reads it. */\nexport type Time = string;',
        "/** A time that is sent: a Date, or a text of RFC 3339. */\nexport type Moment = Date | Time;",
        '/** A duration, such as "90s" or "1h30m0s": `milliseconds(duration)` reads it. */\nexport type Duration = string;',
        *(text for _, text in sorted(m.aliases.items())),
        *m.done.values(),
        "/** The members of a spec that a timer has. */\nexport const specMembers = [\n"
        + "\n".join(textwrap.wrap(members, WIDTH, initial_indent="  ", subsequent_indent="  "))
        + "\n] as const satisfies readonly (keyof Spec & keyof Timer)[];\n",
    ])  # fmt: skip


# How the synchronous client differs from the other one, in order.
SYNC = [
    (r'^""".*?"""', '"""The synchronous client. Made of aio.py by generate.py: do not edit."""'),
    (r"\basync (def|with|for) ", r"\1 "),
    (r"\bawait ", ""),
    (r"\basyncio\.sleep\b", "time.sleep"),
    (r"^import asyncio\n", ""),
    (r"\bAsync(Client|Handler|Iterator|Subscription|Transport|BaseTransport|HTTPTransport)\b", r"\1"),
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


def described() -> dict[str, Any]:
    """Returns the description, with Spec: what a create has but for the timer's name, and what it does with it."""
    description: dict[str, Any] = yaml.safe_load((HERE.parent / "api" / "openapi.yaml").read_text())
    schemas = description["components"]["schemas"]
    create = schemas["CreateTimer"]
    schemas["Spec"] = {
        **create,
        "description": "Spec is what a client defines about a timer. Members that are left out have their defaults.",
        "properties": {m: schema for m, schema in create["properties"].items() if m not in ("name", "validate_only")},
    }
    return description


def main() -> int:
    wrong = 0
    description = described()
    schemas = description["components"]["schemas"]
    records = Records(description).files()
    for path, text in (
        (PYTHON / "models.py", dataclasses(schemas)),
        (PYTHON / "client.py", sync()),
        (TYPESCRIPT / "models.ts", interfaces(schemas)),
        (JAVA / "RouseClient.java", blocking()),
        *records.items(),
    ):
        if "--check" not in sys.argv:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            print(f"{path} is not what its source gives: run {Path(__file__).name}", file=sys.stderr)
            wrong = 1
    for path in set((JAVA / "model").glob("*.java")) - records.keys() - {JAVA / "model" / name for name in ("Values.java", "package-info.java")}:
        if "--check" not in sys.argv:
            path.unlink()
        else:
            print(f"{path} has no source any more: run {Path(__file__).name}", file=sys.stderr)
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
