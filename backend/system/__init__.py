"""What a process gets from the operating system, and knows nothing of CUDA: files, memory mappings, code in memory, the log.

files.py     replaces a file as a whole
mappings.py  memory mappings at chosen addresses
flat.py      flat images: machine code that needs no linker
loading.py   code into memory, by LLVM's linker or from flat images
log.py       the host's log on stderr
"""
