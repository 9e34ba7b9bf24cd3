"""What has been given up commits nothing: the minority's side of a partition, judged by both sides' words."""

from __future__ import annotations

from chaos.history import History
from chaos.invariants.finding import Finding, Offences, held, not_applicable
from chaos.invariants.invariant import invariant
from chaos.invariants.scene import Scene
from chaos.records import Event, int_of, time_of

_BACK = ("node.joined", "node.returned")


@invariant(needs=["step.commit"], sources=["I-FENCE"])
def cut_off_node_commits_nothing(history: History, reference: History | None, scene: Scene) -> Finding:
    """No commit on a node between its loss, by its own word or the coordinator's, and its return.

    A node that can't hear the coordinator ends its processes before its lease is over (``lease.expired``, its
    own word); later the coordinator takes it for lost (``node.lost``). From the earlier of the two on it may
    commit nothing until the coordinator has taken it back. The order of the two is judged too: its ranks are
    free from ``node.lost`` on, so by then it must have ended everything.

    Smallest break: node 1 is lost at 2.0 s and reports a commit at 2.1 s.
    """
    lost = history.of("node.lost", "lease.expired")
    if not lost:
        return not_applicable("no node was lost")
    offences = Offences()
    _judge_commits(history, offences)
    _judge_ends(history, offences)
    return offences.finding_or(held(f"{len(history.of('node.lost'))} lost nodes committed nothing"))


def _judge_commits(history: History, offences: Offences) -> None:
    gone: dict[int, float] = {}
    for event in history.of("node.lost", "lease.expired", "step.commit", *_BACK):
        match event.get("event"):
            case "step.commit":
                node = int_of(event, "node")
                if node is not None and node in gone:
                    late_s = time_of(event) - gone[node]
                    offences.add(
                        f"rank {int_of(event, 'rank')} on node {node} committed step {int_of(event, 'step')}"
                        f" {late_s:.3f} s after that node was lost",
                        late_s,
                    )
            case name if name in _BACK:
                gone.pop(_about(event), None)
            case _:
                gone.setdefault(_about(event), time_of(event))


def _judge_ends(history: History, offences: Offences) -> None:
    """Whoever was started on a lost node is dead before its ranks are given away."""
    live: dict[int, tuple[int, int | None]] = {}
    # By the kernel's word, where the node's own supervisor lived to pass it on.
    told = {int_of(event, "node") for event in history.of("lease.expired")}
    for event in history.of("worker.start", "worker.exit", "node.lost"):
        pid, node = int_of(event, "pid"), int_of(event, "node")
        if event.get("event") == "worker.start" and pid is not None and node is not None:
            live[pid] = (node, int_of(event, "rank"))
        elif event.get("event") == "worker.exit" and pid is not None:
            live.pop(pid, None)
        elif event.get("event") == "node.lost" and _about(event) in told:
            for pid, (node, rank) in live.items():
                if node == _about(event):
                    offences.add(f"process {pid} of rank {rank} still ran when node {node} was given up")


def _about(event: Event) -> int:
    """The node that an event speaks of: `about`, or the one that speaks of itself."""
    about = int_of(event, "about")
    node = int_of(event, "node")
    return about if about is not None else node if node is not None else -1
