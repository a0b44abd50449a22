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
