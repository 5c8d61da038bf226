import CGatedDelta
import GatedDeltaTypes
import Testing

@testable import GatedDelta

@Suite struct DescriptorTests {
  @Test func nullIsRefused() throws {
    let fixture = try Fixture()
    #expect(gd_encode_gated_delta(fixture.device, nil) == GD_ERROR_INVALID_ARGUMENT)
    #expect(gd_encode_causal_conv1d(fixture.device, nil) == GD_ERROR_INVALID_ARGUMENT)
    #expect(gd_encode_gated_rms_norm(fixture.device, nil) == GD_ERROR_INVALID_ARGUMENT)
    #expect(gd_encode_gated_delta_step(fixture.device, nil) == GD_ERROR_INVALID_ARGUMENT)
    #expect(gd_encode_linear(fixture.device, nil) == GD_ERROR_INVALID_ARGUMENT)
    #expect(gd_encode_commit_gated_delta(fixture.device, nil) == GD_ERROR_INVALID_ARGUMENT)
    #expect(gd_encode_commit_causal_conv1d(fixture.device, nil) == GD_ERROR_INVALID_ARGUMENT)
    #expect(gd_encode_gated_delta_net_inplace(fixture.device, nil) == GD_ERROR_INVALID_ARGUMENT)
    #expect(gd_encode_gated_delta_net_inplace_ids(fixture.device, nil) == GD_ERROR_INVALID_ARGUMENT)
    #expect(gd_encode_ssm_conv_update_inplace(fixture.device, nil) == GD_ERROR_INVALID_ARGUMENT)
    #expect(gd_encode_ssm_conv_update_inplace_ids(fixture.device, nil) == GD_ERROR_INVALID_ARGUMENT)
    #expect(LastError().op == "ssmConvUpdateInplaceIds" && LastError().argument == "descriptor")
    #expect(gd_encode_copy_slots(fixture.device, nil) == GD_ERROR_INVALID_ARGUMENT)
    #expect(LastError().op == "copySlots" && LastError().argument == "descriptor")
    #expect(gd_device_open(nil, nil) == GD_ERROR_INVALID_ARGUMENT)
    #expect(gd_device_describe(fixture.device, nil) == GD_ERROR_INVALID_ARGUMENT)
    #expect(gd_buffer_create(fixture.device, 8, nil, nil) == GD_ERROR_INVALID_ARGUMENT)
    #expect(gd_buffer_wrap(fixture.device, nil, 8, nil) == GD_ERROR_INVALID_ARGUMENT)
    #expect(gd_plan_create(fixture.device, nil) == GD_ERROR_INVALID_ARGUMENT)
    #expect(gd_commit(fixture.device, nil) == GD_OK)
  }

  @Test func sizesAndVersionsOfOtherHeadersAreRefused() throws {
    let fixture = try Fixture()
    let valid = try fixture.linear()
    for size in [0, 1, 8, UInt32(MemoryLayout<gd_linear>.size) - 1, 4097, .max] {
      var op = valid
      op.size = size
      #expect(gd_encode_linear(fixture.device, &op) == GD_ERROR_INVALID_ARGUMENT)
      #expect(LastError().argument == "size" && LastError().received == "\(size)")
    }
    for version in [0, 2, UInt32.max] {
      var op = valid
      op.version = version
      #expect(gd_encode_linear(fixture.device, &op) == GD_ERROR_INVALID_ARGUMENT)
      #expect(LastError().argument == "version")
    }
  }

  @Test func aLaterHeadersDescriptorIsGoodWhileItsNewPartIsZero() throws {
    let fixture = try Fixture()
    let known = MemoryLayout<gd_linear>.size
    // Deliberately off by one byte: alignment is not required.
    let bytes = UnsafeMutableRawPointer.allocate(byteCount: known + 17, alignment: 8)
    defer { bytes.deallocate() }
    let start = bytes + 1
    var op = try fixture.linear()
    op.size = UInt32(known + 16)
    start.initializeMemory(as: UInt8.self, repeating: 0, count: known + 16)
    start.copyMemory(from: &op, byteCount: known)
    let pointer = start.assumingMemoryBound(to: gd_linear.self)
    #expect(gd_encode_linear(fixture.device, pointer) == GD_OK)
    (start + known + 9).storeBytes(of: 1, as: UInt8.self)
    #expect(gd_encode_linear(fixture.device, pointer) == GD_ERROR_INVALID_ARGUMENT)
    #expect(LastError().argument == "size" && LastError().received.contains("byte \(known + 9)"))
    #expect(try fixture.committedOps().count == 1)
  }

  @Test func describingADeviceFillsInEverything() throws {
    let fixture = try Fixture()
    var info = gd_device_info()
    info.size = UInt32(MemoryLayout<gd_device_info>.size)
    #expect(gd_device_describe(fixture.device, &info) == GD_ERROR_INVALID_ARGUMENT)
    #expect(LastError().argument == "version" && info.status == nil)
    info.version = 1
    #expect(gd_device_describe(fixture.device, &info) == GD_OK)
    #expect(info.backend == UInt32(GD_BACKEND_CPU) && info.emulated == 1 && info.threads == 3)
    let name = withUnsafeBytes(of: &info.name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    #expect(name == "Ein Gerät")
    let status = try #require(info.status)
    #expect(status[0] == 0 && status[1] == 0)
  }

  @Test func longTextsAreCutBetweenCharacters() {
    var bytes = [UInt8](repeating: 0xff, count: 8)
    bytes.withUnsafeMutableBytes { copyCString("abcdé€", to: $0) }
    #expect(bytes == Array("abcdé\0\0".utf8))
    bytes.withUnsafeMutableBytes { copyCString("ab\0cd", to: $0) }
    #expect(bytes == Array("ab\0\0\0\0\0\0".utf8))
    bytes.withUnsafeMutableBytes { copyCString("", to: $0) }
    #expect(bytes == [UInt8](repeating: 0, count: 8))
  }

  @Test func backendsAndThreadsOutsideTheirLimitsAreRefused() {
    var options = gd_device_options(size: UInt32(MemoryLayout<gd_device_options>.size), version: 1, backend: 3, threads: 0)
    var device: UInt64 = 77
    #expect(gd_device_open(&options, &device) == GD_ERROR_INVALID_ARGUMENT)
    #expect(LastError().argument == "backend" && device == 77)
    options.backend = UInt32(GD_BACKEND_CPU)
    options.threads = 1025
    #expect(gd_device_open(&options, &device) == GD_ERROR_INVALID_ARGUMENT)
    #expect(LastError().argument == "threads" && device == 77)
  }
}
