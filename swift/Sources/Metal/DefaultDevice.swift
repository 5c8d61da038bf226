import Synchronization

/// The device of `MTLCreateSystemDefaultDevice()`. There is none on Linux until a test names an emulated one.
enum DefaultDevice {
  typealias Opened = Result<EmulatedDevice, MetalEmulationError>

  /// Opens a device on first use. A failure is not kept: the missing library may be built in the meantime.
  final class Once: Sendable {
    let path: String
    private let open: @Sendable () -> Opened
    private let device = Mutex<EmulatedDevice?>(nil)

    init(_ path: String, open: @escaping @Sendable () -> Opened) {
      self.path = path
      self.open = open
    }

    func get() -> Opened {
      device.withLock { device in
        if let device { return .success(device) }
        let opened = open()
        if case .success(let made) = opened { device = made }
        return opened
      }
    }
  }

  static let current = Mutex<Once?>(nil)

  static func get() -> Opened {
    guard let once = current.withLock({ $0 }) else {
      return .failure(
        MetalEmulationError(
          "none on Linux, where the CPU backend does the work: Metal is part of macOS "
            + "(tests emulate it: in a clone, `npm run emulator` builds it)"))
    }
    return once.get()
  }
}
