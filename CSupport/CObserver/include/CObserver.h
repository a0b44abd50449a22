/* CObserver: the observing path.
 *
 * Watched threads mark the begin and end of their work in target slots; the monitor thread reads the slots, copies a
 * stuck thread's registers and stack, unwinds the copy and passes the result through a ring to the recorder thread.
 * Nothing here takes a lock that a service's thread can hold, and nothing allocates after start-up.
 *
 * Which header for what:
 *   observer_base.h     attributes and limits
 *   observer_process.h  which process this is, as far as fork(2) goes
 *   observer_lock.h     a lock that a child of fork(2) can use
 *   observer_descriptor.h  descriptors that are kept open, and may have been closed by the service
 *   observer_clock.h    the clocks, in nanoseconds
 *   observer_wait.h     bounded waiting for a 32-bit word to change, without a lock
 *   observer_memory.h   reading memory that may be gone
 *   observer_control.h  what the monitor and the rest of the watchdog tell each other
 *   observer_environment.h  the environment
 *   observer_thread.h   threads that watched work runs on
 *   observer_scheduling.h  how the watchdog's own threads are scheduled
 *   observer_task.h     all threads of the process
 *   observer_context.h  which set of working memory a thread uses
 *   observer_sampling.h what the monitor and the samplers tell each other
 *   observer_remote.h   modules on file systems that may not answer
 *   observer_residency.h  keeping in memory what must always work
 *   observer_slot.h     target slots: which thread works on what since when
 *   observer_machine.h  registers of an interrupted thread, per processor architecture
 *   observer_signal.h   a signal that disturbs nothing its thread does
 *   observer_capture.h  the signal handler that copies a thread's registers and stack
 *   observer_passive.h  reading a blocked thread from outside
 *   observer_mask.h     which signals a thread lets in
 *   observer_module.h   which module an address is in, without the loader's lock
 *   observer_unwind.h   frames from a copied stack, by CUnwind
 *   observer_progress.h how far stalls have come
 *   observer_warden.h   what the warden and the rest of the watchdog tell each other
 *   observer_cpu.h      processor time
 *   observer_abort.h    the end of a process that is stuck
 *   observer_sigterm.h  noticing SIGTERM without changing what it does
 *   observer_crash.h    a note about the signal that ends the process
 *   observer_datagram.h datagrams to a Unix socket, without waiting
 *   observer_ring.h     the way from the monitor to the recorder
 *   observer_restarted_call.h  which system call restart_syscall(2) has begun anew
 */
#ifndef COBSERVER_H
#define COBSERVER_H

#include "observer_abort.h"
#include "observer_base.h"
#include "observer_capture.h"
#include "observer_clock.h"
#include "observer_context.h"
#include "observer_control.h"
#include "observer_cpu.h"
#include "observer_crash.h"
#include "observer_datagram.h"
#include "observer_descriptor.h"
#include "observer_environment.h"
#include "observer_lock.h"
#include "observer_machine.h"
#include "observer_mask.h"
#include "observer_memory.h"
#include "observer_module.h"
#include "observer_passive.h"
#include "observer_process.h"
#include "observer_progress.h"
#include "observer_remote.h"
#include "observer_residency.h"
#include "observer_restarted_call.h"
#include "observer_ring.h"
#include "observer_sampling.h"
#include "observer_scheduling.h"
#include "observer_signal.h"
#include "observer_sigterm.h"
#include "observer_slot.h"
#include "observer_task.h"
#include "observer_thread.h"
#include "observer_unwind.h"
#include "observer_wait.h"
#include "observer_walk_self.h"
#include "observer_warden.h"

#endif
