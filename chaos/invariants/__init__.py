"""Invariants: sentences that are true of a run that recovered correctly.

One file, one pure function each. `catalogue` is the only list; the CLI's help, the docs and the judge
read it. To add one: write the file, name it here, and add its three tests (kept, broken, too thin).
"""

from __future__ import annotations

from chaos.invariants.adopted_state_was_held_by_a_member import adopted_state_was_held_by_a_member
from chaos.invariants.committed_step_is_monotone_and_gap_free import committed_step_is_monotone_and_gap_free
from chaos.invariants.cut_off_node_commits_nothing import cut_off_node_commits_nothing
from chaos.invariants.every_sample_exactly_once import every_sample_exactly_once
from chaos.invariants.exit_code_is_honest import exit_code_is_honest
from chaos.invariants.failed_collective_output_unused import failed_collective_output_unused
from chaos.invariants.faults_took_effect import faults_took_effect
from chaos.invariants.finding import Finding, Verdict
from chaos.invariants.healthy_ranks_keep_their_process import healthy_ranks_keep_their_process
from chaos.invariants.invariant import Invariant, catalogue_of
from chaos.invariants.members_agree_on_membership import members_agree_on_membership
from chaos.invariants.nothing_left_over import nothing_left_over
from chaos.invariants.one_owner_per_rank_and_generation import one_owner_per_rank_and_generation
from chaos.invariants.one_recovery_per_fault import one_recovery_per_fault
from chaos.invariants.progress_after_heal import progress_after_heal
from chaos.invariants.recommitted_only_by_successor_with_equal_digest import (
    recommitted_only_by_successor_with_equal_digest,
)
from chaos.invariants.recovered_within_bounds import recovered_within_bounds
from chaos.invariants.replicas_agree import replicas_agree
from chaos.invariants.right_rank_and_kind_named import right_rank_and_kind_named
from chaos.invariants.rng_continues_per_logical_rank import rng_continues_per_logical_rank
from chaos.invariants.state_equals_twin import state_equals_twin
from chaos.invariants.straggler_is_named import straggler_is_named

__all__ = ["Finding", "Invariant", "Verdict", "catalogue"]

# In the order in which evidence is shown: what was lost first, how it came about later.
catalogue: dict[str, Invariant] = catalogue_of(
    [
        state_equals_twin,
        replicas_agree,
        committed_step_is_monotone_and_gap_free,
        recommitted_only_by_successor_with_equal_digest,
        adopted_state_was_held_by_a_member,
        every_sample_exactly_once,
        rng_continues_per_logical_rank,
        failed_collective_output_unused,
        one_owner_per_rank_and_generation,
        members_agree_on_membership,
        cut_off_node_commits_nothing,
        healthy_ranks_keep_their_process,
        one_recovery_per_fault,
        right_rank_and_kind_named,
        straggler_is_named,
        recovered_within_bounds,
        progress_after_heal,
        exit_code_is_honest,
        nothing_left_over,
        faults_took_effect,
    ]
)
