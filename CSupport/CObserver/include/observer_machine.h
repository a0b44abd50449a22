/* What the processor that this process runs on has: the registers of an interrupted thread, and a thread's own data. */
#ifndef OBSERVER_MACHINE_H
#define OBSERVER_MACHINE_H

#include "observer_base.h"

#include "CUnwind.h"

/* The architecture's name as uname(2) has it, or "unsupported". Async-signal-safe: yes. Threads: any. */
const char *observer_machine_name(void);

/* Copies the registers of an interrupted thread from CONTEXT, the third argument of its signal handler (a ucontext_t).
 * Async-signal-safe: yes. Threads: the interrupted thread, in its handler; any with a copy of one. */
void observer_machine_registers(const void *context, struct unwind_registers *registers);

/* The stack pointer in REGISTERS, and how many bytes below it belong to the function (struct unwind_architecture).
 * Without reading what is not code: the handler's data need not be in memory. Async-signal-safe: yes. Threads: any. */
uint64_t observer_machine_sp(const struct unwind_registers *registers);
uint64_t observer_machine_red_zone(void);

/* Where the calling thread's own data is. Async-signal-safe: yes. Threads: any. */
uint64_t observer_machine_thread_pointer(void);

#endif
