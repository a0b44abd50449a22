import CCulpritLinux
import CCulpritObserver
import Synchronization

/// The samplers of a watchdog: the one at work, and spare ones for when the kernel holds it up.
final class SamplerPool: @unchecked Sendable {
  // SAFETY: the fields behind the pointer are atomic; freed when the last thread that uses it has ended.
  let sampling: UnsafeMutablePointer<observer_sampling>
  private let rings: Recorder.Rings
  private let stackBytesMax: Int
  private let backoffs: MonitorTable<SampleBackoff>
  private let looks: MonitorTable<LastLook>
  private let threads = Mutex<[PosixThread]>([])

  /// Samplers that copy stacks of up to `stackBytesMax` bytes; `nil` when there is no memory for what they share.
  ///
  /// - Parameters:
  ///   - stackBytesMax: The most bytes of a stack.
  ///   - budget: The processor time that the watchdog's threads may take, in percent of one processor.
  ///   - rings: The rings to the recorder.
  init?(stackBytesMax: Int, budget: Int, _ rings: Recorder.Rings) {
    guard let backoffs = MonitorTable<SampleBackoff>(count: Int(OBSERVER_SLOTS_MAX)),
      let looks = MonitorTable<LastLook>(count: Int(OBSERVER_SLOTS_MAX)),
      let sampling = observer_sampling_create()
    else { return nil }
    self.backoffs = backoffs
    self.looks = looks
    observer_sampling_set_budget(sampling, UInt32(clamping: budget))
    self.sampling = sampling
    self.rings = rings
    self.stackBytesMax = stackBytesMax
  }

  deinit { observer_sampling_destroy(sampling) }

  /// How many of them the kernel holds up, of how many.
  var heldUp: (samplers: Int, of: Int) {
    (Int(observer_sampling_held_up(sampling)), Int(observer_sampling_count(sampling)))
  }

  /// Starts the threads, and waits until they have what they need: work that stalls right away may hold the allocator's
  /// lock.
  ///
  /// - Throws: The error of the first one that cannot be started. Fewer than usual are no error: those of an earlier
  ///   watchdog may still be held up.
  func start(
    _ control: ControlBlock,
    slots: UnsafeMutablePointer<observer_slot>,
    stalls: UnsafeMutablePointer<observer_stall>
  ) throws(PosixThreadError) {
    let tables = Tables(slots: slots, stalls: stalls)
    for number in 0..<Int(OBSERVER_SAMPLERS_MAX) {
      let isReady = Promise<Bool>()
      let thread = try PosixThread(name: "culprit-sample") { [self] in
        let stack = clinux_keep_stack_resident(number == 0)
        defer { clinux_let_go_resident(stack) }
        defer { clinux_context_leave() }
        // Many files of /proc are open for a moment, and a service may close and open files meanwhile.
        _ = clinux_descriptor_take_own_table()
        _ = clinux_keep_root()
        guard clinux_context_enter() != 0, prepare(isFirst: number == 0) else {
          isReady.fulfill(false)
          return
        }
        var sampler = Sampler(
          number: UInt32(number),
          sampling: sampling,
          control: control.pointer,
          slots: tables.slots,
          stalls: tables.stalls,
          backoffs: backoffs.pointer,
          looks: looks.pointer,
          ring: rings.samplers[number]
        )
        observer_sampler_ready(sampling, UInt32(number))
        isReady.fulfill(true)
        // From here on no lock is taken, nor the runtime used.
        clinux_fork_leave()
        sampler.run()
        clinux_fork_enter()
      }
      threads.withLock { $0.append(thread) }
      _ = isReady.wait(until: .max)
    }
  }

  /// Allocates what the calling thread needs for taking stacks. The spare ones do with smaller caches.
  private func prepare(isFirst: Bool) -> Bool {
    clinux_memory_start_context()
    clinux_thread_pointer_learn_stacks()
    return observer_capture_prepare(stackBytesMax) == 0 && observer_passive_start(stackBytesMax) == 0
      && clinux_task_start() == 0 && observer_unwind_prepare(isFirst) == nil
  }

  /// Ends the threads, and waits for that until `deadline`: not for those that the kernel holds up. Returns whether all
  /// have ended.
  @discardableResult
  func stop(until deadline: UInt64) -> Bool {
    observer_sampling_stop(sampling)
    // A step that is just under way takes some milliseconds.
    let soon = min(deadline, clinux_clock_ns() &+ 1_000_000_000)
    let hasHeldUp = heldUp.samplers > 0
    return threads.withLock { $0 }.map { $0.join(until: hasHeldUp ? soon : deadline) }.allSatisfy { $0 }
  }

  private struct Tables: @unchecked Sendable {
    // SAFETY: the tables are never freed, and their fields are atomic.
    let slots: UnsafeMutablePointer<observer_slot>
    let stalls: UnsafeMutablePointer<observer_stall>
  }
}
