"""`runci perf report`: the page, the summary and the badge that tell what a night found.

`view` turns verdicts, history and records into exactly what is shown, `curve` into what is drawn;
`html`, `markdown`, `headline` (the badge) and `draw` only put that into their forms.
"""
