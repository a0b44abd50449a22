#include "eh_frame.h"

#include "process_memory.h"

enum { DW_EH_PE_format = 0x0f };

enum { AUGMENTATION_MAX = 16, LEB128_BITS_MAX = 7 * 16 };

uint64_t cunwind_take(struct entry_reader *reader, size_t bytes) {
  uint64_t value = 0;
  if (!cunwind_read(reader->unwinder, reader->at, &value, bytes))
    reader->failed = true;
  reader->at += bytes;
  return value;
}

/* Reads a LEB128 number. Sets *SIGN to the bits that must also be set if the number is signed. */
static uint64_t take_leb128(struct entry_reader *reader, uint64_t *sign) {
  uint64_t value = 0, byte;
  int shift = 0;
  do {
    byte = cunwind_take(reader, 1);
    if (shift < 64)
      value |= (byte & 0x7f) << shift;
    shift += 7;
    if (shift > LEB128_BITS_MAX)
      reader->failed = true;
  } while ((byte & 0x80) != 0 && !reader->failed);
  *sign = shift < 64 && (byte & 0x40) != 0 ? ~UINT64_C(0) << shift : 0;
  return value;
}

uint64_t cunwind_take_leb128(struct entry_reader *reader) {
  uint64_t sign;
  return take_leb128(reader, &sign);
}

int64_t cunwind_take_signed_leb128(struct entry_reader *reader) {
  uint64_t sign, value = take_leb128(reader, &sign);
  return (int64_t)(value | sign);
}

struct entry_reader cunwind_entry_at(struct unwinder *unwinder, uint64_t at, uint64_t *end) {
  struct entry_reader reader = {.unwinder = unwinder, .at = at};
  uint64_t length = cunwind_take(&reader, 4);
  if (length == UINT32_MAX)
    length = cunwind_take(&reader, 8);
  *end = reader.at + length;
  return reader;
}

size_t cunwind_encoded_bytes(uint8_t encoding) {
  switch (encoding & DW_EH_PE_format) {
  case 0x02: /* udata2, sdata2 */
  case 0x0a:
    return 2;
  case 0x03: /* udata4, sdata4 */
  case 0x0b:
    return 4;
  case 0x00: /* an address, udata8, sdata8 */
  case 0x04:
  case 0x0c:
    return 8;
  default:
    return 0;
  }
}

bool cunwind_read_cie(struct unwinder *unwinder, uint64_t at, struct entry_format *format) {
  *format = (struct entry_format){.lsda = DW_EH_PE_omit};
  struct entry_reader reader = cunwind_entry_at(unwinder, at, &format->end);
  char augmentation[AUGMENTATION_MAX];
  size_t length = 0;
  cunwind_take(&reader, 4); /* the CIE's identifier, 0 */
  uint8_t version = (uint8_t)cunwind_take(&reader, 1);
  do {
    if (length == sizeof augmentation)
      return false;
    augmentation[length] = (char)cunwind_take(&reader, 1);
  } while (augmentation[length++] != 0 && !reader.failed);
  format->code_unit = cunwind_take_leb128(&reader);
  format->data_unit = cunwind_take_signed_leb128(&reader);
  format->return_column = version == 1 ? cunwind_take(&reader, 1) : cunwind_take_leb128(&reader);
  format->start = reader.at;
  if (augmentation[0] != 'z')
    return !reader.failed && augmentation[0] == 0;
  format->has_augmentation = true;
  uint64_t bytes = cunwind_take_leb128(&reader);
  format->start = reader.at + bytes;
  for (size_t index = 1; augmentation[index] != 0; index++)
    switch (augmentation[index]) {
    case 'R':
      format->function = (uint8_t)cunwind_take(&reader, 1);
      break;
    case 'L':
      format->lsda = (uint8_t)cunwind_take(&reader, 1);
      break;
    case 'P':
      reader.at += cunwind_encoded_bytes((uint8_t)cunwind_take(&reader, 1));
      break;
    case 'S':
      format->is_signal_frame = true;
      break;
    case 'B': /* aarch64: return addresses are signed with key B, or (G) the stack is tagged */
    case 'G':
      break;
    default:
      format->is_unknown = true;
      break;
    }
  return !reader.failed;
}

bool cunwind_open_fde(struct unwinder *unwinder, uint64_t at, struct entry_format *format, struct entry_reader *reader,
                      uint64_t *end) {
  *reader = cunwind_entry_at(unwinder, at, end);
  uint64_t cie = reader->at;
  cie -= cunwind_take(reader, 4);
  if (reader->failed || !cunwind_read_cie(unwinder, cie, format))
    return false;
  reader->at += 2 * cunwind_encoded_bytes(format->function);
  if (format->has_augmentation) {
    uint64_t bytes = cunwind_take_leb128(reader);
    reader->at += bytes;
  }
  return !reader->failed && reader->at <= *end;
}
