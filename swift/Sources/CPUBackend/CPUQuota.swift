#if os(Linux)
  import Glibc

  /// The share of the processors that control groups leave to this process, such as a container's limit on cores.
  ///
  /// A process is in one group of each hierarchy (/proc/self/cgroup), which a file system shows (/proc/self/mountinfo).
  /// Version 2 has `cpu.max` ("max 100000" or "quota period", in microseconds), version 1 `cpu.cfs_quota_us` (-1 for no
  /// limit) and `cpu.cfs_period_us`. A group has no more time than the groups around it.
  enum CPUQuota {
    /// Rounded up to whole cores; nil if there is no limit.
    ///
    /// - Parameter root: in tests, a folder that replaces the root of the file system.
    static func cores(root: String = "") -> Int? {
      let groups = lines(root + "/proc/self/cgroup").compactMap(Group.init)
      let mounts = lines(root + "/proc/self/mountinfo").compactMap(Mount.init)
      var least: Double?
      for mount in mounts {
        guard let group = groups.first(where: { $0.version == mount.version }) else { continue }
        for folder in mount.folders(of: group.path) {
          guard let quota = mount.version.quota(in: root + folder) else { continue }
          least = min(least ?? quota, quota)
        }
      }
      return least.map { max(1, Int(min($0, 1e6).rounded(.up))) }
    }

    private enum Version {
      case one, two

      /// Processor time for each unit of time.
      func quota(in folder: String) -> Double? {
        let quota: Double?
        let period: Double?
        switch self {
        case .one:
          quota = lines(folder + "/cpu.cfs_quota_us").first.flatMap { Double($0) }
          period = lines(folder + "/cpu.cfs_period_us").first.flatMap { Double($0) }
        case .two:
          let words = lines(folder + "/cpu.max").first?.split(separator: " ") ?? []
          quota = words.first.flatMap { Double($0) }
          period = words.count > 1 ? Double(words[1]) : 100_000
        }
        guard let quota, let period, quota > 0, period > 0 else { return nil }
        return quota / period
      }
    }

    /// A line of /proc/self/cgroup: `5:cpu,cpuacct:/path`, or `0::/path` for version 2.
    private struct Group {
      let version: Version
      let path: Substring

      init?(_ line: Substring) {
        let parts = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 3 else { return nil }
        if parts[1].isEmpty {
          version = .two
        } else if parts[1].split(separator: ",").contains("cpu") {
          version = .one
        } else {
          return nil
        }
        path = parts[2]
      }
    }

    /// A line of /proc/self/mountinfo: number, parent, device, root, mount point, options, ... - type, source, options.
    private struct Mount {
      let version: Version
      /// The group that the mount point shows.
      let root: Substring
      let point: Substring

      init?(_ line: Substring) {
        let fields = line.split(separator: " ")
        guard let dash = fields.firstIndex(of: "-"), dash >= 6, fields.count >= dash + 4 else { return nil }
        switch fields[dash + 1] {
        case "cgroup2": version = .two
        case "cgroup" where fields[dash + 3].split(separator: ",").contains("cpu"): version = .one
        default: return nil
        }
        root = fields[3]
        point = fields[4]
      }

      /// The folders of a group and of its ancestors that are visible here. A group elsewhere is not visible; only the
      /// mount point is used then.
      func folders(of path: Substring) -> [String] {
        var names = path.split(separator: "/")
        let shown = root.split(separator: "/")
        if names.starts(with: shown) { names.removeFirst(shown.count) } else { names = [] }
        if names.contains("..") { names = [] }
        return (0...names.count).map { point + names[..<$0].map { "/" + $0 }.joined() }
      }
    }

    /// The lines of a small file; none if it cannot be read.
    private static func lines(_ path: String) -> [Substring] {
      guard let file = fopen(path, "re") else { return [] }
      defer { fclose(file) }
      var bytes = [UInt8](repeating: 0, count: 1 << 20)
      let count = fread(&bytes, 1, bytes.count, file)
      return String(decoding: bytes[..<count], as: UTF8.self).split(separator: "\n")
    }
  }
#endif
