#!/bin/sh
# On a machine with an NVIDIA card and CUDA: builds the runner next to this file, runs every record on the card and compares its
# results with the emulator's, byte by byte. Results go to results.jsonl here, or to the file named first.
#   CUDA=/usr/local/cuda JOBS=8 REPEAT=0 ./run.sh [RESULTS]
set -e
results=${1:-results.jsonl}
case $results in /*) ;; *) results=$PWD/$results ;; esac
cd "$(dirname "$0")"
CUDA=${CUDA:-/usr/local/cuda}
g++ -std=c++17 -O2 runner.cpp -o runner -I"$CUDA/include" -L"$CUDA/lib64" -L"$CUDA/lib64/stubs" -Wl,-rpath,"$CUDA/lib64" -lnvrtc -lcuda
work=$(mktemp -d)
ls records/*.emurec | sed 's/\.emurec$//' | awk '{print $1 ".emurec " $1 ".expected"}' > "$work/list"
# Most of the time goes into compiling: several runners share the records.
split -n "r/${JOBS:-8}" "$work/list" "$work/part"
ls "$work"/part?? | xargs -P "${JOBS:-8}" -I{} sh -c './runner --repeat '"${REPEAT:-0}"' . $(cat {}) > {}.out 2>&1 || true'
cat "$work"/part*.out > "$results"
rm -r "$work"
total=$(grep -c '"record"' "$results")
same=$(grep -c '"sameBits": true' "$results" || true)
echo "$same of $total dispatches left the same bits as the emulator"
[ "$same" = "$total" ]
