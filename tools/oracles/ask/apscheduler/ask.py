import sys
from datetime import datetime, timezone
from zoneinfo import ZoneInfo

from apscheduler.triggers.cron import CronTrigger

NAMES = ("second", "minute", "hour", "day", "month", "day_of_week")

for line in sys.stdin:
    expr, zone, start = line.rstrip("\n").split("|")
    try:
        fields = [f.replace("_", " ") for f in expr.split(" ")]
        trigger = CronTrigger(timezone=ZoneInfo(zone), **dict(zip(NAMES, fields)))
        previous, times = datetime.fromisoformat(start), []
        while len(times) < 6:  # a scheduler asks for the next time when it has submitted the last one
            at = trigger.get_next_fire_time(previous, previous)
            if at is None:
                break
            times.append(at.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"))
            previous = at
        print(" ".join(times))
    except Exception as e:
        print("refused", " ".join(str(e).replace("|", " ").split()))
