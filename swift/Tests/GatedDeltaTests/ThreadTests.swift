import CGatedDelta
import GatedDeltaTypes
import Testing

@testable import GatedDelta

#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

/// Runs `body` on a thread of its own and waits for the thread's end, its clean-up included.
private func onNewThread(_ body: @escaping @Sendable () -> Void) {
  final class Box {
    let body: @Sendable () -> Void
    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
  }
  let box = Unmanaged.passRetained(Box(body)).toOpaque()
  #if canImport(Darwin)
    var thread: pthread_t?
    pthread_create(&thread, nil, { argument in
      Unmanaged<Box>.fromOpaque(argument).takeRetainedValue().body()
      return nil
    }, box)
    if let thread { pthread_join(thread, nil) }
  #else
    var thread = pthread_t()
    pthread_create(&thread, nil, { argument in
      if let argument { Unmanaged<Box>.fromOpaque(argument).takeRetainedValue().body() }
      return nil
    }, box)
    pthread_join(thread, nil)
  #endif
}

@Suite struct ThreadTests {
  @Test func aDeviceBelongsToItsThread() throws {
    let fixture = try Fixture()
    let (device, plan) = (fixture.device, try fixture.plan())
    let (handle, _) = try fixture.buffer(64)
    let descriptor = try fixture.linear()
    onNewThread {
      var (ticket, other): (UInt64, UInt64) = (0, 0)
      var pointer: UnsafeMutableRawPointer?
      var op = descriptor
      #expect(gd_commit(device, &ticket) == GD_ERROR_STATE)
      #expect(LastError().argument == "device" && LastError().received.contains("another thread"))
      #expect(gd_discard(device) == GD_ERROR_STATE)
      #expect(gd_poll(device, 0) == GD_ERROR_STATE)
      #expect(gd_wait(device, 0, 0) == GD_ERROR_STATE)
      #expect(gd_buffer_create(device, 8, &other, &pointer) == GD_ERROR_STATE)
      #expect(gd_plan_create(device, &other) == GD_ERROR_STATE)
      #expect(gd_plan_run(plan, &ticket) == GD_ERROR_STATE)
      #expect(gd_plan_release(plan) == GD_ERROR_STATE)
      #expect(gd_encode_linear(device, &op) == GD_ERROR_STATE)
      #expect(gd_encode_linear(plan, &op) == GD_ERROR_STATE)
      #expect(gd_device_close(device) == GD_ERROR_STATE)
      // A finaliser may run anywhere.
      #expect(gd_buffer_release(handle) == GD_OK)
    }
    #expect(gd_buffer_release(handle) == GD_ERROR_HANDLE)
    #expect(gd_plan_run(plan, nil) == GD_OK)
  }

  @Test func everyThreadHasItsOwnLastError() {
    #expect(gd_poll(0, 0) == GD_ERROR_HANDLE)
    let before = LastError()
    let pointer = gd_last_error(0)
    onNewThread {
      #expect(LastError().message.isEmpty && LastError().op.isEmpty)
      #expect(gd_buffer_release(1) == GD_ERROR_HANDLE)
      #expect(LastError().op == "bufferRelease")
    }
    #expect(LastError().message == before.message && gd_last_error(0) == pointer)
    #expect(String(cString: gd_last_error(5)).isEmpty && String(cString: gd_last_error(.max)).isEmpty)
  }

  @Test func successLeavesTheLastErrorAlone() throws {
    let fixture = try Fixture()
    #expect(gd_poll(0, 0) == GD_ERROR_HANDLE)
    let message = LastError().message
    #expect(gd_poll(fixture.device, 0) == GD_OK)
    #expect(LastError().message == message && !message.isEmpty)
  }

  /// Like a terminated Worker: its work on the library's memory continues, everything else is released.
  @Test func aThreadThatExitsEndsWhatItLeftOpen() throws {
    let backend = FakeBackend()
    let handles = HandleBox()
    onNewThread {
      guard let state = ThreadState.current,
        let device = try? HandleTable.shared.add(.device(Device(backend: backend, owner: state.id)))
      else { return }
      state.ownedDevices += 1
      handles.device = device.rawValue
      _ = gd_plan_create(device.rawValue, &handles.plan)
      var pointer: UnsafeMutableRawPointer?
      _ = gd_buffer_create(device.rawValue, 4096, &handles.buffer, &pointer)
      var op = gd_copy_slots()
      op.size = UInt32(MemoryLayout<gd_copy_slots>.size)
      op.version = 1
      op.pool = gd_tensor(buffer: handles.buffer, .f32, [4, 8])
      let index = gd_index(buffer: handles.buffer, offset: 2048, pointer: nil, count: 1)
      (op.read_slots, op.write_slots) = (index, index)
      #expect(gd_encode_copy_slots(device.rawValue, &op) == GD_OK, "\(LastError())")
      #expect(gd_commit(device.rawValue, nil) == GD_OK)
    }
    #expect(backend.assistCount == 0 && backend.closeCount == 1 && backend.stopsFrom.isEmpty)
    #expect(gd_commit(handles.device, nil) == GD_ERROR_HANDLE)
    #expect(gd_plan_run(handles.plan, nil) == GD_ERROR_HANDLE)
    // JavaScript's own finaliser still comes for the buffer.
    #expect(gd_buffer_release(handles.buffer) == GD_OK && backend.liveMemories == 1)
    backend.next()?.finish(nil)
    #expect(backend.liveMemories == 0, "only the submission held it")
  }

  @Test func threadIdentitiesAreNeverReused() {
    let seen = HandleBox()
    for _ in 0..<50 {
      onNewThread {
        let id = ThreadState.current?.id ?? 0
        #expect(id > seen.device)
        seen.device = id
      }
    }
  }
}

/// Carries values out of a thread that has ended.
private final class HandleBox: @unchecked Sendable {
  var device: UInt64 = 0
  var plan: UInt64 = 0
  var buffer: UInt64 = 0
}
