"""Bucket sets that waste least for given traffic."""
