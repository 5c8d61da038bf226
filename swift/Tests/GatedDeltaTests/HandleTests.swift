import CGatedDelta
import GatedDeltaTypes
import Testing

@testable import GatedDelta

@Suite struct HandleTests {
  @Test func handlesAreExactInADoubleAndNeverZero() {
    for kind in [Handle.Kind.device, .buffer, .plan] {
      for (generation, index) in [(UInt32(1), 0), (Handle.generationLimit - 1, Handle.indexLimit - 1)] {
        let handle = Handle(kind: kind, generation: generation, index: index)
        #expect(handle.rawValue > 0 && handle.rawValue < 1 << 53)
        #expect(UInt64(Double(handle.rawValue)) == handle.rawValue)
        #expect(handle.kind == kind && handle.generation == generation && handle.index == index)
      }
    }
  }

  @Test func aReleasedHandleStaysBadWhenItsSlotIsUsedAgain() throws {
    let fixture = try Fixture()
    var stale: Set<UInt64> = []
    for _ in 0..<100 {
      let handle = try fixture.buffer(64).handle
      #expect(!stale.contains(handle))
      #expect(gd_buffer_release(handle) == GD_OK)
      stale.insert(handle)
      for old in stale { #expect(gd_buffer_release(old) == GD_ERROR_HANDLE) }
    }
    #expect(LastError().received == "one that was released")
    #expect(fixture.backend.liveMemories == 0)
  }

  @Test func aHandleOfAnotherKindIsRefused() throws {
    let fixture = try Fixture()
    let buffer = try fixture.buffer(64).handle
    let plan = try fixture.plan()
    #expect(gd_commit(buffer, nil) == GD_ERROR_HANDLE)
    #expect(LastError().expected == "a device" && LastError().received == "a buffer")
    #expect(gd_plan_run(fixture.device, nil) == GD_ERROR_HANDLE)
    #expect(LastError().expected == "a plan" && LastError().received == "a device")
    #expect(gd_buffer_release(plan) == GD_ERROR_HANDLE)
    #expect(LastError().expected == "a buffer" && LastError().received == "a plan")
    var op = try fixture.gatedDelta()
    #expect(gd_encode_gated_delta(buffer, &op) == GD_ERROR_HANDLE)
    op.key.buffer = plan
    #expect(gd_encode_gated_delta(fixture.device, &op) == GD_ERROR_HANDLE)
    #expect(LastError().argument == "key")
    #expect(gd_device_close(plan) == GD_ERROR_HANDLE)
    #expect(gd_device_close(0) == GD_ERROR_HANDLE)
    #expect(LastError().received == "none")
  }

  @Test func aBufferOfAnotherDeviceIsRefused() throws {
    let fixture = try Fixture()
    let other = try Fixture()
    var op = try fixture.gatedDelta()
    op.value.buffer = try other.tensor(.f32, 1000).buffer
    #expect(gd_encode_gated_delta(fixture.device, &op) == GD_ERROR_HANDLE)
    #expect(LastError().argument == "value" && LastError().received == "one of another device")
  }

  @Test func garbageIsRefusedEverywhere() throws {
    let fixture = try Fixture()
    var generator = SplitMix(seed: 7)
    let op = try fixture.gatedDelta()
    for round in 0..<2000 {
      // Bits at random, and bits near a good handle.
      let flipped = op.query.buffer ^ 1 << UInt64(generator.next() % 64)
      let garbage = round % 2 == 0 ? generator.next() : flipped
      guard garbage != fixture.device, ![op.key.buffer, op.query.buffer].contains(garbage) else { continue }
      #expect(gd_poll(garbage, 0) == GD_ERROR_HANDLE)
      #expect(gd_plan_run(garbage, nil) == GD_ERROR_HANDLE)
      // A flipped bit of the index may well name another buffer of this or of a concurrent test: not released here.
      var broken = op
      broken.query.buffer = garbage
      let status = gd_encode_gated_delta(fixture.device, &broken)
      #expect(status != GD_OK || garbage >> 51 == Handle.Kind.buffer.rawValue)
    }
    gd_buffer_deallocate(nil, nil)
    gd_buffer_deallocate(nil, UnsafeMutableRawPointer(bitPattern: UInt.max))
  }

  @Test func usedUpGenerationsRetireTheirSlot() throws {
    // By the arithmetic of the handle: the last generation still fits, the one after it would wrap to 0.
    let last = Handle(kind: .plan, generation: Handle.generationLimit - 1, index: 5)
    #expect(Handle(kind: .plan, generation: 0, index: 5) != last)
    #expect(last.kind == .plan)
  }

  @Test func tablesOfSeveralThreadsDoNotMixUp() async throws {
    await withTaskGroup(of: Bool.self) { group in
      for _ in 0..<4 {
        group.addTask {
          guard let fixture = try? Fixture() else { return false }
          for _ in 0..<500 {
            guard let (handle, memory) = try? fixture.buffer(8) else { return false }
            memory.storeBytes(of: handle, as: UInt64.self)
            guard memory.load(as: UInt64.self) == handle, gd_buffer_release(handle) == GD_OK else { return false }
          }
          return fixture.backend.liveMemories == 0
        }
      }
      for await isRight in group { #expect(isRight) }
    }
  }
}

/// A small generator with a seed, so that a failure can be repeated.
struct SplitMix: RandomNumberGenerator {
  private var state: UInt64

  init(seed: UInt64) { state = seed }

  mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
    return mixed ^ (mixed >> 31)
  }
}
