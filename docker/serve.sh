#!/bin/sh
# A host in a container: sets itself up at its first start, leaves guests what they need, serves.
# Usage: serve.sh ARGUMENT_OF_FARLANE_SERVE ...
set -e
if [ ! -e "$FARLANE_HOST_FOLDER" ]; then
    farlane host init --name host --token-file "$FARLANE_TOKEN_FILE"
fi
cp "$FARLANE_HOST_FOLDER/ca.pem" "$FARLANE_CA"
exec farlane serve "$@"
