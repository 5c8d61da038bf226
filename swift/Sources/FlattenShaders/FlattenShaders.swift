// FlattenShaders OUTPUT FILE...: writes the shader files as one text, a raw string, into the Swift file OUTPUT. Metal's runtime
// compiler resolves no includes of a project's own, and `swift build` does not compile .metal files. The EmbedShaders plugin
// runs this in every build, so it does without Foundation: linking that takes longer than everything else here. SwiftPM builds
// a plugin's tools when it plans: after a change of this file, touch Package.swift.
#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

struct FlattenError: Error, Equatable {
  let message: String
}

/// Shader files as one text: each project header in the place of its first `#include`, once. `#line` keeps the compiler's
/// messages true.
struct FlatText {
  private(set) var text = ""
  private var seen: Set<String> = []

  /// Appends `name` of `folder`, unless it is there already; headers are looked up in the same folder.
  mutating func append(_ name: String, of folder: String) throws {
    guard seen.insert(name).inserted else { return }
    text += "#line 1 \"shaders/\(name)\"\n"
    let lines = try readFile("\(folder)/\(name)").split(separator: "\n", omittingEmptySubsequences: false)
    for (index, line) in lines.enumerated() {
      if let header = included(by: line) {
        if seen.contains(header) {
          text += "\n"
        } else {
          try append(header, of: folder)
          text += "#line \(index + 2) \"shaders/\(name)\"\n"
        }
      } else {
        text += "\(line)\n"
      }
    }
  }

  /// `params.h` for `#include "params.h"`; nil for every other line, among them `#include <metal_stdlib>`.
  private func included(by line: Substring) -> String? {
    let parts = line.split(separator: "\"", omittingEmptySubsequences: false)
    guard parts.count == 3, parts[0].filter({ $0 != " " && $0 != "\t" }) == "#include" else { return nil }
    return String(parts[1])
  }

  /// The text as a Swift file, without newlines at its end.
  var swiftFile: String {
    var text = text
    while text.last?.isNewline == true { text.removeLast() }
    return """
      // Generated from shaders/ by FlattenShaders, as a part of the build.

      /// Every kernel, as Metal's runtime compiler takes it.
      let kernelSource = ##\"""
      \(text)
      \"""##

      """
  }
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
    guard let output = arguments.first, arguments.count > 1 else {
      throw FlattenError(message: "usage: FlattenShaders OUTPUT FILE...")
    }
    var flat = FlatText()
    for path in arguments.dropFirst() {
      guard let slash = path.lastIndex(of: "/") else {
        try flat.append(path, of: ".")
        continue
      }
      try flat.append(String(path[path.index(after: slash)...]), of: String(path[..<slash]))
    }
    // Left alone if it is the same, so that nothing else is built again.
    if (try? readFile(output)) != flat.swiftFile { try writeFile(output, flat.swiftFile) }
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
