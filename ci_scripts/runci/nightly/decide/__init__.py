"""Decide: a history in, one verdict a metric and the confirmed changes out.

The question is: is the candidate slower than the accepted level by `min_change` or more, given how
this series and this machine vary from night to night? `walk` answers it, of figures alone; `values`
turns points into usable nights, `turns` says what is on record and what an acceptance settles,
`series` puts them together for one series and `everything` for all; `exact` judges what fails at
once, `words` says it to a person.

- A night's value is the median over its pairs of candidate over baseline: a hot box, a slow
  runner, another CPU and the order of the runs are in both and cancel. So it goes on over drivers.
- It is compared with the accepted level, to a pinned commit 1, and not with last week: a regression
  never becomes normal by itself. A step is measured from the better of that and the nights before.
- One night is never enough. How many are depends on how the series varied without a cause.
- A confirmed change is an event in the record, and each step has its own. A regression stays open
  until the level is back, or somebody accepts it. An improvement becomes the level of later nights.
"""
