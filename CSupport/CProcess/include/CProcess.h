/* CProcess: the end of a process, and its records.
 *
 * Headers:
 *   cprocess_escalation.h  state shared by the escalation thread and the rest of the watchdog
 *   cprocess_abort.h     ending a stuck process
 *   cprocess_crash.h     a record of the signal that ends the process
 *   cprocess_ending.h    the end of the process by exit(3)
 *   cprocess_pending.h   lines of pending reports
 *   cprocess_sigterm.h   observing SIGTERM without changing its effect
 *   cprocess_datagram.h  nonblocking datagrams to a Unix socket
 *   cprocess_cpu.h       CPU time */
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
