"""A program with the client that openapi-python-client makes."""

import importlib
import pkgutil
import sys
from typing import TypeVar

import httpx
import rouse_client
from rouse_client import Client
from rouse_client.api.default import complete_fire, create_timer, list_timers, poll_fires, put_timer
from rouse_client.models import Complete, CreateTimer, Debounce, Fire, Poll, Polled, Problem, PutTimer, State, Timer, TimerList
from rouse_client.types import UNSET

NS = "python"
T = TypeVar("T")


def is_a(kind: type[T], answer: object) -> T:
    assert isinstance(answer, kind), answer
    return answer


def poll(client: Client, name: str) -> Fire:
    (fire,) = is_a(Polled, poll_fires.sync(NS, client=client, body=Poll(channel="python"))).fires
    assert fire.name == name and fire.token > 0, fire
    return fire


def check(client: Client) -> None:
    body = CreateTimer(name="a/b:c", schedule="@after 1h", target="stream:none", payload={"n": 1})
    made = is_a(Timer, create_timer.sync(NS, client=client, body=body))
    assert made.state == State.SCHEDULED and made.revision and made.generation and made.due, made
    (listed,) = is_a(TimerList, list_timers.sync(NS, client=client, state=[State.SCHEDULED])).timers
    assert listed.revision == made.revision and listed.payload == {"n": 1}, listed

    put = PutTimer(schedule="@after 2h", target="stream:none", expected_revision=made.revision)
    replaced = is_a(Timer, put_timer.sync(NS, "a/b:c", client=client, body=put))
    assert replaced.revision > made.revision, replaced
    refused = is_a(Problem, put_timer.sync(NS, "a/b:c", client=client, body=put))
    assert refused.status == 409, refused

    is_a(Timer, create_timer.sync(NS, client=client, body=CreateTimer(name="soon", schedule="@after 1s", target="stream:python")))
    fire = poll(client, "soon")
    assert fire.payload is UNSET and fire.content_type is UNSET, fire
    complete_fire.sync(NS, fire.name, fire.fire_id, client=client, body=Complete(token=fire.token))

    for _ in range(2):
        is_a(Timer, create_timer.sync(NS, client=client, body=CreateTimer(name="calm", target="stream:python", debounce=Debounce(quiet="1s"))))
    poll(client, "calm")


for module in pkgutil.walk_packages(rouse_client.__path__, "rouse_client."):
    importlib.import_module(module.name)
for url in sys.argv[1:]:
    check(Client(base_url=url, timeout=httpx.Timeout(60)))
