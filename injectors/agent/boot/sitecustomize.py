"""First on a target's PYTHONPATH: loads the agent under a private name, then the sitecustomize it hides.

Python imports one `sitecustomize` only, the first on the path. Distributions and users have theirs, so
the next one is found and run; what it does must not depend on whether we are here.
"""

import faulthandler
import importlib.machinery
import importlib.util
import os
import signal
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _load_agent() -> None:
    """The agent is loaded by path: nothing of ours may shadow a module of the target, nor be shadowed."""
    folder = os.path.dirname(_HERE)
    spec = importlib.util.spec_from_file_location(
        "_torch_chaos_agent", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"no agent in {folder}")
    module = importlib.util.module_from_spec(spec)
    sys.modules["_torch_chaos_agent"] = module
    spec.loader.exec_module(module)
    module.install()


def _chain() -> None:
    rest = [part for part in sys.path if os.path.abspath(part or os.curdir) != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", rest)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    # The next one is the target's sitecustomize from here on, as if ours had never been.
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def _answer_with_stacks() -> None:
    """On SIGURG, print every thread's stack to stderr. Where this is not set up the signal means nothing."""
    faulthandler.register(signal.SIGURG, file=2, all_threads=True)


_answer_with_stacks()
try:
    _load_agent()
except Exception as error:
    # A target must start even where the agent can not; the engine sees that no agent reported.
    sys.stderr.write(f"torch-chaos: the agent could not be loaded: {error!r}\n")
_chain()
