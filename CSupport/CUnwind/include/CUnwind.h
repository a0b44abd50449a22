#ifndef CUNWIND_H
#define CUNWIND_H

#include "stack_copy.h"
#include "unwind_architecture.h"
#include "unwind_code.h"
#include "unwind_registers.h"
#include "unwind_stack.h"
#include "unwinder.h"

#endif
