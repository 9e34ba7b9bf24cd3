"""Run a command with stand-ins for NVML and CUDA: python -m tests.chaos.undo.on_stand_in FOLDER COMMAND..."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.chaos.undo.setups import gpus

if __name__ == "__main__":
    stage = gpus(Path(sys.argv[1]))
    sys.exit(subprocess.run(sys.argv[2:], env={**os.environ, **stage.env}, check=False).returncode)
