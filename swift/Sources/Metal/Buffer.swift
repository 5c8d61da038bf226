import Glibc

/// Shared memory of the emulated device, page-aligned as Apple's is.
final class EmulatedBuffer: MTLBuffer, @unchecked Sendable {
  /// Apple silicon's page: also where Linux has smaller ones, so that what works here works there.
  static let page = 16384

  var label: String?
  let length: Int
  private let pointer: UnsafeMutableRawPointer
  private let deallocator: @Sendable (UnsafeMutableRawPointer, Int) -> Void

  init?(length: Int, limit: Int) {
    guard length > 0, length <= limit else { return nil }
    let bytes = (length + Self.page - 1) / Self.page * Self.page
    var memory: UnsafeMutableRawPointer?
    guard posix_memalign(&memory, Self.page, bytes) == 0, let memory else { return nil }
    memset(memory, 0, bytes)
    self.length = length
    self.pointer = memory
    self.deallocator = { pointer, _ in free(pointer) }
  }

  init?(
    borrowing pointer: UnsafeMutableRawPointer, length: Int, limit: Int,
    deallocator: (@Sendable (UnsafeMutableRawPointer, Int) -> Void)?
  ) {
    guard length > 0, length <= limit, length % Self.page == 0, Int(bitPattern: pointer) % Self.page == 0 else {
      return nil
    }
    self.length = length
    self.pointer = pointer
    self.deallocator = deallocator ?? { _, _ in }
  }

  deinit { deallocator(pointer, length) }

  func contents() -> UnsafeMutableRawPointer { pointer }
}
