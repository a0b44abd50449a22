import CObserver
import Glibc
import StallRecord
import Synchronization

/// The thread that takes the monitor's events out of the ring, keeps the samples of what is under suspicion and saves
/// stalls as they happen.
///
/// It may block on the disk or in the allocator. The ring then fills up and samples are lost and counted; the monitor
/// never waits.
final class Recorder: Sendable {
  /// A unit of work that has been sampled.
  private struct Unit: ~Copyable {
    let unit: UInt64
    let generation: UInt32
    var store = SampleStore()
    var stall: Stall?
    var sink: StallFileSink?
    /// The stacks that the file has, by the number that its samples refer to them with, as far as they are remembered.
    var savedStacks: [Stack: Int] = [:]
    var savedStackCount = 0
    var modules: [Module] = []
  }

  private let ring: RingHandle
  private let stopping = WakeWord()
  private let process: ObservedProcess
  private let directory: String?
  private let deliver: @Sendable (Recording) -> Void
  private let failures = Mutex<[String]>([])

  /// The ring that events come from, freed with the last reference.
  final class RingHandle: @unchecked Sendable {
    // SAFETY: the ring has one writer (the monitor) and one reader (the recorder); freed when both have ended.
    let pointer: OpaquePointer

    init?(capacity: Int) {
      guard let pointer = observer_ring_create(capacity) else { return nil }
      self.pointer = pointer
    }

    deinit { observer_ring_destroy(pointer) }
  }

  /// A recorder of what comes through `ring`.
  ///
  /// - Parameters:
  ///   - ring: Where events come from.
  ///   - process: This process.
  ///   - directory: Where stalls are saved; nowhere when `nil`.
  ///   - deliver: Receives a recording of each stall when it is over, on the recorder thread; must not block.
  init(
    ring: RingHandle,
    process: ObservedProcess,
    directory: String?,
    deliver: @escaping @Sendable (Recording) -> Void
  ) {
    self.ring = ring
    self.process = process
    self.directory = directory
    self.deliver = deliver
  }

  /// What could not be saved, and why.
  var problems: [String] { failures.withLock { $0 } }

  /// Makes ``run()`` return when the ring is empty. The monitor must have ended.
  func stop() {
    stopping.set()
    observer_ring_wake_reader(ring.pointer)
  }

  /// Records until it is stopped.
  func run() {
    var units: [Int: Box] = [:]
    var nextStallID: UInt64 = 1
    while true {
      let seen = observer_ring_published(ring.pointer)
      if let event = observer_ring_read(ring.pointer) {
        handle(event, &units, &nextStallID)
        observer_ring_consume(ring.pointer)
        continue
      }
      if stopping.isSet { break }
      observer_ring_wait(ring.pointer, seen)
    }
    // What is stuck when the watchdog is stopped has no end.
    for box in units.values where box.unit.stall != nil { finish(&box.unit) }
  }

  /// Keeps a non-copyable unit in a dictionary.
  private final class Box {
    var unit: Unit
    init(_ unit: consuming Unit) { self.unit = unit }
  }

  private func handle(
    _ event: UnsafePointer<observer_event>,
    _ units: inout [Int: Box],
    _ nextStallID: inout UInt64
  ) {
    // SAFETY: the ring's reader may use the event until it consumes it.
    let head = event.pointee
    let index = Int(head.slot)
    if let box = units[index], box.unit.unit != head.unit || box.unit.generation != head.generation {
      units[index] = nil
    }
    switch head.kind {
    case OBSERVER_EVENT_SAMPLE.rawValue:
      let box = units[index] ?? Box(Unit(unit: head.unit, generation: head.generation))
      units[index] = box
      add(event, to: &box.unit)
    case OBSERVER_EVENT_STALL_BEGAN.rawValue:
      guard let source = SlotRegistry.shared.source(index, generation: head.generation) else {
        note("a stall of a source that has been forgotten was not recorded")
        return
      }
      let box = units[index] ?? Box(Unit(unit: head.unit, generation: head.generation))
      units[index] = box
      begin(stall(nextStallID, source, head), &box.unit)
      nextStallID += 1
    case OBSERVER_EVENT_UNIT_ENDED.rawValue:
      if let box = units.removeValue(forKey: index), box.unit.stall != nil {
        box.unit.stall?.duration = Duration(wholeNanoseconds: head.age_ns)
        box.unit.stall?.hasEnded = true
        box.unit.stall?.gap = Duration(wholeNanoseconds: head.gap_ns)
        box.unit.stall?.lostSamples = head.lost
        finish(&box.unit)
      }
    default:
      break
    }
  }

  private func stall(_ id: UInt64, _ source: WatchedSource, _ event: observer_event) -> Stall {
    let sinceBegin = observer_clock_ns() &- event.unit
    return Stall(
      id: id,
      source: source,
      thread: ObservedThread(id: event.tid, name: Self.threadName(event.tid)),
      threshold: Duration(wholeNanoseconds: event.threshold_ns),
      began: WallTime(nanosecondsSince1970: observer_clock_wall_ns() &- sinceBegin),
      duration: Duration(wholeNanoseconds: event.age_ns)
    )
  }

  private func add(_ event: UnsafePointer<observer_event>, to unit: inout Unit) {
    let head = event.pointee
    // SAFETY: `count` frames follow the event in the ring, until it is consumed.
    let frames = UnsafeBufferPointer(start: observer_event_frames(event), count: Int(head.count))
    let outcome = CaptureOutcome(rawValue: UInt8(truncatingIfNeeded: head.status)) ?? .noAnswer
    let stack = Stack(
      frames: frames.map { frame in
        frame.kind == UInt64(OBSERVER_RETURN_ADDRESS.rawValue)
          ? .returnAddress(RuntimeAddress(frame.address)) : .programCounter(RuntimeAddress(frame.address))
      },
      end: StackEnd(rawValue: UInt8(truncatingIfNeeded: head.end)) ?? .failed
    )
    let sample = Sample(
      age: Duration(wholeNanoseconds: head.age_ns),
      stack: nil,
      outcome: outcome,
      cpuTime: head.cpu_ns == 0 ? nil : Duration(wholeNanoseconds: head.cpu_ns),
      activity: ThreadActivity(code: UInt8(truncatingIfNeeded: head.activity), call: head.call),
      handlerTime: Duration(wholeNanoseconds: head.handler_ns),
      unwindTime: Duration(wholeNanoseconds: head.unwind_ns)
    )
    let kept = unit.store.add(sample, stack: stack.frames.isEmpty ? nil : stack)
    unit.stall?.duration = sample.age
    unit.stall?.gap = Duration(wholeNanoseconds: head.gap_ns)
    unit.stall?.lostSamples = head.lost
    if kept, unit.stall != nil, let last = unit.store.samples.last { save(last, &unit) }
  }

  private func begin(_ stall: Stall, _ unit: inout Unit) {
    unit.stall = stall
    unit.modules = ProcessMap.modules()
    guard let directory else { return }
    do {
      unit.sink = try StallFileSink(directory: directory, process: process, stall: stall)
    } catch {
      note(error.text)
      return
    }
    unit.sink?.append(StallFileWriter.header())
    unit.sink?.append(StallFileWriter.record(of: process))
    for module in unit.modules { unit.sink?.append(StallFileWriter.record(of: module)) }
    unit.sink?.append(StallFileWriter.record(of: stall.thread))
    unit.sink?.append(StallFileWriter.record(ofBeginOf: stall))
    for sample in unit.store.samples { save(sample, &unit) }
  }

  private func save(_ sample: Sample, _ unit: inout Unit) {
    guard let stall = unit.stall, unit.sink != nil else { return }
    var saved = sample
    if let place = sample.stack {
      let stack = unit.store.stacks[place]
      if let number = unit.savedStacks[stack] {
        saved.stack = number
      } else {
        let number = unit.savedStackCount
        unit.savedStackCount += 1
        // A forgotten stack is written once more: memory stays bounded however long the stall lasts.
        if unit.savedStacks.count == SampleStore.limit { unit.savedStacks = [:] }
        unit.savedStacks[stack] = number
        unit.sink?.append(StallFileWriter.record(of: stack, index: number))
        saved.stack = number
      }
    }
    unit.sink?.append(StallFileWriter.record(of: saved, stallID: stall.id))
  }

  private func finish(_ unit: inout Unit) {
    guard var stall = unit.stall else { return }
    stall.samples = unit.store.samples
    if stall.hasEnded { unit.sink?.append(StallFileWriter.record(ofEndOf: stall)) }
    if let failure = unit.sink?.failure { note(failure) }
    unit.sink = nil
    deliver(Recording(process: process, modules: unit.modules, stacks: unit.store.stacks, stalls: [stall]))
  }

  private func note(_ failure: String) {
    failures.withLock { failures in
      // The same disk fails in the same way every time; a few sentences tell it.
      if failures.count < 16 { failures.append(failure) }
    }
  }

  private static func threadName(_ id: Int32) -> String {
    guard id > 0, let name = ProcessMap.readAll("/proc/self/task/\(id)/comm") else { return "" }
    return String(name.prefix { $0 != "\n" })
  }
}

/// A flag that is set once.
final class WakeWord: Sendable {
  private let word = Atomic<Bool>(false)

  var isSet: Bool { word.load(ordering: .acquiring) }

  func set() { word.store(true, ordering: .releasing) }
}
