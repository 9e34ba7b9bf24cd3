"""Training programs as a user would write them: each runs alone and under `recovery.launch`."""
