/* libunwind as the reference for the steps of CUnwind. Tests alone load it. */
#ifndef LIBUNWIND_ORACLE_H
#define LIBUNWIND_ORACLE_H

#include "CUnwind.h"

/* Loads libunwind. Returns NULL, or the reason why stacks of ARCHITECTURE cannot be compared. */
const char *oracle_missing(const char *architecture);

struct oracle_frame {
  uint64_t pc, sp;
};

/* Unwinds COPY with libunwind by the unwind tables of PROCESS alone. Returns the number of frames, up to MAX, before
 * the first frame without an entry. */
int oracle_unwind(const struct unwind_process *process, const struct stack_copy *copy, struct oracle_frame *frames,
                  int max);

/* The rows of a file's unwind table. */
struct oracle_rows {
  uint64_t functions, rows;
  uint64_t refused;                      /* rows without a rule in CUnwind */
  uint64_t compared;                     /* rows from which both step */
  uint64_t different;                    /* rows whose steps have different registers */
  uint64_t refused_here, different_here; /* addresses of the last ones in the file */
};

/* Takes one step from every row of every STRIDE-th function in the unwind table of the ELF file at PATH, by CUnwind and
 * by libunwind, with made-up registers on a made-up stack, and adds the results to ROWS. Returns false if the file has
 * no such table of this processor architecture. */
bool oracle_compare_rows(const char *path, uint32_t stride, struct oracle_rows *rows);

#endif
