"""Takes faults through their whole life as whoever runs it; the tests run it as an ordinary user."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from injectors.catalogue import CATALOGUE
from tests.injectors.net.rig import Rig


def main() -> None:
    wanted: list[list[Any]] = json.loads(sys.argv[1])
    cluster = Rig(3)
    try:
        for name, params in wanted:
            before = cluster.state()
            fault, place = CATALOGUE[name].from_params(params), cluster.place(1)
            record = fault.undo_record(place)
            assert record is not None
            fired = fault.inject(place, None)
            seen = [fired, fault.verify(place, fired), fault.undo(record), fault.verify_undone(record)]
            proven = [evidence.proven for evidence in seen] + [cluster.state() == before]
            said = [evidence.what for evidence in seen]
            print(
                json.dumps({"fault": name, "uid": os.geteuid(), "proven": proven, "said": said}), flush=True
            )
    finally:
        cluster.close()


if __name__ == "__main__":
    main()
