import Glibc

/// The folder `swift` of the repository.
let swiftFolder = String(#filePath.prefix(upTo: #filePath.range(of: "/Tests/MetalTests/").lowerBound))

extension String {
  /// The last occurrence; tests have no Foundation. Traps if there is none, as a test may.
  fileprivate func range(of part: String) -> Range<String.Index> {
    var start = endIndex
    while start > startIndex {
      start = index(before: start)
      if self[start...].hasPrefix(part) { return start..<index(start, offsetBy: part.count) }
    }
    preconditionFailure("\(self) has no \(part)")
  }
}

func readFile(_ path: String) -> String? {
  guard let file = fopen(path, "rb") else { return nil }
  defer { fclose(file) }
  var bytes: [UInt8] = []
  var piece = [UInt8](repeating: 0, count: 65536)
  while true {
    let count = fread(&piece, 1, piece.count, file)
    if count == 0 { break }
    bytes += piece[..<count]
  }
  return String(decoding: bytes, as: UTF8.self)
}

/// Names in a folder, sorted.
func listFolder(_ path: String) -> [String] {
  guard let folder = opendir(path) else { return [] }
  defer { closedir(folder) }
  var names: [String] = []
  while let entry = readdir(folder) {
    names.append(withUnsafeBytes(of: &entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) })
  }
  return names.filter { !$0.hasPrefix(".") }.sorted()
}
