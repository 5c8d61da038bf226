"""ggml's shared libraries, loaded by their public functions: libggml-base.so, and of libggml-cpu*.so the one that is best on this processor."""
import ctypes
from pathlib import Path

F32, I32 = 0, 26


class Init(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool)]


class Pool(ctypes.Structure):
    _fields_ = [("mask", ctypes.c_bool * 512), ("threads", ctypes.c_int), ("priority", ctypes.c_int),
                ("poll", ctypes.c_uint32), ("strict", ctypes.c_bool), ("paused", ctypes.c_bool)]


pointer, i64, size = ctypes.c_void_p, ctypes.c_int64, ctypes.c_size_t
BASE = {
    "ggml_init": (pointer, [Init]), "ggml_free": (None, [pointer]),
    "ggml_version": (ctypes.c_char_p, []), "ggml_commit": (ctypes.c_char_p, []),
    "ggml_new_tensor_4d": (pointer, [pointer, ctypes.c_int, i64, i64, i64, i64]), "ggml_get_data": (pointer, [pointer]),
    "ggml_nbytes": (size, [pointer]), "ggml_quantize_chunk": (size, [ctypes.c_int, pointer, pointer, i64, i64, i64, pointer]),
    "ggml_reshape_3d": (pointer, [pointer, pointer, i64, i64, i64]), "ggml_reshape_4d": (pointer, [pointer, pointer, i64, i64, i64, i64]),
    "ggml_view_1d": (pointer, [pointer, pointer, i64, size]), "ggml_view_3d": (pointer, [pointer, pointer, i64, i64, i64, size, size, size]),
    "ggml_get_rows": (pointer, [pointer] * 3), "ggml_transpose": (pointer, [pointer] * 2), "ggml_cpy": (pointer, [pointer] * 3),
    "ggml_concat": (pointer, [pointer] * 3 + [ctypes.c_int]), "ggml_silu": (pointer, [pointer] * 2),
    "ggml_ssm_conv": (pointer, [pointer] * 3), "ggml_mul_mat": (pointer, [pointer] * 3),
    "ggml_gated_delta_net": (pointer, [pointer] * 7 + [i64]),
    "ggml_new_graph_custom": (pointer, [pointer, size, ctypes.c_bool]), "ggml_build_forward_expand": (None, [pointer, pointer]),
    "ggml_threadpool_params_default": (Pool, [ctypes.c_int]), "ggml_backend_graph_compute": (ctypes.c_int, [pointer, pointer]),
    "ggml_backend_reg_dev_get": (pointer, [pointer, size]), "ggml_backend_reg_get_proc_address": (pointer, [pointer, ctypes.c_char_p]),
    "ggml_backend_dev_supports_op": (ctypes.c_bool, [pointer, pointer]), "ggml_backend_buft_name": (ctypes.c_char_p, [pointer]),
    "ggml_backend_alloc_ctx_tensors_from_buft": (pointer, [pointer, pointer]), "ggml_backend_buffer_free": (None, [pointer]),
    "ggml_backend_tensor_set": (None, [pointer, pointer, size, size]), "ggml_log_set": (None, [pointer, pointer]),
}
CPU = {
    "ggml_threadpool_new": (pointer, [ctypes.POINTER(Pool)]), "ggml_backend_cpu_init": (pointer, []),
    "ggml_backend_cpu_set_n_threads": (None, [pointer, ctypes.c_int]), "ggml_backend_cpu_set_threadpool": (None, [pointer, pointer]),
    "ggml_backend_cpu_reg": (pointer, []),
}


# ggml says of each matrix how it is repacked.
quiet = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, pointer)(lambda *_: None)


def declare(library, functions):
    for name, (result, arguments) in functions.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class Ggml:
    """The libraries (`base`, `cpu`), a backend of so many threads, and a version to print."""

    def __init__(self, folder, threads):
        self.base = declare(ctypes.CDLL(str(Path(folder) / "libggml-base.so"), ctypes.RTLD_GLOBAL), BASE)
        self.base.ggml_log_set(ctypes.cast(quiet, pointer), None)
        # Prebuilt packages have one for each kind of processor, which says how well it fits; a build for one machine has one.
        files = [path for path in Path(folder).glob("libggml-cpu*.so")]
        score = lambda path: ctypes.CDLL(str(path)).ggml_backend_score() if len(files) > 1 else 1
        self.file = max(files, key=score)
        self.cpu = declare(ctypes.CDLL(str(self.file), ctypes.RTLD_GLOBAL), CPU)
        self.backend = self.cpu.ggml_backend_cpu_init()
        self.cpu.ggml_backend_cpu_set_n_threads(self.backend, threads)
        options = self.base.ggml_threadpool_params_default(threads)
        self.cpu.ggml_backend_cpu_set_threadpool(self.backend, self.cpu.ggml_threadpool_new(ctypes.byref(options)))
        self.version = f"ggml {self.base.ggml_version().decode()} ({self.base.ggml_commit().decode()}), {self.file.name}"

    def context(self, bytes, no_alloc=False):
        return self.base.ggml_init(Init(size=bytes, buffer=None, no_alloc=no_alloc))

    def tensor(self, context, array, *dims):
        """A tensor of f32 or i32 with the array's numbers; dims have the innermost first."""
        made = self.base.ggml_new_tensor_4d(context, I32 if array.dtype.kind == "i" else F32, *dims, *[1] * (4 - len(dims)))
        ctypes.memmove(self.base.ggml_get_data(made), array.ctypes.data, array.nbytes)
        return made

    def graph(self, context, *results):
        made = self.base.ggml_new_graph_custom(context, 32, False)
        for result in results:
            self.base.ggml_build_forward_expand(made, result)
        return made

    def compute(self, graph):
        self.base.ggml_backend_graph_compute(self.backend, graph)

    def extra_buffer_types(self):
        """Where llama.cpp puts matrices that are repacked, the best first."""
        device = self.base.ggml_backend_reg_dev_get(self.cpu.ggml_backend_cpu_reg(), 0)
        address = self.base.ggml_backend_reg_get_proc_address(self.cpu.ggml_backend_cpu_reg(), b"ggml_backend_dev_get_extra_bufts")
        types = ctypes.CFUNCTYPE(ctypes.POINTER(pointer), pointer)(address)(device) if address else None
        found = []
        while types and types[len(found)]:
            found.append(types[len(found)])
        return device, found
