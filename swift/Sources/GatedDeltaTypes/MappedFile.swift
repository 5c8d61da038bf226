#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

/// A file with windows that are mapped for reading. A kernel reads whatever the file holds at that moment, so `check`
/// compares the file with the one that was mapped.
public final class MappedFile: Sendable {
  /// For messages.
  public let path: String
  private let descriptor: Int32
  private let stamp: Stamp

  /// Keeps a duplicate of the descriptor, so that the caller can close its own.
  public init(duplicating given: Int32, path: String) throws(Failure) {
    let descriptor = fcntl(given, F_DUPFD_CLOEXEC, 0)
    guard descriptor >= 0 else {
      let received = errno == EMFILE ? "none: this process has as many files open as it may" : MappedFile.reason()
      throw Failure(.file, argument: path, expected: "a descriptor of an open file", received: received)
    }
    var status = stat()
    guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
      MappedFile.end(descriptor)
      throw Failure(.file, argument: path, expected: "a regular file", received: "another kind of file")
    }
    self.path = path
    self.descriptor = descriptor
    stamp = Stamp(status)
  }

  deinit { MappedFile.end(descriptor) }

  /// In bytes, when it was mapped.
  public var byteCount: UInt64 { stamp.byteCount }

  /// Throws if the file has changed since it was mapped: cut, written to, replaced, renamed. It takes one system call.
  public func check() throws(Failure) {
    var status = stat()
    guard fstat(descriptor, &status) == 0 else {
      throw Failure(.file, argument: path, expected: "the file that was mapped", received: MappedFile.reason())
    }
    let now = Stamp(status)
    if now == stamp { return }
    let received = now.byteCount == stamp.byteCount
      ? "a file that was written to, replaced, renamed or linked since" : "a file of \(now.byteCount) bytes"
    throw Failure(
      .file, argument: path, expected: "the unchanged file that was mapped, of \(stamp.byteCount) bytes",
      received: received)
  }

  fileprivate func map(_ address: UnsafeMutableRawPointer, offset: UInt64, byteCount: Int) -> Bool {
    mmap(address, byteCount, PROT_READ, MAP_SHARED | MAP_FIXED, descriptor, off_t(offset)) == address
  }

  fileprivate static func reason() -> String { String(cString: strerror(errno)) }

  private static func end(_ descriptor: Int32) { _ = close(descriptor) }
}

/// Properties by which versions of a file differ. Programs cannot set the change time.
private struct Stamp: Equatable {
  let byteCount: UInt64
  let modified, changed: timespec
  let device: dev_t
  let inode: ino_t

  init(_ status: stat) {
    byteCount = UInt64(clamping: status.st_size)
    #if canImport(Darwin)
      (modified, changed) = (status.st_mtimespec, status.st_ctimespec)
    #else
      (modified, changed) = (status.st_mtim, status.st_ctim)
    #endif
    (device, inode) = (status.st_dev, status.st_ino)
  }

  static func == (a: Stamp, b: Stamp) -> Bool {
    a.byteCount == b.byteCount && a.modified.tv_sec == b.modified.tv_sec && a.modified.tv_nsec == b.modified.tv_nsec
      && a.changed.tv_sec == b.changed.tv_sec && a.changed.tv_nsec == b.changed.tv_nsec && a.device == b.device
      && a.inode == b.inode
  }
}

/// A range of a file in the process's address space, for reading only. The system loads its pages when they are first
/// read, shares them with other processes, and may drop them again. Unmapped when the last reference is gone.
public final class FileWindow: @unchecked Sendable {
  /// Offsets in the file and addresses are multiples of this, as are the lengths that are mapped: Apple silicon's page,
  /// and a multiple of the others.
  public static let alignment = 16384

  public let file: MappedFile
  public let pointer: UnsafeMutableRawPointer
  public let byteCount: Int
  private let reserved: UnsafeMutableRawPointer
  private let reservedBytes: Int

  /// Checked by the caller: `offset` is a multiple of the alignment, and the range is not empty and inside the file.
  public init(of file: MappedFile, offset: UInt64, byteCount: Int) throws(Failure) {
    let length = (byteCount + FileWindow.alignment - 1) / FileWindow.alignment * FileWindow.alignment
    // If address and offset agree in their lowest bits, the system can map whole huge pages of its cache.
    let grain = length >= FileWindow.hugePage ? FileWindow.hugePage : FileWindow.alignment
    reservedBytes = length + grain
    guard let reserved = mmap(nil, reservedBytes, PROT_NONE, MAP_PRIVATE | FileWindow.anonymous, -1, 0),
      reserved != MAP_FAILED
    else {
      throw Failure(
        .outOfMemory, argument: file.path, expected: "addresses for \(byteCount) bytes of it", received: MappedFile.reason())
    }
    let skipped = (UInt(offset) &- UInt(bitPattern: reserved)) % UInt(grain)
    let pointer = reserved + Int(skipped)
    guard file.map(pointer, offset: offset, byteCount: length) else {
      let reason = MappedFile.reason()
      munmap(reserved, reservedBytes)
      throw Failure(.file, argument: file.path, expected: "a file that can be mapped", received: reason)
    }
    #if os(Linux)
      // Read from disk and mapped in huge pages, if the file system has them in its cache.
      if length >= FileWindow.hugePage { madvise(pointer, length, MADV_HUGEPAGE) }
    #endif
    self.file = file
    self.pointer = pointer
    self.byteCount = byteCount
    self.reserved = reserved
  }

  deinit { munmap(reserved, reservedBytes) }

  private static let hugePage = 2 << 20
  #if canImport(Darwin)
    private static let anonymous = MAP_ANON
  #else
    private static let anonymous = Int32(MAP_ANONYMOUS)
  #endif
}
