import datetime as dates
import itertools
import sys
from datetime import datetime, timezone

from dateutil.rrule import rrulestr

dates.MAXYEAR = 2034  # up to when dateutil looks for a time that does not come

for line in sys.stdin:
    expr, zone, start = line.rstrip("\n").split("|")
    start = datetime.fromisoformat(start)
    begin, rule = expr.split(" ")
    try:
        # What comes together in a gap is not in the order of instants.
        times = itertools.islice((at.astimezone(timezone.utc) for at in rrulestr(begin + "\n" + rule)), 5000)
        times = sorted({at for at in times if at > start})[:6]
        print(" ".join(at.strftime("%Y-%m-%dT%H:%M:%SZ") for at in times))
    except ValueError as e:
        print("refused", " ".join(str(e).split()))
