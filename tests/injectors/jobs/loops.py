"""Training loops of every shape, on one rank without communication. argv: the shape's name."""

import os
import sys

import torch
from torch.optim import SGD, AdamW

torch.manual_seed(0)
model = torch.nn.Linear(4, 4)
data = torch.ones(2, 4)


def plain(optimizer, steps: int) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        model(data).square().mean().backward()
        optimizer.step()


def accumulate() -> None:
    """Three backwards a step."""
    optimizer = AdamW(model.parameters())
    for index in range(9):
        model(data).square().mean().backward()
        if index % 3 == 2:
            optimizer.step()
            optimizer.zero_grad()


def gan() -> None:
    """Two optimizers; the discriminator's, which steps first, counts."""
    other = torch.nn.Linear(4, 4)
    discriminator, generator = AdamW(model.parameters()), SGD(other.parameters(), lr=0.1)
    for _ in range(3):
        for optimizer, module in ((discriminator, model), (generator, other)):
            optimizer.zero_grad()
            module(data).square().mean().backward()
            optimizer.step()


def scaler() -> None:
    """The second of four iterations overflows, and the scaler leaves its update out."""
    optimizer = AdamW(model.parameters())
    scale = torch.amp.GradScaler("cpu", init_scale=4.0)
    for index in range(4):
        optimizer.zero_grad()
        loss = model(data).square().mean() * (float("inf") if index == 1 else 1.0)
        scale.scale(loss).backward()
        scale.step(optimizer)
        scale.update()


def resume() -> None:
    """A process that loads a checkpoint of another one and goes on."""
    first = AdamW(model.parameters())
    if "saved" in sys.argv:
        first.load_state_dict(torch.load(sys.argv[3]))
        plain(first, 2)
    else:
        plain(first, 5)
        torch.save(first.state_dict(), sys.argv[2])


def sgd() -> None:
    plain(SGD(model.parameters(), lr=0.1), 3)


def adamw() -> None:
    plain(AdamW(model.parameters()), int(sys.argv[2]) if len(sys.argv) > 2 else 3)


def closure() -> None:
    """LBFGS computes its gradients within its own step."""
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2)

    def evaluate() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(data).square().mean()
        loss.backward()
        return loss

    for _ in range(2):
        optimizer.step(evaluate)


def failing() -> None:
    """A step that raises in its closure is caught, and training goes on with another optimizer."""
    broken, sound = AdamW(model.parameters()), SGD(model.parameters(), lr=0.1)

    def fail() -> None:
        raise ArithmeticError

    for optimizer in (broken, sound):
        try:
            optimizer.step(fail if optimizer is broken else None)
        except ArithmeticError:
            print("caught", flush=True)
    plain(broken, 2)


def child() -> None:
    """A forked child, as a data loader's worker is: it inherits the rank and must not act for it."""
    optimizer = AdamW(model.parameters())
    plain(optimizer, 1)
    pid = os.fork()
    if pid == 0:
        plain(optimizer, 5)
        os._exit(0)
    os.waitpid(pid, 0)
    plain(optimizer, 1)


def raises() -> None:
    """Says which exception came out of training."""
    try:
        adamw()
    except BaseException as error:
        print("came out:", type(error).__name__, error, flush=True)


def heartbeat() -> None:
    """A thread that beats every 5 ms; says the longest time between two beats."""
    import threading
    import time

    gaps = []
    done = threading.Event()

    def beat() -> None:
        last = time.monotonic()
        while not done.is_set():
            time.sleep(0.005)
            now = time.monotonic()
            gaps.append(now - last)
            last = now

    thread = threading.Thread(target=beat)
    thread.start()
    adamw()
    done.set()
    thread.join()
    print("longest gap", max(gaps), flush=True)


def limit() -> None:
    """Says whether the limit on the address space is as it was."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)
    raises()
    print("limit unchanged:", before == resource.getrlimit(resource.RLIMIT_AS), flush=True)
    torch.empty(256 << 20, dtype=torch.uint8)


def terminated() -> None:
    """Handles SIGTERM as an orderly script does."""
    import signal

    signal.signal(signal.SIGTERM, lambda number, frame: print("asked to end", flush=True))
    adamw()


def torn() -> None:
    """Prints its parameters after each step."""
    optimizer = AdamW(model.parameters())
    for _ in range(4):
        plain(optimizer, 1)
        print("nan" if any(p.isnan().any() for p in model.parameters()) else "finite", flush=True)


globals()[sys.argv[1]]()
