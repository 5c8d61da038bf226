/// A text made of several files, whose places the `#line` markers give. Text before the first marker belongs to a file without a name.
struct ShaderText {
  static let known = Texts { ShaderText($0) }

  /// By file and number. Lines that only included a file are empty or missing.
  private var lines: [Substring: [Int: Substring]] = [:]

  init(_ text: String) {
    var (file, number): (Substring, Int) = ("", 1)
    for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
      let words = line.split(separator: " ")
      if words.count == 3, words[0] == "#line", let next = Int(words[1]) {
        file = words[2].dropFirst().dropLast()
        number = next
      } else {
        if !line.isEmpty { lines[file, default: [:]][number] = line }
        number += 1
      }
    }
  }

  /// The names of its files.
  var files: Set<String> { Set(lines.keys.map(String.init)) }

  /// The first place where one of this text's files differs in another text; nil if that text has them all unchanged.
  func difference(from other: ShaderText) -> String? {
    if lines.isEmpty { return "its first line" }
    for (file, own) in lines.sorted(by: { $0.key < $1.key }) {
      let wanted = other.lines[file] ?? [:]
      let last = max(own.keys.max() ?? 0, wanted.keys.max() ?? 0)
      for number in 1...max(last, 1) where own[number] != wanted[number] {
        return file.isEmpty ? "its line \(number)" : "\(file), line \(number)"
      }
    }
    return nil
  }
}
