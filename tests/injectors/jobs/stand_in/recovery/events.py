"""The two seams, as the real runtime has them."""

EVENTS_PROTOCOL = "recovery-events-1"
listeners = []
backend_filters = []


def emit(event, **fields):
    for listener in listeners:
        listener(event, fields)


def filtered(backend):
    for backend_filter in backend_filters:
        backend = backend_filter(backend)
    return backend
