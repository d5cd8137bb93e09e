"""Checkpoints as they are taken, written, verified and read: everything but what is in them (worker/state.py).

```
loop stands still            a thread of each rank                       rank 0's thread, when all parts are there
state ─ staging ─► buffer ─► rank-N.safetensors, .state and .json in a  ─► manifest.json, the folder's rename, retention
                             folder of their own, .partial-…
```
"""
