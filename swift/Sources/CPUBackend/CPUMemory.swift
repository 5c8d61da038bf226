import GatedDeltaTypes

#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

/// Memory of the CPU backend: its own pages, the caller's memory, or a file's.
final class CPUMemory: Memory, @unchecked Sendable {
  static let alignment = 16384
  /// The alignment that suits the kernels' vectors, and that is required of borrowed memory.
  static let wrapAlignment = 64

  private let pages: PageRange?

  init(byteCount: Int) throws(Failure) {
    let pages = try PageRange(byteCount: byteCount, alignment: CPUMemory.alignment)
    self.pages = pages
    super.init(pointer: pages.start, byteCount: byteCount, origin: .own)
  }

  init(wrapping pointer: UnsafeMutableRawPointer, byteCount: Int) throws(Failure) {
    let address = UInt(bitPattern: pointer)
    guard address % UInt(CPUMemory.wrapAlignment) == 0 else {
      throw Failure(
        .invalidArgument, argument: "pointer", expected: "an address that is a multiple of \(CPUMemory.wrapAlignment)",
        received: "0x" + String(address, radix: 16))
    }
    pages = nil
    super.init(pointer: pointer, byteCount: byteCount, origin: .wrapped)
  }

  init(_ window: FileWindow) {
    pages = nil
    super.init(pointer: window.pointer, byteCount: window.byteCount, origin: .mapped(window))
  }

  fileprivate init(_ table: PageRange, _ joined: JoinedPieces) {
    pages = table
    super.init(pointer: table.start, byteCount: joined.byteCount, origin: .joined(joined))
  }
}

extension CPUMemory {
  /// A table of the addresses of the pieces.
  convenience init(_ joined: JoinedPieces) throws(Failure) {
    let table = try PageRange(byteCount: MemoryLayout<UnsafeRawPointer>.stride &* joined.pieces.count, alignment: 64)
    let addresses = table.start.bindMemory(to: UnsafeRawPointer.self, capacity: joined.pieces.count)
    for (index, piece) in joined.pieces.enumerated() {
      (addresses + index).initialize(to: UnsafeRawPointer(joined.buffers[piece.buffer].pointer + piece.offset))
    }
    self.init(table, joined)
  }
}

/// Zeroed pages of the operating system, returned when the last reference is gone.
final class PageRange: @unchecked Sendable {
  let start: UnsafeMutableRawPointer
  private let mappedBytes: Int

  /// At least one byte; `alignment` is a power of two.
  init(byteCount: Int, alignment: Int) throws(Failure) {
    // Large ranges are aligned for huge pages: a pool of states is far larger than the TLB covers with small pages.
    let wanted = byteCount >= PageRange.hugePage ? max(alignment, PageRange.hugePage) : alignment
    let isPossible = byteCount >= 0 && byteCount < Int.max / 2
    mappedBytes = isPossible ? (max(byteCount, 1) &+ PageRange.grain &- 1) / PageRange.grain &* PageRange.grain : 0
    guard isPossible, let start = PageRange.map(mappedBytes, alignment: wanted) else {
      throw Failure(
        .outOfMemory, argument: "bytes", expected: "memory for \(byteCount) bytes",
        received: "the system has none to give")
    }
    self.start = start
    #if os(Linux)
      // The system joins neighbours of equal advice, so that the small matrices of a model share huge pages.
      madvise(start, mappedBytes, MADV_HUGEPAGE)
    #endif
  }

  deinit { munmap(start, mappedBytes) }

  /// Next to other ranges if that has the alignment.
  private static func map(_ byteCount: Int, alignment: Int) -> UnsafeMutableRawPointer? {
    guard let first = map(byteCount) else { return nil }
    if UInt(bitPattern: first) % UInt(alignment) == 0 { return first }
    munmap(first, byteCount)
    guard let padded = map(byteCount &+ alignment) else { return nil }
    let skipped = Int((0 &- UInt(bitPattern: padded)) % UInt(alignment))
    if skipped > 0 { munmap(padded, skipped) }
    if skipped < alignment { munmap(padded + skipped + byteCount, alignment &- skipped) }
    return padded + skipped
  }

  private static func map(_ byteCount: Int) -> UnsafeMutableRawPointer? {
    let start = mmap(nil, byteCount, PROT_READ | PROT_WRITE, MAP_PRIVATE | anonymous, -1, 0)
    return start == MAP_FAILED ? nil : start
  }

  private static let hugePage = 2 << 20
  /// Lengths are multiples of this, and of the system's pages.
  private static let grain = max(CPUMemory.alignment, Int(sysconf(Int32(_SC_PAGESIZE))))
  #if canImport(Darwin)
    private static let anonymous = MAP_ANON
  #else
    private static let anonymous = Int32(MAP_ANONYMOUS)
  #endif
}
