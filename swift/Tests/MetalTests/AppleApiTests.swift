import Metal
import Testing

/// The module offers what `apple-api.txt` lists, and nothing else.
@Suite struct AppleApiTests {
  /// Not in Apple's Metal: the reason why there is no device, and requirements of Swift's own protocols.
  static let ours: Set<Declaration> = [
    Declaration(owner: "", text: "func emulationProblem() -> String?"),
    Declaration(owner: "", text: "func emulatedCores(of device: any MTLDevice) -> Int?"),
    Declaration(owner: "", text: "func emulateMetal(kernels path: String)"),
    Declaration(owner: "mtlresourceoptions", text: "let rawValue: UInt"),
    Declaration(owner: "mtlbarrierscope", text: "let rawValue: UInt"),
    Declaration(owner: "mtlcommandbuffererror", text: "var description: String { get }"),
  ]

  /// A line of the list: Apple's text, with its default arguments.
  struct Entry {
    var page: String
    var declaration: Declaration

    init(page: String, text: String) {
      self.page = page
      let parts = page.split(separator: "/").dropFirst(2).map { part in
        part.hasSuffix("-swift.struct") || part.hasSuffix("-swift.class")
          ? String(part.prefix { $0 != "-" }) : String(part)
      }
      // A property on its type's page belongs to that type; all else lies below its owner.
      let isOnOwnersPage = parts.count == 1 && text.hasPrefix("var ")
      declaration = Declaration(
        owner: (isOnOwnersPage ? parts : parts.dropLast()).joined(separator: "/"), text: text.normalised())
    }

    private var parameters: (head: String, list: [String], tail: String)? {
      guard declaration.text.hasPrefix("func "), let open = declaration.text.firstIndex(of: "(") else { return nil }
      var depth = 0
      for index in declaration.text.indices[open...] {
        if declaration.text[index] == "(" { depth += 1 }
        if declaration.text[index] == ")" { depth -= 1 }
        guard depth == 0 else { continue }
        let inside = declaration.text[declaration.text.index(after: open)..<index]
        return (String(declaration.text[...open]), String(inside).arguments(), String(declaration.text[index...]))
      }
      return nil
    }

    /// Without default arguments, as a requirement has to be.
    var requirement: Declaration { form(dropping: []) }

    /// The shorter calls that the default arguments allow.
    var shorter: [Declaration] {
      let defaulted = (parameters?.list ?? []).indices.filter { parameters?.list[$0].contains(" = ") == true }
      return (1..<(1 << defaulted.count)).map { set in
        form(dropping: Set(defaulted.indices.filter { set >> $0 & 1 == 1 }.map { defaulted[$0] }))
      }
    }

    private func form(dropping: Set<Int>) -> Declaration {
      guard let (head, list, tail) = parameters else { return declaration }
      let kept = list.indices.filter { !dropping.contains($0) }.map { index in
        list[index].contains(" = ") ? String(list[index].prefix { $0 != "=" }).trimmed() : list[index]
      }
      return Declaration(owner: declaration.owner, text: head + kept.joined(separator: ", ") + tail)
    }
  }

  static func entries() throws -> [Entry] {
    let text = try #require(readFile(swiftFolder + "/Sources/Metal/apple-api.txt"))
    var entries: [Entry] = []
    var page = ""
    for line in text.split(separator: "\n") where !line.hasPrefix("#") {
      if line.hasPrefix("  ") {
        try #require(!page.isEmpty, "a declaration without a page: \(line)")
        entries.append(Entry(page: page, text: String(line).trimmed()))
        page = ""
      } else {
        try #require(page.isEmpty, "a page without a declaration: \(page)")
        page = String(line)
      }
    }
    return entries
  }

  static func module() -> (declarations: [Declaration], additions: [Declaration]) {
    let folder = swiftFolder + "/Sources/Metal/"
    let parsers = listFolder(folder).filter { $0.hasSuffix(".swift") }.compactMap { readFile(folder + $0) }
      .filter { source in
        source.split(separator: "\n").contains { $0.trimmed().hasPrefix("public ") || $0.hasPrefix("open ") }
      }.map { SourceParser($0) }
    return (parsers.flatMap(\.declarations), parsers.flatMap(\.additions))
  }

  @Test func everyDeclarationOfTheModuleIsListed() throws {
    let listed = Set(try Self.entries().map(\.requirement))
    let unlisted = Self.module().declarations.filter { !listed.contains($0) && !Self.ours.contains($0) }
    #expect(unlisted.isEmpty, "not in apple-api.txt, or not as there: \(unlisted.sorted())")
  }

  @Test func everyListedDeclarationIsInTheModule() throws {
    let module = Set(Self.module().declarations)
    let missing = try Self.entries().map(\.requirement).filter { !module.contains($0) }
    #expect(missing.isEmpty, "listed, but not in the module: \(missing.sorted())")
    #expect(Self.ours.isSubset(of: module))
  }

  @Test func everyShorterCallThatDefaultsAllowIsOffered() throws {
    let wanted = try Self.entries().flatMap(\.shorter).sorted()
    #expect(wanted.count == 4)
    #expect(Self.module().additions.sorted() == wanted)
  }

  @Test func pagesAreUniqueAndPlain() throws {
    let entries = try Self.entries()
    #expect(entries.count > 80)
    for entry in entries {
      #expect(["metal", "objectivec", "corefoundation", "dispatch"].contains { entry.page.hasPrefix("documentation/\($0)/") })
      #expect(entry.page == entry.page.lowercased() && !entry.page.contains(" "))
    }
    // A member's page is named after it.
    for entry in entries where entry.page.split(separator: "/").count > 3 {
      let name = entry.declaration.text.lowercased().replacing("`", with: "")
      let last = entry.page.split(separator: "/").last.map { $0.prefix { $0 != "(" } } ?? ""
      #expect(name.contains(last), "\(entry.page) is not the page of \(entry.declaration)")
    }
  }

  /// The comparison finds every kind of difference.
  @Test func theParserSeesDifferences() {
    let source = """
      /// A comment { with a brace.
      public protocol MTLThing: NSObjectProtocol, Sendable {
        var size: Int { get }
        func make(
          name: String, deallocator: (@Sendable (Int) -> Void)?
        ) throws -> any MTLThing
      }
      extension MTLThing {
        public func make() -> Int { [1].map { $0 }[0] }
      }
      struct Hidden {
        var a = 1
      }
      public enum Code: Sendable {
        case one
      }
      public class Options: NSObject {
        public var mode: Code = .one
        private var other = 2
      }
      """
    let parser = SourceParser(source)
    #expect(
      parser.declarations == [
        Declaration(owner: "", text: "protocol MTLThing: NSObjectProtocol, Sendable"),
        Declaration(owner: "mtlthing", text: "var size: Int { get }"),
        Declaration(
          owner: "mtlthing",
          text: "func make(name: String, deallocator: (@Sendable (Int) -> Void)?) throws -> any MTLThing"),
        Declaration(owner: "", text: "enum Code"), Declaration(owner: "code", text: "case one"),
        Declaration(owner: "", text: "class Options"),
        Declaration(owner: "options", text: "var mode: Code { get set }"),
      ])
    #expect(parser.additions == [Declaration(owner: "mtlthing", text: "func make() -> Int")])
  }
}
