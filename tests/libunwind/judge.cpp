// Looks up functions in the tables of macOS images with LLVM's libunwind: its UnwindCursor is compiled for this machine, and
// its address space has only the sections of an image. Reads the input of tests/tests/unwind_info/libunwind.rs, and prints
// a line for each PC.

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "libunwind.h"
#include "mach-o/compact_unwind_encoding.h"

#include "libunwind_ext.h"

#include "AddressSpace.hpp"

namespace {

// A section at its address, which counts from the image's Mach-O header.
struct Section {
  uint64_t address = 0;
  std::vector<uint8_t> bytes;

  bool contains(uint64_t at, size_t size) const {
    return at >= address && at - address <= bytes.size() && bytes.size() - (at - address) >= size;
  }
};

[[noreturn]] void stop(const char *what) {
  fprintf(stderr, "judge: %s\n", what);
  exit(1);
}

} // namespace

// The address space has __unwind_info and __eh_frame. Other reads are of a personality's pointer. Only the place of that
// pointer matters, so these reads return the place.
class Image {
public:
  typedef uint64_t pint_t;
  typedef int64_t sint_t;

  Section unwind_info, eh_frame;

  uint8_t get8(pint_t at) { return get<uint8_t>(at); }
  uint16_t get16(pint_t at) { return get<uint16_t>(at); }
  uint32_t get32(pint_t at) { return get<uint32_t>(at); }
  uint64_t get64(pint_t at) { return get<uint64_t>(at); }
  double getDouble(pint_t at) { return get<double>(at); }
  libunwind::v128 getVector(pint_t at) { return get<libunwind::v128>(at); }
  pint_t getP(pint_t at) { return is_inside(at, 8) ? get64(at) : at; }
  uint64_t getRegister(pint_t at) { return get64(at); }

  static uint64_t getULEB128(pint_t &at, pint_t end) {
    uint64_t result = 0;
    int shift = 0;
    uint8_t byte;
    do {
      if (at >= end) stop("a ULEB128 without end");
      byte = that->get8(at++);
      if (shift < 64) result |= uint64_t(byte & 0x7f) << shift;
      shift += 7;
    } while (byte & 0x80);
    return result;
  }

  static int64_t getSLEB128(pint_t &at, pint_t end) {
    pint_t start = at;
    uint64_t result = getULEB128(at, end);
    int bits = int(at - start) * 7;
    if (bits < 64 && (that->get8(at - 1) & 0x40)) result |= ~uint64_t(0) << bits;
    return int64_t(result);
  }

  // The encodings of pointers that __eh_frame of Mach-O files has.
  pint_t getEncodedP(pint_t &at, pint_t end, uint8_t encoding, pint_t data_base = 0) {
    pint_t start = at, result = 0;
    switch (encoding & 0x0f) {
    case 0x00: result = get64(at); at += 8; break;
    case 0x01: result = getULEB128(at, end); break;
    case 0x02: result = get16(at); at += 2; break;
    case 0x03: result = get32(at); at += 4; break;
    case 0x04: result = get64(at); at += 8; break;
    case 0x09: result = pint_t(getSLEB128(at, end)); break;
    case 0x0a: result = pint_t(int16_t(get16(at))); at += 2; break;
    case 0x0b: result = pint_t(int32_t(get32(at))); at += 4; break;
    case 0x0c: result = get64(at); at += 8; break;
    default: stop("a pointer's encoding");
    }
    if ((encoding & 0x70) == 0x10) result += start;
    if ((encoding & 0x70) == 0x30) result += data_base;
    if (encoding & 0x80) result = getP(result);
    return result;
  }

  bool findFunctionName(pint_t, char *, size_t, unw_word_t *) { return false; }
  bool findOtherFDE(pint_t, pint_t &) { return false; }

  bool findUnwindSections(pint_t, libunwind::UnwindInfoSections &info) {
    memset(static_cast<void *>(&info), 0, sizeof info);
    info.dso_base = 0;
    info.compact_unwind_section = unwind_info.address;
    info.compact_unwind_section_length = unwind_info.bytes.size();
    info.dwarf_section = eh_frame.bytes.empty() ? 0 : eh_frame.address;
    info.dwarf_section_length = eh_frame.bytes.size();
    return true;
  }

  static Image *that;

private:
  bool is_inside(pint_t at, size_t size) const {
    return unwind_info.contains(at, size) || eh_frame.contains(at, size);
  }

  template <typename T> T get(pint_t at) {
    const Section &section = eh_frame.contains(at, sizeof(T)) ? eh_frame : unwind_info;
    if (!section.contains(at, sizeof(T))) stop("a read outside of both sections");
    T value;
    memcpy(&value, section.bytes.data() + (at - section.address), sizeof value);
    return value;
  }
};

Image *Image::that = nullptr;

#include "UnwindCursor.hpp"

// Would continue in another frame, which a lookup never does.
extern "C" {
void __libunwind_Registers_x86_64_jumpto(void *) { stop("a jump"); }
void __libunwind_Registers_arm64_jumpto(void *) { stop("a jump"); }
}

namespace {

uint64_t number() {
  unsigned char bytes[8];
  if (fread(bytes, 1, 8, stdin) != 8) stop("the input is too short");
  uint64_t value;
  memcpy(&value, bytes, 8);
  return value;
}

Section section() {
  Section read;
  read.address = number();
  read.bytes.resize(number());
  if (fread(read.bytes.data(), 1, read.bytes.size(), stdin) != read.bytes.size()) stop("the input is too short");
  return read;
}

template <typename Registers> void answer(Image &image, uint64_t pc) {
  libunwind::UnwindCursor<Image, Registers> cursor(image, nullptr);
  cursor.setReg(UNW_REG_IP, pc);
  cursor.setInfoBasedOnIPRegister(false);
  unw_proc_info_t info;
  memset(&info, 0, sizeof info);
  if (cursor.getInfo(&info), info.start_ip == 0 && info.end_ip == 0) {
    puts("none");
    return;
  }
  const uint64_t fde = info.unwind_info == 0 ? 0 : info.unwind_info - image.eh_frame.address;
  printf("%" PRIx64 " %" PRIx64 " %" PRIx32 " %" PRIx64 " %" PRIx64 " %" PRIx64 "\n", uint64_t(info.start_ip),
         uint64_t(info.end_ip), uint32_t(info.format), uint64_t(info.handler), uint64_t(info.lsda), fde);
}

} // namespace

int main() {
  Image image;
  Image::that = &image;
  const uint64_t arch = number();
  image.unwind_info = section();
  image.eh_frame = section();
  for (uint64_t left = number(); left != 0; left--) {
    if (arch == 1)
      answer<libunwind::Registers_x86_64>(image, number());
    else
      answer<libunwind::Registers_arm64>(image, number());
  }
}
