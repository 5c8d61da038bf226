// From an address in this library to file and line: reads the library's own DWARF 4 line table, when a fault needs it.
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "fault.h"

extern "C" __attribute__((visibility("hidden"))) const char emu_anchor = 0;

namespace emu {

namespace {

struct Row {
  uint64_t address;
  uint32_t line;
  uint32_t file;  // into `names`
  bool end;
};

std::vector<Row> rows;
std::vector<std::string> names;
bool loaded;

class Reader {
 public:
  Reader(const uint8_t *begin, const uint8_t *end) : at_(begin), end_(end) {}
  bool done() const { return at_ >= end_; }
  const uint8_t *position() const { return at_; }
  void seek(const uint8_t *to) { at_ = to; }
  template <class T> T fixed() {
    T value{};
    if (size_t(end_ - at_) >= sizeof value) memcpy(&value, at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  uint64_t uleb() {
    uint64_t value = 0;
    for (unsigned shift = 0; at_ < end_; shift += 7) {
      const uint8_t byte = *at_++;
      value |= uint64_t(byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) break;
    }
    return value;
  }
  int64_t sleb() {
    int64_t value = 0;
    unsigned shift = 0;
    uint8_t byte = 0;
    do {
      if (at_ >= end_) return value;
      byte = *at_++;
      value |= int64_t(byte & 0x7f) << shift;
      shift += 7;
    } while (byte & 0x80);
    if (shift < 64 && (byte & 0x40)) value |= -(int64_t(1) << shift);
    return value;
  }
  std::string text() {
    const uint8_t *start = at_;
    while (at_ < end_ && *at_ != 0) ++at_;
    std::string out(reinterpret_cast<const char *>(start), size_t(at_ - start));
    ++at_;
    return out;
  }

 private:
  const uint8_t *at_, *end_;
};

/// One compilation unit's line number program (DWARF 2 to 4).
void read_unit(Reader &r, const uint8_t *limit) {
  const uint32_t length = r.fixed<uint32_t>();
  const uint8_t *end = r.position() + length;
  if (length >= 0xfffffff0u || end > limit) {
    r.seek(limit);
    return;
  }
  const uint16_t version = r.fixed<uint16_t>();
  if (version < 2 || version > 4) {
    r.seek(end);
    return;
  }
  const uint32_t header = r.fixed<uint32_t>();
  const uint8_t *program = r.position() + header;
  const uint8_t minimum = r.fixed<uint8_t>();
  if (version >= 4) r.fixed<uint8_t>();
  const bool default_statement = r.fixed<uint8_t>() != 0;
  (void)default_statement;
  const int8_t line_base = r.fixed<int8_t>();
  const uint8_t line_range = r.fixed<uint8_t>(), opcode_base = r.fixed<uint8_t>();
  std::vector<uint8_t> lengths(opcode_base, 0);
  for (unsigned i = 1; i < opcode_base; ++i) lengths[i] = r.fixed<uint8_t>();
  std::vector<std::string> directories = {""};
  for (std::string d = r.text(); !d.empty(); d = r.text()) directories.push_back(d);
  std::vector<uint32_t> files = {0};
  for (std::string f = r.text(); !f.empty(); f = r.text()) {
    const uint64_t directory = r.uleb();
    r.uleb();
    r.uleb();
    std::string path = f;
    if (directory > 0 && directory < directories.size() && f[0] != '/') path = directories[directory] + "/" + f;
    files.push_back(uint32_t(names.size()));
    names.push_back(path);
  }
  if (line_range == 0) {
    r.seek(end);
    return;
  }
  r.seek(program);
  uint64_t address = 0, file = 1;
  int64_t line = 1;
  const auto emit = [&](bool sequence_end) {
    rows.push_back({address, uint32_t(line), file < files.size() ? files[file] : 0, sequence_end});
  };
  while (r.position() < end) {
    const uint8_t op = r.fixed<uint8_t>();
    if (op >= opcode_base) {
      const unsigned adjusted = op - opcode_base;
      address += uint64_t(adjusted / line_range) * minimum;
      line += line_base + int(adjusted % line_range);
      emit(false);
      continue;
    }
    switch (op) {
      case 0: {
        const uint64_t size = r.uleb();
        const uint8_t *next = r.position() + size;
        const uint8_t extended = r.fixed<uint8_t>();
        if (extended == 1) {
          emit(true);
          address = 0;
          file = 1;
          line = 1;
        } else if (extended == 2)
          address = r.fixed<uint64_t>();
        r.seek(next);
        break;
      }
      case 1: emit(false); break;
      case 2: address += r.uleb() * minimum; break;
      case 3: line += r.sleb(); break;
      case 4: file = r.uleb(); break;
      case 5: r.uleb(); break;
      case 8: address += uint64_t((255 - opcode_base) / line_range) * minimum; break;
      case 9: address += r.fixed<uint16_t>(); break;
      case 12: r.uleb(); break;
      case 6:
      case 7:
      case 10:
      case 11: break;
      default:
        for (unsigned i = 0; i < lengths[op]; ++i) r.uleb();
    }
  }
  r.seek(end);
}

void load(const char *path) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  struct stat info;
  if (fstat(fd, &info) == 0 && size_t(info.st_size) > sizeof(Elf64_Ehdr)) {
    void *memory = mmap(nullptr, size_t(info.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
    if (memory != MAP_FAILED) {
      const uint8_t *file = static_cast<const uint8_t *>(memory);
      const Elf64_Ehdr *header = reinterpret_cast<const Elf64_Ehdr *>(file);
      const Elf64_Shdr *sections = reinterpret_cast<const Elf64_Shdr *>(file + header->e_shoff);
      const char *strings = reinterpret_cast<const char *>(file + sections[header->e_shstrndx].sh_offset);
      for (unsigned i = 0; i < header->e_shnum; ++i) {
        if (strcmp(strings + sections[i].sh_name, ".debug_line") != 0) continue;
        const uint8_t *begin = file + sections[i].sh_offset, *end = begin + sections[i].sh_size;
        Reader r(begin, end);
        while (!r.done()) read_unit(r, end);
      }
      munmap(memory, size_t(info.st_size));
    }
  }
  close(fd);
  // The end of a sequence comes before what starts at the same address.
  std::stable_sort(rows.begin(), rows.end(), [](const Row &a, const Row &b) {
    return a.address != b.address ? a.address < b.address : a.end > b.end;
  });
}

}  // namespace

std::string source_of(const void *pc) {
  Dl_info info;
  if (dladdr(&emu_anchor, &info) == 0 || info.dli_fname == nullptr) return "";
  if (!loaded) {
    loaded = true;
    load(info.dli_fname);
  }
  // A return address belongs to the instruction before it.
  const uint64_t address = uint64_t(uintptr_t(pc) - uintptr_t(info.dli_fbase)) - 1;
  auto after =
      std::upper_bound(rows.begin(), rows.end(), address, [](uint64_t a, const Row &row) { return a < row.address; });
  while (after != rows.begin()) {
    --after;
    if (after->end) return "";
    if (after->line != 0) return names[after->file] + ":" + std::to_string(after->line);
  }
  return "";
}

}  // namespace emu
