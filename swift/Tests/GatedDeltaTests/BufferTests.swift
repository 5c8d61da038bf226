import CGatedDelta
import GatedDeltaTypes
import Testing

@testable import GatedDelta

@Suite struct BufferTests {
  @Test func sizesUpToAnArrayBuffersLimit() throws {
    let fixture = try Fixture()
    var (handle, pointer): (UInt64, UnsafeMutableRawPointer?) = (7, nil)
    for bytes in [largestBuffer + 1, 1 << 32, 1 << 63, .max] as [UInt64] {
      #expect(gd_buffer_create(fixture.device, bytes, &handle, &pointer) == GD_ERROR_SHAPE)
      #expect(LastError().argument == "bytes" && handle == 7 && pointer == nil)
    }
    #expect(largestBuffer == 4_294_950_912)
    #expect(gd_buffer_create(fixture.device, 0, &handle, &pointer) == GD_OK)
    #expect(pointer != nil && gd_buffer_release(handle) == GD_OK)
  }

  @Test func wrappedMemoryIsUsedWhereItLies() throws {
    let fixture = try Fixture()
    let words = SharedWords(64)
    var handle: UInt64 = 0
    #expect(gd_buffer_wrap(fixture.device, words.words, 256, &handle) == GD_OK)
    var op = try fixture.linear(rows: 2, inFeatures: 8, outFeatures: 4)
    op.x.buffer = handle
    #expect(gd_encode_linear(fixture.device, &op) == GD_OK, "\(LastError())")
    guard case .linear(let linear)? = try fixture.committedOps().first else {
      Issue.record("no op")
      return
    }
    #expect(linear.x.pointer == UnsafeMutableRawPointer(words.words) && linear.x.memory.isWrapped)
    let wide = UInt64(largestBuffer)
    let end = UnsafeMutableRawPointer(bitPattern: UInt.max - 63)
    #expect(gd_buffer_wrap(fixture.device, end, wide, &handle) == GD_ERROR_SHAPE)
  }

  /// Two handles of one memory: the overlap is seen by address.
  @Test func overlapsAreSeenThroughHandles() throws {
    let fixture = try Fixture()
    let words = SharedWords(256)
    var (first, second): (UInt64, UInt64) = (0, 0)
    #expect(gd_buffer_wrap(fixture.device, words.words, 512, &first) == GD_OK)
    #expect(gd_buffer_wrap(fixture.device, words.words + 64, 512, &second) == GD_OK)
    var norm = try fixture.gatedRMSNorm(tokens: 1, heads: 4, dim: 16, dtype: .f32)
    norm.z.buffer = first
    norm.out.buffer = second
    #expect(gd_encode_gated_rms_norm(fixture.device, &norm) == GD_OK, "side by side: \(LastError())")
    norm.z.offset = 32
    #expect(gd_encode_gated_rms_norm(fixture.device, &norm) == GD_ERROR_OVERLAP)
    #expect(LastError().argument == "out" && LastError().received == "an overlap with z")
    norm.out.buffer = try fixture.buffer(256).handle
    norm.x = norm.z
    #expect(gd_encode_gated_rms_norm(fixture.device, &norm) == GD_OK, "inputs may overlap: \(LastError())")
  }

  @Test func encodedAndPendingWorkHoldsReleasedMemory() throws {
    let fixture = try Fixture()
    var op = try fixture.linear()
    #expect(gd_encode_linear(fixture.device, &op) == GD_OK)
    for buffer in [op.x.buffer, op.weight.buffer, op.out.buffer] { #expect(gd_buffer_release(buffer) == GD_OK) }
    #expect(fixture.backend.liveMemories == 3, "encoded")
    _ = fixture.commit()
    #expect(fixture.backend.liveMemories == 3, "pending")
    #expect(gd_encode_linear(fixture.device, &op) == GD_ERROR_HANDLE)
    fixture.backend.next()?.finish(nil)
    #expect(fixture.backend.liveMemories == 0, "finished")
  }

  @Test func deallocatingIsReleasing() throws {
    let fixture = try Fixture()
    let (handle, pointer) = try fixture.buffer(64)
    gd_buffer_deallocate(pointer, UnsafeMutableRawPointer(bitPattern: UInt(handle)))
    #expect(fixture.backend.liveMemories == 0)
    #expect(gd_buffer_release(handle) == GD_ERROR_HANDLE)
    gd_buffer_deallocate(pointer, UnsafeMutableRawPointer(bitPattern: UInt(handle)))
  }

  @Test func buffersOutliveTheirDevice() throws {
    let fixture = try Fixture()
    let (handle, pointer) = try fixture.buffer(64)
    #expect(gd_device_close(fixture.device) == GD_OK)
    pointer.storeBytes(of: 5, as: UInt8.self)
    #expect(pointer.load(as: UInt8.self) == 5 && fixture.backend.liveMemories == 1)
    #expect(gd_buffer_release(handle) == GD_OK && fixture.backend.liveMemories == 0)
  }
}
