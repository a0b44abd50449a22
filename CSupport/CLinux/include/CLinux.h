/* CLinux: Linux interfaces that Swift's Glibc module lacks. The lowest layer; it has no notion of slots, captures or
 * stalls.
 *
 * Headers:
 *   clinux_base.h         common definitions
 *   clinux_clock.h        clocks, in nanoseconds
 *   clinux_test_clock.h   the seam by which tests control time
 *   clinux_wait.h         bounded waiting for a 32-bit word to change, without a lock
 *   clinux_process.h      process identity across fork(2)
 *   clinux_fork.h         threads that rest while the process forks
 *   clinux_lock.h         a lock that a child of fork(2) can use
 *   clinux_descriptor.h   long-lived file descriptors that the service might close
 *   clinux_files.h        opening files
 *   clinux_environment.h  the environment
 *   clinux_context.h      the calling thread's set of working memory
 *   clinux_memory.h       reading memory that might be unmapped
 *   clinux_module.h       finding the module of an address, without the loader's lock
 *   clinux_residency.h    locking essential memory
 *   clinux_task.h         all threads of the process
 *   clinux_thread_pointer.h  thread pointers and thread-local storage
 *   clinux_mask.h         signal masks of threads
 *   clinux_scheduling.h   scheduling of the watchdog's own threads
 *   clinux_socket.h       stream sockets with a path
 *   clinux_walk_self.h    the calling thread's own stack
 *   clinux_watchpoint.h   detecting a thread's write to a word */
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
#include "clinux_residency.h"
#include "clinux_scheduling.h"
#include "clinux_socket.h"
#include "clinux_task.h"
#include "clinux_test_clock.h"
#include "clinux_thread_pointer.h"
#include "clinux_wait.h"
#include "clinux_walk_self.h"
#include "clinux_watchpoint.h"

#endif
