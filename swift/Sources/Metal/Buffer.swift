import Glibc

/// Shared memory of the emulated device, page-aligned as Apple's is.
final class EmulatedBuffer: MTLBuffer, @unchecked Sendable {
  /// Apple silicon's page, even if Linux has smaller ones, so that what works here works there.
  static let page = 16384

  let length: Int
  let device: EmulatedDevice
  private let pointer: UnsafeMutableRawPointer
  private let deallocator: @Sendable (UnsafeMutableRawPointer, Int) -> Void

  init?(device: EmulatedDevice, length: Int) {
    guard length > 0, length <= device.maxBufferLength else { return nil }
    let bytes = (length + Self.page - 1) / Self.page * Self.page
    var memory: UnsafeMutableRawPointer?
    guard posix_memalign(&memory, Self.page, bytes) == 0, let memory else { return nil }
    memset(memory, 0, bytes)
    self.device = device
    self.length = length
    self.pointer = memory
    self.deallocator = { pointer, _ in free(pointer) }
  }

  /// Nil if Apple asks for whole pages and these are not.
  init?(
    device: EmulatedDevice, borrowing pointer: UnsafeMutableRawPointer, length: Int,
    deallocator: (@Sendable (UnsafeMutableRawPointer, Int) -> Void)?
  ) {
    guard length > 0, length <= device.maxBufferLength, length % Self.page == 0,
      Int(bitPattern: pointer) % Self.page == 0
    else {
      return nil
    }
    self.device = device
    self.length = length
    self.pointer = pointer
    self.deallocator = deallocator ?? { _, _ in }
  }

  deinit { deallocator(pointer, length) }

  func contents() -> UnsafeMutableRawPointer { pointer }
}

/// Command buffers run one after another here, so there is nothing to wait for: the encoder checks how it is used.
final class EmulatedFence: MTLFence {
  let device: EmulatedDevice
  init(device: EmulatedDevice) { self.device = device }
}
