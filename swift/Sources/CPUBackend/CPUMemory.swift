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
  private let mapping: UnsafeMutableRawPointer
  private let mappedBytes: Int

  /// At least one byte; `alignment` is a power of two.
  init(byteCount: Int, alignment: Int) throws(Failure) {
    // Large ranges are aligned for huge pages: a pool of states is far larger than the TLB covers with small pages.
    let wanted = byteCount >= PageRange.hugePage ? max(alignment, PageRange.hugePage) : alignment
    let (padded, overflow) = max(byteCount, 1).addingReportingOverflow(wanted)
    let mapped = overflow || byteCount < 0
      ? MAP_FAILED : mmap(nil, padded, PROT_READ | PROT_WRITE, MAP_PRIVATE | PageRange.anonymous, -1, 0)
    guard let mapping = mapped, mapping != MAP_FAILED else {
      throw Failure(
        .outOfMemory, argument: "bytes", expected: "memory for \(byteCount) bytes",
        received: "the system has none to give")
    }
    let misaligned = Int(UInt(bitPattern: mapping) % UInt(wanted))
    start = misaligned == 0 ? mapping : mapping + (wanted &- misaligned)
    self.mapping = mapping
    mappedBytes = padded
    #if os(Linux)
      if byteCount >= PageRange.hugePage { madvise(start, byteCount, MADV_HUGEPAGE) }
    #endif
  }

  deinit { munmap(mapping, mappedBytes) }

  private static let hugePage = 2 << 20
  #if canImport(Darwin)
    private static let anonymous = MAP_ANON
  #else
    private static let anonymous = Int32(MAP_ANONYMOUS)
  #endif
}
