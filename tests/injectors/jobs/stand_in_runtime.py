"""Steps of a stand-in runtime. argv: first generation, then attempts as step[:event...] in order."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "stand_in"))

import torch
import torch.distributed as dist

from recovery import events

Base = dist.ProcessGroup


class Group(Base):
    """A process group in Python, whose inner backend is what the filters made of it."""

    def __init__(self, rank, size, backend):
        super().__init__(rank, size)
        self.inner = events.filtered(backend)
        self.name = ""

    def getGroupName(self):
        return self.name

    def setGroupName(self, name):
        self.name = name

    def getGroupDesc(self):
        return "stand-in"

    def setGroupDesc(self, desc):
        pass

    def allreduce(self, tensors, opts=None):
        caller = sys._getframe(1).f_code.co_filename
        print("caller", os.path.basename(caller), flush=True)
        return self.inner.allreduce(tensors, opts or torch._C._distributed_c10d.AllreduceOptions())

    def barrier(self, opts=None):
        value = torch.ones(1)
        return self.allreduce([value])


def create(options, backend_options):
    backend = dist.ProcessGroupGloo(
        options.store, options.group_rank, options.group_size, timeout=options.timeout
    )
    return Group(options.group_rank, options.group_size, backend)


events.emit("member.enter", rank=int(os.environ["RANK"]), generation=int(sys.argv[1]))
dist.Backend.register_backend("stand-in", create, extended_api=True, devices=["cpu"])
dist.init_process_group("stand-in", store=dist.HashStore(), rank=0, world_size=1)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.AdamW(model.parameters())
for attempt in sys.argv[2:]:
    step, *extra = attempt.split(":")
    events.emit("step.begin", rank=0, generation=int(sys.argv[1]), step=int(step))
    for event in extra:
        events.emit(event, rank=0, generation=int(sys.argv[1]), role="source", sources=[0], targets=[1])
    try:
        model(torch.ones(1, 4)).sum().backward()
        value = torch.full((4,), 3.0)
        dist.all_reduce(value)
        dist.barrier()
        print("sum", value.tolist(), flush=True)
        optimizer.step()
        optimizer.zero_grad()
        events.emit("step.seal", step=int(step))
        events.emit("step.commit", step=int(step))
        print("committed", step, flush=True)
    except RuntimeError as error:
        print("raised", error, flush=True)
