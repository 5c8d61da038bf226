// FlattenShaders OUTPUT FILE...: writes the text of each shader file with its headers into the Swift file OUTPUT, as raw strings.
// FlattenShaders --text FOLDER FILE...: writes these texts as files. Metal's runtime compiler resolves no includes of a project's
// own, and `swift build` does not compile .metal files. The EmbedShaders plugin runs this in every build, so it does without
// Foundation: linking that takes longer than everything else here. SwiftPM builds a plugin's tools when it plans: after a change
// of this file, touch Package.swift.
#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

struct FlattenError: Error, Equatable {
  let message: String
}

/// A shader file as one text: each project header in the place of its first `#include`, once. `#line` keeps the compiler's
/// messages true. The text is in pieces, each of one file, so that several files' texts can share those of their headers.
struct FlatText {
  private(set) var pieces: [String] = []
  private var piece = ""
  private var seen: Set<String> = []

  var text: String { pieces.joined() }

  /// Appends `name` of `folder`, unless it is there already; headers are looked up in the same folder.
  mutating func append(_ name: String, of folder: String) throws {
    guard seen.insert(name).inserted else { return }
    piece += "#line 1 \"shaders/\(name)\"\n"
    let lines = try readFile("\(folder)/\(name)").split(separator: "\n", omittingEmptySubsequences: false)
    for (index, line) in lines.enumerated() {
      if let header = included(by: line) {
        end()
        if seen.contains(header) {
          pieces.append("\n")
        } else {
          try append(header, of: folder)
          pieces.append("#line \(index + 2) \"shaders/\(name)\"\n")
        }
      } else {
        piece += "\(line)\n"
      }
    }
    end()
  }

  private mutating func end() {
    if !piece.isEmpty { pieces.append(piece) }
    piece = ""
  }

  /// `params.h` for `#include "params.h"`; nil for every other line, among them `#include <metal_stdlib>`.
  private func included(by line: Substring) -> String? {
    let parts = line.split(separator: "\"", omittingEmptySubsequences: false)
    guard parts.count == 3, parts[0].filter({ $0 != " " && $0 != "\t" }) == "#include" else { return nil }
    return String(parts[1])
  }

}

/// Several shader files as a Swift file.
struct ShaderTexts {
  private(set) var pieces: [String] = []
  private(set) var files: [(name: String, pieces: [Int])] = []
  private var known: [String: Int] = [:]

  /// - Parameter name: of the file, without `.metal`.
  mutating func append(_ name: String, _ flat: FlatText) {
    let numbers = flat.pieces.map { piece in
      if let number = known[piece] { return number }
      known[piece] = pieces.count
      pieces.append(piece)
      return pieces.count - 1
    }
    files.append((name, numbers))
  }

  var swiftFile: String {
    var file = """
      // Generated from shaders/ by FlattenShaders, as a part of the build.

      /// The text of each shader file, as the numbers of its pieces.
      let shaderFiles: [String: [Int]] = [

      """
    for (name, numbers) in files { file += "  \"\(name)\": \(numbers),\n" }
    file += "]\n\n/// The pieces of the texts: a header's are in those of all files that include it.\nlet shaderPieces: [String] = [\n"
    // The newline before the closing delimiter is none of the string's: each piece ends with one of its own.
    for piece in pieces { file += "##\"\"\"\n\(piece)\n\"\"\"##,\n" }
    return file + "]\n"
  }
}

/// The part of a path after its last slash, and the part before it.
private func split(_ path: String) -> (folder: String, name: String) {
  guard let slash = path.lastIndex(of: "/") else { return (".", path) }
  return (String(path[..<slash]), String(path[path.index(after: slash)...]))
}

private func readFile(_ path: String) throws -> String {
  guard let file = fopen(path, "r") else { throw FlattenError(message: "\(path): cannot be opened") }
  defer { fclose(file) }
  var bytes: [UInt8] = []
  var block = [UInt8](repeating: 0, count: 1 << 16)
  while case let count = fread(&block, 1, block.count, file), count > 0 { bytes += block[..<count] }
  guard ferror(file) == 0, let text = String(validating: bytes, as: UTF8.self) else {
    throw FlattenError(message: "\(path): cannot be read as UTF-8")
  }
  return text
}

private func writeFile(_ path: String, _ text: String) throws {
  guard let file = fopen(path, "w") else { throw FlattenError(message: "\(path): cannot be opened") }
  let written = fputs(text, file) >= 0
  guard fclose(file) == 0, written else { throw FlattenError(message: "\(path): cannot be written") }
}

@main
enum FlattenShaders {
  static func run(_ arguments: some Collection<String>) throws {
    let asText = arguments.first == "--text"
    let rest = arguments.dropFirst(asText ? 1 : 0)
    guard let output = rest.first, rest.count > 1 else {
      throw FlattenError(message: "usage: FlattenShaders [--text] OUTPUT FILE...")
    }
    var texts = ShaderTexts()
    for path in rest.dropFirst() {
      let (folder, name) = split(path)
      var flat = FlatText()
      try flat.append(name, of: folder)
      if asText { try writeFile("\(output)/\(name)", flat.text) }
      texts.append(name.hasSuffix(".metal") ? String(name.dropLast(6)) : name, flat)
    }
    if asText { return }
    // Left alone if it is the same, so that nothing else is built again.
    let file = texts.swiftFile
    if (try? readFile(output)) != file { try writeFile(output, file) }
  }

  static func main() {
    do {
      try run(CommandLine.arguments.dropFirst())
    } catch {
      print("error: \((error as? FlattenError)?.message ?? "\(error)")")
      exit(1)
    }
  }
}
