"""Handlers of timers in FastAPI. Run it, and make the timers that it declares:

    export ROUSE_SIGNING_KEYS="$(rouse signing reveal)"
    uvicorn fastapi_app:app --port 8000
    python -m rouse.sync fastapi_app:handlers --url http://127.0.0.1:8000/rouse
"""

import os

from fastapi import FastAPI

import rouse

app = FastAPI()
handlers = rouse.Handlers(os.environ["ROUSE_SIGNING_KEYS"].split(), owner="shop")
app.post("/rouse")(handlers.fastapi)

paid = {"17"}
reminded: dict[str, str] = {}
"""Orders by the fire that has reminded of them: a database has it as a unique column."""


@handlers.on("nightly-report", schedule="0 2 * * *", timezone="Europe/Stockholm", payload={"pages": 2})
async def nightly_report(fire: rouse.Callback) -> None:
    print("a report of", fire.payload["pages"], "pages for", fire.due)


@handlers.on("order-*")
def order_due(fire: rouse.Callback) -> None:
    """Of timers that the application creates, one for each order."""
    order = fire.timer[len("order-") :]
    if order in paid or fire.fire_id in reminded:
        return
    if not order.isdigit():
        raise rouse.FailedError(f"there is no order {order}", permanent=True)
    reminded[fire.fire_id] = order
