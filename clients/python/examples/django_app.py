"""Handlers of timers in Django, in one file. Run it, and make the timers that it declares:

    export ROUSE_SIGNING_KEYS="$(rouse signing reveal)"
    python django_app.py runserver 8000
    python -m rouse.sync django_app:handlers --url http://127.0.0.1:8000/rouse
"""

import os
import sys

import rouse
from django.conf import settings
from django.core.management import execute_from_command_line
from django.core.wsgi import get_wsgi_application
from django.urls import path

settings.configure(ALLOWED_HOSTS=["127.0.0.1"], ROOT_URLCONF=__name__, MIDDLEWARE=["django.middleware.csrf.CsrfViewMiddleware"])
handlers = rouse.Handlers(os.environ["ROUSE_SIGNING_KEYS"].split(), owner="shop")
urlpatterns = [path("rouse", handlers.django)]
app = get_wsgi_application()


@handlers.on("nightly-report", schedule="0 2 * * *", timezone="Europe/Stockholm")
def nightly_report(fire: rouse.Callback) -> None:
    print("a report for", fire.due)


if __name__ == "__main__":
    execute_from_command_line(sys.argv)
