"""How things are shown: terminal, tables, Markdown, words."""
