/* CProcess: how a process ends, and what it tells of that.
 *
 * Which header for what:
 *   cprocess_escalation.h  what the escalation thread and the rest of the watchdog tell each other
 *   cprocess_abort.h     the end of a process that is stuck
 *   cprocess_crash.h     a note about the signal that ends the process
 *   cprocess_ending.h    the end of the process by exit(3)
 *   cprocess_pending.h   lines of reports that are pending
 *   cprocess_sigterm.h   noticing SIGTERM without changing what it does
 *   cprocess_datagram.h  datagrams to a Unix socket, without waiting
 *   cprocess_cpu.h       processor time
 */
#ifndef CPROCESS_H
#define CPROCESS_H

#include "cprocess_abort.h"
#include "cprocess_cpu.h"
#include "cprocess_crash.h"
#include "cprocess_datagram.h"
#include "cprocess_ending.h"
#include "cprocess_escalation.h"
#include "cprocess_pending.h"
#include "cprocess_sigterm.h"

#endif
