import Foundation
import PackagePlugin

/// Puts the kernels' text into a target: FlattenShaders writes the files of shaders/ into one Swift file, and again when one
/// of them changes. The link to shaders/ next to this file has SwiftPM plan again when a file is added or removed.
@main
struct EmbedShaders: BuildToolPlugin {
  func createBuildCommands(context: PluginContext, target: Target) throws -> [Command] {
    let shaders = context.package.directoryURL.appending(path: "shaders")
    let files = try FileManager.default.contentsOfDirectory(at: shaders, includingPropertiesForKeys: nil)
      .sorted { $0.lastPathComponent < $1.lastPathComponent }
    let kernels = files.filter { $0.pathExtension == "metal" }
    let output = context.pluginWorkDirectoryURL.appending(path: "KernelSource.swift")
    return [
      .buildCommand(
        displayName: "Flattening the shaders", executable: try context.tool(named: "FlattenShaders").url,
        arguments: [output.path()] + kernels.map { $0.path() }, inputFiles: files, outputFiles: [output])
    ]
  }
}
