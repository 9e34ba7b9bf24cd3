"""A warm template for tests: imports torch once with the agent in it, then forks the ranks of small jobs.

One JSON request a line on stdin: {"script", "args", "ranks": [{env}], "stdout"}; answers {"pids": [...]},
then {"codes": [...]} when all ranks have ended (negative: signal).
"""

import faulthandler
import json
import os
import sys
import types

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel  # noqa: F401  imported once, for every fork

HANG_S = float(os.environ.get("RIG_HANG_S", "40"))


def warm_up() -> None:
    """The first optimizer step of a process imports a compiler; children inherit it."""
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    assert dist.is_available()


def run(request: dict, env: dict) -> None:
    os.environ.update(env)
    out = os.open(request["stdout"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    # A rank that hangs says where, and ends: the template's next answer must not be this job's.
    faulthandler.dump_traceback_later(HANG_S, exit=True)
    sys.argv = [request["script"], *request["args"]]
    code = 0
    try:
        # Not runpy: it takes the script's globals down at the end, and torch's C++ objects (store, group,
        # reducer) then sometimes never return in a forked process, with or without an agent. os._exit
        # follows, so nothing has to be taken down.
        main = types.ModuleType("__main__")
        main.__file__ = request["script"]
        sys.modules["__main__"] = main
        sys.path.insert(0, os.path.dirname(request["script"]))
        with open(request["script"], encoding="utf-8") as file:
            exec(compile(file.read(), request["script"], "exec"), main.__dict__)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main() -> None:
    torch.set_num_threads(1)
    warm_up()
    print(json.dumps({"ready": len(os.listdir("/proc/self/task"))}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        pids = []
        for env in request["ranks"]:
            pid = os.fork()
            if pid == 0:
                run(request, env)
            pids.append(pid)
        print(json.dumps({"pids": pids}), flush=True)
        codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
        print(json.dumps({"codes": codes}), flush=True)


main()
