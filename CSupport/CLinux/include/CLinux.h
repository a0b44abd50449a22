/* CLinux: the ground. What the rest needs of Linux and Swift's Glibc module lacks: nothing here knows of slots,
 * captures or stalls.
 *
 * Which header for what:
 *   clinux_base.h         what every header needs
 *   clinux_clock.h        the clocks, in nanoseconds
 *   clinux_test_clock.h   the seam by which tests decide when time passes
 *   clinux_wait.h         bounded waiting for a 32-bit word to change, without a lock
 *   clinux_process.h      which process this is, as far as fork(2) goes
 *   clinux_fork.h         threads that stand aside while the process forks
 *   clinux_lock.h         a lock that a child of fork(2) can use
 *   clinux_descriptor.h   descriptors that are kept open, and may have been closed by the service
 *   clinux_files.h        opening files
 *   clinux_environment.h  the environment
 *   clinux_context.h      which set of working memory a thread uses
 *   clinux_memory.h       reading memory that may be gone
 *   clinux_module.h       which module an address is in, without the loader's lock
 *   clinux_remote.h       modules on file systems that may not answer
 *   clinux_residency.h    keeping in memory what must always work
 *   clinux_task.h         all threads of the process
 *   clinux_thread_pointer.h  where threads have their thread-local storage
 *   clinux_mask.h         which signals a thread lets in
 *   clinux_scheduling.h   how the watchdog's own threads are scheduled
 *   clinux_walk_self.h    the calling thread's own stack
 */
#ifndef CLINUX_H
#define CLINUX_H

#include "clinux_base.h"
#include "clinux_clock.h"
#include "clinux_context.h"
#include "clinux_descriptor.h"
#include "clinux_environment.h"
#include "clinux_files.h"
#include "clinux_fork.h"
#include "clinux_lock.h"
#include "clinux_mask.h"
#include "clinux_memory.h"
#include "clinux_module.h"
#include "clinux_process.h"
#include "clinux_remote.h"
#include "clinux_residency.h"
#include "clinux_scheduling.h"
#include "clinux_task.h"
#include "clinux_test_clock.h"
#include "clinux_thread_pointer.h"
#include "clinux_wait.h"
#include "clinux_walk_self.h"
#include "clinux_watchpoint.h"

#endif
