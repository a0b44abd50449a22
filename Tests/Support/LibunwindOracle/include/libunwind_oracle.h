/* libunwind as the reference for the steps of CUnwind. Only tests load it. */
#ifndef LIBUNWIND_ORACLE_H
#define LIBUNWIND_ORACLE_H

#include "CUnwind.h"

/* Loads libunwind. Returns NULL, or the reason why stacks of ARCHITECTURE cannot be compared. */
const char *oracle_missing(const char *architecture);

struct oracle_frame {
  uint64_t pc, sp;
};

/* Unwinds COPY with libunwind, only by the unwind tables of PROCESS. Returns the number of frames up to the first one
 * without an entry, at most MAX. */
int oracle_unwind(const struct unwind_process *process, const struct stack_copy *copy, struct oracle_frame *frames,
                  int max);

/* The rows of a file's unwind table. */
struct oracle_rows {
  uint64_t functions, rows;
  uint64_t refused;                      /* rows without a rule in CUnwind */
  uint64_t compared;                     /* rows from which both unwinders step */
  uint64_t different;                    /* rows after which registers differ */
  uint64_t refused_here, different_here; /* addresses of the last such rows */
};

/* Steps from every row of every STRIDE-th function in the unwind table of the ELF file at PATH, by CUnwind and by
 * libunwind. Registers and stack are made up. Adds the results to ROWS. Returns false if the file has no such table for
 * this processor architecture. */
bool oracle_compare_rows(const char *path, uint32_t stride, struct oracle_rows *rows);

#endif
