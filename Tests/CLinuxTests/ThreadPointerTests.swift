import CCulpritLinux
import Glibc
import Testing

/// Thread pointers from the C library's interface for debuggers.
@Suite(.serialized) struct ThreadPointerTests {
  init() {
    _ = clinux_memory_start()
    #expect(clinux_thread_pointer_start() == 0)
  }

  private func list(_ max: Int = 4096) -> [Int32: UInt64] {
    var found = [clinux_thread_pointer](repeating: clinux_thread_pointer(), count: max)
    var count = 0
    // In a separate context, the long listing does not delay reads of other tests.
    RunningThread {
      clinux_context_enter_watchers()
      count = clinux_thread_pointer_list(&found, max)
    }
    .join()
    #expect(count <= max)
    return Dictionary(found.prefix(count).map { ($0.tid, $0.pointer) }) { first, _ in first }
  }

  private func withThreads(_ count: Int, _ body: ([Int32: UInt64]) throws -> Void) rethrows {
    let own = UnsafeMutablePointer<clinux_thread_pointer>.allocate(capacity: count)
    let wakeup = Shared(clinux_wakeup())
    let threads = (0..<count).map { index in
      RunningThread {
        // SAFETY: each thread writes to its own element, and then notifies.
        own[index] = clinux_thread_pointer(pointer: clinux_thread_pointer_own(), tid: clinux_task_self())
        clinux_wakeup_notify(wakeup.pointer)
        while !clinux_wakeup_stopping(wakeup.pointer) {
          let seen = clinux_wakeup_seen(wakeup.pointer)
          if !clinux_wakeup_stopping(wakeup.pointer) { clinux_wakeup_wait(wakeup.pointer, seen, .max) }
        }
      }
    }
    while clinux_wakeup_seen(wakeup.pointer) < count { usleep(1000) }
    defer {
      clinux_wakeup_stop(wakeup.pointer)
      for thread in threads { thread.join() }
      own.deallocate()
    }
    try body(Dictionary(uniqueKeysWithValues: (0..<count).map { (own[$0].tid, own[$0].pointer) }))
  }

  @Test func listsPointerOfEachThread() {
    withThreads(40) { own in
      let found = list()
      for (id, pointer) in own {
        #expect(found[id] == pointer)
        #expect(clinux_thread_pointer_is(pointer, id))
      }
      #expect(found[clinux_task_self()] == clinux_thread_pointer_own())
      // The kernel, not the C library, allocated the main thread's stack.
      #expect(found[getpid()] != nil)
      #expect(Set(found.values).count == found.count)
      // The size of the buffer limits the list.
      #expect(list(7).count == 7 && list(0).isEmpty)
    }
  }

  /// A thread id is enough to find a thread's pointer and stack size.
  @Test func findsThreadsAndTheirStacks() {
    withThreads(40) { own in
      var found: [Int32: UInt64] = [:]
      var sizes: Set<UInt64> = []
      RunningThread {
        clinux_context_enter_watchers()
        clinux_thread_pointer_learn_stacks()
        for id in own.keys {
          var pointer: UInt64 = 0
          guard clinux_thread_pointer_find(id, &pointer) else { continue }
          found[id] = pointer
          sizes.insert(clinux_thread_pointer_stack_bytes(pointer))
        }
        var none: UInt64 = 0
        #expect(!clinux_thread_pointer_find(.max, &none))
      }
      .join()
      #expect(found == own)
      #expect(sizes.count == 1 && sizes.allSatisfy { $0 >= 16 << 10 }, "\(sizes)")
    }
  }

  @Test func rejectsPointersOfOtherThreads() {
    withThreads(2) { own in
      let ids = own.keys.sorted()
      let pointers = ids.compactMap { own[$0] }
      #expect(!clinux_thread_pointer_is(pointers[0], ids[1]) && !clinux_thread_pointer_is(pointers[1], ids[0]))
      for wrong: UInt64 in [0, 1, 64, pointers[0] + 8, pointers[0] - 64, .max] {
        #expect(!clinux_thread_pointer_is(wrong, ids[0]))
      }
    }
  }

  @Test func omitsEndedThreads() {
    var ended: [Int32: UInt64] = [:]
    withThreads(8) { ended = $0 }
    let found = list()
    for (id, pointer) in ended {
      #expect(found[id] == nil)
      #expect(!clinux_thread_pointer_is(pointer, id))
    }
  }

  /// Threads start and end during each listing. All listed entries must be correct.
  @Test func toleratesThreadChurn() {
    withThreads(4) { own in
      let isOver = Shared(clinux_wakeup())
      let churning = (0..<3)
        .map { _ in
          RunningThread {
            while !clinux_wakeup_stopping(isOver.pointer) { RunningThread {}.join() }
          }
        }
      var complete = 0
      for _ in 0..<3000 {
        let found = list()
        for (id, pointer) in own where found[id] != nil { #expect(found[id] == pointer) }
        if own.keys.allSatisfy({ found[$0] != nil }) { complete += 1 }
      }
      clinux_wakeup_stop(isOver.pointer)
      for thread in churning { thread.join() }
      // A concurrent change can truncate a list, but most lists must be complete.
      #expect(complete > 1500, "\(complete) of 3000 lists were complete")
    }
  }
}
