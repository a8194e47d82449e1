"""What `runci run` left behind: read, verified against its plan, shown."""
