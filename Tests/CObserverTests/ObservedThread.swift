import CCulpritLinux
import CCulpritObserver
import CCulpritUnwind
import CulpritStallRecord
import CulpritSymbols
import Glibc
import Synchronization
import TestWorkloads
import Testing

@testable import Culprit

/// A body that runs until its flag becomes nonzero.
typealias Workload = @convention(c) (UnsafePointer<Int32>?) -> Void

/// The result of sampling a thread.
struct Sighting {
  var status: observer_capture_status
  /// The state reported by the kernel, for a passive capture.
  var threadStatus = observer_thread_status()
  var frames: [unwind_frame] = []
  var end = UNWIND_END_NOT_CAPTURED
  /// Raw function names; "?" for an unknown function.
  var names: [String] = []
  /// The index of the first frame that came from an earlier stack, or 0.
  var joinedFrom = 0
  var leftOut = 0
  var copy = stack_copy()

  func shows(_ expected: [String]) -> Bool {
    var rest = expected[...]
    for name in names where name == rest.first { rest = rest.dropFirst() }
    return rest.isEmpty
  }

  func isComplete(showing expected: [String]) -> Bool {
    status == OBSERVER_CAPTURED && end == UNWIND_END_OUTERMOST && shows(expected)
  }
}

// SAFETY: only tests that hold the observer use the symbols, one at a time.
/// This process's symbols. Shared, because reading them takes longer than most tests.
nonisolated(unsafe) let ownFiles = SharedFiles()

struct ObservedThread {
  let slot: UnsafeMutablePointer<observer_slot>
  private let symbols = Symbols()
  private let buffers = Buffers()
  private var joins = false

  init(slot: UnsafeMutablePointer<observer_slot>) { self.slot = slot }

  /// This thread with incomplete stacks joined with earlier stacks.
  var joining: ObservedThread {
    var other = self
    other.joins = true
    return other
  }

  func name(ofCodeAt address: UInt64) -> String {
    symbols.name(unwind_frame(address: address, kind: UNWIND_PROGRAM_COUNTER.rawValue, offset: UNWIND_NO_OFFSET))
  }

  /// Captures by signal and waits up to ten seconds by default.
  func signalled(
    timeout: Duration = .seconds(10),
    item: UInt64? = nil,
    generation: UInt32 = 1,
    check: (stack_copy) -> Void = { _ in }
  ) -> Sighting {
    let view = observer_slot_read(slot)
    var copy: UnsafePointer<stack_copy>?
    let status = observer_capture(view.thread, slot, item ?? view.item, timeout.wholeNanoseconds, &copy)
    guard let copy, status == OBSERVER_CAPTURED else { return Sighting(status: status) }
    defer { observer_capture_release(copy) }
    check(copy.pointee)
    return sighting(of: copy.pointee, generation: generation)
  }

  func passively(check: (stack_copy) -> Void = { _ in }) -> Sighting {
    let view = observer_slot_read(slot)
    var threadStatus = observer_thread_status()
    var copy: UnsafePointer<stack_copy>?
    let status = observer_capture_passively(view.thread, slot, view.item, &threadStatus, &copy)
    guard let copy, status == OBSERVER_CAPTURED else { return Sighting(status: status, threadStatus: threadStatus) }
    check(copy.pointee)
    return sighting(of: copy.pointee, threadStatus)
  }

  func blocked() throws -> Sighting {
    while true {
      let seen = passively()
      if seen.status == OBSERVER_CAPTURED { return seen }
      usleep(1000)
    }
  }

  /// Unwinds `copy`, which must not have been released.
  func sighting(
    of copy: stack_copy,
    _ threadStatus: observer_thread_status = observer_thread_status(),
    generation: UInt32 = 1
  ) -> Sighting {
    var copy = copy
    var stack = unwind_stack()
    stack.frames = buffers.frames
    stack.places = buffers.places
    stack.end = UNWIND_END_FAILED
    observer_unwind(&copy, &stack)
    if joins {
      let view = observer_slot_read(slot)
      let tid = view.thread.map { observer_thread_id($0) } ?? 0
      observer_join(&copy, unwind_work_item(slot: 0, generation: generation, began_ns: view.item, tid: tid), &stack)
    }
    let frames = Array(UnsafeBufferPointer(start: buffers.frames, count: Int(stack.count)))
    return Sighting(
      status: OBSERVER_CAPTURED,
      threadStatus: threadStatus,
      frames: frames,
      end: stack.end,
      names: frames.map(symbols.name),
      joinedFrom: Int(stack.joined_from),
      leftOut: Int(stack.left_out),
      copy: copy
    )
  }

  private final class Buffers {
    let frames = UnsafeMutablePointer<unwind_frame>.allocate(capacity: Int(UNWIND_FRAMES_MAX))
    let places = UnsafeMutablePointer<UInt64>.allocate(capacity: Int(UNWIND_FRAMES_MAX))
    deinit {
      frames.deallocate()
      places.deallocate()
    }
  }

  /// Names for addresses, from the modules that are mapped at the first use.
  private final class Symbols {
    private lazy var symbolizer = Symbolizer(modules: ProcessMap.modules(), shared: ownFiles)

    func name(_ frame: unwind_frame) -> String {
      let address = RuntimeAddress(frame.address)
      let isReturn = frame.kind == UNWIND_RETURN_ADDRESS.rawValue
      return symbolizer.resolve(isReturn ? .returnAddress(address) : .programCounter(address)).first?.rawName ?? "?"
    }
  }
}

/// Waits until the thread of `slot` runs its body: it has computed for a millisecond, or blocks.
func waitForBody(_ slot: UnsafeMutablePointer<observer_slot>) {
  guard let thread = observer_slot_read(slot).thread else { return }
  let id = observer_thread_id(thread)
  func isRunnable() -> Bool {
    (try? String(contentsOfFile: "/proc/self/task/\(id)/stat", encoding: .utf8))?.contains(") R ") == true
  }
  let begin = clinux_clock_thread_cpu_ns(id)
  while clinux_clock_thread_cpu_ns(id) < begin + 1_000_000, isRunnable() { usleep(100) }
}

/// Runs `body` on a thread that has marked slot `index`, and `reading` on the calling thread.
func observing(
  slot index: Int,
  stackBytes: Int = 128 << 10,
  _ body: @escaping Workload,
  while reading: (ObservedThread) throws -> Void
) throws {
  final class Job {
    let slot: UnsafeMutablePointer<observer_slot>
    let body: Workload
    let hasEnded = Atomic<Bool>(false)
    init(_ slot: UnsafeMutablePointer<observer_slot>, _ body: @escaping Workload) {
      self.slot = slot
      self.body = body
    }
  }
  try prepareObserver(stackBytes: stackBytes)
  try withSlot(index) { slot in
    let job = Job(slot, body)
    try withExtendedLifetime(job) {
      let thread = workload_thread_start(
        { context, stop in
          guard let context else { return }
          // SAFETY: the job is kept alive until the thread has been joined.
          let job = Unmanaged<Job>.fromOpaque(context).takeUnretainedValue()
          observer_slot_begin(job.slot)
          job.body(stop)
          observer_slot_end(job.slot)
          job.hasEnded.store(true, ordering: .releasing)
        },
        Unmanaged.passUnretained(job).toOpaque()
      )
      defer { workload_thread_stop(thread) }
      while observer_slot_work_item(slot) == 0, !job.hasEnded.load(ordering: .acquiring) { sched_yield() }
      waitForBody(slot)
      try reading(ObservedThread(slot: slot))
    }
  }
}

/// Whether memory can be read. The first use chooses the method, before any test reads.
let canReadMemory = clinux_memory_start() != CLINUX_MEMORY_UNREADABLE

func prepareObserver(stackBytes: Int = 128 << 10) throws {
  try #require(canReadMemory)
  try #require(observer_unwind_start() == nil)
  try #require(observer_capture_start(stackBytes) == 0)
  try #require(observer_passive_start(stackBytes) == 0)
}
