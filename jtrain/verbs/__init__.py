"""What can be done with runs, by one word each: `%jtrain VERB` in a notebook, `jtrain VERB` in a shell.

A verb is a function from checked arguments to an answer, which knows neither notebook nor terminal; the doors show it.
`jtrain.verbs.table` lists them all.
"""
