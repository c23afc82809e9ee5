"""`farlane sim`: programs under the model of the memory system, and what is shown of it.

    running.py   a host with the model, the program on it, and the files that come of it
    text.py      a run's report as text
    sweep.py     hierarchies and thresholds on recorded requests, and what was asked of them
    glance.py    one comparison at a glance
    charts.py    plots as SVG
    pages.py     the pages that hold them

The model itself is farlane.backend.memory; the device tells it what kernels touch (device/sim/observers/modelling.py).
"""
