/* The observing path (docs/internals/architecture.md). The monitor and the samplers take no lock that a service's
 * thread can hold, and allocate nothing after start-up. */
#ifndef COBSERVER_H
#define COBSERVER_H

#include "base/observer_base.h"
#include "base/observer_machine.h"
#include "base/observer_residency.h"
#include "capture/observer_capture.h"
#include "capture/observer_copy.h"
#include "capture/observer_signal.h"
#include "capture/observer_unwind.h"
#include "evidence/observer_descriptor.h"
#include "evidence/observer_evidence.h"
#include "evidence/observer_lock.h"
#include "evidence/observer_passive.h"
#include "evidence/observer_queue.h"
#include "evidence/observer_restarted_call.h"
#include "slots/observer_exempt.h"
#include "slots/observer_owners.h"
#include "slots/observer_series.h"
#include "slots/observer_slot.h"
#include "slots/observer_stall.h"
#include "slots/observer_thread.h"
#include "slots/observer_visit.h"
#include "tasks/observer_enqueues.h"
#include "tasks/observer_swift_task.h"
#include "tasks/observer_task_memory.h"
#include "tasks/observer_task_search.h"
#include "tasks/observer_task_work.h"
#include "transport/observer_control.h"
#include "transport/observer_hang_notes.h"
#include "transport/observer_last_stacks.h"
#include "transport/observer_own_use.h"
#include "transport/observer_ring.h"
#include "transport/observer_sampling.h"

#endif
