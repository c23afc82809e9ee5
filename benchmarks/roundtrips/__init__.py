"""What deferral saves at a distance: round trips, bytes and wall time of programs in the three modes, behind an injected delay.

programs.py    the programs: loops.cu beside it, and some of tests/native
distance.py    the delay proxy (delay_proxy.cpp), and the round trip it really makes
measure.py     running everything, medians, the record of a measurement
ratios.py      when two modes have been compared often enough
recorder.py    what recording costs the guest for each call
goals.py       the goals, and by how much they are met or missed
text.py, page.py, plot.py    the record as text and Markdown, as a self-contained page, as a picture
command.py     `farlane bench`
"""

HELP = {"bench": "measure round trips, bytes and wall time in the three modes, with an injected delay"}
