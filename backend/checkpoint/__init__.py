"""Saved sessions: what a session is, as data, so that another host goes on with it and its guest notices a longer call.

blobs.py      content by digest: pages, images, payloads, messages
pausing.py    a session's own thread waits between two groups while another one looks at the session
saving.py     a session that pauses, as data
restoring.py  a session made from that
form.py       the data as bytes, and what of bytes is believed
folder.py     the same on a disk: content in packs, each once
talk.py       messages both ways: of a call, of a pipe to a session's process, of a folder
giving.py     the host's side of a save, where the session is; taking.py: of a restore
passing.py    both, where the session has a process of its own

A session is saved between two groups. There no kernel runs, no error waits to be reported and no result to be sent, so
its state is: device memory and the host's areas in it, modules by the digests of their images with the handles of their
functions and variables, streams, events with their times, templates and slices with where their loops stand, kept
payloads, poisoned handles and allocations, the number of the next group, and the messages that the guest has not
confirmed. Kernels are compiled anew. Addresses stay as they are, since pointers lie in the guest's data.

What cannot be saved is refused by one sentence (`Unsaveable`), and the session goes on. What is read back is believed
as little as a guest: objects are made by the same checks, templates are replayed as records, addresses are looked up.

The guest comes again as it does after a broken connection (docs/adr/0013), with the session's own secret.
Source: docs/adr/0015-a-session-is-data.md.
"""
