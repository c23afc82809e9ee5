"""The checks of `farlane doctor`: what is wrong on this machine, with a program, or with a host, and what to do about it.

    finding.py        the result of a check
    installation.py   the system, the packages, the shim and what it needs
    machine.py        what this machine lets processes do: memory, limits, files
    program.py        a program: can its CUDA calls be intercepted, and its kernels run?
    libraries.py      the libraries that it is linked to: are they found, and can their CUDA code run?
    kernels.py        the device code of a file: is there PTX?
    access.py         a host: can it be reached, does it let us in, does it speak our protocol?

A check is a function that returns findings. It raises nothing, and changes nothing on the machine.
"""
