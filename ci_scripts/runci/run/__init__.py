"""`runci run`: test files in children that leave nothing behind, one result a file.

`command` reads the options, `files` chooses what runs, `loop` starts and ends jobs through `pool`,
`outcome` decides. The child side is `server` (imports once, forks), `keeper` (one a job: ends all
that the job started) and `worker` (runs the tests and reports them through `events`).
"""
