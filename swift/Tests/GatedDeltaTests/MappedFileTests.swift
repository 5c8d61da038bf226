import CGatedDelta
import GatedDeltaTypes
import Testing
import Threading

@testable import GatedDelta

#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

/// A temporary file of bytes that count up, open for reading and writing.
final class CountingFile {
  let path: String
  let descriptor: Int32
  let byteCount: Int

  init(_ byteCount: Int) throws {
    var template = Array("/tmp/gated-delta-mapped-XXXXXX".utf8CString)
    descriptor = mkstemp(&template)
    try #require(descriptor >= 0)
    path = template.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
    self.byteCount = byteCount
    let bytes = (0..<byteCount).map { UInt8(truncatingIfNeeded: $0) }
    try #require(pwrite(descriptor, bytes, byteCount, 0) == byteCount)
  }

  deinit {
    close(descriptor)
    unlink(path)
  }

  /// Whether this process has the file mapped.
  var isMapped: Bool {
    guard let maps = fopen("/proc/self/maps", "r") else { return false }
    defer { fclose(maps) }
    var line = [CChar](repeating: 0, count: 4096)
    while fgets(&line, 4096, maps) != nil {
      if line.withUnsafeBufferPointer({ String(cString: $0.baseAddress!) }).contains(path) { return true }
    }
    return false
  }
}

extension Fixture {
  func map(_ file: CountingFile, _ ranges: (offset: UInt64, bytes: UInt64)...) throws -> [gd_window] {
    var windows = ranges.map { gd_window(offset: $0.offset, bytes: $0.bytes, buffer: 0, pointer: nil) }
    try #require(gd_file_map(device, file.descriptor, file.path, &windows, UInt64(windows.count)) == GD_OK, "\(LastError())")
    return windows
  }
}

@Suite struct MappedFileTests {
  @Test func windowsShowTheFile() throws {
    let fixture = try Fixture()
    let file = try CountingFile(100_001)
    let windows = try fixture.map(file, (0, 100_001), (32768, 1), (16384, 40_000))
    for window in windows {
      let pointer = try #require(window.pointer)
      #expect(UInt(bitPattern: pointer) % 16384 == 0)
      for at in [0, window.bytes / 2, window.bytes - 1] {
        #expect(pointer.load(fromByteOffset: Int(at), as: UInt8.self) == UInt8(truncatingIfNeeded: window.offset + at))
      }
    }
    #expect(Set(windows.map(\.buffer)).count == 3 && file.isMapped)
    for window in windows { #expect(gd_buffer_release(window.buffer) == GD_OK) }
    #expect(!file.isMapped && gd_buffer_release(windows[0].buffer) == GD_ERROR_HANDLE)
  }

  @Test func wrongWindowsAreRefusedAndNothingIsMapped() throws {
    let fixture = try Fixture()
    let file = try CountingFile(40_000)
    func status(_ offset: UInt64, _ bytes: UInt64, _ descriptor: Int32? = nil) -> gd_status {
      var windows = [
        gd_window(offset: 0, bytes: 5, buffer: 0, pointer: nil), gd_window(offset: offset, bytes: bytes, buffer: 0, pointer: nil),
      ]
      let status = gd_file_map(fixture.device, descriptor ?? file.descriptor, file.path, &windows, 2)
      #expect(windows.allSatisfy { $0.buffer == 0 && $0.pointer == nil })
      return status
    }
    #expect(status(4096, 5) == GD_ERROR_RANGE && LastError().argument == "windows[1].offset")
    #expect(status(0, 0) == GD_ERROR_SHAPE && LastError().argument == "windows[1].bytes")
    #expect(status(0, largestBuffer + 1) == GD_ERROR_SHAPE)
    #expect(status(0, 40_001) == GD_ERROR_FILE && LastError().argument == file.path)
    #expect(status(1 << 62, 1) == GD_ERROR_FILE)
    #expect(status(0, 5, -1) == GD_ERROR_FILE && status(0, 5, 99_999) == GD_ERROR_FILE)
    var pipes: [Int32] = [0, 0]
    try #require(pipe(&pipes) == 0)
    #expect(status(0, 5, pipes[0]) == GD_ERROR_FILE && LastError().expected == "a regular file")
    for end in pipes { close(end) }
    var window = gd_window(offset: 0, bytes: 5, buffer: 0, pointer: nil)
    #expect(gd_file_map(fixture.device, file.descriptor, nil, &window, 1) == GD_ERROR_INVALID_ARGUMENT)
    #expect(gd_file_map(fixture.device, file.descriptor, file.path, nil, 1) == GD_ERROR_INVALID_ARGUMENT)
    #expect(gd_file_map(fixture.device, file.descriptor, file.path, &window, 0) == GD_ERROR_RANGE)
    #expect(gd_file_map(fixture.device, file.descriptor, file.path, &window, .max) == GD_ERROR_RANGE)
    #expect(!file.isMapped && fixture.backend.liveMemories == 0)
  }

  @Test func pendingWorkKeepsAReleasedWindow() throws {
    let fixture = try Fixture()
    let file = try CountingFile(4096)
    let window = try fixture.map(file, (0, 4096))[0]
    var op = try fixture.linear()
    op.weight.buffer = window.buffer
    op.weight.offset = 5  // at any byte
    #expect(gd_encode_linear(fixture.device, &op) == GD_OK, "\(LastError())")
    #expect(gd_buffer_release(window.buffer) == GD_OK && file.isMapped, "encoded")
    _ = fixture.commit()
    #expect(file.isMapped, "pending")
    fixture.backend.next()?.finish(nil)
    #expect(!file.isMapped, "finished")
  }

  @Test func joinedPiecesKeepTheirFiles() throws {
    let fixture = try Fixture()
    let (file, other) = (try CountingFile(40_000), try CountingFile(5_000))
    let windows = try fixture.map(file, (0, 40_000), (16384, 20_000)) + fixture.map(other, (0, 5_000))
    let places: [(window: Int, offset: UInt64)] = [(0, 641), (2, 4357), (1, 5), (0, 39_357), (0, 1)]
    let pieces = places.map { gd_piece(buffer: windows[$0.window].buffer, offset: $0.offset) }
    var joined: UInt64 = 0
    try #require(gd_buffer_join(fixture.device, pieces, 5, 640, &joined) == GD_OK, "\(LastError())")
    for window in windows { #expect(gd_buffer_release(window.buffer) == GD_OK) }
    var op = try fixture.expertLinear()
    op.weight.buffer = joined
    #expect(gd_encode_expert_linear(fixture.device, &op) == GD_OK, "\(LastError())")
    let plan = try fixture.plan()
    #expect(gd_encode_expert_linear(plan, &op) == GD_OK)
    #expect(gd_buffer_release(joined) == GD_OK && gd_buffer_release(joined) == GD_ERROR_HANDLE)
    #expect(gd_plan_run(plan, nil) == GD_ERROR_HANDLE && LastError().argument == "weight")
    #expect(gd_plan_release(plan) == GD_OK && file.isMapped && other.isMapped, "encoded")
    _ = fixture.commit()
    #expect(file.isMapped && other.isMapped, "pending")
    fixture.backend.next()?.finish(nil)
    #expect(!file.isMapped && !other.isMapped, "finished")
  }

  @Test func joinedPiecesAreChecked() throws {
    let fixture = try Fixture()
    let file = try CountingFile(40_000)
    let windows = try fixture.map(file, (0, 40_000), (0, 1), (0, 2), (0, 3), (0, 4))
    let buffer = windows[0].buffer
    func status(_ pieces: [(UInt64, UInt64)], _ bytes: UInt64 = 1) -> gd_status {
      var joined: UInt64 = 77
      let list = pieces.map { gd_piece(buffer: $0.0, offset: $0.1) }
      let status = gd_buffer_join(fixture.device, list, UInt64(list.count), bytes, &joined)
      #expect(status == GD_OK || joined == 77)
      return status
    }
    #expect(status([]) == GD_ERROR_RANGE && LastError().argument == "count")
    #expect(status([(buffer, 0)], 0) == GD_ERROR_SHAPE && status([(buffer, 0)], .max) == GD_ERROR_SHAPE)
    #expect(LastError().argument == "bytes")
    #expect(status([(buffer, 0), (buffer, 39_998)], 3) == GD_ERROR_RANGE && LastError().argument == "pieces[1].offset")
    #expect(status([(buffer, .max)]) == GD_ERROR_RANGE && status([(buffer, 40_001)]) == GD_ERROR_RANGE)
    #expect(status([(buffer, 4), (buffer, 6)]) == GD_ERROR_RANGE && LastError().expected == "the remainder by 4 of the first, 0")
    #expect(status([(buffer, 0), (0, 0)]) == GD_ERROR_HANDLE && LastError().argument == "pieces[1].buffer")
    #expect(status([(try fixture.tensor(.f32, 4).buffer, 0)]) == GD_ERROR_HANDLE)
    #expect(LastError().expected == "a window of a file, mapped for the same device")
    #expect(status(windows.map { ($0.buffer, 0) }) == GD_ERROR_UNSUPPORTED && LastError().received == "of 5")
    var joined: UInt64 = 0
    #expect(gd_buffer_join(fixture.device, nil, 1, 1, &joined) == GD_ERROR_INVALID_ARGUMENT)
    var piece = gd_piece(buffer: buffer, offset: 0)
    #expect(gd_buffer_join(fixture.device, &piece, 1, 1, nil) == GD_ERROR_INVALID_ARGUMENT)
    #expect(gd_buffer_join(fixture.device, &piece, .max, 1, &joined) == GD_ERROR_RANGE)
    // Joined memory is no piece, and no other tensor.
    try #require(gd_buffer_join(fixture.device, &piece, 1, 320, &joined) == GD_OK)
    #expect(status([(joined, 0)]) == GD_ERROR_HANDLE)
    var op = try fixture.linear()
    op.weight.buffer = joined
    #expect(gd_encode_linear(fixture.device, &op) == GD_ERROR_INVALID_ARGUMENT && LastError().expected == "memory in one piece")
    var experts = try fixture.expertLinear()
    experts.weight.buffer = joined
    #expect(gd_encode_expert_linear(fixture.device, &experts) == GD_ERROR_SHAPE && LastError().argument == "weight")
    experts = try fixture.expertLinear()
    experts.scales.buffer = joined
    #expect(gd_encode_expert_linear(fixture.device, &experts) == GD_ERROR_INVALID_ARGUMENT && LastError().argument == "scales")
    experts = try fixture.expertLinear()
    experts.out.buffer = joined
    #expect(gd_encode_expert_linear(fixture.device, &experts) == GD_ERROR_INVALID_ARGUMENT && LastError().argument == "out")
  }

  /// Each change, and whether the file's length shows it.
  @Test(arguments: ["cut", "written", "renamed", "replaced", "touched"]) func aChangedFileIsRefused(_ change: String) throws {
    let fixture = try Fixture()
    let file = try CountingFile(4096)
    let other = try CountingFile(4096)
    let window = try fixture.map(file, (0, 4096))[0]
    var op = try fixture.linear()
    op.weight.buffer = window.buffer
    let plan = try fixture.plan()
    #expect(gd_encode_linear(plan, &op) == GD_OK && gd_plan_run(plan, nil) == GD_OK)
    #expect(gd_encode_linear(fixture.device, &op) == GD_OK)
    usleep(20_000)  // times of files are those of the last tick of a clock
    switch change {
    case "cut": try #require(ftruncate(file.descriptor, 100) == 0)
    case "written": try #require(pwrite(file.descriptor, "x", 1, 7) == 1)
    case "renamed": try #require(rename(file.path, file.path + "-other") == 0 && rename(file.path + "-other", file.path) == 0)
    case "replaced": try #require(rename(other.path, file.path) == 0)
    default: try #require(futimens(file.descriptor, nil) == 0)
    }
    var ticket: UInt64 = 77
    #expect(gd_commit(fixture.device, &ticket) == GD_ERROR_FILE && ticket == 77)
    #expect(LastError().argument == file.path && !LastError().received.isEmpty)
    #expect(gd_plan_run(plan, &ticket) == GD_ERROR_FILE && ticket == 77)
    #expect(fixture.backend.submissions.count == 1, "nothing was committed since")
    // The ops stay encoded until they are dropped; other work is not affected.
    #expect(gd_commit(fixture.device, &ticket) == GD_ERROR_FILE && gd_discard(fixture.device) == GD_OK)
    var plain = try fixture.linear()
    #expect(gd_encode_linear(fixture.device, &plain) == GD_OK)
    #expect(gd_commit(fixture.device, &ticket) == GD_OK && ticket == 2)
  }

  @Test func mappedMemoryIsReadOnlyByKernels() throws {
    let fixture = try Fixture()
    let file = try CountingFile(1 << 16)
    let window = try fixture.map(file, (0, 1 << 16))[0]
    var linear = try fixture.linear()
    linear.out.buffer = window.buffer
    #expect(gd_encode_linear(fixture.device, &linear) == GD_ERROR_INVALID_ARGUMENT && LastError().argument == "out")
    var delta = try fixture.gatedDelta()
    delta.state.buffer = window.buffer
    #expect(gd_encode_gated_delta(fixture.device, &delta) == GD_ERROR_INVALID_ARGUMENT && LastError().argument == "state")
    var copy = try fixture.copySlots()
    copy.read_slots = gd_index(buffer: window.buffer, offset: 0, pointer: nil, count: copy.read_slots.count)
    #expect(gd_encode_copy_slots(fixture.device, &copy) == GD_ERROR_INVALID_ARGUMENT && LastError().argument == "readSlots")
  }

  @Test func memoryIsCountedApart() throws {
    let fixture = try Fixture()
    let file = try CountingFile(50_000)
    func counts() -> [UInt64] {
      var (own, mapped): (UInt64, UInt64) = (0, 0)
      #expect(gd_device_memory(fixture.device, &own, &mapped) == GD_OK)
      return [own, mapped]
    }
    let before = counts()[0]
    let windows = try fixture.map(file, (0, 50_000), (16384, 10))
    var (handle, pointer): (UInt64, UnsafeMutableRawPointer?) = (0, nil)
    #expect(gd_buffer_create(fixture.device, 1000, &handle, &pointer) == GD_OK)
    let words = SharedWords(64)
    var wrapped: UInt64 = 0
    #expect(gd_buffer_wrap(fixture.device, words.words, 256, &wrapped) == GD_OK)
    #expect(counts() == [before + 1000, 50_010])
    for handle in [handle, wrapped, windows[1].buffer] { #expect(gd_buffer_release(handle) == GD_OK) }
    #expect(counts() == [before, 50_000])
    #expect(gd_buffer_release(windows[0].buffer) == GD_OK && counts() == [before, 0])
  }

  @Test func aThreadsEndReleasesItsWindows() throws {
    let file = try CountingFile(4096)
    let (path, descriptor) = (file.path, file.descriptor)
    let seen = Seen()
    #expect(
      startThread {
        do {
          let fixture = try Fixture()
          var window = gd_window(offset: 0, bytes: 4096, buffer: 0, pointer: nil)
          try #require(gd_file_map(fixture.device, descriptor, path, &window, 1) == GD_OK)
          seen.set(fixture)
        } catch {
          Issue.record(error)
        }
      })
    let fixture = seen.wait()
    let end = Clock.now + 20_000_000_000
    while fixture.backend.liveMemories > 0, Clock.now < end { _ = 0 }
    #expect(fixture.backend.liveMemories == 0)
  }
}
