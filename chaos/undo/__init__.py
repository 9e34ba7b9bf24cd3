"""Undo, written ahead to disk and carried out by whoever is left: the engine, its reaper, or `torch-chaos
rollback`."""
