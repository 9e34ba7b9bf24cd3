"""Where targets run. The first cluster is `local`: processes of this host, told apart by the run's marker."""
