"""Plans drawn from what a suite names, run one after the other, steered to what none has met yet.

`space`, `build`, `draw`, `seen` and `text` are pure; `log` and `session` are the shell around them.
"""
