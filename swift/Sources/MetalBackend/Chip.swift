import Metal

#if canImport(IOKit)
  import CoreFoundation
  import IOKit
#endif

/// The facts about a GPU on which the choice of kernels depends. No bit depends on them.
struct Chip {
  /// The GPU's cores; nil if they are not known.
  let cores: Int?

  /// With this many threadgroups or fewer, the cores have at most two each: variants with more registers, which wait less, cost
  /// no occupancy there. If the number of cores is not known, two for each of an M chip's 16.
  var fewThreadgroups: Int { 2 * (cores ?? 16) }
}

#if canImport(IOKit)
  /// The GPU's cores, from the system's registry of devices: Metal does not report them.
  func cores(of device: any MTLDevice) -> Int? {
    var iterator: io_iterator_t = 0
    guard let matching = IOServiceMatching("AGXAccelerator"),
      IOServiceGetMatchingServices(kIOMainPortDefault, matching, &iterator) == KERN_SUCCESS
    else { return nil }
    defer { IOObjectRelease(iterator) }
    let service = IOIteratorNext(iterator)
    guard service != 0 else { return nil }
    defer { IOObjectRelease(service) }
    let key = CFStringCreateWithCString(kCFAllocatorDefault, "gpu-core-count", CFStringBuiltInEncodings.UTF8.rawValue)
    guard let property = IORegistryEntryCreateCFProperty(service, key, kCFAllocatorDefault, 0)?.takeRetainedValue(),
      CFGetTypeID(property) == CFNumberGetTypeID()
    else { return nil }
    var cores: Int32 = 0
    guard CFNumberGetValue(unsafeDowncast(property, to: CFNumber.self), .sInt32Type, &cores), cores > 0 else { return nil }
    return Int(cores)
  }
#else
  func cores(of device: any MTLDevice) -> Int? { emulatedCores(of: device) }
#endif
