"""Failing plans made small. Pure but for `real` and `kept`."""
