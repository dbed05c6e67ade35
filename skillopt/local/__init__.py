"""Models that run on this machine: the catalogue, the weights and the server."""
