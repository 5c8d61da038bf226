// Generated from gated_delta.h: change that header and run `node swift/scripts/layout.mjs` again.

extension WeightFormat {
  public var layout: WeightLayout {
    switch self {
    case .f32:
      WeightLayout(elements: 1, bytes: 4, dtype: .f32, kernel: "f32")
    case .f16:
      WeightLayout(elements: 1, bytes: 2, dtype: .f16, kernel: "f16")
    case .bf16:
      WeightLayout(elements: 1, bytes: 2, dtype: .bf16, kernel: "bf16")
    case .affine2G32:
      WeightLayout(elements: 32, bytes: 8, dtype: .u32, kernel: "affine2", scales: .floats, biases: .floats)
    case .affine2G64:
      WeightLayout(elements: 64, bytes: 16, dtype: .u32, kernel: "affine2", scales: .floats, biases: .floats)
    case .affine2G128:
      WeightLayout(elements: 128, bytes: 32, dtype: .u32, kernel: "affine2", scales: .floats, biases: .floats)
    case .affine3G32:
      WeightLayout(elements: 32, bytes: 12, dtype: .u32, kernel: "affine3", scales: .floats, biases: .floats)
    case .affine3G64:
      WeightLayout(elements: 64, bytes: 24, dtype: .u32, kernel: "affine3", scales: .floats, biases: .floats)
    case .affine3G128:
      WeightLayout(elements: 128, bytes: 48, dtype: .u32, kernel: "affine3", scales: .floats, biases: .floats)
    case .affine4G32:
      WeightLayout(elements: 32, bytes: 16, dtype: .u32, kernel: "affine4", scales: .floats, biases: .floats)
    case .affine4G64:
      WeightLayout(elements: 64, bytes: 32, dtype: .u32, kernel: "affine4", scales: .floats, biases: .floats)
    case .affine4G128:
      WeightLayout(elements: 128, bytes: 64, dtype: .u32, kernel: "affine4", scales: .floats, biases: .floats)
    case .affine5G32:
      WeightLayout(elements: 32, bytes: 20, dtype: .u32, kernel: "affine5", scales: .floats, biases: .floats)
    case .affine5G64:
      WeightLayout(elements: 64, bytes: 40, dtype: .u32, kernel: "affine5", scales: .floats, biases: .floats)
    case .affine5G128:
      WeightLayout(elements: 128, bytes: 80, dtype: .u32, kernel: "affine5", scales: .floats, biases: .floats)
    case .affine6G32:
      WeightLayout(elements: 32, bytes: 24, dtype: .u32, kernel: "affine6", scales: .floats, biases: .floats)
    case .affine6G64:
      WeightLayout(elements: 64, bytes: 48, dtype: .u32, kernel: "affine6", scales: .floats, biases: .floats)
    case .affine6G128:
      WeightLayout(elements: 128, bytes: 96, dtype: .u32, kernel: "affine6", scales: .floats, biases: .floats)
    case .affine8G32:
      WeightLayout(elements: 32, bytes: 32, dtype: .u32, kernel: "affine8", scales: .floats, biases: .floats)
    case .affine8G64:
      WeightLayout(elements: 64, bytes: 64, dtype: .u32, kernel: "affine8", scales: .floats, biases: .floats)
    case .affine8G128:
      WeightLayout(elements: 128, bytes: 128, dtype: .u32, kernel: "affine8", scales: .floats, biases: .floats)
    case .q40:
      WeightLayout(elements: 32, bytes: 18, dtype: .u8, kernel: "ggml")
    case .q41:
      WeightLayout(elements: 32, bytes: 20, dtype: .u8, kernel: "ggml", variant: 1)
    case .q50:
      WeightLayout(elements: 32, bytes: 22, dtype: .u8, kernel: "ggml", variant: 2)
    case .q51:
      WeightLayout(elements: 32, bytes: 24, dtype: .u8, kernel: "ggml", variant: 3)
    case .q80:
      WeightLayout(elements: 32, bytes: 34, dtype: .u8, kernel: "ggml", variant: 4)
    case .q2K:
      WeightLayout(elements: 256, bytes: 84, dtype: .u8, kernel: "ggml", variant: 5)
    case .q3K:
      WeightLayout(elements: 256, bytes: 110, dtype: .u8, kernel: "ggml", variant: 6)
    case .q4K:
      WeightLayout(elements: 256, bytes: 144, dtype: .u8, kernel: "ggml", variant: 7)
    case .q5K:
      WeightLayout(elements: 256, bytes: 176, dtype: .u8, kernel: "ggml", variant: 8)
    case .q6K:
      WeightLayout(elements: 256, bytes: 210, dtype: .u8, kernel: "ggml", variant: 9)
    case .iq4Nl:
      WeightLayout(elements: 32, bytes: 18, dtype: .u8, kernel: "ggml", variant: 10)
    case .iq4Xs:
      WeightLayout(elements: 256, bytes: 136, dtype: .u8, kernel: "ggml", variant: 11)
    case .ggufMxfp4:
      WeightLayout(elements: 32, bytes: 17, dtype: .u8, kernel: "ggml", variant: 12)
    case .mxfp4:
      WeightLayout(elements: 32, bytes: 16, dtype: .u32, kernel: "micro4", scales: .only(.u8))
    case .mxfp8:
      WeightLayout(elements: 32, bytes: 32, dtype: .u32, kernel: "micro8", scales: .only(.u8))
    case .nvfp4:
      WeightLayout(elements: 16, bytes: 8, dtype: .u32, kernel: "micro4", scales: .only(.u8))
    }
  }
}
