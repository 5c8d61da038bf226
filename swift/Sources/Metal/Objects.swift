/// The roots of Apple's object model that these declarations need, and Metal's classes.

public protocol NSObjectProtocol: AnyObject {}

open class NSObject: NSObjectProtocol {
  public init() {}
}

/// How a library is compiled. The emulation's kernels are compiled beforehand, so it only checks the options.
public class MTLCompileOptions: NSObject {
  public var mathMode: MTLMathMode = .fast
  public var mathFloatingPointFunctions: MTLMathFloatingPointFunctions = .fast
  public var languageVersion: MTLLanguageVersion = .version4_1
}

/// The name and the initial size of a set; nothing here depends on them.
public class MTLResidencySetDescriptor: NSObject {}

/// Values for `[[function_constant(n)]]`, kept with the type that they were given as: a wrong one is an error.
public class MTLFunctionConstantValues: NSObject {
  struct Value {
    var type: MTLDataType
    var bytes: [UInt8]
  }
  private(set) var values: [Int: Value] = [:]

  public func setConstantValue(_ value: UnsafeRawPointer, type: MTLDataType, index: Int) {
    let bytes = [UInt8](UnsafeRawBufferPointer(start: value, count: type.size))
    values[index] = Value(type: type, bytes: bytes)
  }
}

extension MTLDataType {
  var size: Int { self == .bool ? 1 : 4 }
  var shaderName: StaticString {
    switch self {
    case .uint: "uint"
    case .bool: "bool"
    }
  }
}

/// Nothing is autoreleased here.
public func autoreleasepool<E, Result>(invoking body: () throws(E) -> Result) throws(E) -> Result
where E: Error, Result: ~Copyable {
  try body()
}
