"""Runs the conformance script of the clients: conformance.py sync|async SERVER CONTROLS RECEIVER STEPS. See clients/conformance."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import sys
import threading
import time
from pathlib import Path
from typing import Any, Union

import httpx

import rouse
from rouse import _wire, webhooks


class Runner:
    """Executes steps with one client."""

    def __init__(self, kind: str, server: str, controls: str, receiver: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.client: Any = rouse.AsyncClient(server) if kind == "async" else rouse.Client(server)
        self.controls = httpx.Client(base_url=controls, trust_env=False, timeout=60)
        self.kept: dict[str, Any] = {"receiver": receiver}
        self.deliveries: list[dict[str, Any]] = []
        self.subscription: Any = None
        self.names: set[str] = set()  # of the fires whose handlers have begun
        self.lost: list[Exception] = []
        self.free: Any = None  # ends the handlers of fires whose names begin with "slow"

    def close(self) -> None:
        self.wait(self.client.close())
        self.loop.close()
        self.controls.close()

    def wait(self, result: Any) -> Any:
        """Returns what a method of either client returns at last."""
        if inspect.isasyncgen(result):

            async def collect() -> list[Any]:
                return [row async for row in result]

            return self.loop.run_until_complete(collect())
        if inspect.isawaitable(result):

            async def main() -> Any:
                return await result

            return self.loop.run_until_complete(main())
        return list(result) if inspect.isgenerator(result) else result

    def step(self, step: dict[str, Any]) -> None:
        """Executes a step; raises AssertionError if it does not do what it has to."""
        self.controls.post("/begin", json={"fault": step.get("fault")}).raise_for_status()
        began = time.monotonic()
        while True:
            try:
                result = self.call(step["op"], self.replaced(step.get("with", {})), step.get("in"))
                assert "error" not in step, f"it returned {result}"
            except rouse.RouseError as error:
                if "error" not in step:
                    raise AssertionError(f"it failed: {error!r}") from error
                return self.check_error(self.replaced(step["error"]), error, step)
            try:
                matches(self.replaced(step["want"]), result, "result")
                break
            except AssertionError:
                if not step.get("until") or time.monotonic() > began + 30:
                    raise
                time.sleep(0.02)
        for name, path in step.get("keep", {}).items():
            value = result
            for part in path.split("."):
                value = value[int(part)] if part.isdigit() else value[part]
            self.kept[name] = value
        took = time.monotonic() - began
        assert took >= step.get("longer_than", 0), f"it took only {took} s"
        self.check_requests(step)

    def check_error(self, want: dict[str, Any], error: rouse.RouseError, step: dict[str, Any]) -> None:
        code, fields = "", []
        if isinstance(error, rouse.ApiError):
            code, fields = error.code, sorted(fault.field for fault in error.errors)
        elif isinstance(error, rouse.SignatureError):
            code = "signature"
        elif isinstance(error, rouse.ConnectionFailedError):
            code = "no_answer"
        assert code == want["code"], f"the code is {code}: {error}"
        assert "fields" not in want or fields == want["fields"], f"it names {fields}: {error}"
        self.check_requests(step)

    def check_requests(self, step: dict[str, Any]) -> None:
        made = self.controls.get("/requests").json()["requests"]
        assert step.get("requests", made) == made, f"it made {made} requests"

    def replaced(self, value: Any) -> Any:
        """Puts what was kept in place of its names."""
        if isinstance(value, str) and value.startswith("$"):
            name, slash, rest = value[1:].partition("/")
            return f"{self.kept[name]}/{rest}" if slash else self.kept[name]
        if isinstance(value, dict):
            return {k: self.replaced(v) for k, v in value.items()}
        return [self.replaced(v) for v in value] if isinstance(value, list) else value

    def call(self, op: str, given: dict[str, Any], namespace: Union[str, None]) -> Any:
        """Calls an operation, and returns its result as JSON."""
        if hasattr(self, "do_" + op):
            return getattr(self, "do_" + op)(given)
        client = self.client.within(namespace) if namespace else self.client
        args = dict(given)
        if "spec" in args:
            args["spec"] = _wire.decode(rouse.Spec, args["spec"])
        for name, cls in (("when", rouse.When), ("filter", rouse.Filter), ("quotas", rouse.Quotas), ("limit", rouse.PutLimit)):
            if name in args:
                args[name] = _wire.decode(cls, args[name])
        if "key" in args:
            args["idempotency_key"] = args.pop("key")
        if op == "create":
            args.setdefault("name", None)
        if op == "create_batch":
            args = {"timers": [(t["name"], _wire.decode(rouse.Spec, t["spec"])) for t in args["timers"]]}
        if op == "upsert":
            args["if_revision"], args["only_existing"] = args.pop("revision", None), args.pop("existing", False)
        if op == "patch":
            args["changes"], args["if_revision"] = args.pop("patch"), args.pop("revision", None)
        if op == "put_notify":
            args["rules"] = [_wire.decode(rouse.NotifyRule, r) for r in args["rules"]]
            args["if_revision"] = args.pop("revision", None)
        if op == "put_calendar":
            args["days"] = [_wire.decode(rouse.Day, d) for d in args["days"]]
        result = self.wait(getattr(client, op)(**args))
        return {"count": result} if isinstance(result, int) else {} if result is None else _wire.encode(result)

    def do_deliveries(self, given: dict[str, Any]) -> Any:
        self.deliveries = self.controls.get("/deliveries", params=given).json()
        return self.deliveries

    def do_subscribe(self, given: dict[str, Any]) -> Any:
        """Begins a subscription unless there is one, and returns what it has come to."""
        if self.subscription is None:
            self.subscription = self.wait(self.begin(given["channel"])) if isinstance(self.client, rouse.AsyncClient) else self.begin_threads(given["channel"])
        self.wait(asyncio.sleep(0.02))
        return {"names": sorted(self.names), "lost": len(self.lost) > 0}

    async def begin(self, channel: str) -> Any:
        free = self.free = asyncio.Event()

        async def handle(fire: rouse.Fire) -> None:
            self.names.add(fire.name)
            if fire.name.startswith("slow"):
                await free.wait()

        return self.client.subscribe(channel, handle, lost=self.lost.append)

    def begin_threads(self, channel: str) -> Any:
        free = self.free = threading.Event()

        def handle(fire: rouse.Fire, over: threading.Event) -> None:
            self.names.add(fire.name)
            if fire.name.startswith("slow"):
                free.wait()

        return self.client.subscribe(channel, handle, lost=self.lost.append)

    def do_unsubscribe(self, given: dict[str, Any]) -> Any:
        self.free.set()
        self.wait(self.subscription.stop())
        return {}

    def do_verify(self, given: dict[str, Any]) -> Any:
        delivery = self.deliveries[given["delivery"]]
        headers = {**delivery["headers"], **given.get("headers", {})}
        keys = ["whsec_" + "A" * 32]
        if given["keys"] != "other":
            revealed = self.wait(self.client.signing_keys(reveal=True))
            keys = [k.secret if given["keys"] == "secret" else k.public_key for k in revealed]
        now = int(headers["Webhook-Timestamp"]) + given.get("late", 0)
        return _wire.encode(webhooks.verify_identity(keys, headers, given.get("body", delivery["body"]).encode(), now=now))


TIME = re.compile(r"\d{4}-\d\d-\d\dT.*")


def matches(want: Any, got: Any, where: str) -> None:
    """Raises AssertionError if a result is not as wanted."""
    if want == "*":
        assert got is not None, f"{where} is missing"
    elif isinstance(want, dict):
        assert isinstance(got, dict), f"{where} is {got!r}"
        for name, value in want.items():
            # An empty member may be left out.
            matches(value, got.get(name, type(value)() if value in (0, False, []) else None), f"{where}.{name}")
    elif isinstance(want, list):
        assert isinstance(got, list), f"{where} is {got!r}"
        more = want[-1:] == ["…"]
        want = want[:-1] if more else want
        assert len(got) >= len(want) if more else len(got) == len(want), f"{where} has {len(got)} elements: {got!r}"
        for i, value in enumerate(want):
            matches(value, got[i], f"{where}[{i}]")
    elif isinstance(want, str) and isinstance(got, str) and TIME.fullmatch(want):
        assert _wire.time_of(want) == _wire.time_of(got), f"{where} is {got!r}, not {want!r}"
    else:
        assert want == got, f"{where} is {got!r}, not {want!r}"


def main() -> int:
    kind, server, controls, receiver, file = sys.argv[1:]
    runner = Runner(kind, server, controls, receiver)
    try:
        steps = json.loads(Path(file).read_text())
        for n, step in enumerate(steps, 1):
            try:
                runner.step(step)
            except AssertionError as error:
                print(f"step {n}, {step['step']}: {step['op']} {step.get('with', {})}: {error}")
                return 1
        print(f"{len(steps)} steps")
        return 0
    finally:
        runner.close()


if __name__ == "__main__":
    sys.exit(main())
