"""Prints what every way of asking says the time is, by the real clock's difference. argv: number of steps."""

import datetime
import json
import subprocess
import sys
import time
from datetime import datetime as by_name
from time import time as imported

import torch

model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def host_s() -> float:
    """The host's clock, as a child sees it."""
    return float(subprocess.run(["date", "+%s.%N"], capture_output=True, check=True).stdout)


def ahead() -> dict[str, float]:
    """Seconds that each way is ahead of the host's clock."""
    said = {
        "time": time.time(),
        "imported": imported(),
        "time_ns": time.time_ns() / 1e9,
        "clock_gettime": time.clock_gettime(time.CLOCK_REALTIME),
        "clock_gettime_ns": time.clock_gettime_ns(time.CLOCK_REALTIME) / 1e9,
        "localtime": time.mktime(time.localtime()),
        "ctime": time.mktime(time.strptime(time.ctime())),
        "asctime": time.mktime(time.strptime(time.asctime())),
        "strftime": float(time.strftime("%s")),
        "now": datetime.datetime.now().timestamp(),
        "now_by_name": by_name.now(datetime.UTC).timestamp(),
        "today": by_name.today().timestamp(),
        "monotonic": time.monotonic() - time.clock_gettime(time.CLOCK_MONOTONIC) + host_s(),
    }
    now = host_s()
    return {name: value - now for name, value in said.items()}


for step in range(int(sys.argv[1])):
    print(json.dumps({"step": step, **ahead()}), flush=True)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step == 2:
        # Until the fault's own time is over, which the next steps then show.
        limit = time.monotonic() + 10.0
        while abs(time.time() - host_s()) > 1.0 and time.monotonic() < limit:
            time.sleep(0.01)
