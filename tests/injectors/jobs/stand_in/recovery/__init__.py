"""A stand-in for our runtime: its events, its seams and its Python process group, without its work."""
