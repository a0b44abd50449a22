/* The observing path (docs/internals/architecture.md). The monitor and the samplers take no lock that a service's
 * thread can hold, and allocate nothing after start-up. */
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
