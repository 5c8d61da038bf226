"""ggml's operations, as one of the programs that ops.ts compares.

    python ops_ggml.py FOLDER THREADS

FOLDER has ggml's shared libraries. The first line that is printed says the version. Each line of the input is `NAME HOW MILLISECONDS`: a
benchmark of bench/cases by its name, and how: `op` (one operation alone), `graph` (what llama.cpp computes around it: get_rows of the
states, the op, cpy of the new ones), `plain` or `repacked` (a product by blocks as a file has them, or as llama.cpp repacks them). The
answer is the microseconds of each call, or [] where ggml has no such thing.
"""
import ctypes
import json
import sys
import time

import numpy as np

from ggml_library import F32, Ggml

HEADS, DIM, WIDTH = 16, 128, 4
COLD = 512 << 20
TYPES = {"f32": 0, "f16": 1, "bf16": 30, "q4_0": 2, "q8_0": 8, "q4_k": 12, "q5_k": 13, "q6_k": 14}
random = np.random.default_rng(5)


def uniform(shape, low=-1.0, high=1.0):
    """Numbers that repeat: half a gigabyte of different ones would take longer than the benchmark."""
    count = int(np.prod(shape))
    few = random.uniform(low, high, min(count, 8191)).astype(np.float32)
    return np.resize(few, count).reshape(shape)


def copies_of(temperature, bytes):
    return COLD // bytes + 2 if temperature == "cold" else 1


class Case:
    """Graphs, of which each call computes the next, and what frees them."""

    def __init__(self, ggml):
        self.ggml, self.graphs, self.contexts, self.buffers, self.at = ggml, [], [], [], 0

    def context(self, bytes, no_alloc=False):
        self.contexts.append(self.ggml.context(bytes + (1 << 20), no_alloc))
        return self.contexts[-1]

    def call(self):
        self.ggml.compute(self.graphs[self.at])
        self.at = (self.at + 1) % len(self.graphs)

    def free(self):
        for buffer in self.buffers:
            self.ggml.base.ggml_backend_buffer_free(buffer)
        for context in self.contexts:
            self.ggml.base.ggml_free(context)


def delta(ggml, how, sequences, tokens, heads, temperature):
    case, base = Case(ggml), ggml.base
    state = DIM * DIM * heads
    rows = sequences * tokens
    bytes = 4 * (2 * sequences * state * (2 if how == "graph" else 1) + rows * DIM * (2 * HEADS + 2 * heads) + 2 * rows * heads)
    for _ in range(copies_of(temperature, 4 * sequences * state)):
        context = case.context(bytes)
        query, key = (ggml.tensor(context, uniform((rows, HEADS, DIM)), DIM, HEADS, tokens, sequences) for _ in range(2))
        value = ggml.tensor(context, uniform((rows, heads, DIM)), DIM, heads, tokens, sequences)
        gate = ggml.tensor(context, uniform((rows, heads), -0.2, -0.01), 1, heads, tokens, sequences)
        beta = ggml.tensor(context, uniform((rows, heads), 0, 1), 1, heads, tokens, sequences)
        cache = ggml.tensor(context, uniform((sequences, state), -0.1, 0.1), state, sequences)
        before = cache
        if how == "graph":
            before = base.ggml_get_rows(context, cache, ggml.tensor(context, np.arange(sequences, dtype=np.int32), sequences))
        before = base.ggml_reshape_4d(context, before, DIM, DIM, heads, sequences)
        result = base.ggml_gated_delta_net(context, query, key, value, gate, beta, before, 1)
        results = [result]
        if how == "graph":
            after = base.ggml_view_1d(context, result, sequences * state, 4 * rows * heads * DIM)
            results.append(base.ggml_cpy(context, after, base.ggml_view_1d(context, cache, sequences * state, 0)))
        case.graphs.append(ggml.graph(context, *results))
    return case


def conv(ggml, how, sequences, tokens, heads, temperature):
    case, base = Case(ggml), ggml.base
    channels = (2 * HEADS + heads) * DIM
    taps = WIDTH - 1
    numbers = sequences * channels * (3 * taps + 5 * tokens) + WIDTH * channels
    for _ in range(copies_of(temperature, 4 * (sequences * channels * (taps + 2 * tokens) + WIDTH * channels))):
        context = case.context(4 * numbers)
        weight = ggml.tensor(context, uniform((channels, WIDTH)), WIDTH, channels)
        if how == "op":
            window = ggml.tensor(context, uniform((sequences, channels, taps + tokens)), taps + tokens, channels, sequences)
            results = []
        else:
            cache = ggml.tensor(context, uniform((sequences, channels, taps)), taps * channels, sequences)
            x = ggml.tensor(context, uniform((sequences, tokens, channels)), channels, tokens, sequences)
            before = base.ggml_get_rows(context, cache, ggml.tensor(context, np.arange(sequences, dtype=np.int32), sequences))
            before = base.ggml_reshape_3d(context, before, taps, channels, sequences)
            window = base.ggml_concat(context, before, base.ggml_transpose(context, x), 0)
            row = 4 * (taps + tokens)
            last = base.ggml_view_3d(context, window, taps, channels, sequences, row, row * channels, 4 * tokens)
            results = [base.ggml_cpy(context, last, base.ggml_view_1d(context, cache, sequences * taps * channels, 0))]
        case.graphs.append(ggml.graph(context, *results, base.ggml_silu(context, base.ggml_ssm_conv(context, window, weight))))
    return case


def linear(ggml, how, form, rows, columns, outputs, temperature):
    case, base = Case(ggml), ggml.base
    kind = TYPES[form]
    numbers = uniform((outputs, columns), -1 / 32, 1 / 32)
    blocks = np.empty(4 * outputs * columns, np.uint8)
    bytes = base.ggml_quantize_chunk(kind, numbers.ctypes.data, blocks.ctypes.data, 0, outputs, columns, None) if kind else numbers.nbytes
    data = blocks if kind else numbers
    device, types = ggml.extra_buffer_types()
    x = uniform((rows, columns))
    copies = copies_of(temperature, bytes)
    if how == "plain":
        context = case.context(copies * (bytes + 4096))
        weights = [base.ggml_new_tensor_4d(context, kind, columns, outputs, 1, 1) for _ in range(copies)]
    for type in types if how == "repacked" else []:
        context = case.context(copies * 1024, no_alloc=True)
        weights = [base.ggml_new_tensor_4d(context, kind, columns, outputs, 1, 1) for _ in range(copies)]
        buffer = base.ggml_backend_alloc_ctx_tensors_from_buft(context, type)
        case.buffers.append(buffer)
        trial = case.context(x.nbytes + 4 * rows * outputs)
        if base.ggml_backend_dev_supports_op(device, base.ggml_mul_mat(trial, weights[0], ggml.tensor(trial, x, columns, rows))):
            break
    else:
        if how == "repacked":
            case.free()
            return None
    for weight in weights:
        if how == "plain":
            ctypes.memmove(base.ggml_get_data(weight), data.ctypes.data, bytes)
        else:
            base.ggml_backend_tensor_set(weight, data.ctypes.data, 0, bytes)
        context = case.context(x.nbytes + 4 * rows * outputs)
        result = base.ggml_mul_mat(context, weight, ggml.tensor(context, x, columns, rows))
        case.graphs.append(ggml.graph(context, result))
    return case


def prepare(ggml, name, how):
    what, form, *sizes, _, temperature = name.split("/")
    if what == "linear":
        rows, matrix = sizes
        columns, outputs = map(int, matrix.split("x"))
        return linear(ggml, how, form, int(rows[1:]), columns, outputs, temperature)
    sequences, tokens, heads = (int(size.lstrip("BTHv")) for size in sizes)
    return {"gatedDelta": delta, "causalConv1d": conv}[what](ggml, how, sequences, tokens, heads, temperature)


def main():
    ggml = Ggml(sys.argv[1], int(sys.argv[2]))
    print(json.dumps({"version": ggml.version}), flush=True)
    at, cases = None, {}
    for line in sys.stdin:
        name, how, milliseconds = line.split()
        if name != at:
            for case in cases.values():
                case and case.free()
            at, cases = name, {}
        if how not in cases:
            cases[how] = prepare(ggml, name, how)
            # Memory is there from its first use on.
            for _ in cases[how].graphs if cases[how] else []:
                cases[how].call()
        case = cases[how]
        times = []
        end = time.perf_counter() + float(milliseconds) / 1e3
        while case is not None and (len(times) < 2 or time.perf_counter() < end):
            since = time.perf_counter()
            case.call()
            times.append((time.perf_counter() - since) * 1e6)
        print(json.dumps(times), flush=True)


main()
