#ifndef OBSERVER_MACHINE_H
#define OBSERVER_MACHINE_H

#include "base/observer_base.h"

#include "CUnwind.h"

/* Returns the name as in uname(2), or "unsupported". Async-signal-safe: yes. Threads: any. */
const char *observer_machine_name(void);

/* Copies an interrupted thread's registers from CONTEXT, the ucontext_t of its handler. Async-signal-safe: yes.
 * Threads: the interrupted thread, in its handler; any with a copy of CONTEXT. */
void observer_machine_registers(const void *context, struct unwind_registers *registers);

/* Return the stack pointer in REGISTERS, and the red zone's size in bytes. Neither reads data that might be paged out.
 * Async-signal-safe: yes. Threads: any. */
uint64_t observer_machine_sp(const struct unwind_registers *registers);
uint64_t observer_machine_red_zone(void);

/* Async-signal-safe: yes. Threads: any. */
uint64_t observer_machine_thread_pointer(void);

#endif
