"""How long recovery properties search: three Hypothesis profiles, `torch-chaos-dev`, `-ci` and `-nightly`.

Every example is a real run of seconds, so there is no deadline for one, no database (a plan file is what
lasts), and no phase that runs examples only to explain them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, Phase, settings

from chaos.testing.repeats import Repeats

PREFIX = "torch-chaos-"


@dataclass(frozen=True)
class Profile:
    """One profile.

    Attributes:
        examples: plans that are drawn.
        derandomize: the same plans in every run.
        repeats: when a failure counts.
        shrink_s: how long smaller plans are tried, from the first failure on.
    """

    examples: int
    derandomize: bool
    repeats: Repeats
    shrink_s: float

    def settings(self) -> settings:
        """As Hypothesis takes it."""
        return settings(max_examples=self.examples, derandomize=self.derandomize, **ALWAYS)


ALWAYS: dict[str, Any] = {
    "deadline": None,
    "database": None,
    "phases": (Phase.explicit, Phase.generate, Phase.shrink),
    "suppress_health_check": (HealthCheck.too_slow, HealthCheck.large_base_example),
    "report_multiple_bugs": False,
}
PROFILES = {
    "dev": Profile(10, False, Repeats(2, 3), 30.0),
    "ci": Profile(25, True, Repeats(2, 3), 60.0),
    "nightly": Profile(200, False, Repeats(3, 5), 600.0),
}


def register() -> None:
    """Make them known to Hypothesis by name. May be repeated."""
    for name, profile in PROFILES.items():
        settings.register_profile(f"{PREFIX}{name}", profile.settings())
