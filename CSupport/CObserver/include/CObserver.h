/* CObserver: the observing path.
 *
 * Watched threads mark the begin and end of their work in target slots. The monitor thread reads the slots and asks a
 * sampler thread for stacks; the sampler has a stuck thread's registers and stack copied, unwinds the copy and passes
 * the result through a ring to the recorder thread. The monitor and the samplers take no lock that a service's thread
 * can hold, and allocate nothing after start-up. A watched thread's first mark registers it, which locks and may
 * allocate (observer_thread.h); later marks do neither.
 *
 * Which header for what:
 *   observer_base.h     limits
 *   observer_control.h  what the monitor and the rest of the watchdog tell each other
 *   observer_thread.h   threads that watched work runs on
 *   observer_sampling.h what the monitor and the samplers tell each other
 *   observer_residency.h  keeping in memory the code that must always work
 *   observer_series.h   what is counted of a source, for metrics
 *   observer_slot.h     target slots: which thread works on what since when
 *   observer_machine.h  registers of an interrupted thread, per processor architecture
 *   observer_signal.h   a signal that disturbs nothing its thread does
 *   observer_capture.h  the signal handler that copies a thread's registers and stack
 *   observer_copy.h     room for copies of stacks
 *   observer_visit.h    entries of threads that are captured once
 *   observer_own_use.h  the processor time of the watchdog's own threads
 *   observer_owners.h   several threads that work on one work item
 *   observer_queue.h    what waits in a queue of libdispatch's
 *   observer_task_memory.h what Swift's runtime keeps of tasks, and where
 *   observer_task_search.h finding out where that is
 *   observer_task_work.h   which thread works for a task
 *   observer_swift_task.h  the stacks of tasks
 *   observer_enqueues.h    how often each task was enqueued
 *   observer_passive.h  reading a blocked thread from outside
 *   observer_descriptor.h  what is behind the descriptor of a system call
 *   observer_evidence.h    what the kernel tells of a thread and its surroundings beside that
 *   observer_lock.h        who holds what a blocked thread waits for
 *   observer_unwind.h   frames from a copied stack, by CUnwind
 *   observer_stall.h    the stalls that go on
 *   observer_last_stacks.h the last stacks of stalls
 *   observer_hang_notes.h  notes of stalls that the recorder does not record
 *   observer_ring.h     the way from the monitor and the samplers to the recorder
 *   observer_restarted_call.h  which system call restart_syscall(2) has begun anew
 */
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
