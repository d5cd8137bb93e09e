"""What a person sees of a run while it is waited for, and what stays afterwards.

`snapshot` reads a run; `text` and `still` make text, HTML and a picture of it; `terminal`, `plain` and `notebook` are
the three live views; `watching` is the wait itself, with its interrupts.
"""
