import sys
from datetime import datetime, timezone
from zoneinfo import ZoneInfo

from celery import Celery
from celery.schedules import crontab

app = Celery()


class Aware(crontab):  # as TzAwareCrontab of django-celery-beat
    def __init__(self, zone, *fields):
        self.tz = zone
        super().__init__(*fields, app=app, nowfun=lambda: self.clock)


for line in sys.stdin:
    expr, zone, start = line.rstrip("\n").split("|")
    minute, hour, day, month, weekday = expr.split(" ")
    last = datetime.fromisoformat(start)
    try:
        c = Aware(ZoneInfo(zone), minute, hour, weekday, day, month)
        times = []
        while len(times) < 6:  # beat waits for what remains after the last run, and then runs
            c.clock = last
            remaining = c.remaining_estimate(last.astimezone(c.tz))
            if remaining.total_seconds() <= 0:
                break
            last += remaining
            times.append(last.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"))
        print(" ".join(times))
    except Exception as e:
        print("refused", " ".join(str(e).replace("|", " ").split()))
