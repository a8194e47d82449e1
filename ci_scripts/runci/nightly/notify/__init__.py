"""`runci perf notify`: one issue for each cause of a regression, kept true every night.

`topics` says what there is to tell, from the verdicts and the issues there are; `actions` compares
with the issues and says what to do; `issue` is one and its text; `edge` asks GitHub and does it.
The rules, in short:

- An issue is ours when our own account wrote it and a line of it is our mark (`issue`).
- It is opened by a confirmed regression, rewritten every night, and closed on recovery or
  acceptance. A regression that comes back reopens it.
- A comment is written only for what somebody should hear of: it is back, it is worse by another
  `min_change`, it recovered, it was accepted.
- An issue that a person closed stays closed until it gets worse by another `min_change`, or
  recovers and comes back. One that a person reopened stays open.
- What got worse between the same commits is one issue, and more than `MOST_NEW` new causes on one
  machine in a night are one for that machine.
"""
