"""rouse fires durable timers; this package is its client.

`Client` is synchronous, `AsyncClient` asynchronous; both speak the HTTP API. `Handlers` handles callbacks in web
applications, `rouse.webhooks` verifies them, `rouse.testing` runs a development server for tests, `rouse.errors` has the errors.
"""

from . import errors, models, webhooks
from .aio import AsyncClient
from .client import Client
from .errors import *  # noqa: F403
from .handlers import Callback, Handlers, Reply, Synced
from .models import *  # noqa: F403
from .pools import CallAnswer, CallPending
from .subscriptions import AsyncSubscription, Subscription

__version__ = "0.1.0"

__all__ = [
    "AsyncClient", "AsyncSubscription", "CallAnswer", "CallPending", "Callback", "Client", "Handlers", "Reply", "Subscription", "Synced", "errors", "models",
    "webhooks", *errors.__all__, *models.__all__,
]  # fmt: skip
