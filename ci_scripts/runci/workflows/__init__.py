"""What GitHub's workflows mean: expressions, shell, scopes; which suites run, what starts."""
