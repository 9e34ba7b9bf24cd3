"""Two sets of reports held against each other: what became slower, what ended worse. Pure, but for `read`."""
