"""Faults for a job that is already running: it is neither started nor ended here, only broken and mended."""
