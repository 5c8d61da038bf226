#!/usr/bin/env python3
"""Counts loops of a compiled library: cycles of a pass by the ports of two processors, by two programs each (limits.md).

    python bench/limits.py LIBRARY ADDRESSES ...

ADDRESSES: first-last of a loop's instructions as objdump prints them; several pieces are joined by a +. Needs objdump, osaca 0.7.1 (PyPI)
and llvm-mca 19 (LLVM_MCA, if it has another name). It prints the instructions of 512 bits; then the load of ports by OSACA's models of
Sapphire Rapids and Zen 4, with the longest chain from one pass to the next, and by llvm-mca's, with its bound and its simulation for Zen 4.
llvm-mca's Sapphire Rapids multiplies on port 0 only: half of the sum of ports 0 and 5 is what counts there, unless shuffles alone are more.

OSACA lacks many AVX-512 instructions, which follow here: for Sapphire Rapids as measured on one, each alone and with as many others of
port 0, of port 5 and of either; for Zen 4 with the pipes of llvm-mca's tables, 512 bits as two cycles of one.
"""
import collections, os, re, subprocess, sys, tempfile

MCA = os.environ.get("LLVM_MCA", "llvm-mca")
SHIFTS = "vpsrlvd vpsrld vpslld vpsrlw vpsllw vpsllvw vprold vgf2p8affineqb"
SHUFFLES = (
    "vpshufb vpunpckldq vpunpckhdq vpunpcklqdq vpunpckhqdq vshufi64x2 vshuff64x2 vinsertf64x4 vinserti64x4 vmovshdup vpermd vpackssdw vpermt2ps"
    " vunpcklpd vunpckhpd vshufps vpermb vextracti32x4 vextracti64x4 vbroadcasti32x4"
)
WIDEN = "vpmovzxbd vpmovsxbd vpmovzxwd vpmovzxbw"
BITS = "vpandd vpandq vandps vpternlogd vpternlogq vpaddd vpsubd vpblendmd vpxord vpord"
DOTS = "vpdpbusd vpmaddwd"
ARITHMETIC = "vmulps vfmadd213ps vfmadd231ps vfmsub213ps vfmsub231ps vfnmadd231ps"
LOADS = "vpbroadcastd vpbroadcastq vbroadcasti64x4 vbroadcastss"
# Names, ports of Sapphire Rapids, latencies, pipes of Zen 4: OSACA's 9, 11, 10 and 12 are FP0 to FP3.
CLASSES = (
    (SHIFTS, "0", (1, 2), ["10", "11"]), (SHUFFLES, "5", (3, 3), ["10", "11"]), (WIDEN, "5", (3, 4), ["10", "11"]),
    (BITS, "05", (1, 1), ["9", "10", "11", "12"]), (DOTS, "05", (5, 4), ["9", "11"]), (ARITHMETIC, "05", (4, 4), ["9", "11"]),
    ("vcvtdq2ps", "05", (4, 4), ["10", "12"]), ("vaddps", "05", (4, 3), ["10", "12"]), ("vpermps", "5", (3, 5), ["10", "11"]),
)
LOAD = {"spr": "[1, ['2', '3']], [0.5, ['11']]", "zen4": "[2, ['1', '3', '5']], [2, ['1D', '3D']]"}
NARROW = {"spr": "[1, ['2', '3', '11']]", "zen4": "[1, ['1', '3', '5']], [1, ['1D', '3D']]"}
IMMEDIATE = "{class: immediate, imd: int}"
MEMORY = "{class: memory, base: '*', offset: '*', index: '*', scale: '*'}"


def register(name):
    return f"{{class: register, name: {name}}}"


def entries(model):
    """Instruction forms for OSACA's file of a model."""
    zmm = model == "zen4"
    for names, intel, latency, amd in CLASSES:
        ports = f"[2, [{', '.join(map(repr, amd))}]]" if zmm else f"[1, [{', '.join(map(repr, intel))}]]"
        load = ", " + (NARROW if names == WIDEN else LOAD)[model]
        for first in (MEMORY, register("zmm"), register("ymm"), register("xmm")):
            for immediate in ([], [IMMEDIATE]):
                for second in ([], [register("zmm")]):
                    yield names.split(), [*immediate, first, *second, register("zmm")], ports + load * (first == MEMORY), latency[zmm]
    # 128 and 256 bits, of scales. Sapphire Rapids takes no vectors on port 1 while it has some of 512 bits.
    narrow = {"vcvtph2ps": (["0", "5"], ["10", "12"]), "vcvtdq2ps": (["0"], ["10", "12"]), "vblendps": (["0", "5"], ["9", "10", "11", "12"])}
    narrow |= {"vpmovzxbd": (["5"], ["10", "11"]), "vpmovzxwd": (["5"], ["10", "11"]), "vpunpcklqdq": (["5"], ["10", "11"])}
    for name, ports in narrow.items():
        own, load = f"[1, [{', '.join(map(repr, ports[zmm]))}]]", ", " + NARROW[model]
        for result in (register("xmm"), register("ymm")):
            for first in (MEMORY, register("xmm"), register("ymm")):
                for immediate, second in (([], []), ([], [result]), ([IMMEDIATE], [result])):
                    yield [name], [*immediate, first, *second, result], own + load * (first == MEMORY), 4
    yield LOADS.split(), [MEMORY, register("zmm")], NARROW[model], 5


def completed(model, folder):
    """OSACA's model with these forms in front of its own."""
    import osaca

    text = open(f"{os.path.dirname(osaca.__file__)}/data/{model}.yml").read()
    own = "".join(
        f"- name: [{', '.join(names)}]\n  operands: [{', '.join(operands)}]\n  latency: {latency}\n  port_pressure: [{ports}]\n  throughput: 1.0\n  uops: 1\n"
        for names, operands, ports, latency in entries(model)
    )
    text = text.replace("['135']", "['1', '3', '5']")  # a mistake in osaca 0.7.1
    path = f"{folder}/{model}.yml"
    open(path, "w").write(text.replace("instruction_forms:\n", "instruction_forms:\n" + own, 1))
    return path


def listing(library, addresses):
    """The instructions, without comments and with jumps to one label."""
    found = []
    for piece in addresses.split("+"):
        first, last = (int(a, 16) for a in piece.split("-"))
        out = subprocess.run(["objdump", "-d", "--no-show-raw-insn", f"--start-address={first}", f"--stop-address={last + 16}", library], capture_output=True, text=True, check=True).stdout
        for at, code in re.findall(r"^ +([0-9a-f]+):\t(.+)$", out, re.M):
            code = re.sub(r"\s*(#|<).*", "", code).strip()
            code = re.sub(r"^j\w+ .*", "", code)  # which way a jump goes is in ADDRESSES
            if int(at, 16) <= last and code and not re.match(r"(nop|xchg|cs |data16|prefetch)", code): found.append(code)
    return found


def by_osaca(code, path):
    from osaca.parser import get_parser
    from osaca.semantics import ArchSemantics, KernelDG, MachineModel

    parser = get_parser("x86", "ATT")
    model = MachineModel(path_to_yaml=path)
    semantics = ArchSemantics(parser, model)
    kernel = parser.parse_file("\n".join(code) + "\n")
    semantics.normalize_instruction_forms(kernel)
    semantics.add_semantics(kernel)
    semantics.assign_optimal_throughput(kernel)
    ports = dict(zip(model.get_ports(), semantics.get_throughput_sum(kernel)))
    unknown = {k.mnemonic for k in kernel if k.mnemonic and k.mnemonic.startswith("v") and not any(k.port_pressure)}
    chains = KernelDG(kernel, parser, model, semantics, timeout=20).get_loopcarried_dependencies()
    longest = max((c["latency"] for c in chains.values()), default=0)
    return ports, longest, unknown


def by_mca(code, cpu):
    with tempfile.NamedTemporaryFile("w", suffix=".s") as file:
        file.write("\n".join(code) + "\n")
        file.flush()
        out = subprocess.run([MCA, f"-mcpu={cpu}", "-iterations=200", file.name], capture_output=True, text=True, check=True).stdout
    names = dict(re.findall(r"^\[([\d.]+)\]\s+- (\w+)", out, re.M))
    heads, values = re.search(r"Resource pressure per iteration:\n(.*)\n(.*)", out).groups()
    ports = {(names[i], i): 0 if v == "-" else float(v) for i, v in zip(re.findall(r"\[([\d.]+)\]", heads), values.split())}
    number = lambda name: float(re.search(rf"{name}:\s+([\d.]+)", out)[1])
    return {name: v for (name, i), v in ports.items()}, number("Block RThroughput"), number("Total Cycles") / 200


if __name__ == "__main__":
    library, *loops = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        models = {model: completed(model, folder) for model in ("spr", "zen4")}
        for loop in loops:
            code = listing(library, loop)
            counts = collections.Counter(c.split()[0] for c in code if "zmm" in c)
            print(f"{loop}: {len(code)} instructions; " + ", ".join(f"{n} {name}" for name, n in counts.most_common()))
            for model, path in models.items():
                ports, chain, unknown = by_osaca(code, path)
                loads = ", ".join(f"{p} {v:.1f}" for p, v in ports.items() if v >= 0.5)
                print(f"  OSACA {model}: {loads}; chain {chain:g}" + (f"; not counted: {unknown}" if unknown else ""))
            ports, _, _ = by_mca([c for c in code if "mm" in c], "sapphirerapids")
            zero, five = ports["SPRPort00"], ports["SPRPort05"]
            print(f"  llvm-mca sapphirerapids: port 0 {zero:.1f}, port 5 {five:.1f}, half of both {(zero + five) / 2:.1f}")
            ports, bound, simulated = by_mca(code, "znver4")
            pipes = ", ".join(f"{p[3:]} {v:.1f}" for p, v in ports.items() if re.fullmatch(r"Zn4FP\d", p))
            print(f"  llvm-mca znver4: {pipes}; bound {bound:.1f}, simulated {simulated:.1f}")
