"""Decide: a history in, one verdict a metric and the confirmed changes out.

`values` turns points into usable nights and calls Otava and scipy, `state` says which level is
accepted, what is open, and how far a night is from it; `visits` knows spikes and machines with two
modes, `steps` finds steps and creeps, `outcome` ends what is open, `exact` judges what passes or
fails; `series` puts them together for one series and `everything` for all, `accept` chooses what is
accepted; `table` and `wording` are what a person sees.

The rules, in short:

- A night's value is the median over its pairs of candidate over baseline: a hot box, a slow
  runner, another CPU and the order of the runs are in both and cancel.
- It is compared with the accepted level, the median of the first usable nights since the last
  acceptance, and not with last week: a regression never becomes normal by itself.
- A change is a change point (Otava) of at least `min_change` that a second night confirms, or a
  paired re-run of the same night. One night is never enough, and where the series was at this level
  before and left it by itself, two are not. A creep has no change point: there the last nights
  together must be far from the level.
- A confirmed change is an event in the record. A regression stays open until the level is back on
  two nights, or somebody accepts it. An improvement becomes the level of later nights.
"""
