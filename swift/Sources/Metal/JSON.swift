/// The part of JSON that `emu_reflection` uses: no fractions, no exponents, only one-character escapes.
enum JSON {
  case object([String: JSON])
  case array([JSON])
  case string(String)
  case number(Int)
  case bool(Bool)
  case null

  init?(_ text: String) {
    var parser = Parser(text: Array(text.utf8))
    guard let value = parser.value(), parser.isAtEnd else { return nil }
    self = value
  }

  subscript(key: String) -> JSON? {
    if case .object(let members) = self { members[key] } else { nil }
  }
  var elements: [JSON] { if case .array(let elements) = self { elements } else { [] } }
  var text: String? { if case .string(let text) = self { text } else { nil } }
  var integer: Int? { if case .number(let number) = self { number } else { nil } }
  var flag: Bool? { if case .bool(let flag) = self { flag } else { nil } }
}

private struct Parser {
  let text: [UInt8]
  var at = 0

  init(text: [UInt8]) { self.text = text }

  var isAtEnd: Bool {
    mutating get {
      skipSpace()
      return at == text.count
    }
  }

  private mutating func skipSpace() {
    while at < text.count, text[at] == 0x20 || text[at] == 0x09 || text[at] == 0x0a || text[at] == 0x0d { at += 1 }
  }

  private mutating func take(_ character: Unicode.Scalar) -> Bool {
    skipSpace()
    guard at < text.count, text[at] == UInt8(ascii: character) else { return false }
    at += 1
    return true
  }

  private mutating func take(word: StaticString) -> Bool {
    let bytes = word.withUTF8Buffer { Array($0) }
    guard text[at...].starts(with: bytes) else { return false }
    at += bytes.count
    return true
  }

  mutating func value() -> JSON? {
    skipSpace()
    guard at < text.count else { return nil }
    switch text[at] {
    case UInt8(ascii: "{"): return object()
    case UInt8(ascii: "["): return array()
    case UInt8(ascii: "\""): return string().map { .string($0) }
    case UInt8(ascii: "t"): return take(word: "true") ? .bool(true) : nil
    case UInt8(ascii: "f"): return take(word: "false") ? .bool(false) : nil
    case UInt8(ascii: "n"): return take(word: "null") ? .null : nil
    default: return number()
    }
  }

  private mutating func object() -> JSON? {
    var members: [String: JSON] = [:]
    guard take("{") else { return nil }
    if take("}") { return .object(members) }
    repeat {
      skipSpace()
      guard let key = string(), take(":"), let value = value() else { return nil }
      members[key] = value
    } while take(",")
    return take("}") ? .object(members) : nil
  }

  private mutating func array() -> JSON? {
    var elements: [JSON] = []
    guard take("[") else { return nil }
    if take("]") { return .array(elements) }
    repeat {
      guard let value = value() else { return nil }
      elements.append(value)
    } while take(",")
    return take("]") ? .array(elements) : nil
  }

  private mutating func string() -> String? {
    guard take("\"") else { return nil }
    var bytes: [UInt8] = []
    while at < text.count {
      let byte = text[at]
      at += 1
      if byte == UInt8(ascii: "\"") { return String(decoding: bytes, as: UTF8.self) }
      if byte == UInt8(ascii: "\\") {
        guard at < text.count else { return nil }
        bytes.append(text[at])
        at += 1
      } else {
        bytes.append(byte)
      }
    }
    return nil
  }

  private mutating func number() -> JSON? {
    let start = at
    while at < text.count, text[at] == UInt8(ascii: "-") || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(text[at]) {
      at += 1
    }
    return Int(String(decoding: text[start..<at], as: UTF8.self)).map { .number($0) }
  }
}
