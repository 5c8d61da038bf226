import GatedDeltaTypes

/// Ops are immutable values. These return the same op with some arguments replaced: `.some(nil)` removes a tensor.

extension GatedDelta {
  func with(
    tokens: Int? = nil, algorithm: Algorithm? = nil, query: TensorView? = nil, key: TensorView? = nil,
    value: TensorView? = nil, gate: TensorView? = nil, beta: TensorView? = nil, state: TensorView? = nil,
    out: TensorView? = nil, states: StateTensors? = nil, records: Records?? = nil
  ) -> GatedDelta {
    var options = options
    options.algorithm = algorithm ?? options.algorithm
    return GatedDelta(
      tokens: tokens ?? self.tokens, keyHeads: keyHeads, valueHeads: valueHeads, keyDim: keyDim, valueDim: valueDim,
      slots: slots, options: options, query: query ?? self.query, key: key ?? self.key, value: value ?? self.value,
      gate: gate ?? self.gate, beta: beta ?? self.beta, raw: raw, state: state ?? self.state, out: out ?? self.out,
      states: states ?? self.states, records: records ?? self.records)
  }
}

extension CausalConv1d {
  func with(
    slots: Int? = nil, x: TensorView? = nil, state: TensorView? = nil, out: TensorView? = nil,
    states: StateTensors? = nil
  ) -> CausalConv1d {
    CausalConv1d(
      tokens: tokens, channels: channels, width: width, slots: slots ?? self.slots, options: options,
      x: x ?? self.x, weight: weight, bias: bias, state: state ?? self.state, out: out ?? self.out,
      states: states ?? self.states)
  }
}

extension TensorView {
  /// From `rows` tokens further on.
  func after(_ rows: Int) -> TensorView {
    var view = self
    view.offset += rows * tokenStride * dtype.size
    return view
  }
}

extension StateTensors {
  func with(source: TensorView, slots: Int) -> StateTensors {
    var states = self
    (states.source, states.sourceSlots) = (source, slots)
    return states
  }

  func with(snapshots: TensorView, entries: Int) -> StateTensors {
    var states = self
    (states.snapshots, states.snapshotEntries) = (snapshots, entries)
    return states
  }
}
