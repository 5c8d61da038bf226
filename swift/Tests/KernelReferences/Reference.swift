import GatedDeltaTypes

#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

@testable import CPUBackend

/// The formulas of gated_delta.h in double precision, one element at a time.
enum Reference {
  static func sigmoid(_ x: Double) -> Double { x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x)) }
  static func softplus(_ x: Double) -> Double { max(x, 0) + log1p(exp(-abs(x))) }
  static func activate(_ x: Double, _ activation: Activation) -> Double {
    switch activation {
    case .none: x
    case .silu: x * sigmoid(x)
    case .sigmoid: sigmoid(x)
    }
  }

  static func decay(_ form: GateForm, _ gate: Double, aLog: Double, bias: Double, bound: Double) -> Double {
    let a: Double
    switch form {
    case .decay: a = gate
    case .log: a = exp(gate)
    case .negLog: a = exp(-gate)
    case .raw: a = exp(-exp(aLog) * softplus(gate + bias))
    case .rawSSM: a = exp(aLog * softplus(gate + bias))
    case .rawBounded: a = exp(bound * sigmoid(exp(aLog) * (gate + bias)))
    }
    return Double(Float(a))
  }

  static func beta(_ form: BetaForm, _ x: Double) -> Double {
    switch form {
    case .given: x
    case .sigmoid: sigmoid(x)
    case .twiceSigmoid: 2 * sigmoid(x)
    }
  }

  static func normalise(_ x: [Double], _ norm: QKNorm, eps: Double) -> [Double] {
    let sum = x.reduce(0) { $0 + $1 * $1 }
    let factor: Double
    switch norm {
    case .none: factor = 1
    case .l2: factor = 1 / (sum + eps).squareRoot()
    case .l2Max: factor = 1 / max(sum.squareRoot(), eps)
    case .rms: factor = 1 / (sum + Double(x.count) * eps).squareRoot()
    }
    return x.map { $0 * factor }
  }

  static func keyHead(_ head: Int, _ map: HeadMap, keyHeads: Int, valueHeads: Int) -> Int {
    map == .block ? head / (valueHeads / keyHeads) : head % keyHeads
  }

  /// One token of one head: state [Dv][Dk] is updated, the output returned.
  static func step(
    _ state: inout [[Double]], key: [Double], query: [Double], value: [Double], decay: [Double], beta: Double
  ) -> [Double] {
    state.indices.map { row in
      for i in key.indices { state[row][i] *= decay[i] }
      let memory = zip(state[row], key).reduce(0) { $0 + $1.0 * $1.1 }
      let delta = beta * (value[row] - memory)
      for i in key.indices { state[row][i] += delta * key[i] }
      return zip(state[row], query).reduce(0) { $0 + $1.0 * $1.1 }
    }
  }

  static func gatedNorm(
    x: [Double], z: [Double], weight: [Double], activation: Activation, order: NormOrder, eps: Double
  ) -> [Double] {
    let gate = z.map { activate($0, activation) }
    let input = order == .normThenGate ? x : zip(x, gate).map { $0 * $1 }
    let mean = input.reduce(0) { $0 + $1 * $1 } / Double(max(input.count, 1))
    return input.indices.map { i in
      let n = weight[i] * input[i] / (mean + eps).squareRoot()
      return order == .normThenGate ? n * gate[i] : n
    }
  }

  /// Output columns and the last K - 1 of (state, x).
  static func conv(
    x: [Double], state: [Double], weight: [Double], bias: Double, activation: Activation
  ) -> (out: [Double], state: [Double]) {
    let all = state + x
    let out = x.indices.map { t in
      activate(bias + weight.indices.reduce(0) { $0 + weight[$1] * all[t + $1] }, activation)
    }
    return (out, Array(all.suffix(state.count)))
  }
}
