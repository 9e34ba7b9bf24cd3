"""The suites that ship with torch-chaos: YAML files, and the training workloads that they run."""
