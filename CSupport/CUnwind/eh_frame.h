/* Reads the entries of .eh_frame (Linux Standard Base Core, "The .eh_frame section"): descriptions of functions (FDE)
 * and their common parts (CIE). */
#ifndef EH_FRAME_H
#define EH_FRAME_H

#include "walk.h"

enum { DW_EH_PE_omit = 0xff };

/* A read position. Readers check FAILED once, after several reads. */
struct entry_reader {
  struct unwinder *unwinder;
  uint64_t at;
  bool failed;
};

/* Reads a number of BYTES bytes, or a LEB128 number. Async-signal-safe: as cunwind_unwind. Threads: as
 * cunwind_unwind. */
uint64_t cunwind_take(struct entry_reader *reader, size_t bytes);
uint64_t cunwind_take_leb128(struct entry_reader *reader);
int64_t cunwind_take_signed_leb128(struct entry_reader *reader);

/* Starts reading the .eh_frame entry at AT, after its length. Async-signal-safe: as cunwind_unwind. Threads: as
 * cunwind_unwind. */
struct entry_reader cunwind_entry_at(struct unwinder *unwinder, uint64_t at, uint64_t *end);

/* Returns the size of an address in ENCODING, in bytes; 0 if unknown. Async-signal-safe: yes. Threads: any. */
size_t cunwind_encoded_bytes(uint8_t encoding);

/* The properties that a CIE gives to its FDEs: encodings of addresses, units of location advances and offsets, return
 * address column, and the range of the initial instructions. */
struct entry_format {
  uint8_t function, lsda;
  bool has_augmentation;
  bool is_signal_frame;
  bool is_unknown;
  uint64_t code_unit, return_column;
  int64_t data_unit;
  uint64_t start, end;
};

/* Reads the CIE at AT. Returns false if it cannot be read. Async-signal-safe: as cunwind_unwind. Threads: as
 * cunwind_unwind. */
bool cunwind_read_cie(struct unwinder *unwinder, uint64_t at, struct entry_format *format);

/* Starts reading the instructions of the FDE at AT. Sets *FORMAT to its CIE's properties, *READER to the first
 * instruction, and *END to the end of the instructions. Returns false if they cannot be read. Async-signal-safe: as
 * cunwind_unwind. Threads: as cunwind_unwind. */
bool cunwind_open_fde(struct unwinder *unwinder, uint64_t at, struct entry_format *format, struct entry_reader *reader,
                      uint64_t *end);

#endif
