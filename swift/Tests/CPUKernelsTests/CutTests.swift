import Testing

@testable import CPUBackend

/// How an op's items are cut into parts.
@Suite struct CutTests {
  @Test(arguments: [1, 2, 3, 8], [1, 3]) func threadsHaveEqualShares(_ threads: Int, _ step: Int) throws {
    let executor = try Executor(threads: threads, kernels: CPUBackend.kernels(named: instructionSets[0]), leastNanoseconds: 0)
    for items in [0, 1, 2, 5, 16, 32, 64, 65, 128, 224, 1000, 15520] {
      for (wanted, least) in [1, 2, threads, 2 * threads + 1, 8 * threads, 1000].flatMap({ [($0, Int.max), ($0, step), ($0, 4 * step)] }) {
        let parts = executor.cut(Int64(items), parts: wanted, step: step, least: least)
        let bounds = (0...parts).map { Int(executor.bounds.start[$0]) }
        #expect(parts >= 1 && parts <= (least == .max ? wanted : ThreadPool.mostParts) && bounds[0] == 0 && bounds[parts] == items)
        // An empty part would be a job's share of nothing.
        #expect(items == 0 || zip(bounds, bounds.dropFirst()).allSatisfy { $0 < $1 })
        let shares = min(threads, wanted, max(items, 1))
        #expect(parts % shares == 0)
        let each = parts / shares
        for share in 0..<shares {
          #expect(bounds[share * each] == items * share / shares)
          for part in 1..<each { #expect((bounds[share * each + part] - bounds[share * each]) % step == 0) }
          guard shares > 1, least < .max, parts + shares <= ThreadPool.mostParts else { continue }
          let sizes = (share * each..<(share + 1) * each).map { bounds[$0 + 1] - bounds[$0] }
          // The last part is not more than the one before it, but for a step, and would be too short if it were halved again.
          #expect(sizes[each - 1] < 2 * (least + step) && sizes[each - 1] <= sizes[max(each - 2, 0)] + step)
        }
      }
    }
  }
}
