import GatedDeltaTypes
import Threading

/// The objects behind the handles of the whole process. A handle is valid for exactly one object: removing the object
/// moves its slot to the next generation, and a slot that has used up its generations is retired.
///
/// The caller locks around the lookups of one export, so that an op with a dozen tensors locks once.
final class HandleTable: @unchecked Sendable {
  enum Object {
    case device(Device)
    case buffer(Buffer)
    case plan(Plan)

    var kind: Handle.Kind {
      switch self {
      case .device: .device
      case .buffer: .buffer
      case .plan: .plan
      }
    }
  }

  static let shared = HandleTable()

  private struct Slot {
    var generation: UInt32
    var object: Object?
  }

  private let mutex = Lock()
  private var slots: [Slot] = []
  private var free: [Int] = []

  func lock() { mutex.lock() }
  func unlock() { mutex.unlock() }

  // MARK: With the lock held

  func insert(_ object: Object) throws(Failure) -> Handle {
    if let index = free.popLast(), slots.indices.contains(index) {
      slots[index].object = object
      return Handle(kind: object.kind, generation: slots[index].generation, index: index)
    }
    guard slots.count < Handle.indexLimit else {
      throw Failure(.outOfMemory, expected: "at most \(Handle.indexLimit) objects at a time", received: "one more")
    }
    slots.append(Slot(generation: 1, object: object))
    return Handle(kind: object.kind, generation: 1, index: slots.count &- 1)
  }

  /// Removes and returns the object: the caller releases it after unlocking, since its deinitialisation may take a
  /// while.
  @discardableResult
  func remove(_ handle: Handle) -> Object? {
    guard let object = object(handle) else { return nil }
    let next = slots[handle.index].generation &+ 1
    slots[handle.index] = Slot(generation: next, object: nil)
    if next < Handle.generationLimit { free.append(handle.index) }
    return object
  }

  func device(_ raw: UInt64) throws(Failure) -> Device {
    let handle = Handle(rawValue: raw)
    guard case .device(let device)? = object(handle) else { throw refusal(handle, "device", .device) }
    return device
  }

  func buffer(_ raw: UInt64, _ argument: @autoclosure () -> String) throws(Failure) -> Buffer {
    let handle = Handle(rawValue: raw)
    guard case .buffer(let buffer)? = object(handle) else { throw refusal(handle, argument(), .buffer) }
    return buffer
  }

  func plan(_ raw: UInt64) throws(Failure) -> Plan {
    let handle = Handle(rawValue: raw)
    guard case .plan(let plan)? = object(handle) else { throw refusal(handle, "plan", .plan) }
    return plan
  }

  func object(_ handle: Handle) -> Object? {
    let index = handle.index
    guard slots.indices.contains(index), slots[index].generation == handle.generation,
      let object = slots[index].object, object.kind == handle.kind
    else { return nil }
    return object
  }

  private func refusal(_ handle: Handle, _ argument: String, _ expected: Handle.Kind) -> Failure {
    let received: String
    if handle.rawValue == 0 {
      received = "none"
    } else if let kind = object(handle)?.kind {
      received = kind.name
    } else if handle.kind == expected {
      received = "one that was released"
    } else {
      received = "no handle of this library"
    }
    return Failure(.handle, argument: argument, expected: expected.name, received: received)
  }

  // MARK: Complete steps, which lock by themselves

  func add(_ object: Object) throws(Failure) -> Handle {
    lock()
    defer { unlock() }
    return try insert(object)
  }

  func take(_ handle: Handle) -> Object? {
    lock()
    defer { unlock() }
    return remove(handle)
  }

  /// At the end of a thread, such as a terminated Worker's: ends the devices that it left open and releases the memory
  /// that it lent and the files that it mapped, which no other thread could do. When this returns, nothing touches the
  /// memory that it lent.
  func end(of thread: UInt64) {
    var devices: [Device] = []
    var buffers: [Buffer] = []
    lock()
    for index in slots.indices {
      guard let object = slots[index].object else { continue }
      switch object {
      case .device(let device) where device.owner == thread: devices.append(device)
      // The library's own memory belongs to its ArrayBuffer, which may have moved to another thread.
      case .buffer(let buffer) where buffer.memory.isForeign && buffer.owner == thread: buffers.append(buffer)
      default: continue
      }
      remove(Handle(kind: object.kind, generation: slots[index].generation, index: index))
    }
    unlock()
    for buffer in buffers { buffer.markReleased() }
    for device in devices { device.abandon() }
  }
}
