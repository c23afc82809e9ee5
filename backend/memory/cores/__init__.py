"""The cores that issue what kernels do: from recorded page touches to what each core asks its TLB, and the whole model of a session's memory system.

    spec.py       what a core has, and how fast its warps issue
    touches.py    what a launch touched, kept in bounded memory
    schedule.py   where and when its blocks run (slots.Dispatcher), and each core's requests in order
    pages.py      a page table for requests that come without one
    model.py      launches in, counts out: all of it put together
    trace.py      the requests in a file
    objects.py    the order in which allocations are accessed, for `farlane plan`

`model` loads compiled code when it has a TLB hierarchy to run.
"""
