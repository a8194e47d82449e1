"""One engine for all findings: select, suppress, baseline, fix, show; rules by subject."""
