#if os(Linux)
  import Glibc
  import Testing

  @testable import CPUBackend

  /// Limits of control groups, in folders laid out as containers and services see them.
  @Suite struct QuotaTests {
    /// Writes files under a new folder, which replaces the root.
    private func cores(_ files: [String: String]) throws -> Int? {
      var template = Array("/tmp/gated-delta-quota-XXXXXX".utf8CString)
      let root = String(cString: try #require(mkdtemp(&template)))
      defer { _ = system("rm -r '\(root)'") }
      for (path, text) in files {
        let folder = path.split(separator: "/").dropLast().joined(separator: "/")
        try #require(system("mkdir -p '\(root)/\(folder)'") == 0)
        let file = try #require(fopen(root + path, "w"))
        fputs(text, file)
        fclose(file)
      }
      return CPUQuota.cores(root: root)
    }

    private let two = "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
    private let one = "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"

    @Test func withoutGroupsThereIsNoLimit() throws {
      #expect(try cores([:]) == nil)
      #expect(try cores(["/proc/self/cgroup": "0::/\n", "/proc/self/mountinfo": two]) == nil)
      #expect(try cores(["/proc/self/cgroup": "nonsense\n\n1:2\n", "/proc/self/mountinfo": "- cgroup2\n1 2 3 4\n"]) == nil)
    }

    @Test(arguments: [
      ("max 100000", nil), ("200000 100000", 2), ("150000 100000", 2), ("10000 100000", 1), ("50000", 1), ("", nil),
      ("0 0", nil), ("-5 7", nil), ("800000 100000\n", 8),
    ] as [(String, Int?)])
    func aContainerHasOneFile(_ text: String, _ expected: Int?) throws {
      let files = ["/proc/self/cgroup": "0::/\n", "/proc/self/mountinfo": two, "/sys/fs/cgroup/cpu.max": text]
      #expect(try cores(files) == expected)
    }

    @Test func theStrictestOfTheGroupsAroundCounts() throws {
      let base = "/sys/fs/cgroup/user.slice"
      let files = [
        "/proc/self/cgroup": "0::/user.slice/job/part\n", "/proc/self/mountinfo": two, base + "/cpu.max": "300000 100000",
        base + "/job/cpu.max": "700000 100000", base + "/job/part/cpu.max": "max 100000",
        "/sys/fs/cgroup/other/cpu.max": "100000 100000",
      ]
      #expect(try cores(files) == 3)
    }

    @Test func versionOneHasTwoFiles() throws {
      let folder = "/sys/fs/cgroup/cpu,cpuacct"
      var files = [
        "/proc/self/cgroup": "7:memory:/x\n3:cpu,cpuacct:/docker/abc\n0::/\n",
        "/proc/self/mountinfo": one, folder + "/docker/abc/cpu.cfs_quota_us": "250000\n",
        folder + "/docker/abc/cpu.cfs_period_us": "100000\n", folder + "/cpu.cfs_quota_us": "-1\n",
        folder + "/cpu.cfs_period_us": "100000\n",
      ]
      #expect(try cores(files) == 3)
      // A container without its own name space: the mount point shows its group.
      files = [
        "/proc/self/cgroup": "3:cpu:/docker/abc\n",
        "/proc/self/mountinfo": "33 31 0:30 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n",
        "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "400000", "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
      ]
      #expect(try cores(files) == 4)
    }

    @Test func bothVersionsCount() throws {
      let files = [
        "/proc/self/cgroup": "3:cpu:/\n0::/\n",
        "/proc/self/mountinfo": one + two, "/sys/fs/cgroup/cpu.max": "900000 100000",
        "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "200000",
        "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000",
      ]
      #expect(try cores(files) == 2)
    }
  }
#endif
