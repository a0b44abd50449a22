/* CUnwind: a copied stack in, frames out.
 *
 *   unwinder.h             the unwinder
 *   unwind_stack.h         what it is given and makes
 *   stack_copy.h           a copied stack
 *   unwind_registers.h     registers of a thread
 *   unwind_architecture.h  what is different between processor architectures
 *   unwind_code.h          what instructions do
 */
#ifndef CUNWIND_H
#define CUNWIND_H

#include "stack_copy.h"
#include "unwind_architecture.h"
#include "unwind_code.h"
#include "unwind_registers.h"
#include "unwind_stack.h"
#include "unwinder.h"

#endif
