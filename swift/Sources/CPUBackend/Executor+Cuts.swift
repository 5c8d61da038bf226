import CPUKernels
import GatedDeltaTypes

/// How an op's work is cut into parts, whose bounds are `bounds`.
extension Executor {
  func parts(nanoseconds: Double) -> Int {
    estimate = nanoseconds
    if nanoseconds >= leastNanoseconds * Double(threads) { return threads }
    return max(1, Int(nanoseconds / leastNanoseconds))
  }

  /// Several parts per thread, for work that reads each byte once and so gains nothing from running a part on the same
  /// thread again: a thread that loses its core for a while then delays the others by one part, not by its whole share.
  /// Long work has more of them, up to `most` per thread, since at its end a thread waits for another's part.
  func smallParts(nanoseconds: Double, most: Int = 32) -> Int {
    let parts = parts(nanoseconds: nanoseconds)
    guard parts > 1 else { return parts }
    let each = Int(nanoseconds / Executor.longPart) / parts
    return min(min(max(8, each), most) &* parts, ThreadPool.mostParts)
  }

  /// Whole heads if there are enough of them for every part, else blocks of rows.
  func rowsPerItem(_ valueDim: Int, heads: Int, parts: Int) -> Int {
    guard parts > 1, heads > 0, heads % parts != 0, heads < 4 &* parts else { return valueDim }
    let blocks = (4 &* parts &+ heads &- 1) / heads
    return max(16, (valueDim / blocks &+ 15) / 16 &* 16)
  }

  func channelsPerItem(_ channels: Int, _ sequences: Int, parts: Int) -> Int64 {
    let most = GD_CPU_CONV_BLOCK
    guard parts > 1, sequences > 0 else { return Int64(most) }
    let wanted = channels &* sequences / (2 &* parts)
    return Int64(min(most, max(64, wanted / 16 &* 16)))
  }

  /// Equal items in equal shares, one for each thread, and shares in parts that begin a multiple of `step` items after their share:
  /// parts of whole steps alone would leave a thread up to a step more than another. The last part of each share is halved again and
  /// again, down to about `least` items: short parts at the end, which any thread may take, let all threads end at about the same time.
  ///
  /// - Parameter least: at least `step`, so that no part is empty.
  func cut(_ items: Int64, parts: Int, step: Int = 1, least: Int = .max) -> Int {
    let items = Int(items)
    let shares = max(1, min(threads, parts, items))
    let ofShare = items / shares
    let equal = max(1, min(parts / shares, (ofShare &+ step &- 1) / step))
    let most = shares > 1 ? ThreadPool.mostParts / shares &- equal : 0
    var halvings = 0
    while halvings < most, (ofShare / equal) >> (halvings &+ 1) >= least { halvings &+= 1 }
    let each = equal &+ halvings
    for share in 0..<shares {
      let first = items &* share / shares
      let steps = (items &* (share &+ 1) / shares &- first &+ step &- 1) / step
      var before = 0
      for part in 0..<each {
        bounds.start[share &* each &+ part] = Int64(first &+ before &* step)
        before = part &+ 1 < equal ? steps &* (part &+ 1) / equal : (before &+ steps &+ 1) / 2
      }
    }
    bounds.start[shares &* each] = Int64(items)
    return shares &* each
  }

  /// Shares of equal cost: an item of a sequence costs its number of tokens plus `base`.
  func cut(_ sequences: Sequences, itemsEach: Int64, base: Int, parts: Int) -> Int {
    guard sequences.count > 1 else { return cut(itemsEach &* Int64(sequences.count), parts: parts) }
    let total = Double(sequences.rowCount) + Double(base) * Double(sequences.count)
    let items = itemsEach &* Int64(sequences.count)
    let parts = max(1, min(parts, Int(items)))
    bounds.start[0] = 0
    var index = 0
    var before = 0.0
    for part in 1..<max(parts, 1) {
      let share = total * Double(part) / Double(parts)
      var cost = sequences.cost(of: index, base: base)
      while index &+ 1 < sequences.count && before + cost <= share {
        before += cost
        index &+= 1
        cost = sequences.cost(of: index, base: base)
      }
      let within = Int64(min(max((share - before) / cost, 0), 1) * Double(itemsEach))
      bounds.start[part] = max(bounds.start[part &- 1], min(items, Int64(index) &* itemsEach &+ within))
    }
    bounds.start[parts] = items
    return parts
  }

  /// Shares of equal cost; each entry of costs covers `itemsEach` items.
  func cut(_ costs: [Double], itemsEach: Int, parts: Int) -> Int {
    let items = costs.count &* itemsEach
    let parts = max(1, min(parts, items))
    let total = costs.reduce(0, +)
    bounds.start[0] = 0
    var index = 0
    var before = 0.0
    for part in 1..<max(parts, 1) {
      let share = total * Double(part) / Double(parts)
      while index &+ 1 < costs.count && before + costs[index] <= share {
        before += costs[index]
        index &+= 1
      }
      let within = Int((min(max((share - before) / costs[index], 0), 1) * Double(itemsEach)).rounded())
      bounds.start[part] = max(bounds.start[part &- 1], Int64(min(items, index &* itemsEach &+ within)))
    }
    bounds.start[parts] = Int64(items)
    return parts
  }
}
