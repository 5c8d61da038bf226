#!/bin/sh
# On a machine with an NVIDIA card and CUDA: compares the records next to this file with the emulator's results, then times
# the cases. Results go to results.jsonl and bench.jsonl here; `npm run bench:gpu -- --report FOLDER` makes them a table.
#   CUDA=/usr/local/cuda ONLY=decode ./run.sh
set -e
cd "$(dirname "$0")"
CUDA=${CUDA:-/usr/local/cuda}
g++ -std=c++17 -O2 bench.cpp -o bench -I"$CUDA/include" -L"$CUDA/lib64" -L"$CUDA/lib64/stubs" -Wl,-rpath,"$CUDA/lib64" -lnvrtc -lcuda
[ -n "$TIMES_ONLY" ] || sh ./compare.sh || true
./bench . $ONLY > bench.jsonl
