/// A declaration and the type that it belongs to, `mtldevice` or `mtlcommandbuffererror/code`; empty at the top.
struct Declaration: Hashable, Comparable, CustomStringConvertible {
  var owner: String
  var text: String

  var description: String { owner.isEmpty ? text : "\(owner): \(text)" }
  static func < (a: Declaration, b: Declaration) -> Bool { (a.owner, a.text) < (b.owner, b.text) }
}

extension StringProtocol {
  func trimmed() -> String {
    String(drop { $0.isWhitespace }.reversed().drop { $0.isWhitespace }.reversed())
  }
}

extension String {
  /// One space wherever there is any, none inside parentheses' edges or before a colon.
  func normalised() -> String {
    split { $0.isWhitespace }.joined(separator: " ").replacing("( ", with: "(").replacing(" )", with: ")")
      .replacing(" : ", with: ": ")
  }

  /// Split at commas outside of parentheses and brackets.
  func arguments() -> [String] {
    var parts: [String] = [""]
    var depth = 0
    for character in self {
      if "([".contains(character) { depth += 1 }
      if ")]".contains(character) { depth -= 1 }
      if character == ",", depth == 0 { parts.append("") } else { parts[parts.count - 1].append(character) }
    }
    return parts.map { $0.trimmed() }.filter { !$0.isEmpty }
  }
}

/// The public declarations of a Swift source file that keeps to this project's style: no braces in strings, one
/// declaration a statement.
struct SourceParser {
  private enum Kind { case proto, enumeration, structure, object, addition, hidden }
  private let text: [Character]
  private var at = 0
  private var containers: [(name: String, kind: Kind)] = []
  private(set) var declarations: [Declaration] = []
  /// Members of `extension` blocks, which are separate from requirements.
  private(set) var additions: [Declaration] = []

  init(_ source: String) {
    text = Array(
      source.split(separator: "\n", omittingEmptySubsequences: false)
        .map { line in line.trimmed().hasPrefix("//") ? "" : String(line) }.joined(separator: "\n"))
    parse()
  }

  private mutating func parse() {
    var statement = ""
    var depth = 0
    while at < text.count {
      let character = text[at]
      at += 1
      switch character {
      case "(", "[": depth += 1; statement.append(character)
      case ")", "]": depth -= 1; statement.append(character)
      case "{" where depth == 0:
        begin(statement.normalised())
        statement = ""
      case "}" where depth == 0:
        end(statement.normalised())
        statement = ""
        if !containers.isEmpty { containers.removeLast() }
      case "\n" where depth == 0 && !continues:
        end(statement.normalised())
        statement = ""
      default: statement.append(character)
      }
    }
  }

  /// Whether the next line belongs to this statement.
  private var continues: Bool {
    let rest = String(text[at...].drop { $0.isWhitespace }.prefix(6))
    return rest.hasPrefix("where ") || rest.hasPrefix("{") || rest.hasPrefix("->")
  }

  private mutating func begin(_ statement: String) {
    for (keyword, kind) in [
      ("protocol", Kind.proto), ("enum", .enumeration), ("struct", .structure), ("class", .object),
      ("extension", .addition),
    ] {
      let words = statement.split(separator: " ")
      guard let position = words.firstIndex(of: Substring(keyword)), position + 1 < words.count else { continue }
      let name = String(words[position + 1].prefix { $0 != ":" })
      let isPublic = words.contains("public") || words.contains("open") || kind == .addition
      if isPublic, kind != .addition {
        // Conformances are only on the pages of protocols.
        // Every Objective-C protocol is a class's.
        let head = kind == .proto ? statement.replacing(": AnyObject", with: "") : "\(keyword) \(name)"
        add(head.replacing("public ", with: ""))
      }
      return containers.append((name.lowercased(), isPublic ? kind : .hidden))
    }
    let body = skipBody()
    let isAccessor = containers.last?.kind == .proto
    end(statement + (statement.contains("var ") ? (isAccessor ? " " + "{\(body)}".normalised() : " { get }") : ""))
  }

  /// From after `{` to after its `}`; what is between.
  private mutating func skipBody() -> String {
    var depth = 1
    var body = ""
    while at < text.count, depth > 0 {
      if text[at] == "{" { depth += 1 }
      if text[at] == "}" { depth -= 1 }
      if depth > 0 { body.append(text[at]) }
      at += 1
    }
    return body
  }

  private mutating func end(_ statement: String) {
    let kind = containers.last?.kind
    let isListed =
      statement.hasPrefix("public ") || kind == .proto || (kind == .enumeration && statement.hasPrefix("case "))
    guard isListed, kind != .hidden, !statement.isEmpty else { return }
    var text = statement.replacing("public ", with: "")
    if text.hasPrefix("var "), !text.contains("{") {
      // A stored property: its initial value does not matter, and a class's is an Objective-C property.
      text = String(text.split(separator: "=")[0]).trimmed() + (kind == .object ? " { get set }" : "")
    }
    add(text)
  }

  private mutating func add(_ text: String) {
    let declaration = Declaration(owner: containers.map(\.name).joined(separator: "/"), text: text)
    if containers.last?.kind == .addition { additions.append(declaration) } else { declarations.append(declaration) }
  }
}
