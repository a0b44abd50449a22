import Foundation
import TestSupport
import Testing

@Suite(.ownThread) struct UnwinderLockTests {
  @TemporaryDirectory private var directory: String

  /// A preloaded library that loads libunwind into the global scope and blocks in it, with the lock of the pool from
  /// which every step allocates.
  private static let source = """
    #define _GNU_SOURCE
    #include <dlfcn.h>
    #include <errno.h>
    #include <libunwind.h>
    #include <link.h>
    #include <pthread.h>
    #include <stdint.h>
    #include <stdio.h>
    #include <string.h>
    #include <unistd.h>
    #define TEXT(name) #name
    #define NAME_OF(name) TEXT(name)
    #if defined(__x86_64__)
    #define LIBRARY "libunwind-x86_64.so.8"
    #else
    #define LIBRARY "libunwind-aarch64.so.8"
    #endif

    static void *library;
    static __thread int armed;
    static volatile int holding;

    int pthread_mutex_lock(pthread_mutex_t *mutex) {
      static int (*next)(pthread_mutex_t *);
      if (!next)
        next = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_lock");
      int result = next(mutex);
      if (armed) {
        armed = 0;
        holding = 1;
        for (;;)
          pause();
      }
      return result;
    }

    static int access_mem(unw_addr_space_t space, unw_word_t address, unw_word_t *value, int write, void *context) {
      *value = *(unw_word_t *)address;
      return 0;
    }
    static uint64_t registers[64];
    static int access_reg(unw_addr_space_t space, unw_regnum_t number, unw_word_t *value, int write, void *context) {
      *value = number == UNW_REG_IP ? registers[0] : (unw_word_t)registers;
      return 0;
    }
    static int (*search)(unw_addr_space_t, unw_word_t, unw_dyn_info_t *, unw_proc_info_t *, int, void *);
    static int find(unw_addr_space_t space, unw_word_t address, unw_proc_info_t *information, int need, void *context) {
      struct dl_find_object object;
      if (_dl_find_object((void *)address, &object) != 0)
        return -UNW_ENOINFO;
      unw_dyn_info_t table;
      memset(&table, 0, sizeof table);
      table.start_ip = (unw_word_t)object.dlfo_map_start;
      table.end_ip = (unw_word_t)object.dlfo_map_end;
      table.format = UNW_INFO_FORMAT_REMOTE_TABLE;
      table.u.rti.segbase = (unw_word_t)object.dlfo_eh_frame;
      table.u.rti.table_data = (unw_word_t)object.dlfo_eh_frame + 12;
      table.u.rti.table_len = *(uint32_t *)((char *)object.dlfo_eh_frame + 8);
      return search(space, address, &table, information, need, context);
    }
    static void put(unw_addr_space_t space, unw_proc_info_t *information, void *context) {}

    static int no_list(unw_addr_space_t space, unw_word_t *address, void *context) { return -UNW_ENOINFO; }

    static void *hold(void *none) {
      static unw_accessors_t accessors = {
          .find_proc_info = find, .put_unwind_info = put, .get_dyn_info_list_addr = no_list, .access_mem = access_mem, .access_reg = access_reg};
      unw_addr_space_t (*create)(unw_accessors_t *, int) = dlsym(library, NAME_OF(unw_create_addr_space));
      int (*begin)(unw_cursor_t *, unw_addr_space_t, void *) = dlsym(library, NAME_OF(unw_init_remote));
      int (*step)(unw_cursor_t *) = dlsym(library, NAME_OF(unw_step));
      static unw_cursor_t cursor;
      registers[0] = (uint64_t)dlsym(RTLD_DEFAULT, "qsort") + 16;
      unw_addr_space_t space = create(&accessors, 0);
      begin(&cursor, space, NULL);
      armed = 1;
      step(&cursor);
      // The step took no lock, so the test must fail.
      holding = -1;
      return NULL;
    }

    __attribute__((constructor)) static void start(void) {
      pthread_t thread;
      if (!strstr(program_invocation_name, "restricted-process"))
        return;
      library = dlopen(LIBRARY, RTLD_NOW | RTLD_GLOBAL);
      if (!library)
        _exit(9);
      search = dlsym(library, NAME_OF(UNW_OBJ(dwarf_search_unwind_table)));
      pthread_create(&thread, NULL, hold, NULL);
      while (holding == 0)
        usleep(1000);
      if (holding < 0)
        _exit(8);
    }
    """

  @Test func ignoresLocksOfServiceLibunwind() throws {
    let library = try compiledLibrary(Self.source, name: "holder", in: directory)
    let child = try ChildProcess(
      "/usr/bin/timeout",
      ["--signal=KILL", "60", ChildProcess.built("restricted-process")],
      environment: ["LD_PRELOAD": library]
    )
    let lines = child.output.split(separator: "\n").map(String.init).filter { !$0.hasPrefix("limitation: ") }
    #expect(
      lines == [
        "computing: computeForLong(), captured", "asleep: sleepForLong(), captured", "profiled: 0",
        "interrupted: false",
      ],
      "\(child)"
    )
  }
}
