"""Two configurations of a server, booted in turn and asked the same: `validate serve`."""
