import GatedDeltaTypes

/// An option with the name that the public (TypeScript) API has for it: messages speak that language.
protocol NamedOption {
  var publicName: String { get }
}

extension GateForm: NamedOption {
  var publicName: String {
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

extension GateDims: NamedOption {
  var publicName: String {
    switch self {
    case .perHead: "head"
    case .perKey: "key"
    }
  }
}

extension BetaForm: NamedOption {
  var publicName: String {
    switch self {
    case .given: "given"
    case .sigmoid: "sigmoid"
    case .twiceSigmoid: "2-sigmoid"
    }
  }
}

extension HeadMap: NamedOption {
  var publicName: String {
    switch self {
    case .block: "block"
    case .tiled: "tiled"
    }
  }
}

extension QKNorm: NamedOption {
  var publicName: String {
    switch self {
    case .none: "none"
    case .l2: "l2"
    case .l2Max: "l2-max"
    case .rms: "rms"
    }
  }
}

extension Algorithm: NamedOption {
  var publicName: String {
    switch self {
    case .auto: "auto"
    case .recurrent: "recurrent"
    case .chunked: "chunked"
    }
  }
}

extension Activation: NamedOption {
  var publicName: String {
    switch self {
    case .none: "none"
    case .silu: "silu"
    case .sigmoid: "sigmoid"
    }
  }
}

extension NormOrder: NamedOption {
  var publicName: String {
    switch self {
    case .normThenGate: "norm-then-gate"
    case .gateThenNorm: "gate-then-norm"
    }
  }
}
