"""A session's work on a GPU.

modules.py   what is in an image
launches.py  may this launch run?
streams.py   streams and events
repeats.py, graphs.py   a loop's body again and again, as calls or as a CUDA graph
"""
