/* CObserver: the observing path.
 *
 * Watched threads mark the begin and end of their work in target slots. The monitor thread reads the slots and asks a
 * sampler thread for stacks; the sampler has a stuck thread's registers and stack copied, unwinds the copy and passes
 * the result through a ring to the recorder thread. The monitor and the samplers take no lock that a service's thread
 * can hold, and allocate nothing after start-up. A watched thread's first mark registers it, which locks and can
 * allocate (observer_thread.h); later marks do neither.
 *
 * Headers:
 *   observer_base.h     limits
 *   observer_control.h  state shared by the monitor and the rest of the watchdog
 *   observer_exempt.h   scopes whose time does not count
 *   observer_thread.h   threads that run watched work
 *   observer_sampling.h state shared by the monitor and the samplers
 *   observer_residency.h  locking the observer's code in memory
 *   observer_series.h   counters of a source, for metrics
 *   observer_slot.h     target slots: thread and begin time of each work item
 *   observer_machine.h  registers of an interrupted thread, per processor architecture
 *   observer_signal.h   sending a signal that does not disturb its thread
 *   observer_capture.h  the signal handler that copies a thread's registers and stack
 *   observer_copy.h     room for copies of stacks
 *   observer_visit.h    temporary entries of threads
 *   observer_own_use.h  CPU time of the watchdog's own threads
 *   observer_owners.h   several threads that work on one work item
 *   observer_queue.h    the length of a libdispatch queue
 *   observer_task_memory.h tasks in the memory of Swift's runtime
 *   observer_task_search.h determining the layout of tasks
 *   observer_task_work.h   the thread that works for a task
 *   observer_swift_task.h  stacks of tasks
 *   observer_enqueues.h    counts of each task's enqueues
 *   observer_passive.h  reading a blocked thread from outside
 *   observer_descriptor.h  the file of a system call's descriptor
 *   observer_evidence.h    other kernel data about a thread and its surroundings
 *   observer_lock.h        the owner of the lock for which a blocked thread waits
 *   observer_unwind.h   frames of a copied stack, by CUnwind
 *   observer_stall.h    ongoing stalls
 *   observer_last_stacks.h the last stacks of stalls
 *   observer_hang_notes.h  notes of stalls that the recorder does not record
 *   observer_ring.h     event rings from the monitor and the samplers to the recorder
 *   observer_restarted_call.h  system calls restarted by restart_syscall(2) */
#ifndef COBSERVER_H
#define COBSERVER_H

#include "observer_base.h"
#include "observer_capture.h"
#include "observer_control.h"
#include "observer_copy.h"
#include "observer_descriptor.h"
#include "observer_enqueues.h"
#include "observer_evidence.h"
#include "observer_exempt.h"
#include "observer_hang_notes.h"
#include "observer_last_stacks.h"
#include "observer_lock.h"
#include "observer_machine.h"
#include "observer_own_use.h"
#include "observer_owners.h"
#include "observer_passive.h"
#include "observer_queue.h"
#include "observer_residency.h"
#include "observer_restarted_call.h"
#include "observer_ring.h"
#include "observer_sampling.h"
#include "observer_series.h"
#include "observer_signal.h"
#include "observer_slot.h"
#include "observer_stall.h"
#include "observer_swift_task.h"
#include "observer_task_memory.h"
#include "observer_task_search.h"
#include "observer_task_work.h"
#include "observer_thread.h"
#include "observer_unwind.h"
#include "observer_visit.h"

#endif
