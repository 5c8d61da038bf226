// The parts of the private toolchain. Debian 12 has no Swift; Debian 13 has, but needs a newer glibc than Debian 12's.
// So the compiler and the glibc that it runs on come from Debian 13, and the headers and libraries that it compiles against
// from Debian 12: its products then load on Debian 12 and everything newer.

/** Names the folder in the cache. `revision` changes whenever an older prefix would no longer do. */
export const version = "6.0.3";
export const revision = 1;

/** The compiler: one package, with all its dependencies. */
export const compiler = { suite: "trixie", packages: ["swiftlang"] };

/** The headers and libraries that programs are compiled against, and the tool that writes paths into executables. */
export const sysroot = { suite: "bookworm", packages: ["libc6-dev", "libstdc++-12-dev", "patchelf"] };

/** Disk space in bytes at the peak (packages and their unpacked files), and the part of it that stays in use. */
export const peakBytes = 3.5e9;

/** The oldest glibc that the built library loads on. */
export const oldestGlibc = "2.35";

/** Processors that the packages exist for, by Node's names: Debian's name, the folders of its libraries, the dynamic loader. */
export const architectures = {
  x64: { debian: "amd64", triple: "x86_64-linux-gnu", loader: "ld-linux-x86-64.so.2" },
  arm64: { debian: "arm64", triple: "aarch64-linux-gnu", loader: "ld-linux-aarch64.so.1" },
};

/** This machine's; on other processors no toolchain is made, and the names are not used. */
export const { debian: debianArchitecture, triple, loader } = architectures[process.arch] ?? architectures.x64;

/** Paths inside a prefix. */
export const layout = {
  swift: "usr/libexec/swift",
  staticRuntime: "lib/swift_static/linux",
  libraries: `usr/lib/${triple}`,
  sysroot: "sysroot",
  product: "product",
  stamp: "gated-delta.json",
};
