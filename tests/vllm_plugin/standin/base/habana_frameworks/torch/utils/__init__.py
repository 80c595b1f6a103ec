"""Stand-in for a part of the Gaudi bridge; see `standin`."""
