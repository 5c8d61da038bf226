import CGatedDelta
import GatedDeltaTypes

/// The most windows of one file: far more than any file needs.
private let mostWindows: UInt64 = 65536

@_cdecl("gd_file_map")
public func mapFile(
  _ handle: UInt64, _ descriptor: Int32, _ path: UnsafePointer<CChar>?, _ windows: UnsafeMutablePointer<gd_window>?,
  _ count: UInt64
) -> gd_status {
  boundary("fileMap") { () throws(Failure) in
    let device = try Caller.device(handle)
    let path = try Caller.require(path, "path")
    let windows = try Caller.require(windows, "windows")
    guard count >= 1, count <= mostWindows else {
      throw Failure(.range, argument: "count", expected: "1..\(mostWindows)", received: "\(count)")
    }
    let file = try MappedFile(duplicating: descriptor, path: String(cString: path))
    var memories: [Memory] = []
    for index in 0..<Int(count) {
      let window = windows[index]
      try check(window, index, file, device)
      memories.append(try device.backend.map(FileWindow(of: file, offset: window.offset, byteCount: Int(window.bytes))))
    }
    var handles: [UInt64] = []
    do throws(Failure) {
      for memory in memories { handles.append(try register(memory, device)) }
    } catch {
      for handle in handles { _ = HandleTable.shared.take(Handle(rawValue: handle)) }
      throw error
    }
    for (index, memory) in memories.enumerated() {
      windows[index].buffer = handles[index]
      windows[index].pointer = UnsafeRawPointer(memory.pointer)
    }
    try Caller.state().hasForeign = true
    return GD_OK
  }
}

private func check(_ window: gd_window, _ index: Int, _ file: MappedFile, _ device: Device) throws(Failure) {
  guard window.offset % UInt64(FileWindow.alignment) == 0 else {
    throw Failure(
      .range, argument: "windows[\(index)].offset", expected: "a multiple of \(FileWindow.alignment)",
      received: "\(window.offset)")
  }
  let largest = min(largestBuffer, UInt64(device.backend.largestBuffer))
  guard window.bytes >= 1, window.bytes <= largest else {
    throw Failure(
      .shape, argument: "windows[\(index)].bytes", expected: "1..\(largest)", received: "\(window.bytes)")
  }
  guard window.offset <= file.byteCount, window.bytes <= file.byteCount &- window.offset else {
    throw Failure(
      .file, argument: file.path, expected: "a file of at least \(window.offset) + \(window.bytes) bytes",
      received: "\(file.byteCount)")
  }
}
