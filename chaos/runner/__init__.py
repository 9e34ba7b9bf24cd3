"""Runs a plan: starts targets, arms and injects faults, takes them back, and hands every history to the
judge."""
