from __future__ import annotations

import math

from chaos.history import History
from chaos.report.loss import curves, losses
from tests.chaos.histories import Events


def commits(*told: tuple[int, int, float], adopted: bool = False) -> Events:
    """(rank, step, loss) each."""
    return [
        {"t": float(n), "event": "step.commit", "rank": rank, "step": step, "loss": loss, "adopted": adopted}
        for n, (rank, step, loss) in enumerate(told)
    ]


def test_the_mean_over_ranks_by_step() -> None:
    found = curves(History(commits((0, 0, 2.0), (1, 0, 4.0), (0, 1, 1.0), (1, 1, 2.0))), None)
    assert found is not None
    assert found.run == ((0, 3.0), (1, 1.5))
    assert (found.twin, found.differ, found.worst) == ((), (), 0.0)


def test_equal_losses_differ_nowhere() -> None:
    history = History(commits((0, 0, 2.0), (0, 1, 1.0)))
    found = curves(history, history)
    assert found is not None
    assert (found.run, found.differ) == (found.twin, ())


def test_the_first_and_the_worst_difference_are_told() -> None:
    found = curves(
        History(commits((0, 0, 2.0), (0, 1, 1.5), (0, 2, 4.0))),
        History(commits((0, 0, 2.0), (0, 1, 1.0), (0, 2, 1.0))),
    )
    assert found is not None
    assert (found.differ, found.worst) == ((1, 2), 3.0)


def test_a_step_is_compared_over_the_ranks_that_told_it_in_both() -> None:
    run = History(commits((0, 0, 2.0)) + commits((1, 0, 9.0), adopted=True))
    found = curves(run, History(commits((0, 0, 2.0), (1, 0, 4.0))))
    assert found is not None
    assert (found.run, found.twin, found.differ) == (((0, 2.0),), ((0, 2.0),), ())


def test_of_a_step_that_was_committed_again_the_last_loss_counts() -> None:
    assert losses(History(commits((0, 3, 2.0), (0, 3, 1.0)))) == {0: {3: 1.0}}


def test_no_loss_no_curve() -> None:
    assert curves(History(commits((0, 0, math.nan))), None) is None
    assert curves(History([]), History(commits((0, 0, 1.0)))) is None
