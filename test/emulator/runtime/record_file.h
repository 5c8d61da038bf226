// Reading a recorded dispatch (record.h), for programs that run one: runner.cpp, cuda/runner.cpp.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace emu {

/// An outline of a dispatch (GATED_DELTA_EMULATOR_OUTLINES) leaves out larger contents.
constexpr uint64_t outline_bytes = 512 << 10;

struct RecordedConstant {
  std::string name, type;
  uint32_t index;
  std::vector<unsigned char> value;
};

/// The contents in a heap block of exactly their size (but aligned), so that AddressSanitizer sees its end.
struct RecordedBuffer {
  uint32_t index, flags;
  uint64_t offset, bytes = 0;
  uint64_t identity = 0;  // of an outline: buffers of equal identity are one
  unsigned char *data = nullptr;  // another buffer's if they share memory
  std::unique_ptr<unsigned char, decltype(&free)> memory{nullptr, free};
};

struct Recorded {
  std::string kernel;
  std::vector<RecordedConstant> constants;
  uint32_t order, checks;
  uint64_t seed, grid[3];
  uint32_t threads[3];
  std::vector<uint32_t> lengths;
  std::vector<RecordedBuffer> buffers;
};

inline bool read_file(const char *path, std::vector<unsigned char> &out) {
  FILE *file = fopen(path, "rb");
  if (file == nullptr) return false;
  unsigned char part[65536];
  for (size_t n; (n = fread(part, 1, sizeof part, file)) > 0;) out.insert(out.end(), part, part + n);
  fclose(file);
  return true;
}

class RecordReader {
 public:
  explicit RecordReader(const std::vector<unsigned char> &data) : data_(data) {}
  bool good() const { return good_; }
  template <class T> T number() {
    T value{};
    if (data_.size() - at_ < sizeof value) {
      good_ = false;
      return value;
    }
    memcpy(&value, data_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::vector<unsigned char> bytes(uint64_t count) {
    if (count > data_.size() - at_) {
      good_ = false;
      return {};
    }
    std::vector<unsigned char> out(data_.begin() + long(at_), data_.begin() + long(at_ + count));
    at_ += count;
    return out;
  }
  std::string text() {
    const std::vector<unsigned char> raw = bytes(number<uint32_t>());
    return std::string(raw.begin(), raw.end());
  }

 private:
  const std::vector<unsigned char> &data_;
  size_t at_ = 8;
  bool good_ = true;
};

/// False, with a line on standard error, if the file is not a whole record.
inline bool read_record(const char *path, Recorded &out) {
  std::vector<unsigned char> file;
  const bool known = read_file(path, file) && file.size() >= 8;
  const bool outline = known && memcmp(file.data(), "EMUOUTL1", 8) == 0;
  if (!known || (!outline && memcmp(file.data(), "EMUREC02", 8) != 0)) {
    fprintf(stderr, "%s is not a recorded dispatch\n", path);
    return false;
  }
  RecordReader in(file);
  out.kernel = in.text();
  out.constants.resize(in.number<uint32_t>() & 0xffff);
  for (RecordedConstant &c : out.constants) {
    c.name = in.text();
    c.index = in.number<uint32_t>();
    c.type = in.text();
    c.value = in.bytes(in.number<uint64_t>());
  }
  out.order = in.number<uint32_t>();
  out.seed = in.number<uint64_t>();
  out.checks = in.number<uint32_t>();
  for (uint64_t &n : out.grid) n = in.number<uint64_t>();
  for (uint32_t &n : out.threads) n = in.number<uint32_t>();
  out.lengths.resize(in.number<uint32_t>() & 0xff);
  for (uint32_t &n : out.lengths) n = in.number<uint32_t>();
  out.buffers.resize(in.number<uint32_t>() & 0xff);
  for (RecordedBuffer &b : out.buffers) {
    b.index = in.number<uint32_t>();
    b.flags = in.number<uint32_t>();
    b.offset = in.number<uint64_t>();
    const uint32_t same = in.number<uint32_t>();
    const uint64_t bytes = in.number<uint64_t>();
    const bool left = outline && bytes > outline_bytes;
    const std::vector<unsigned char> data = left ? std::vector<unsigned char>() : in.bytes(bytes);
    if (outline) b.identity = in.number<uint64_t>();
    if (left) {
      b.bytes = bytes;
      continue;
    }
    if (same < size_t(&b - out.buffers.data())) {
      b.data = out.buffers[same].data;
      b.bytes = out.buffers[same].bytes;
      continue;
    }
    void *memory = nullptr;
    if (posix_memalign(&memory, 64, data.empty() ? 1 : data.size()) != 0) return false;
    b.memory.reset(static_cast<unsigned char *>(memory));
    b.data = b.memory.get();
    b.bytes = data.size();
    if (!data.empty()) memcpy(memory, data.data(), data.size());
  }
  if (!in.good()) fprintf(stderr, "%s ends too early\n", path);
  return in.good();
}

/// Writes the contents of buffers: "EMUOUT01", their number, and the index, length and contents of each.
inline bool write_output(const char *path, const Recorded &record) {
  FILE *out = fopen(path, "wb");
  if (out == nullptr) return false;
  const uint32_t count = uint32_t(record.buffers.size());
  fwrite("EMUOUT01", 1, 8, out);
  fwrite(&count, sizeof count, 1, out);
  for (const RecordedBuffer &b : record.buffers) {
    const uint64_t bytes = b.memory ? b.bytes : 0;
    fwrite(&b.index, sizeof b.index, 1, out);
    fwrite(&bytes, sizeof bytes, 1, out);
    if (bytes > 0) fwrite(b.data, 1, bytes, out);
  }
  return fclose(out) == 0;
}

}  // namespace emu
