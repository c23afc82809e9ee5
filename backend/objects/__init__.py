"""What a session has on the host, by the handles that its guest mints. The handlers of operations read and change it.

handles.py    handles, live and poisoned
images.py     images of code, by digest
payloads.py   compressed data
physical.py   physical memory that a guest maps by itself
resources.py  all of it together, with the session's context of a device
"""
