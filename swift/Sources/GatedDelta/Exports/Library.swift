import CGatedDelta

/// The package's version; package.json has the same.
let libraryVersion: StaticString = "0.1.0"

private let noText: StaticString = ""

@_cdecl("gd_abi_version")
public func abiVersion() -> UInt32 { UInt32(GD_ABI_VERSION) }

@_cdecl("gd_version")
public func version() -> UnsafePointer<CChar>? { cString(libraryVersion) }

@_cdecl("gd_last_error")
public func lastError(_ which: UInt32) -> UnsafePointer<CChar>? {
  guard let text = ThreadState.Text(rawValue: which), let state = ThreadState.current else { return cString(noText) }
  return state.text(text)
}

/// A literal is stored with a zero at its end.
private func cString(_ literal: StaticString) -> UnsafePointer<CChar> {
  UnsafeRawPointer(literal.utf8Start).assumingMemoryBound(to: CChar.self)
}
