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

/// The most pieces of a joined buffer: one per expert.
private let mostPieces: UInt64 = 4096

@_cdecl("gd_buffer_join")
public func joinBuffers(
  _ handle: UInt64, _ pieces: UnsafePointer<gd_piece>?, _ count: UInt64, _ bytes: UInt64,
  _ result: UnsafeMutablePointer<UInt64>?
) -> gd_status {
  boundary("bufferJoin") { () throws(Failure) in
    let device = try Caller.device(handle)
    let pieces = try Caller.require(pieces, "pieces")
    let result = try Caller.require(result, "buffer")
    guard count >= 1, count <= mostPieces else {
      throw Failure(.range, argument: "count", expected: "1..\(mostPieces)", received: "\(count)")
    }
    guard bytes >= 1, bytes <= largestBuffer else {
      throw Failure(.shape, argument: "bytes", expected: "1..\(largestBuffer)", received: "\(bytes)")
    }
    let joined = try gather(UnsafeBufferPointer(start: pieces, count: Int(count)), Int(bytes), device)
    result.pointee = try register(device.backend.join(joined), device)
    try Caller.state().hasForeign = true
    return GD_OK
  }
}

/// Looks the pieces' buffers up, and checks where the pieces lie.
private func gather(
  _ pieces: UnsafeBufferPointer<gd_piece>, _ bytes: Int, _ device: Device
) throws(Failure) -> JoinedPieces {
  let table = HandleTable.shared
  table.lock()
  defer { table.unlock() }
  var buffers: [Memory] = []
  var gathered: [JoinedPieces.Piece] = []
  for (index, piece) in pieces.enumerated() {
    let buffer = try table.buffer(piece.buffer, "pieces[\(index)].buffer")
    guard buffer.device == device.serial, case .mapped = buffer.memory.origin else {
      throw Failure(
        .handle, argument: "pieces[\(index)].buffer", expected: "a window of a file, mapped for the same device",
        received: "another buffer")
    }
    let available = UInt64(buffer.memory.byteCount)
    guard piece.offset <= available, UInt64(bytes) <= available &- piece.offset else {
      throw Failure(
        .range, argument: "pieces[\(index)].offset", expected: "\(bytes) bytes inside its buffer of \(available) bytes",
        received: "offset \(piece.offset)")
    }
    guard piece.offset % 4 == pieces[0].offset % 4 else {
      throw Failure(
        .range, argument: "pieces[\(index)].offset", expected: "the remainder by 4 of the first, \(pieces[0].offset % 4)",
        received: "\(piece.offset % 4)")
    }
    let known = buffers.firstIndex { $0 === buffer.memory }
    if known == nil { buffers.append(buffer.memory) }
    gathered.append(JoinedPieces.Piece(buffer: known ?? buffers.count &- 1, offset: Int(piece.offset)))
  }
  guard buffers.count <= Int(GD_JOINED_BUFFERS) else {
    throw Failure(
      .unsupported, argument: "pieces", expected: "pieces of at most \(GD_JOINED_BUFFERS) buffers", received: "of \(buffers.count)")
  }
  return JoinedPieces(buffers: buffers, pieces: gathered, bytesEach: bytes)
}
