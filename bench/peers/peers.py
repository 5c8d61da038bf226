"""The gated delta rule of another library, as one of the programs that main.ts compares.

    python peers.py SYSTEM THREADS FOLDER [GGML]

SYSTEM: onnxruntime, torch-chunked, torch-recurrent, mlx or ggml; GGML: the folder of ggml's shared libraries. FOLDER holds
query, key [T, 16, 128], value [T, 32, 128], gate (log), beta [T, 32] and state [32, value 128, key 128] as f32; value head h
reads key head h mod 16. The first line that is printed says the version. Each line of the input is `TOKENS MILLISECONDS`, answered
by the microseconds of each call, or `TOKENS 0 FILE`, answered by [] once the output [T, 32, 128] of one call is in the file.
"""
import ctypes
import json
import sys
import time
from pathlib import Path

import numpy as np

from ggml_library import Ggml

KEY_HEADS, HEADS, DIM = 16, 32, 128
SCALE = DIM**-0.5


def onnxruntime(threads, data):
    import onnxruntime as ort
    from onnx import TensorProto, helper

    names = ["query", "key", "value", "past_state", "decay", "beta"]
    node = helper.make_node(
        "LinearAttention", names, ["out", "state"], domain="com.microsoft", q_num_heads=HEADS, kv_num_heads=HEADS,
        update_rule="gated_delta", scale=SCALE)
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "peer", [value(n) for n in names], [value("out"), value("state")])
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)], ir_version=10)
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def prepare(tokens):
        # Its keys and queries have as many heads as the values.
        heads = lambda x: np.tile(x[:tokens], (1, HEADS // KEY_HEADS, 1)).reshape(1, tokens, -1)
        inputs = [
            heads(data["query"]), heads(data["key"]), data["value"][:tokens].reshape(1, tokens, -1),
            np.ascontiguousarray(data["state"].transpose(0, 2, 1))[None], data["gate"][None, :tokens], data["beta"][None, :tokens]]
        binding = session.io_binding()
        inputs = [ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(x)) for x in inputs]
        for name, x in zip(names, inputs):
            binding.bind_ortvalue_input(name, x)
        out = ort.OrtValue.ortvalue_from_shape_and_type([1, tokens, HEADS * DIM], np.float32)
        binding.bind_ortvalue_output("out", out)
        binding.bind_ortvalue_output("state", ort.OrtValue.ortvalue_from_shape_and_type([1, HEADS, DIM, DIM], np.float32))
        return lambda: session.run_with_iobinding(binding), lambda: out.numpy()

    return f"ONNX Runtime {ort.__version__}, com.microsoft.LinearAttention", prepare


def recurrence(sums, data):
    """One token after the other in a library's own operations. sums: (state, vector) -> their product over the key dimension."""
    def run(query, key, value, decay, beta, state):
        outs = []
        for t in range(query.shape[0]):
            state = state * decay[t][:, None, None]
            delta = (value[t] - sums(state, key[t])) * beta[t][:, None]
            state = state + delta[:, :, None] * key[t][:, None, :]
            outs.append(sums(state, query[t]))
        return outs, state

    return run


def torch_inputs(torch, data, tokens):
    heads = lambda x: torch.from_numpy(np.ascontiguousarray(np.tile(x[:tokens], (1, HEADS // KEY_HEADS, 1))))
    rest = [torch.from_numpy(data[name][:tokens]) for name in ("value", "gate", "beta")]
    return [heads(data["query"]) * SCALE, heads(data["key"]), *rest, torch.from_numpy(data["state"])]


def torch_recurrent(threads, data):
    import torch

    torch.set_num_threads(threads)
    run = recurrence(lambda s, x: torch.matmul(s, x[:, :, None])[:, :, 0], data)

    def prepare(tokens):
        query, key, value, gate, beta, state = torch_inputs(torch, data, tokens)

        def call():
            with torch.inference_mode():
                outs, _ = run(query, key, value, gate.exp(), beta, state)
                call.out = torch.stack(outs)

        return call, lambda: call.out.numpy()

    return f"torch {torch.__version__}, one token after the other", prepare


def torch_chunked(threads, data, size=64):
    """Chunks of 64 tokens: with G the running sums of gates and D_ij = exp(G_i - G_j), i >= j, the corrections of a chunk solve
    (1 + strictly lower (b k) k^T . D) d = b (v - exp(G) S k), for the two parts of the right side at once."""
    import torch

    torch.set_num_threads(threads)

    def prepare(tokens):
        query, key, value, gate, beta, state = torch_inputs(torch, data, tokens)
        pad = -tokens % size
        lower = torch.ones(size, size).tril()

        def chunks(x):
            x = torch.nn.functional.pad(x, (0, 0, 0, 0, 0, pad)) if x.dim() == 3 else torch.nn.functional.pad(x, (0, 0, 0, pad))
            return x.reshape(-1, size, *x.shape[1:]).transpose(1, 2).contiguous()

        def call():
            with torch.inference_mode():
                q, k, v = chunks(query), chunks(key), chunks(value)
                total, b = chunks(gate).cumsum(-1), chunks(beta)[..., None]
                decays = (total[..., :, None] - total[..., None, :]).tril().exp() * lower
                system = (b * k) @ k.transpose(-1, -2) * decays
                grown = total.exp()[..., None]
                both = torch.linalg.solve_triangular(
                    system, torch.cat([b * v, b * k * grown], -1), upper=False, unitriangular=True)
                scores = q @ k.transpose(-1, -2) * decays
                s, outs = state.transpose(-1, -2), []
                for c in range(q.shape[0]):
                    delta = both[c, ..., :DIM] - both[c, ..., DIM:] @ s
                    outs.append((q[c] * grown[c]) @ s + scores[c] @ delta)
                    last = total[c, :, -1]
                    s = s * last.exp()[:, None, None] + (k[c] * (last[:, None] - total[c]).exp()[..., None]).transpose(-1, -2) @ delta
                call.out = torch.stack(outs).transpose(1, 2).reshape(-1, HEADS, DIM)[:tokens]

        return call, lambda: call.out.contiguous().numpy()

    return f"torch {torch.__version__}, chunks of {size}", prepare


def mlx(threads, data):
    import mlx.core as mx

    mx.set_default_device(mx.cpu)
    run = recurrence(lambda s, x: (s * x[:, None, :]).sum(-1), data)

    def prepare(tokens):
        heads = lambda x: mx.array(np.tile(x[:tokens], (1, HEADS // KEY_HEADS, 1)))
        query, key = heads(data["query"]) * SCALE, heads(data["key"])
        value, gate, beta = (mx.array(data[name][:tokens]) for name in ("value", "gate", "beta"))
        state = mx.array(data["state"])
        mx.eval(query, key)

        def call():
            outs, after = run(query, key, value, mx.exp(gate), beta, state)
            call.out = mx.stack(outs)
            mx.eval(call.out, after)

        return call, lambda: np.array(call.out)

    return f"mlx {mx.__version__}, one token after the other, threads of its own", prepare


def ggml(threads, data, folder):
    library = Ggml(folder, threads)
    base = library.base

    def prepare(tokens):
        context = library.context((64 << 20) + tokens * 80 * 1024)
        tensor = lambda name, *dims: library.tensor(context, np.ascontiguousarray(data[name] if name == "state" else data[name][:tokens]), *dims)
        keys = [tensor(name, DIM, KEY_HEADS, tokens) for name in ("query", "key")]
        gates = [tensor(name, 1, HEADS, tokens) for name in ("gate", "beta")]
        result = base.ggml_gated_delta_net(context, *keys, tensor("value", DIM, HEADS, tokens), *gates, tensor("state", DIM, DIM, HEADS), 1)
        graph = library.graph(context, result)
        out = np.ctypeslib.as_array(
            ctypes.cast(base.ggml_get_data(result), ctypes.POINTER(ctypes.c_float)), (tokens, HEADS, DIM))
        return lambda: library.compute(graph), lambda: out

    return f"{library.version}, gated_delta_net", prepare


def main():
    system, threads, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    shapes = {"query": (-1, KEY_HEADS, DIM), "key": (-1, KEY_HEADS, DIM), "value": (-1, HEADS, DIM), "gate": (-1, HEADS),
              "beta": (-1, HEADS), "state": (HEADS, DIM, DIM)}
    data = {name: np.fromfile(folder / f"{name}.f32", np.float32).reshape(shape) for name, shape in shapes.items()}
    make = {"onnxruntime": onnxruntime, "torch-chunked": torch_chunked, "torch-recurrent": torch_recurrent, "mlx": mlx}.get(system)
    version, prepare = make(threads, data) if make else ggml(threads, data, sys.argv[4])
    print(json.dumps({"version": version}), flush=True)
    prepared = {}
    for line in sys.stdin:
        tokens, milliseconds, *file = line.split()
        tokens = int(tokens)
        if tokens not in prepared:
            prepared[tokens] = prepare(tokens)
        call, out = prepared[tokens]
        times = []
        if file:
            call()
            np.ascontiguousarray(out(), np.float32).tofile(file[0])
        end = time.perf_counter() + float(milliseconds) / 1e3
        while not file and (len(times) < 2 or time.perf_counter() < end):
            since = time.perf_counter()
            call()
            times.append((time.perf_counter() - since) * 1e6)
        print(json.dumps(times), flush=True)


main()
