import CPUKernels
import GatedDeltaTypes
import Synchronization
import Testing
import Threading

@testable import CPUBackend
@testable import KernelReferences

/// The sharing of the pool's threads by devices, and their behaviour under contention.
@Suite struct ThreadPoolTests {
  typealias Share = ThreadPool.Share

  @Test func oneDeviceHasAllHelpersAndSeveralShareThem() {
    func share(_ cores: Int, others: Int, before: Int, othersThreads: Int) -> Share {
      ThreadPool.share(cores: cores, others: others, before: before, othersThreads: othersThreads)
    }
    #expect(share(16, others: 0, before: 0, othersThreads: 0) == Share(first: 0, count: 15))
    #expect(share(1, others: 0, before: 0, othersThreads: 0).count == 0)
    // Two devices on two cores: each has its caller.
    for before in 0...1 { #expect(share(2, others: 1, before: before, othersThreads: 2).count == 0) }
    #expect(share(16, others: 1, before: 0, othersThreads: 16) == Share(first: 0, count: 7))
    #expect(share(16, others: 1, before: 1, othersThreads: 16) == Share(first: 7, count: 7))
    // Cores that devices of few threads leave.
    #expect(share(16, others: 1, before: 0, othersThreads: 1).count == 14)
    #expect(share(16, others: 2, before: 0, othersThreads: 4).count == 11)
    // More devices than cores.
    #expect(share(2, others: 5, before: 3, othersThreads: 10).count == 0)
  }

  /// Together the devices have no more threads than cores, and the largest and smallest differ by at most one.
  @Test func sharesAreEvenAndApart() {
    for cores in 1...40 {
      for devices in 1...min(cores, 12) {
        let shares = (0..<devices).map {
          ThreadPool.share(cores: cores, others: devices - 1, before: $0, othersThreads: (devices - 1) * cores)
        }
        let counts = shares.map(\.count)
        #expect(counts.reduce(devices, +) == cores)
        #expect((counts.max() ?? 0) - (counts.min() ?? 0) <= 1)
        for (one, next) in zip(shares, shares.dropFirst()) { #expect(one.first + one.count == next.first) }
      }
    }
  }

  @Test func aLostCoreCountsForAWhileAndLongerEachTime() {
    let contention = Contention()
    var now: UInt64 = 1_000_000_000
    #expect(!contention.isContended(at: now))
    contention.lostCore(at: now)
    #expect(contention.isContended(at: now) && contention.isContended(at: now + Contention.leastHold - 1))
    #expect(!contention.isContended(at: now + Contention.leastHold))
    // Other threads that notice it at the same time do not prolong it.
    contention.lostCore(at: now + 1000)
    #expect(!contention.isContended(at: now + 1000 + Contention.leastHold))
    // Lost again soon after the end: twice the time, up to the most.
    now += 1000 + Contention.leastHold
    var hold = Contention.leastHold
    for _ in 0..<10 {
      contention.lostCore(at: now + 10)
      hold = min(2 * hold, Contention.mostHold)
      #expect(contention.isContended(at: now + 10 + hold - 1) && !contention.isContended(at: now + 10 + hold))
      now += 10 + hold
    }
    // After as long a quiet time, from the beginning.
    now += Contention.mostHold + 1
    contention.lostCore(at: now)
    #expect(!contention.isContended(at: now + Contention.leastHold))
  }

  /// Counts how often each item of a job ran.
  private static let count: OpaqueRun = { op, begin, end, _, _ in
    guard let op else { return }
    let counts = op.assumingMemoryBound(to: Int32.self)
    for item in begin..<end { UnsafeMutablePointer(mutating: counts)[Int(item)] += 1 }
  }

  /// Many crews with jobs of few and of many parts at once, on more cores than there are: every part runs once a job, and no part of a
  /// job runs after the job has ended.
  @Test func everyPartRunsOnce() throws {
    let pool = ThreadPool(cores: 5)
    let wrong = SharedCount()
    let helped = SharedCount()
    onThreads(4) {
      guard let crew = pool.join(threads: 5) else { return }
      defer { pool.leave(crew) }
      let scratch = UnsafeMutableRawPointer.allocate(byteCount: 64, alignment: 64)
      let counts = UnsafeMutablePointer<Int32>.allocate(capacity: 64)
      let bounds = UnsafeMutablePointer<Int64>.allocate(capacity: 65)
      var stop: UInt32 = 0
      for round in 0..<600 {
        let parts = [2, 3, 8, 64][round % 4]
        counts.initialize(repeating: 0, count: 64)
        for part in 0...parts { bounds[part] = Int64(part) }
        if round % 50 == 0 { pool.end(crew) }
        if round % 50 == 25 { pool.begin(crew) }
        let ran = withUnsafePointer(to: &stop) {
          pool.run(
            PoolJob(run: ThreadPoolTests.count, op: UnsafeRawPointer(counts), bounds: bounds, parts: parts, stop: $0),
            nanoseconds: 1e9, in: crew, scratch: scratch)
        }
        if ran { helped.add() }
        let expected: Int32 = ran ? 1 : 0
        for part in 0..<64 where counts[part] != (part < parts ? expected : 0) { wrong.add() }
      }
      bounds.deallocate()
      counts.deallocate()
      scratch.deallocate()
    }
    #expect(wrong.now == 0)
    #expect(helped.now > 0)
  }

  /// The largest number of threads in one job at the same time: the current one in the first word, the largest in the
  /// second.
  private static let atOnce: OpaqueRun = { op, begin, end, _, _ in
    guard let op else { return }
    let words = UnsafeMutablePointer(mutating: op.assumingMemoryBound(to: Atomic<Int>.self))
    let now = words[0].add(1, ordering: .relaxed).newValue
    words[1].max(now, ordering: .relaxed)
    let end = Clock.now &+ 50_000
    while Clock.now < end {}
    words[0].subtract(1, ordering: .relaxed)
  }

  /// A job of more parts than its device has threads runs on that many threads, on any number of cores.
  @Test func aDeviceHasNoMoreThreadsThanItsOwn() throws {
    let pool = ThreadPool(cores: 6)
    for threads in [2, 3] {
      let crew = try #require(pool.join(threads: threads))
      defer { pool.leave(crew) }
      let words = UnsafeMutablePointer<Atomic<Int>>.allocate(capacity: 2)
      for word in 0..<2 { (words + word).initialize(to: Atomic(0)) }
      defer { words.deallocate() }
      let bounds = (0...24).map { Int64($0) }
      var stop: UInt32 = 0
      for _ in 0..<40 {
        _ = bounds.withUnsafeBufferPointer { bounds in
          withUnsafePointer(to: &stop) {
            pool.run(
              PoolJob(
                run: ThreadPoolTests.atOnce, op: UnsafeRawPointer(words), bounds: bounds.baseAddress!, parts: 24, stop: $0),
              nanoseconds: 1e9, in: crew, scratch: UnsafeMutableRawPointer(words))
          }
        }
      }
      #expect(words[1].load(ordering: .relaxed) <= threads)
    }
  }

  /// A closed device leaves its place to the next.
  @Test func placesAreUsedAgain() throws {
    let pool = ThreadPool(cores: 2)
    let first = try #require(pool.join(threads: 2))
    let second = try #require(pool.join(threads: 2))
    #expect(first.index != second.index)
    pool.leave(first)
    #expect(pool.join(threads: 1)?.index == first.index)
  }

  /// The number of rows that stay in the cache together, measured or set: the bits are the same.
  @Test(arguments: instructionSets) func blocksOfAnySizeGiveTheSameBits(_ isa: String) throws {
    let kernels = try kernels(isa)
    let choose = try #require(kernels.choose_block)
    let scratch = try PageRange(byteCount: gd_cpu_scratch_bytes(), alignment: 4096)
    let device = try device(isa)
    defer { device.close() }
    var results: [([UInt8], [UInt8])] = []
    for block: Int32 in [8, 16, 24, 32, 64, 256] {
      #expect(choose(scratch.start, block) == block)
      var random = Random(seed: 91)
      let one = try DeltaCase(.inPlace([40, 1, 3], keyDim: 72, valueDim: 136), &random)
      try device.run([.gatedDelta(one.op, one.sequences)])
      results.append((one.out.bytes, one.state.bytes))
    }
    for result in results.dropFirst() { #expect(result == results[0]) }
    let chosen = choose(scratch.start, 0)
    #expect(chosen == 16 || chosen == 32)
    #expect(choose(scratch.start, 0) == chosen)
  }

  /// Many tokens over panels of the state or over its rows, measured or set: the bits are the same, in sequences that are long
  /// enough for panels and others, and for rows that fill no panel.
  @Test(arguments: instructionSets) func panelsGiveTheSameBits(_ isa: String) throws {
    let kernels = try kernels(isa)
    let choose = try #require(kernels.choose_turning)
    let scratch = try PageRange(byteCount: gd_cpu_scratch_bytes(), alignment: 4096)
    let device = try device(isa)
    defer { device.close() }
    // Instruction sets without panels stay with rows.
    let ways: [Int32] = choose(scratch.start, 7) == 7 ? [1, 3, 5, 7] : [1]
    let kinds: [(GateDims, DType)] = [(.perHead, .f32), (.perHead, .bf16), (.perKey, .f32), (.perKey, .f16)]
    for (keyDim, valueDim) in [(128, 128), (64, 72), (16, 32), (72, 136), (256, 256)] {
      for (gate, stateType) in kinds {
        var results: [([UInt8], [UInt8])] = []
        for way in ways {
          #expect(choose(scratch.start, way) == way)
          var random = Random(seed: 93)
          let shape = DeltaCase.Shape.inPlace(
            [31, 97, 1, 32], keyDim: keyDim, valueDim: valueDim, stateType: stateType, gateDims: gate)
          let one = try DeltaCase(shape, &random)
          try device.run([.gatedDelta(one.op, one.sequences)])
          results.append((one.out.bytes, one.state.bytes))
        }
        for result in results.dropFirst() { #expect(result == results[0], "\(keyDim) \(valueDim) \(gate) \(stateType)") }
      }
    }
    let chosen = choose(scratch.start, 0)
    #expect(ways.contains(chosen))
    #expect(choose(scratch.start, 0) == chosen)
  }

  /// bf16 rows of single tokens, kept widened or widened twice, measured or set: the bits are the same.
  @Test(arguments: instructionSets) func keptRowsGiveTheSameBits(_ isa: String) throws {
    let kernels = try kernels(isa)
    let choose = try #require(kernels.choose_widening)
    let scratch = try PageRange(byteCount: gd_cpu_scratch_bytes(), alignment: 4096)
    let device = try device(isa)
    defer { device.close() }
    // For ways that the instruction set lacks, the one that it has is used.
    let ways: [Int32] = choose(scratch.start, 2) == 2 ? [1, 2] : [1]
    for keyDim in [8, 72, 128, 256] {
      var results: [([UInt8], [UInt8])] = []
      for way in ways {
        #expect(choose(scratch.start, way) == way)
        var random = Random(seed: 92)
        let shape = DeltaCase.Shape.inPlace(
          [1, 1, 1], keyDim: keyDim, valueDim: 40, activation: .bf16, stateType: .bf16)
        let one = try DeltaCase(shape, &random)
        try device.run([.gatedDelta(one.op, one.sequences)])
        results.append((one.out.bytes, one.state.bytes))
      }
      for result in results.dropFirst() { #expect(result == results[0], "\(keyDim)") }
    }
    let chosen = choose(scratch.start, 0)
    #expect(ways.contains(chosen))
    #expect(choose(scratch.start, 0) == chosen)
  }
}
