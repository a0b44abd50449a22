import CCulpritLinux
import CCulpritObserver
import CCulpritProcess
import CCulpritUnwind
import CulpritStallRecord
import Foundation
import SampleRecordings
import TestSupport
import Testing

@testable import Culprit

/// A recorder without threads. The test writes the events of the monitor and the samplers.
private final class Recorded {
  typealias Event = (isHang: Bool, isReportedAsHang: Bool, samples: Int, duration: Duration)

  private final class Outcome: Sendable {
    let recordings = Mutex<[Recording]>([])
    let events = Mutex<[Event]>([])
  }

  let rings: Recorder.Rings
  let recorder: Recorder
  let problems = ProblemList()
  private let outcome = Outcome()
  let lease: SlotRegistry.Lease
  private let control = ControlBlock()
  let item: UInt64

  var recordings: [Recording] { outcome.recordings.withLock { $0 } }
  var stalls: [Stall] { recordings.flatMap(\.stalls) }
  var events: [Event] { outcome.events.withLock { $0 } }

  init() throws {
    rings = try #require(Recorder.Rings(samplers: 2))
    item = (clinux_clock_ns() - 60_000_000_000) & ~UInt64(1)
    SlotRegistry.shared.activate(control, Watchdog.Configuration())
    lease = try SlotRegistry.shared.lease(WatchedSource(kind: .section, name: "recorded"), for: control, polled: false)
    recorder = Recorder(
      rings: rings,
      process: ObservedProcess(getpid(), "/bin/shop", since: 5),
      box: nil,
      problems: problems,
      modules: { [] },
      keepsRecovered: true,
      whileDebugged: .marked,
      settings: ReportSettings(Watchdog.Configuration()),
      pending: PendingReports(),
      deliverEvent: { [outcome] event in
        let report = event.report()
        let samples = report?.raw.stall.samples.count ?? -1
        outcome.events.withLock { $0.append((event.isHang, report?.hang != nil, samples, event.age)) }
      },
      notes: { [StallNote(.context, title: "a", text: "b")] },
      phaseNotes: { _ in [] },
      name: { _, _ in },
      deliver: { [outcome] recording, _ in outcome.recordings.withLock { $0.append(recording) } }
    )
  }

  /// Ends the lease, before another test uses the slot table.
  func end() {
    SlotRegistry.shared.end(lease)
    SlotRegistry.shared.deactivate()
  }

  func event(
    _ kind: observer_event_kind,
    at age: UInt64,
    _ change: (inout observer_event) -> Void = { _ in }
  ) -> observer_event {
    var event = observer_event()
    event.kind = kind.rawValue
    event.slot = UInt32(lease.index)
    event.generation = lease.generation
    event.item = item
    event.tid = 4711
    event.age_ns = age * 1_000_000
    event.time_ns = item + event.age_ns
    event.run_delay_ns = .max
    change(&event)
    return event
  }

  func monitor(_ kind: observer_event_kind, at age: UInt64, _ change: (inout observer_event) -> Void = { _ in }) {
    var event = event(kind, at: age, change)
    #expect(observer_ring_write(rings.monitor, &event, nil, 0))
  }

  func sample(
    _ addresses: [UInt64],
    at age: UInt64,
    by number: Int = 0,
    kind: observer_event_kind = OBSERVER_EVENT_SAMPLE,
    _ change: (inout observer_event) -> Void = { _ in }
  ) {
    var event = event(kind, at: age, change)
    let frames = addresses.map {
      unwind_frame(address: $0, kind: UNWIND_RETURN_ADDRESS.rawValue, offset: UNWIND_NO_OFFSET)
    }
    #expect(observer_ring_write(rings.samplers[number], &event, frames, UInt32(frames.count)))
  }

  func run() {
    recorder.stop()
    recorder.run()
  }
}

@Suite(.serialized, .usesObserver) struct RecorderTests {
  private func recorded(_ body: (Recorded) throws -> Void) throws -> Recorded {
    let recorded = try Recorded()
    defer { recorded.end() }
    try body(recorded)
    recorded.run()
    return recorded
  }

  @Test func recordsStallFromEvents() throws {
    let found = try recorded { recording in
      recording.sample([0x10, 0x20], at: 500) { event in
        event.cpu_ns = 7
        event.handler_ns = 8
        event.unwind_ns = 9
        event.run_delay_ns = 10
        event.queue_head = 11
      }
      recording.sample([0x10, 0x20], at: 700, by: 1)
      recording.monitor(OBSERVER_EVENT_STALL_BEGAN, at: 1000) { $0.threshold_ns = 1_000_000_000 }
      recording.sample([0x30], at: 1500) { event in
        event.gap_ns = 3
        event.lost = 4
      }
      recording.monitor(OBSERVER_EVENT_GOES_ON, at: 1600)
      recording.monitor(OBSERVER_EVENT_WORK_ITEM_ENDED, at: 2000) { event in
        event.gap_ns = 5
        event.lost = 6
      }
    }
    let stall = try #require(found.stalls.first)
    #expect(found.recordings.count == 1 && found.stalls.count == 1 && found.problems.all == [])
    #expect(stall.id == 1 && stall.source == WatchedSource(kind: .section, name: "recorded") && stall.hasEnded)
    #expect(stall.thread.id == 4711 && stall.threshold == .seconds(1) && stall.duration == .seconds(2))
    #expect(stall.gap == .nanoseconds(5) && stall.lostSamples == 6)
    #expect(stall.samples.map(\.age) == [500, 700, 1500].map { .milliseconds($0) })
    #expect(stall.samples.map(\.stack) == [0, 0, 1])
    #expect(stall.notes == [StallNote(.context, title: "a", text: "b")])
    let first = stall.samples[0]
    #expect(first.cpuTime == .nanoseconds(7) && first.handlerTime == .nanoseconds(8))
    #expect(first.unwindTime == .nanoseconds(9) && first.runDelay == .nanoseconds(10) && first.progress == 11)
    #expect(stall.samples[1].cpuTime == nil && stall.samples[1].runDelay == nil)
    #expect(found.recordings[0].stacks.map { $0.frames.map(\.address.value) } == [[0x10, 0x20], [0x30]])
    let began = clinux_clock_wall_ns() - (clinux_clock_ns() - found.item)
    #expect(abs(Int64(bitPattern: stall.began.nanosecondsSince1970 &- began)) < 5_000_000_000)
    #expect(found.events.map(\.isHang) == [false] && found.events.map(\.samples) == [2])
  }

  @Test func recordsThreadOfEachSample() throws {
    let found = try recorded { recording in
      recording.monitor(OBSERVER_EVENT_STALL_BEGAN, at: 1000) { $0.threshold_ns = 1_000_000_000 }
      for thread: Int32 in [21, 22] {
        recording.sample([0x10], at: 1000 + UInt64(thread)) { event in
          event.tid = thread
          event.role = OBSERVER_OF_ONE_OF_SEVERAL.rawValue
        }
      }
      recording.sample([0x10], at: 1100)
      recording.monitor(OBSERVER_EVENT_WORK_ITEM_ENDED, at: 2000)
    }
    #expect(found.stalls.first?.samples.map(\.threadID) == [21, 22, nil])
  }

  @Test func recordsActivityOfTaskSamples() throws {
    let found = try recorded { recording in
      recording.monitor(OBSERVER_EVENT_STALL_BEGAN, at: 1000) { $0.threshold_ns = 1_000_000_000 }
      recording.sample([0x10], at: 1001) { $0.activity = OBSERVER_SUSPENDED.rawValue }
      recording.sample([0x10], at: 1002) { $0.activity = OBSERVER_ENQUEUED.rawValue }
      recording.sample([0x10], at: 1003) { event in
        (event.tid, event.role) = (21, OBSERVER_OF_ONE_IN_THE_WAY.rawValue)
      }
      recording.monitor(OBSERVER_EVENT_WORK_ITEM_ENDED, at: 2000)
    }
    let samples = found.stalls.first?.samples ?? []
    #expect(samples.prefix(2).map(\.activity) == [.suspended, .enqueued])
    #expect(samples.map(\.isInTheWay) == [false, false, true] && samples.allSatisfy { $0.threadID == nil })
  }

  @Test func discardsWorkThatEndsInTime() throws {
    let found = try recorded { recording in
      recording.sample([0x10], at: 500)
      recording.monitor(OBSERVER_EVENT_WORK_ITEM_ENDED, at: 900)
    }
    #expect(found.recordings.isEmpty && found.events.isEmpty)
  }

  @Test func repeatsSamplesOfSuspendedTasks() throws {
    let found = try recorded { recording in
      recording.monitor(OBSERVER_EVENT_STALL_BEGAN, at: 1000)
      recording.sample([], at: 1050, kind: OBSERVER_EVENT_STAYED)
      recording.sample([0x10], at: 1100) { $0.activity = OBSERVER_SUSPENDED.rawValue }
      recording.sample([], at: 1500, kind: OBSERVER_EVENT_STAYED)
      recording.sample([], at: 2000, kind: OBSERVER_EVENT_STAYED) { $0.lost = 1 }
      recording.sample([0x20], at: 2500)
      recording.sample([], at: 2600, kind: OBSERVER_EVENT_STAYED)
      recording.monitor(OBSERVER_EVENT_WORK_ITEM_ENDED, at: 3000) {
        $0.lost = 1
        $0.spared = 12
      }
    }
    let recording = try #require(found.recordings.first)
    let stall = try #require(recording.stalls.first)
    #expect(stall.samples.map(\.age) == [1100, 1500, 2000, 2500].map { .milliseconds($0) })
    #expect(stall.samples.map(\.stack) == [0, 0, 0, 1] && recording.stacks.count == 2)
    #expect(stall.lostSamples == 1 && stall.sparedSamples == 12)
  }

  @Test func recordsAndAnnouncesHangs() throws {
    let found = try recorded { recording in
      recording.monitor(OBSERVER_EVENT_HANG, at: 900)
      recording.monitor(OBSERVER_EVENT_STALL_BEGAN, at: 1000)
      recording.monitor(OBSERVER_EVENT_HANG, at: 2500)
      recording.monitor(OBSERVER_EVENT_WORK_ITEM_ENDED, at: 3000)
    }
    #expect(found.events.map(\.isHang) == [false, true])
    #expect(found.events.map(\.isReportedAsHang) == [false, true])
    #expect(found.events.map(\.duration) == [.seconds(1), .milliseconds(2500)])
    let notes = try #require(found.stalls.first?.notes)
    #expect(notes.filter { $0.kind == .hang }.map(\.time) == [.milliseconds(2500)])
  }

  @Test func leavesUnfinishedStallOpen() throws {
    let found = try recorded { recording in
      recording.monitor(OBSERVER_EVENT_STALL_BEGAN, at: 1000)
      recording.monitor(OBSERVER_EVENT_GOES_ON, at: 1700) { event in
        event.gap_ns = 5
        event.lost = 6
      }
    }
    let stall = try #require(found.stalls.first)
    #expect(!stall.hasEnded && stall.duration == .milliseconds(1700))
    #expect(stall.gap == .nanoseconds(5) && stall.lostSamples == 6)
  }

  /// Samples of a delayed sampler must not reach the next work item.
  @Test(arguments: [false, true]) func discardsLateSamples(isNextKnown: Bool) throws {
    let found = try recorded { recording in
      let later = recording.item + 5_000_000_000
      recording.monitor(OBSERVER_EVENT_STALL_BEGAN, at: 1000)
      recording.monitor(OBSERVER_EVENT_WORK_ITEM_ENDED, at: 1200)
      if !isNextKnown { recording.sample([0x66], at: 1100) }
      recording.sample([0x20], at: 500) { $0.item = later }
      if isNextKnown { recording.sample([0x66], at: 1100) }
      recording.monitor(OBSERVER_EVENT_STALL_BEGAN, at: 1000) { $0.item = later }
      recording.monitor(OBSERVER_EVENT_WORK_ITEM_ENDED, at: 1500) { $0.item = later }
    }
    #expect(found.stalls.map(\.id) == [1, 2] && found.stalls.map(\.samples.count) == [0, 1])
    #expect(found.stalls.map(\.duration) == [.milliseconds(1200), .milliseconds(1500)])
    #expect(found.recordings.last?.stacks.map { $0.frames.map(\.address.value) } == [[0x20]])
  }

  @Test func separatesWorkOfDifferentOwners() throws {
    let found = try recorded { recording in
      recording.sample([0x10], at: 500) { $0.generation &-= 1 }
      recording.monitor(OBSERVER_EVENT_STALL_BEGAN, at: 1000)
      recording.monitor(OBSERVER_EVENT_WORK_ITEM_ENDED, at: 1200)
      recording.monitor(OBSERVER_EVENT_STALL_BEGAN, at: 1000) { $0.generation &+= 7 }
    }
    #expect(found.stalls.count == 1 && found.stalls.first?.samples.isEmpty == true)
    #expect(found.problems.all == ["a stall of a removed source was not recorded"])
  }

  @Test func readsOldestEventFirst() throws {
    let found = try recorded { recording in
      recording.monitor(OBSERVER_EVENT_STALL_BEGAN, at: 1000)
      for number: UInt64 in 0..<50 { recording.sample([number + 1], at: 1001 + number, by: Int(number) % 2) }
      recording.monitor(OBSERVER_EVENT_WORK_ITEM_ENDED, at: 2000)
    }
    #expect(found.stalls.first?.samples.map(\.age) == (0..<50).map { .milliseconds(1001 + $0) })
  }

  @Test func namesRestartedCalls() throws {
    func call(_ number: Int32, _ activity: observer_activity) -> (inout observer_event) -> Void {
      { event in
        event.call = number
        event.activity = activity.rawValue
      }
    }
    let found = try recorded { recording in
      recording.sample([0x20], at: 400, call(-1, OBSERVER_IN_RESTARTED_CALL))
      recording.sample([0x10], at: 500, call(35, OBSERVER_IN_CALL))
      recording.sample([0x10], at: 600, call(-1, OBSERVER_IN_RESTARTED_CALL))
      recording.sample([0x20], at: 700, call(-1, OBSERVER_IN_RESTARTED_CALL))
      recording.monitor(OBSERVER_EVENT_STALL_BEGAN, at: 1000)
      recording.monitor(OBSERVER_EVENT_WORK_ITEM_ENDED, at: 2000)
    }
    let activities = found.stalls.first?.samples.map(\.activity)
    #expect(
      activities == [.inRestartedCall(nil), .inSystemCall(35), .inRestartedCall(35), .inRestartedCall(nil)],
      "\(String(describing: activities))"
    )
  }

  /// A stall declared before a capture of all threads must get the captured threads, except the stall's own.
  @Test func attachesOtherThreadsToEarlierStalls() throws {
    func thread(_ recording: Recorded, _ id: Int32, _ addresses: [UInt64], of capture: UInt64) {
      recording.sample(addresses, at: 1100, kind: OBSERVER_EVENT_THREAD) { event in
        event.tid = id
        event.all_threads = capture
      }
    }
    let found = try recorded { recording in
      let request = recording.recorder.requestThreads(ControlBlock())
      recording.monitor(OBSERVER_EVENT_STALL_BEGAN, at: 1000)
      recording.sample([0x10], at: 1050)
      recording.sample([], at: 1100, kind: OBSERVER_EVENT_ALL_THREADS_BEGAN) { event in
        event.all_threads = 3
        event.served = request.number
      }
      thread(recording, 51, [0x60], of: 3)
      thread(recording, 4711, [0x61], of: 3)
      thread(recording, 52, [0x60], of: 2)
      // A restarted capture keeps the threads captured before.
      recording.sample([], at: 1200, kind: OBSERVER_EVENT_ALL_THREADS_BEGAN) { $0.all_threads = 4 }
      thread(recording, 51, [0x62], of: 4)
      thread(recording, 53, [0x63], of: 4)
      thread(recording, 54, [0x64], of: 3)
      recording.sample([], at: 1300, kind: OBSERVER_EVENT_ALL_THREADS_ENDED) { event in
        event.all_threads = 4
        event.lost = 2
      }
      recording.sample([0x10], at: 1900)
      recording.monitor(OBSERVER_EVENT_WORK_ITEM_ENDED, at: 2000)
      recording.run()
      let (all, stacks) = try #require(request.answer.wait(until: clinux_clock_ns()) ?? nil)
      #expect(all.isComplete && all.leftOut == 2)
      #expect(all.threads.map(\.thread.id) == [51, 53] && stacks.count == 2)
    }
    let recording = try #require(found.recordings.first)
    let others = try #require(recording.stalls.first?.others)
    #expect(others.isComplete && others.leftOut == 2 && others.threads.map(\.thread.id) == [51, 53])
    // Stacks of other threads follow the stacks of samples.
    #expect(others.threads.map { $0.stack.map { recording.stacks[$0].frames[0].address.value } } == [0x60, 0x63])
    #expect(
      recording.stalls[0].samples.map { $0.stack.map { recording.stacks[$0].frames[0].address.value } } == [0x10, 0x10]
    )
  }

  @Test func stopAnswersRequests() throws {
    let found = try recorded { recording in
      let request = recording.recorder.requestThreads(ControlBlock())
      recording.run()
      for request in [request, recording.recorder.requestThreads(ControlBlock())] {
        #expect(request.answer.wait(until: clinux_clock_ns()).map { $0 == nil } == true)
      }
    }
    #expect(found.recordings.isEmpty)
  }

  @Test func returnsOngoingStalls() throws {
    let found = try recorded { recording in
      recording.monitor(OBSERVER_EVENT_STALL_BEGAN, at: 1000)
      recording.sample([0x10], at: 1500)
      let request = recording.recorder.requestSoFar()
      recording.run()
      let stalls = try #require(request.stalls.wait(until: clinux_clock_ns()))
      #expect(stalls.map(\.slot) == [recording.lease.index] && stalls.map(\.item) == [recording.item])
      let stall = stalls.first?.recording.stalls.first
      #expect(stall?.duration == .milliseconds(1500) && stall?.hasEnded == false && stall?.samples.count == 1)
      #expect(request.saved.wait(until: clinux_clock_ns()) == true)
    }
    #expect(found.recordings.count == 1)
  }

  @Test func requestWaitsForFirstSample() throws {
    let found = try recorded { recording in
      observer_slot_begin_since(recording.lease.slot, recording.item, 0)
      let thread = ObservedThread(id: 4711, name: "")
      let source = WatchedSource(kind: .section, name: "recorded")
      let began = Recorder.timeOfDay(recording.item)
      let stall = Stall(id: 0, source: source, thread: thread, threshold: .seconds(1), began: began, duration: .zero)
      let request = RecordingRequest(stall, slot: recording.lease.index, item: recording.item, deadline: .max)
      recording.recorder.recordingRequests.withLock { $0?.append(request) }
      recording.recorder.answerRecordings(Recorder.State())
      #expect(request.answer.wait(until: 0) == nil)
      recording.monitor(OBSERVER_EVENT_STALL_BEGAN, at: 1000)
      recording.sample([0x10], at: 1500)
      recording.run()
      #expect(request.answer.wait(until: 0)??.stalls.first?.samples.count == 1)
    }
    #expect(found.recordings.count == 1)
  }
}
