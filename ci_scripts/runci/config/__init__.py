"""Every file that a user writes: its schema, its loader, and what it becomes."""
