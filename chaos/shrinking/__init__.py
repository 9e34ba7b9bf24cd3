"""Failing plans made small. Pure but for `bench`, which runs real processes."""
