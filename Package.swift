// swift-tools-version: 6.0
import PackageDescription

/// Contraction off: every fused multiply-add of a kernel is written as one, so that bits do not depend on the compiler.
let exact: [CSetting] = [.unsafeFlags(["-std=c17", "-O3", "-ffp-contract=off", "-fno-math-errno", "-Wall", "-Wextra"])]

/// The kernels, an object for each instruction set. `npm test` names the folder of the release build's objects: tests are then linked
/// with those, which are what is published, and nothing is compiled a second time.
let instructionSets = [
  "avx2", "avx512", "avx512bf16", "baseline", "neon", "int8_amx", "int8_avx2", "int8_avx512", "int8_avx512vnni", "int8_avxvnni", "int8_baseline",
  "int8_neon", "int8_neondot",
]
let built = Context.environment["GATED_DELTA_KERNELS"].map { folder in
  instructionSets.map { "\(folder)/isa_\($0).c.o" }
}
let kernels: Target = .target(
  name: "CPUKernels", path: "swift/Sources/CPUKernels", sources: built == nil ? nil : ["items.c", "platform.c"],
  cSettings: exact, linkerSettings: built.map { [.unsafeFlags($0)] })

/// A published library lacks the files and exports that only tests need (packages/link.mjs).
let isPublished = Context.environment["GATED_DELTA_PUBLISHED"] != nil
func forTests(_ files: String...) -> [String] { isPublished ? files : [] }

/// Only the functions of the header are visible, not the Swift runtime inside. On Linux, the library also stays loaded
/// whatever its host does: a Swift runtime does not survive `dlclose`.
let boundary = Context.packageDirectory + "/swift/Sources/CGatedDelta/" + (isPublished ? "published" : "exports")
let visibility: [LinkerSetting] = [
  .unsafeFlags(
    ["-Xlinker", "--version-script=\(boundary).map", "-Xlinker", "-z", "-Xlinker", "nodelete"],
    .when(platforms: [.linux])),
  .unsafeFlags(
    ["-Xlinker", "-exported_symbols_list", "-Xlinker", "\(boundary).txt"], .when(platforms: [.macOS])),
]

/// The compiled Metal kernels that a published library holds (packages/metallib.mjs): Platform.swift finds the section.
let metallib: [LinkerSetting] = Context.environment["GATED_DELTA_METALLIB"].map { path in
  let words = ["-sectcreate", "__TEXT", "__metallib", path]
  return [.unsafeFlags(words.flatMap { ["-Xlinker", $0] }, .when(platforms: [.macOS]))]
} ?? []

/// For references and random numbers, which tests compute by the million. The tests themselves, most of whose code runs once, would take
/// several times as long to compile as they gain.
let optimised: [SwiftSetting] = [.unsafeFlags(["-O"])]

/// A section for each function, so that packages/link.mjs can leave out parts of a file.
let separate: [SwiftSetting] = [.unsafeFlags(["-Xfrontend", "-function-sections"])]

// The Metal path. Linux has no Metal: a module of that name emulates the part of it that the backend uses. On a Mac it
// must not exist, since it would hide Apple's.
#if os(Linux)
  let emulation: [Target] = [
    .target(name: "CEmulator", path: "swift/Sources/CEmulator", exclude: forTests("emulator_loader.c")),
    .target(
      name: "Metal", dependencies: ["CEmulator"], path: "swift/Sources/Metal",
      exclude: ["apple-api.txt"] + forTests("Emulation.swift"), swiftSettings: separate),
    .testTarget(name: "MetalTests", dependencies: ["Metal", "CEmulator"], path: "swift/Tests/MetalTests"),
  ]
  let backend: [Target.Dependency] = ["GatedDeltaTypes", "ShaderParams", "Threading", "Metal"]
  let backendTests: [Target.Dependency] = [
    "MetalBackend", "CPUBackend", "GatedDeltaTypes", "KernelReferences", "ShaderParams", "Metal", "CEmulator",
  ]
#else
  let emulation: [Target] = []
  let backend: [Target.Dependency] = ["GatedDeltaTypes", "ShaderParams", "Threading"]
  let backendTests: [Target.Dependency] = ["MetalBackend", "CPUBackend", "GatedDeltaTypes", "KernelReferences", "ShaderParams"]
#endif

/// Without CoreGraphics, a process that draws nothing gets no Metal device.
let frameworks: [LinkerSetting] = [.linkedFramework("CoreGraphics", .when(platforms: [.macOS]))]

let package = Package(
  name: "GatedDelta",
  platforms: [.macOS(.v15)],
  products: [
    .library(name: "GatedDelta", type: .dynamic, targets: ["GatedDeltaLibrary"])
  ],
  targets: [
    // The boundary, hand-written: see include/gated_delta.h.
    .target(name: "CGatedDelta", path: "swift/Sources/CGatedDelta", exclude: ["exports.map", "exports.txt", "published.map", "published.txt"]),
    // Validated ops and the protocol of a backend: all that the core and the backends share.
    .target(name: "GatedDeltaTypes", path: "swift/Sources/GatedDeltaTypes"),
    // A lock, the clock and threads, for the core and the backends.
    .target(name: "Threading", path: "swift/Sources/Threading"),
    kernels,
    .target(
      name: "CPUBackend", dependencies: ["CPUKernels", "GatedDeltaTypes", "Threading"],
      path: "swift/Sources/CPUBackend"),
    // Structs and sizes that the host shares with the kernels: shaders/params.h.
    .target(name: "ShaderParams", path: "swift/Sources/ShaderParams"),
    .target(
      name: "MetalBackend", dependencies: backend, path: "swift/Sources/MetalBackend", exclude: forTests("Emulate.swift"),
      linkerSettings: frameworks, plugins: ["EmbedShaders"]),
    // The kernels' text, which the Metal backend compiles at run time: written by the build.
    .executableTarget(name: "FlattenShaders", path: "swift/Sources/FlattenShaders"),
    .plugin(
      name: "EmbedShaders", capability: .buildTool(), dependencies: ["FlattenShaders"], path: "swift/Plugins/EmbedShaders",
      exclude: ["shaders"]),
    .target(
      name: "GatedDelta",
      dependencies: ["CGatedDelta", "GatedDeltaTypes", "Threading", "CPUBackend", "MetalBackend"],
      path: "swift/Sources/GatedDelta", exclude: forTests("Exports/Testing.swift")),
    .target(
      name: "GatedDeltaLibrary", dependencies: ["GatedDelta"], path: "swift/Sources/GatedDeltaLibrary",
      linkerSettings: visibility + metallib),
    .target(
      name: "KernelReferences", dependencies: ["CPUBackend", "GatedDeltaTypes"], path: "swift/Tests/KernelReferences",
      swiftSettings: optimised),
    .testTarget(
      name: "CPUKernelsTests", dependencies: ["CPUKernels", "CPUBackend", "GatedDeltaTypes", "KernelReferences", "Threading"],
      path: "swift/Tests/CPUKernelsTests"),
    .testTarget(
      name: "GatedDeltaTests", dependencies: ["GatedDelta", "GatedDeltaTypes", "CGatedDelta", "CPUBackend", "Threading"],
      path: "swift/Tests/GatedDeltaTests"),
    .testTarget(
      name: "FlattenShadersTests", dependencies: ["FlattenShaders"], path: "swift/Tests/FlattenShadersTests"),
    .testTarget(name: "MetalBackendTests", dependencies: backendTests, path: "swift/Tests/MetalBackendTests"),
  ],
  swiftLanguageModes: [.v6]
)
package.targets += emulation
