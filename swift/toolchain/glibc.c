// Four functions of glibc 2.38 that Debian 13's static Swift runtime calls and Debian 12's glibc 2.36 lacks. They are added to
// the runtime's archive, hidden, so that the built library carries its own. No header is included: <stdlib.h> of a new glibc
// would turn the calls below into calls of the very functions defined here.
//
// The C23 forms differ from the old ones in one thing: with base 0 or 2 they also read the prefix 0b.

typedef __SIZE_TYPE__ size_t;

extern long strtol(const char *text, char **end, int base);
extern long long strtoll(const char *text, char **end, int base);
extern int vsscanf(const char *text, const char *format, __builtin_va_list arguments);
extern size_t strlen(const char *text);
extern void *memcpy(void *to, const void *from, size_t bytes);

#define HIDDEN __attribute__((visibility("hidden")))

/// Skips blanks and a sign; if "0b" and a binary digit follow and the base allows it, returns where the digits begin, else null.
static const char *binaryDigits(const char *text, int base, int *negative) {
  if (base != 0 && base != 2) return 0;
  while (*text == ' ' || (*text >= '\t' && *text <= '\r')) text++;
  *negative = *text == '-';
  if (*text == '-' || *text == '+') text++;
  if (text[0] != '0' || (text[1] != 'b' && text[1] != 'B')) return 0;
  return text[2] == '0' || text[2] == '1' ? text + 2 : 0;
}

HIDDEN long long __isoc23_strtoll(const char *text, char **end, int base) {
  int negative = 0;
  const char *digits = binaryDigits(text, base, &negative);
  if (digits == 0) return strtoll(text, end, base);
  if (!negative) return strtoll(digits, end, 2);
  // The sign stands before the prefix, so the digits are read with it put back in front, in a copy that is long enough for any
  // number that fits; longer ones overflow all the same.
  char copy[130];
  size_t count = 0;
  while (digits[count] == '0' && (digits[count + 1] == '0' || digits[count + 1] == '1')) digits++;
  while (count < sizeof copy - 2 && (digits[count] == '0' || digits[count] == '1')) count++;
  copy[0] = '-';
  memcpy(copy + 1, digits, count);
  copy[count + 1] = 0;
  while (digits[count] == '0' || digits[count] == '1') count++;
  if (end != 0) *end = (char *)digits + count;
  return strtoll(copy, 0, 2);
}

// long and long long are the same 64 bits on every system that this is built for.
HIDDEN long __isoc23_strtol(const char *text, char **end, int base) {
  return (long)__isoc23_strtoll(text, end, base);
}

HIDDEN int __isoc23_sscanf(const char *text, const char *format, ...) {
  __builtin_va_list arguments;
  __builtin_va_start(arguments, format);
  int fields = vsscanf(text, format, arguments);
  __builtin_va_end(arguments);
  return fields;
}

HIDDEN size_t strlcpy(char *to, const char *from, size_t bytes) {
  size_t length = strlen(from);
  if (bytes > 0) {
    size_t kept = length < bytes ? length : bytes - 1;
    memcpy(to, from, kept);
    to[kept] = 0;
  }
  return length;
}
