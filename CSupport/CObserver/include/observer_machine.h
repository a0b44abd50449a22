/* Architecture-dependent access to the registers of an interrupted thread and to the thread pointer. */
#ifndef OBSERVER_MACHINE_H
#define OBSERVER_MACHINE_H

#include "observer_base.h"

#include "CUnwind.h"

/* Returns the architecture's name as in uname(2), or "unsupported". Async-signal-safe: yes. Threads: any. */
const char *observer_machine_name(void);

/* Copies the registers of an interrupted thread from CONTEXT, the third argument of its signal handler (a ucontext_t).
 * Async-signal-safe: yes. Threads: the interrupted thread, in its handler; any with a copy of one. */
void observer_machine_registers(const void *context, struct unwind_registers *registers);

/* Return the stack pointer in REGISTERS, and the size of the red zone in bytes (struct unwind_architecture). They read
 * no data, because the handler's data need not be in memory. Async-signal-safe: yes. Threads: any. */
uint64_t observer_machine_sp(const struct unwind_registers *registers);
uint64_t observer_machine_red_zone(void);

/* Returns the calling thread's thread pointer. Async-signal-safe: yes. Threads: any. */
uint64_t observer_machine_thread_pointer(void);

#endif
