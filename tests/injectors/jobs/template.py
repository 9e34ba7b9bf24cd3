"""A warm template for tests: imports torch once with the agent in it, then forks the ranks of small jobs.

One JSON request a line on stdin: {"script", "args", "ranks": [{env}], "stdout"}; answers {"pids": [...]},
then {"codes": [...]} when all ranks have ended (negative: signal).
"""

import json
import os
import runpy
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel  # noqa: F401  imported once, for every fork


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
    sys.argv = [request["script"], *request["args"]]
    code = 0
    try:
        runpy.run_path(request["script"], run_name="__main__")
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
