"""What a host shows of itself over HTTP: `farlane serve --admin`.

server.py      the HTTP server: connections, requests, who may ask
routes.py      what there is to ask for
history.py     how the sums have changed over the last minutes
exposition.py  metrics as Prometheus reads them
page.*         the web page
"""
