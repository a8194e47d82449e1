"""Bytes of test files and YAML become plain data."""
