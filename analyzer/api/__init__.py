"""The public Python API, which `farlane.analyzer.open` leads to: an executable with its functions, graphs, loops, calls
and claims."""
