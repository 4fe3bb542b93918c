import os
import subprocess
import sys
from datetime import datetime, timezone

DAYS = 10  # for which the daemon runs

for line in sys.stdin:
    expr, zone, start = line.rstrip("\n").split("|")
    tab = "/var/spool/cron/crontabs/root"
    with open(os.open(tab, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as f:
        f.write(expr + " :\n")
    start = int(datetime.fromisoformat(start).timestamp())
    until = start - start % 60 + DAYS * 86400
    env = {"TZ": zone, "FROM": str(start), "UNTIL": str(until), "LD_PRELOAD": os.path.abspath("clock.so")}
    answer = subprocess.run(["root/usr/sbin/cron", "-f"], env=env, stdout=subprocess.PIPE, check=True, text=True).stdout
    if answer.startswith("refused"):
        print(answer)
        continue
    times = [datetime.fromtimestamp(int(at), timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ") for at in answer.split()]
    if len(times) < 6:
        times.append(">" + datetime.fromtimestamp(until - 60, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"))
    print(*times)
