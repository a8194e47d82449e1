"""`runci perf report`: the page, the summary and the badge that tell what a night found.

`view` turns verdicts, history and records into exactly what is shown, `plot_data` into what is
drawn; `html`, `markdown`, `badge` and `draw` only put that into their forms.
"""
