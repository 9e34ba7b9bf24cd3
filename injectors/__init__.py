"""Everything that breaks: one class and one file per fault, and the agent that acts inside a victim.

`injectors.catalogue` is the one list of faults. `injectors.fault` says what a fault is.
This package imports neither `chaos` nor `recovery`.
"""
