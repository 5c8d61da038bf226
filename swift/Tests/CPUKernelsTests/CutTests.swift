import Testing

@testable import CPUBackend

/// How an op's items are cut into parts.
@Suite struct CutTests {
  @Test(arguments: [1, 2, 3, 8], [1, 3]) func threadsHaveEqualShares(_ threads: Int, _ step: Int) throws {
    let executor = try Executor(threads: threads, kernels: CPUBackend.kernels(named: instructionSets[0]), leastNanoseconds: 0)
    for items in [0, 1, 2, 5, 16, 32, 64, 65, 128, 224, 1000, 15520] {
      for wanted in [1, 2, threads, 2 * threads + 1, 8 * threads, 1000] {
        let parts = executor.cut(Int64(items), parts: wanted, step: step)
        let bounds = (0...parts).map { Int(executor.bounds.start[$0]) }
        #expect(parts >= 1 && parts <= wanted && bounds[0] == 0 && bounds[parts] == items)
        // An empty part would be a job's share of nothing.
        #expect(items == 0 || zip(bounds, bounds.dropFirst()).allSatisfy { $0 < $1 })
        let shares = min(threads, wanted, max(items, 1))
        #expect(parts % shares == 0)
        let each = parts / shares
        for share in 0..<shares {
          #expect(bounds[share * each] == items * share / shares)
          for part in 1..<each { #expect((bounds[share * each + part] - bounds[share * each]) % step == 0) }
        }
      }
    }
  }
}
