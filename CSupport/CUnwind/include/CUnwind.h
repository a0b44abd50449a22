/* CUnwind: finds the frames of a copied stack.
 *
 *   unwinder.h             the unwinder
 *   unwind_stack.h         its input and output
 *   stack_copy.h           a copied stack
 *   unwind_registers.h     registers of a thread
 *   unwind_architecture.h  properties of processor architectures
 *   unwind_code.h          decoded instructions */
#ifndef CUNWIND_H
#define CUNWIND_H

#include "stack_copy.h"
#include "unwind_architecture.h"
#include "unwind_code.h"
#include "unwind_registers.h"
#include "unwind_stack.h"
#include "unwinder.h"

#endif
