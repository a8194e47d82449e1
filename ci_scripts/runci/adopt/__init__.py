"""`runci init`: what a repository without a taxonomy has, and the files that describe it."""
