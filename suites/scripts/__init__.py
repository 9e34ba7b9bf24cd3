"""Training scripts that know nothing of this project, run by command targets."""
