// swift-tools-version: 6.0
import PackageDescription

/// Contraction off: every fused multiply-add of a kernel is written as one, so that bits do not depend on the compiler.
let exact: [CSetting] = [.unsafeFlags(["-std=c17", "-O3", "-ffp-contract=off", "-fno-math-errno", "-Wall", "-Wextra"])]

let package = Package(
  name: "GatedDelta",
  platforms: [.macOS(.v15)],
  products: [
    .library(name: "GatedDelta", type: .dynamic, targets: ["GatedDelta"])
  ],
  targets: [
    // The boundary, hand-written: see include/gated_delta.h.
    .target(name: "CGatedDelta", path: "swift/Sources/CGatedDelta"),
    // Validated ops and what a backend is: the one thing that the core and the backends share.
    .target(name: "GatedDeltaTypes", path: "swift/Sources/GatedDeltaTypes"),
    .target(name: "CPUKernels", path: "swift/Sources/CPUKernels", cSettings: exact),
    .target(name: "CPUBackend", dependencies: ["CPUKernels", "GatedDeltaTypes"], path: "swift/Sources/CPUBackend"),
    .target(
      name: "GatedDelta", dependencies: ["CGatedDelta", "GatedDeltaTypes", "CPUBackend"],
      path: "swift/Sources/GatedDelta"),
    .testTarget(
      name: "GatedDeltaTests", dependencies: ["GatedDelta", "GatedDeltaTypes", "CGatedDelta", "CPUBackend"],
      path: "swift/Tests/GatedDeltaTests"),
  ],
  swiftLanguageModes: [.v6]
)
