/* Chain functions without unwind information: code generated at run time, and closures of libffi. */
#define _GNU_SOURCE
#include "sites.h"

#include <ffi.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Position-independent code in bare_x86_64.S. */
extern const uint8_t framed_code[], framed_code_end[], unframed_code[], unframed_code_end[];

static int run_copy(const uint8_t *code, const uint8_t *end, int (*function)(void *), void *context) {
  enum { PAGE = 4096 };
  uint8_t *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED)
    abort();
  memcpy(page, code, (size_t)(end - code));
  mprotect(page, PAGE, PROT_READ | PROT_EXEC);
  int (*copy)(int (*)(void *), void *) = (int (*)(int (*)(void *), void *))(void *)page;
  int result = copy(function, context);
  munmap(page, PAGE);
  return result;
}

int through_made_framed(int (*function)(void *), void *context) {
  return run_copy(framed_code, framed_code_end, function, context) + 1;
}

int through_made_unframed(int (*function)(void *), void *context) {
  return run_copy(unframed_code, unframed_code_end, function, context) + 1;
}

static void handle(ffi_cif *interface, void *result, void **arguments, void *function) {
  (void)interface;
  *(ffi_arg *)result = (ffi_arg)((int (*)(void *))function)(*(void **)arguments[0]);
}

int through_closure(int (*function)(void *), void *context) {
  ffi_cif interface;
  ffi_type *parameters[] = {&ffi_type_pointer};
  void *code, *arguments[] = {&context};
  ffi_arg result = 0;
  ffi_closure *closure = ffi_closure_alloc(sizeof *closure, &code);
  if (!closure || ffi_prep_cif(&interface, FFI_DEFAULT_ABI, 1, &ffi_type_sint, parameters) != FFI_OK ||
      ffi_prep_closure_loc(closure, &interface, handle, (void *)function, code) != FFI_OK)
    abort();
  ffi_call(&interface, (void (*)(void))code, &result, arguments);
  ffi_closure_free(closure);
  return (int)result;
}
