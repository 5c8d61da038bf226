// Generated from gated_delta.h: change that header and run `node swift/scripts/layout.mjs` again.

/// An option with the name that the public (TypeScript) API has for it: messages use it.
public protocol NamedOption: RawRepresentable<UInt32>, CaseIterable, Sendable {
  var publicName: String { get }
}

/// Element types; bf16 crosses into JavaScript as Uint16Array.
public enum DType: UInt32, NamedOption {
  case f32 = 1
  case f16 = 2
  case bf16 = 3
  /// only for the host's index data
  case i32 = 4
  /// only for words of packed weights
  case u32 = 5
  /// 32-bit index data that one op writes, and another reads and checks as it runs
  case id32 = 6
  /// only for blocks of packed weights
  case u8 = 7

  public var publicName: String {
    switch self {
    case .f32: "f32"
    case .f16: "f16"
    case .bf16: "bf16"
    case .i32: "i32"
    case .u32: "u32"
    case .id32: "id32"
    case .u8: "u8"
    }
  }
}

/// How the decay a in (0, 1] is computed from the given gate. Systems differ in this, and a wrong guess gives plausible
/// but wrong numbers, so there is no default.
public enum GateForm: UInt32, NamedOption {
  /// a (mlx-lm, MAX)
  case decay = 1
  /// exp(g) (Hugging Face, FLA, ggml)
  case log = 2
  /// exp(-g) (mlx-native)
  case negLog = 3
  /// exp(-exp(aLog) softplus(a + dtBias)) (a Qwen checkpoint's projection, vLLM)
  case raw = 4
  /// exp(aLog softplus(a + dtBias)), aLog holding ssm_a = -exp(A_log) (GGUF)
  case rawSSM = 5
  /// exp(gateBound sigmoid(exp(aLog) (a + dtBias))) (Kimi Linear)
  case rawBounded = 6

  public var publicName: String {
    switch self {
    case .decay: "decay"
    case .log: "log"
    case .negLog: "neg-log"
    case .raw: "raw"
    case .rawSSM: "raw-ssm"
    case .rawBounded: "raw-bounded"
    }
  }
}

/// One gate per head, or one per key dimension.
public enum GateDims: UInt32, NamedOption {
  case perHead = 1
  /// Kimi's KDA
  case perKey = 2

  public var publicName: String {
    switch self {
    case .perHead: "head"
    case .perKey: "key"
    }
  }
}

/// How beta is computed from the given values.
public enum BetaForm: UInt32, NamedOption {
  /// b
  case given = 1
  /// sigmoid(b)
  case sigmoid = 2
  /// 2 sigmoid(b), which allows negative eigenvalues
  case twiceSigmoid = 3

  public var publicName: String {
    switch self {
    case .given: "given"
    case .sigmoid: "sigmoid"
    case .twiceSigmoid: "2-sigmoid"
    }
  }
}

/// Which key head serves value head hv.
public enum HeadMap: UInt32, NamedOption {
  /// hv / (valueHeads / keyHeads), rounded down (Hugging Face, MLX, vLLM, MAX)
  case block = 1
  /// hv mod keyHeads (ggml)
  case tiled = 2

  public var publicName: String {
    switch self {
    case .block: "block"
    case .tiled: "tiled"
    }
  }
}

/// Normalisation of each query and key row x of length keyDim, before the query's scale.
public enum QKNorm: UInt32, NamedOption {
  case none = 1
  /// x rsqrt(sum x^2 + eps) (Hugging Face, FLA)
  case l2 = 2
  /// x / max(sqrt(sum x^2), eps) (ggml)
  case l2Max = 3
  /// x rsqrt(sum x^2 + keyDim eps) (MLX)
  case rms = 4

  public var publicName: String {
    switch self {
    case .none: "none"
    case .l2: "l2"
    case .l2Max: "l2-max"
    case .rms: "rms"
    }
  }
}

/// How prefill is computed.
public enum Algorithm: UInt32, NamedOption {
  /// the fastest that gives the bits of recurrent
  case auto = 0
  /// token by token
  case recurrent = 1
  /// 16 tokens at a time, as matrix products, with different bits; CPU only
  case chunked = 2

  public var publicName: String {
    switch self {
    case .auto: "auto"
    case .recurrent: "recurrent"
    case .chunked: "chunked"
    }
  }
}

/// How a GPU multiplies matrices. The two give different bits.
public enum Products: UInt32, NamedOption {
  /// as sums of rows in a documented order
  case rows = 0
  /// with the GPU's matrix units, which sum in an order of their own; Metal only
  case matrix = 1

  public var publicName: String {
    switch self {
    case .rows: "rows"
    case .matrix: "matrix"
    }
  }
}

/// The function applied to a sum or a gate.
public enum Activation: UInt32, NamedOption {
  /// x
  case none = 1
  /// x sigmoid(x)
  case silu = 2
  /// sigmoid(x)
  case sigmoid = 3

  public var publicName: String {
    switch self {
    case .none: "none"
    case .silu: "silu"
    case .sigmoid: "sigmoid"
    }
  }
}

/// The factor of a norm's rows.
public enum WeightForm: UInt32, NamedOption {
  /// w
  case plain = 1
  /// 1 + w (Qwen3.5)
  case plusOne = 2

  public var publicName: String {
    switch self {
    case .plain: "weight"
    case .plusOne: "one-plus-weight"
    }
  }
}

/// How a matrix is stored: as floats; in MLX's affine form of 2 to 8 bits with a scale and a bias for each group (g) of
/// 32, 64 or 128 columns; in one of ggml's block types, as in GGUF files, whose elements are those that ggml's
/// dequantize_row functions give in float32 ("@unpack Ggml" has ggml's number of the type); or in one of MLX's
/// micro-scaled forms: small floats with a one-byte scale for each 32 or 16 columns.
public enum WeightFormat: UInt32, NamedOption {
  case f32 = 1
  case f16 = 2
  case bf16 = 3
  case affine2G32 = 4
  case affine2G64 = 5
  case affine2G128 = 6
  case affine3G32 = 7
  case affine3G64 = 8
  case affine3G128 = 9
  case affine4G32 = 10
  case affine4G64 = 11
  case affine4G128 = 12
  case affine5G32 = 13
  case affine5G64 = 14
  case affine5G128 = 15
  case affine6G32 = 16
  case affine6G64 = 17
  case affine6G128 = 18
  case affine8G32 = 19
  case affine8G64 = 20
  case affine8G128 = 21
  case q40 = 22
  case q41 = 23
  case q50 = 24
  case q51 = 25
  case q80 = 26
  case q2K = 27
  case q3K = 28
  case q4K = 29
  case q5K = 30
  case q6K = 31
  case iq4Nl = 32
  case iq4Xs = 33
  case ggufMxfp4 = 34
  case mxfp4 = 35
  case mxfp8 = 36
  case nvfp4 = 37

  public var publicName: String {
    switch self {
    case .f32: "f32"
    case .f16: "f16"
    case .bf16: "bf16"
    case .affine2G32: "affine2-g32"
    case .affine2G64: "affine2-g64"
    case .affine2G128: "affine2-g128"
    case .affine3G32: "affine3-g32"
    case .affine3G64: "affine3-g64"
    case .affine3G128: "affine3-g128"
    case .affine4G32: "affine4-g32"
    case .affine4G64: "affine4-g64"
    case .affine4G128: "affine4-g128"
    case .affine5G32: "affine5-g32"
    case .affine5G64: "affine5-g64"
    case .affine5G128: "affine5-g128"
    case .affine6G32: "affine6-g32"
    case .affine6G64: "affine6-g64"
    case .affine6G128: "affine6-g128"
    case .affine8G32: "affine8-g32"
    case .affine8G64: "affine8-g64"
    case .affine8G128: "affine8-g128"
    case .q40: "q4_0"
    case .q41: "q4_1"
    case .q50: "q5_0"
    case .q51: "q5_1"
    case .q80: "q8_0"
    case .q2K: "q2_k"
    case .q3K: "q3_k"
    case .q4K: "q4_k"
    case .q5K: "q5_k"
    case .q6K: "q6_k"
    case .iq4Nl: "iq4_nl"
    case .iq4Xs: "iq4_xs"
    case .ggufMxfp4: "gguf-mxfp4"
    case .mxfp4: "mxfp4"
    case .mxfp8: "mxfp8"
    case .nvfp4: "nvfp4"
    }
  }
}

/// How rows of x are multiplied by a packed weight. int8 concerns weights that are, within a group of columns, a scale
/// times an integer plus an offset: MLX's affine forms, mxfp4 and nvfp4 (their own group), ggml's q2_k, q3_k and q6_k
/// (16 columns) and its other types (32). Floats and MLX's mxfp8 are multiplied exactly in either form. int8 is CPU
/// only.
public enum ActivationForm: UInt32, NamedOption {
  /// as they are
  case exact = 0
  /// rounded to 8 bits, group by group; products are exact integer sums
  case int8 = 1

  public var publicName: String {
    switch self {
    case .exact: "exact"
    case .int8: "int8"
    }
  }
}

/// Whether x is normalised before it is multiplied by act(z), or after.
public enum NormOrder: UInt32, NamedOption {
  /// n(x) act(z) (Qwen3-Next)
  case normThenGate = 1
  /// n(x act(z)) (Mamba-2)
  case gateThenNorm = 2

  public var publicName: String {
    switch self {
    case .normThenGate: "norm-then-gate"
    case .gateThenNorm: "gate-then-norm"
    }
  }
}

/// The function of an elementwise op.
public enum ElementwiseOperation: UInt32, NamedOption {
  case add = 1
  case siluMul = 2

  public var publicName: String {
    switch self {
    case .add: "add"
    case .siluMul: "siluMul"
    }
  }
}
