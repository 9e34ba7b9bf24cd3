"""Everything a training step may change, captured, rolled back, described, moved and digested exactly.

Torch and data only: no processes, no sockets, no torch.distributed.
"""

from recovery.state.digest import Digest
from recovery.state.errors import StateError
from recovery.state.manifest import differences
from recovery.state.stripes import Chunk, stripes
from recovery.state.tree import StateTree

__all__ = ["Chunk", "Digest", "StateError", "StateTree", "differences", "stripes"]
