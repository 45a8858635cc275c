"""Runs the whole test suite in lanes side by side, shown as one: `make test`.

A lane is one pytest run. `lanes` says which there are and what each waits for; `runner` starts and ends them; `events`
is the plugin with which a lane says what its tests do; `screen` shows all of it as one line of progress, and each
failure at once; `report` has the summary.
"""
