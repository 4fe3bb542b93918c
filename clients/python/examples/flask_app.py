"""Handlers of timers in Flask. Run it, and make the timers that it declares:

    export ROUSE_SIGNING_KEYS="$(rouse signing reveal)"
    flask --app flask_app run --port 8000
    python -m rouse.sync flask_app:handlers --url http://127.0.0.1:8000/rouse
"""

import os

from flask import Flask

import rouse

app = Flask(__name__)
handlers = rouse.Handlers(os.environ["ROUSE_SIGNING_KEYS"].split(), owner="shop")
app.post("/rouse")(handlers.flask)


@handlers.on("nightly-report", schedule="0 2 * * *", timezone="Europe/Stockholm")
def nightly_report(fire: rouse.Callback) -> None:
    print("a report for", fire.due)
