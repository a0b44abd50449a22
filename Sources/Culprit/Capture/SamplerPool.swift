import CCulpritLinux
import CCulpritObserver

/// The samplers of a watchdog: one is active, and spare ones replace a sampler that the kernel blocks.
final class SamplerPool: @unchecked Sendable {
  // SAFETY: the fields behind the pointer are atomic, and the memory outlives the threads that use it.
  let sampling: UnsafeMutablePointer<observer_sampling>
  private let rings: Recorder.Rings
  private let stackBytesMax: Int
  private let backoffs: MonitorTable<SampleBackoff>
  private let lastSamples: MonitorTable<LastSample>
  private let threads = Mutex<[PosixThread]>([])

  /// Creates the samplers; `nil` without memory. `budget` is in percent of one CPU.
  init?(stackBytesMax: Int, budget: Int, _ rings: Recorder.Rings) {
    guard let backoffs = MonitorTable<SampleBackoff>(count: Int(OBSERVER_SLOTS_MAX)),
      let lastSamples = MonitorTable<LastSample>(count: Int(OBSERVER_SLOTS_MAX)),
      let sampling = observer_sampling_create()
    else { return nil }
    self.backoffs = backoffs
    self.lastSamples = lastSamples
    observer_sampling_set_budget(sampling, UInt32(clamping: budget))
    self.sampling = sampling
    self.rings = rings
    self.stackBytesMax = stackBytesMax
  }

  deinit { observer_sampling_destroy(sampling) }

  var isStopping: Bool { observer_sampling_stopping(sampling) }

  /// Number of samplers blocked by the kernel, and of all samplers.
  var heldUp: (samplers: Int, of: Int) {
    (Int(observer_sampling_held_up(sampling)), Int(observer_sampling_count(sampling)))
  }

  /// Starts the threads and waits for their allocations, because an immediate stall might hold the allocator's lock. A
  /// missing context is no error: blocked samplers of an earlier watchdog might still use it.
  func start(
    _ control: ControlBlock,
    slots: UnsafeMutablePointer<observer_slot>,
    stalls: UnsafeMutablePointer<observer_stall>
  ) throws(WatchdogError) {
    for number in 0..<Int(OBSERVER_SAMPLERS_MAX) {
      let hasMemory = Promise<Bool>()
      // Created here: each thread that allocates reserves an arena.
      let created = SamplerBox(
        Sampler(
          number: UInt32(number),
          sampling: sampling,
          control: control.pointer,
          slots: slots,
          stalls: stalls,
          backoffs: backoffs.pointer,
          lastSamples: lastSamples.pointer,
          ring: rings.samplers[number]
        )
      )
      let thread = try PosixThread(name: "culprit-sample") { [self] in
        let stack = clinux_keep_stack_resident(number == 0)
        defer { clinux_let_go_resident(stack) }
        defer { clinux_context_leave() }
        // The sampler opens many files of /proc for a short time.
        _ = clinux_descriptor_take_own_table()
        _ = clinux_keep_root()
        // On this thread's stack, which stays resident.
        let hasContext = clinux_context_enter() != 0
        let isReady = hasContext && prepare()
        guard isReady, var sampler = created.sampler.take() else { return hasMemory.fulfill(!hasContext) }
        observer_sampler_ready(sampling, UInt32(number))
        hasMemory.fulfill(true)
        // From here on the thread takes no locks and does not use the runtime.
        clinux_fork_leave()
        sampler.run()
        clinux_fork_enter()
      }
      threads.withLock { $0.append(thread) }
      guard hasMemory.wait(until: .max) == true || number > 0 else { throw .unsupported("out of memory") }
    }
  }

  private func prepare() -> Bool {
    clinux_memory_start_context()
    clinux_thread_pointer_learn_stacks()
    return observer_capture_prepare(stackBytesMax) == 0 && observer_passive_start(stackBytesMax) == 0
      && clinux_task_start() == 0 && observer_unwind_prepare() == nil
  }

  /// Waits for the threads until `deadline`; at most one second if the kernel blocks one. Returns whether all have
  /// ended.
  @discardableResult
  func stop(until deadline: UInt64) -> Bool {
    observer_sampling_stop(sampling)
    let soon = min(deadline, clinux_clock_ns() &+ 1_000_000_000)
    let hasHeldUp = heldUp.samplers > 0
    return threads.withLock { $0 }.map { $0.join(until: hasHeldUp ? soon : deadline) }.allSatisfy { $0 }
  }

  private final class SamplerBox: @unchecked Sendable {
    // SAFETY: after its creation, only the sampler's thread uses it.
    var sampler: Sampler?

    init(_ sampler: consuming Sampler) { self.sampler = consume sampler }
  }
}
