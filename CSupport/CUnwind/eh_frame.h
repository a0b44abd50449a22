/* The entries of .eh_frame (Linux Standard Base Core, "The .eh_frame section"), byte for byte: what describes functions
 * (FDE), and what those have in common (CIE). What they mean is for who reads them. Internal to CUnwind. */
#ifndef EH_FRAME_H
#define EH_FRAME_H

#include "walk.h"

/* The encoding of no address. */
enum { DW_EH_PE_omit = 0xff };

/* A place that is read at. Whoever has read looks once whether all of it could be. */
struct entry_reader {
  struct unwinder *unwinder;
  uint64_t at;
  bool failed;
};

/* Reads a number of BYTES bytes, or one of LEB128. Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
uint64_t cunwind_take(struct entry_reader *reader, size_t bytes);
uint64_t cunwind_take_leb128(struct entry_reader *reader);
int64_t cunwind_take_signed_leb128(struct entry_reader *reader);

/* Begins to read the entry of .eh_frame at AT, behind its length; it reaches up to *END.
 * Async-signal-safe: as cunwind_unwind. Threads: as cunwind_unwind. */
struct entry_reader cunwind_entry_at(struct unwinder *unwinder, uint64_t at, uint64_t *end);

/* Bytes of an address of that ENCODING; 0 where that is not known. Async-signal-safe: yes. Threads: any. */
size_t cunwind_encoded_bytes(uint8_t encoding);

/* What a CIE says of its FDEs: how their addresses are encoded, the units in which their rows advance and offsets are,
 * the column of the return address, and from where to where the instructions of their first row are. */
struct entry_format {
  uint8_t function, lsda;
  bool has_augmentation;
  bool is_plain; /* its frames are those of functions, and nothing else is said of them */
  uint64_t code_unit, return_column;
  int64_t data_unit;
  uint64_t start, end;
};

/* Reads the CIE at AT. Returns false when it cannot be read. Async-signal-safe: as cunwind_unwind. Threads: as
 * cunwind_unwind. */
bool cunwind_read_cie(struct unwinder *unwinder, uint64_t at, struct entry_format *format);

/* Begins to read the instructions of the FDE at AT, which has FORMAT: READER is then at the first of them, and they
 * reach up to *END. Returns false when they cannot be read. Async-signal-safe: as cunwind_unwind. Threads: as
 * cunwind_unwind.
 */
bool cunwind_open_fde(struct unwinder *unwinder, uint64_t at, struct entry_format *format, struct entry_reader *reader,
                      uint64_t *end);

#endif
