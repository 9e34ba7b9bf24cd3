"""A stand-in for a runtime, so that the engine can be tested without torch. Only `events` is there."""
