"""A tool that is killed in the middle of a fault: run as a program by the tests.

Reads the fault and its place from stdin, writes the undo record to a file, injects, says so and then waits to
be killed.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from injectors.catalogue import CATALOGUE
from injectors.fault import Node, Place


def main() -> None:
    wanted = json.loads(sys.stdin.readline())
    nodes = tuple(Node(**node) for node in wanted["nodes"])
    place = Place(nodes=nodes, aimed=tuple(wanted["aimed"]), run=wanted["run"], fault=wanted["fault"])
    fault = CATALOGUE[wanted["id"]].from_params(wanted["params"])
    record = fault.undo_record(place)
    assert record is not None
    path = Path(wanted["journal"])
    path.write_text(json.dumps(record.as_dict()), encoding="utf-8")
    fired = fault.inject(place, None)
    assert fired.proven, fired
    print("at work", flush=True)
    os.read(0, 1)


if __name__ == "__main__":
    main()
