"""The engine: suites, plans, targets, the undo journal, verdicts and reports, and the command line over
them."""

__version__ = "0.1.0"
