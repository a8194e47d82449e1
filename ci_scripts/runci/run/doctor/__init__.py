"""Whether this machine is fit for tests: what is known of it, and what that means."""
