"""What the delegating group must carry: meshes, FSDP2, ZeRO, functional collectives, object collectives."""

import sys

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

torch.manual_seed(0)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()


def train(model, optimizer, steps: int) -> None:
    for index in range(steps):
        generator = torch.Generator().manual_seed(index * 1000 + rank)
        model(torch.randn(4, 8, generator=generator)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def collectives() -> None:
    ones = torch.ones(world * 2)
    functional.wait_tensor(functional.all_reduce(ones, "sum", dist.group.WORLD))
    functional.wait_tensor(functional.all_gather_tensor(ones, 0, dist.group.WORLD))
    functional.wait_tensor(functional.reduce_scatter_tensor(ones, "sum", 0, dist.group.WORLD))
    functional.wait_tensor(functional.all_to_all_single(ones, None, None, dist.group.WORLD))
    gathered = [None] * world
    dist.all_gather_object(gathered, {"rank": rank})
    assert [entry["rank"] for entry in gathered] == list(range(world))
    dist.all_reduce_coalesced([ones.clone(), ones.clone()])
    with dist._coalescing_manager():
        dist.all_reduce(ones.clone())
    for work in dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, ones, 1 - rank), dist.P2POp(dist.irecv, torch.empty(world * 2), 1 - rank)]
    ):
        work.wait()
    dist.monitored_barrier()
    assert dist.get_backend() == "gloo"
    assert dist.group.WORLD._get_backend(torch.device("cpu")) is not None
    small = dist.new_group([0, 1], group_desc="pair")
    value = torch.tensor([float(rank)])
    dist.all_reduce(value, group=small)
    assert value.item() == 1.0


def fsdp() -> None:
    mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("dp",))
    model = torch.nn.Sequential(torch.nn.Linear(8, 7), torch.nn.Linear(7, 5))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    train(model, torch.optim.AdamW(model.parameters(), lr=0.01), 3)
    full = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
    assert rank or len(full) == 4


def zero() -> None:
    model = DistributedDataParallel(torch.nn.Linear(8, 8))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW, lr=0.01)
    train(model, optimizer, 3)


def many() -> None:
    """Enough all-reduces to meet the deadlock of a group that inherits its collectives."""
    value = torch.ones(64)
    for _ in range(1500):
        dist.all_reduce(value)
        value.fill_(1.0)


globals()[sys.argv[1]]()
print("fine", flush=True)
dist.destroy_process_group()
