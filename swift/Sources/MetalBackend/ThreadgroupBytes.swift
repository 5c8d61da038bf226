import ShaderParams

/// Threadgroup memory of the chunked kernels, as the heads of their files state it.
enum ThreadgroupBytes {
  static func chunkPrepare(keyDim: Int, perKey: Bool) -> Int { 0 }
  static func chunkScan(keyDim: Int, perKey: Bool) -> Int { 0 }
}
