/* Linux interfaces that Swift's Glibc module lacks. The lowest layer. */
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
