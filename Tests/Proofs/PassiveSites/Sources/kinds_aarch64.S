/* Frames that compilers rarely or never make. */
  .text
.macro function name
  .balign 16
  .globl \name
  .type \name, %function
\name:
.endm

function kinds_through_stub
  .cfi_startproc
  str x30, [sp, -16]!
  .cfi_def_cfa_offset 16
  .cfi_offset x30, -16
  adr x0, text
  bl strlen
  .globl kinds_stub_return
kinds_stub_return:
  ldr x30, [sp], 16
  .cfi_def_cfa_offset 0
  .cfi_restore x30
  ret
text: .asciz "text"
  .balign 4
  .cfi_endproc

/* No .cfi directives: the unwind table has no entry for these functions. */
function kinds_bare_framed
  stp x29, x30, [sp, -32]!
  mov x29, sp
  str x19, [sp, 16]
  bl kinds_inner
  ldr x19, [sp, 16]
  ldp x29, x30, [sp], 32
  ret

function kinds_bare_unframed
  sub sp, sp, 32
  str x30, [sp, 16]
  bl kinds_inner
  ldr x30, [sp, 16]
  add sp, sp, 32
  ret

function kinds_bare_leaf
  mov w9, 20
1: subs w9, w9, 1
  b.ne 1b
  ret

/* Functions with unwind information that jump to functions without it. */
function kinds_jumps_to_leaf
  .cfi_startproc
  b kinds_jumped_leaf
  .cfi_endproc

function kinds_jumps_to_framed
  .cfi_startproc
  b kinds_jumped_framed
  .cfi_endproc

function kinds_jumped_leaf
  mov w9, 20
1: subs w9, w9, 1
  b.ne 1b
  ret

function kinds_jumped_framed
  stp x29, x30, [sp, -48]!
  mov x29, sp
  str x19, [sp, 16]
  adr x9, kinds_trap
  str x9, [sp, 24]
  mov w9, 20
1: subs w9, w9, 1
  b.ne 1b
  ldr x19, [sp, 16]
  ldp x29, x30, [sp], 48
  ret

/* Ends in a jump through a register instead of a return. */
function kinds_bare_goes_on
  stp x19, x30, [sp, -32]!
  str x20, [sp, 16]
  mov w9, 20
1: subs w9, w9, 1
  b.ne 1b
  adr x16, kinds_jumped_leaf
  ldr x20, [sp, 16]
  ldp x19, x30, [sp], 32
  br x16

/* Jumps through a table, and calls a function that does not return. */
function kinds_bare_switch
  stp x29, x30, [sp, -32]!
  mov x29, sp
  str x19, [sp, 16]
  adrp x9, :got:kinds_sink
  ldr x9, [x9, :got_lo12:kinds_sink]
  ldr w9, [x9]
  and w9, w9, 1
  adrp x10, 4f
  add x10, x10, :lo12:4f
  ldrsw x9, [x10, x9, lsl 2]
  add x9, x10, x9
  br x9
2: mov w9, 20
1: subs w9, w9, 1
  b.ne 1b
  b 5f
3: mov w9, 20
1: subs w9, w9, 1
  b.ne 1b
5: ldr x19, [sp, 16]
  ldp x29, x30, [sp], 32
  ret
  bl abort
  .section .rodata
  .balign 4
4: .word 2b - 4b, 3b - 4b
  .text

function kinds_trap
  .cfi_startproc
  nop
  udf 0
  ret
  .cfi_endproc

/* Its previous stack pointer is only in another register. */
function kinds_bare_lost
  stp x19, x30, [sp, -16]!
  mov w9, 3
1: subs w9, w9, 1
  b.ne 1b
  mov x10, 160
  mov x19, sp
  sub sp, sp, x10
  mov x30, 0
  mov w9, 20
1: subs w9, w9, 1
  b.ne 1b
  mov sp, x19
  ldp x19, x30, [sp], 16
  ret

/* Calls two functions by one instruction. A callee of the first function leaves its return address in an unused part of
 * the second function's frame. */
function kinds_left_over
  .cfi_startproc
  stp x19, x30, [sp, -16]!
  .cfi_def_cfa_offset 16
  .cfi_offset x19, -16
  .cfi_offset x30, -8
  adr x19, former
1: blr x19
  adr x9, latter
  cmp x9, x19
  mov x19, x9
  b.ne 1b
  ldp x19, x30, [sp], 16
  .cfi_def_cfa_offset 0
  .cfi_restore x19
  .cfi_restore x30
  ret
  .cfi_endproc

function former
  .cfi_startproc
  str x30, [sp, -48]!
  .cfi_def_cfa_offset 48
  .cfi_offset x30, -48
  bl kinds_bare_leaf
  ldr x30, [sp], 48
  .cfi_def_cfa_offset 0
  .cfi_restore x30
  ret
  .cfi_endproc

function latter
  .cfi_startproc
  sub sp, sp, 128
  .cfi_def_cfa_offset 128
  str x30, [sp, 120]
  .cfi_offset x30, -8
  bl kinds_bare_lost
  ldr x30, [sp, 120]
  add sp, sp, 128
  .cfi_def_cfa_offset 0
  .cfi_restore x30
  ret
  .cfi_endproc
  .section .note.GNU-stack, "", %progbits
