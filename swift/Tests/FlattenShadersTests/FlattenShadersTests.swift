import Testing

@testable import FlattenShaders

#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

@Suite struct FlattenShadersTests {
  /// A new folder with these files; it ends with the test.
  final class Folder {
    let path: String
    private let names: [String]

    init(_ files: [String: String]) throws {
      var template = Array("/tmp/flatten-shaders-XXXXXX".utf8CString)
      path = String(cString: try #require(mkdtemp(&template)))
      names = Array(files.keys)
      for (name, text) in files {
        let file = try #require(fopen("\(path)/\(name)", "w"))
        fputs(text, file)
        fclose(file)
      }
    }

    deinit {
      for name in names { unlink("\(path)/\(name)") }
      rmdir(path)
    }

    func flattened(_ names: String...) throws -> String {
      var flat = FlatText()
      for name in names { try flat.append(name, of: path) }
      return flat.text
    }
  }

  @Test func aHeaderStandsWhereItIsFirstIncluded() throws {
    let folder = try Folder([
      "a.metal": "#include <metal_stdlib>\n  # include \"b.h\"\nkernel a\n#include \"c.h\"\n",
      "b.h": "#pragma once\n#include \"c.h\"\nb",
      "c.h": "// not #include \"d.h\"",
      "e.metal": "#include \"b.h\"\nkernel e",
    ])
    #expect(
      try folder.flattened("a.metal", "e.metal") == """
        #line 1 "shaders/a.metal"
        #include <metal_stdlib>
        #line 1 "shaders/b.h"
        #pragma once
        #line 1 "shaders/c.h"
        // not #include "d.h"
        #line 3 "shaders/b.h"
        b
        #line 3 "shaders/a.metal"
        kernel a


        #line 1 "shaders/e.metal"

        kernel e

        """)
  }

  @Test func aMissingHeaderIsNamed() throws {
    let folder = try Folder(["a.metal": "#include \"b.h\"\n"])
    #expect(throws: FlattenError(message: "\(folder.path)/b.h: cannot be opened")) { try folder.flattened("a.metal") }
  }

  @Test func theCommandTakesAnOutputAndFiles() throws {
    #expect(throws: FlattenError(message: "usage: FlattenShaders [--text] OUTPUT FILE...")) {
      try FlattenShaders.run(["only.swift"])
    }
    #expect(throws: FlattenError(message: "usage: FlattenShaders [--text] OUTPUT FILE...")) {
      try FlattenShaders.run(["--text", "folder"])
    }
    let folder = try Folder([
      "a.metal": "#include \"h.h\"\nkernel a", "b.metal": "// b\n#include \"h.h\"\nkernel b", "h.h": "header", "out.swift": "",
    ])
    try FlattenShaders.run(["\(folder.path)/out.swift", "\(folder.path)/a.metal", "\(folder.path)/b.metal"])
    let made = try folder.flattened("out.swift")
    // The header's text is there once; lines that begin a file or follow a header are pieces, too.
    #expect(made.split(separator: "#line 1 \"shaders/h.h\"").count == 2)
    #expect(made.contains("  \"a\": [0, 1, 2, 3],\n  \"b\": [4, 1, 5, 6],\n"))
    #expect(made.contains("##\"\"\"\n#line 1 \"shaders/h.h\"\nheader\n\n\"\"\"##,\n"))
    try FlattenShaders.run(["--text", folder.path, "\(folder.path)/b.metal"])
    let text = "#line 1 \"shaders/b.metal\"\n// b\n#line 1 \"shaders/h.h\"\nheader\n#line 3 \"shaders/b.metal\"\nkernel b\n"
    #expect(try folder.flattened("b.metal") == "#line 1 \"shaders/b.metal\"\n\(text)\n")
    #expect(throws: FlattenError(message: "\(folder.path)/no/out.swift: cannot be opened")) {
      try FlattenShaders.run(["\(folder.path)/no/out.swift", "\(folder.path)/a.metal"])
    }
  }
}
