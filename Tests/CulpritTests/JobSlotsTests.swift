import CCulpritLinux
import CCulpritObserver
import CulpritStallRecord
import TestSupport
import Testing

@testable import Culprit

@Suite(.serialized, .usesObserver) struct JobSlotsTests {
  /// Runs `body` with slots of a registry without a monitor.
  private func withSlots(
    threshold: Duration = .seconds(1),
    _ body: (inout JobSlots, (String) -> SlotRegistry.Lease?) throws -> Void
  ) rethrows {
    let control = ControlBlock()
    SlotRegistry.shared.activate(control, Watchdog.Configuration())
    defer { SlotRegistry.shared.deactivate() }
    var slots = JobSlots()
    defer { slots.endAll() }
    try body(&slots) { name in
      let source = WatchedSource(kind: .job, name: name)
      return try? SlotRegistry.shared.lease(source, for: control, threshold: threshold, polled: false)
    }
  }

  private func marked(_ leases: [SlotRegistry.Lease]) -> [(name: String?, item: UInt64, thread: Int32)] {
    leases.map { lease in
      let view = observer_slot_read(lease.slot)
      return (SlotRegistry.shared.source(lease.index)?.name, view.item, observer_slot_owner(view.owner.tid_address))
    }
  }

  @Test func marksThreadSinceJobBegan() throws {
    try withSlots { slots, lease in
      var leases: [SlotRegistry.Lease] = []
      let began = (clinux_clock_ns() - 300_000_000) & ~1
      let suspicion = slots.begin(clinux_task_self(), since: began) { name in
        let new = lease(name)
        if let new { leases.append(new) }
        return new
      }
      #expect(suspicion == 125_000_000 && leases.count == 1)
      let found = try #require(marked(leases).first)
      #expect(found.name == "pool thread 1" && found.item == began && found.thread == clinux_task_self())
      // The age includes the time before the first sighting.
      #expect(observer_slot_read(leases[0].slot).unwatched_ns >= 300_000_000)
      slots.end(clinux_task_self())
      #expect(marked(leases)[0].item == 0)
      #expect(slots.begin(clinux_task_self(), since: began, { _ in nil }) == 125_000_000)
      #expect(marked(leases)[0].item == began)
      slots.end(4711)
      #expect(marked(leases)[0].item == began)
    }
  }

  /// A job must not become a stall before an observation has confirmed its age.
  @Test func declaresConfirmedJobsOnly() throws {
    try withSlots { slots, lease in
      var leases: [SlotRegistry.Lease] = []
      let began = (clinux_clock_ns() - 10_000_000_000) & ~1
      func begin() {
        _ = slots.begin(1, since: began) { name in
          let new = lease(name)
          if let new { leases.append(new) }
          return new
        }
      }
      begin()
      let slot = try #require(leases.first).slot
      func isStalled() -> Bool { observer_slot_read(slot).isStalled(at: clinux_clock_ns()) }
      #expect(!isStalled())
      #expect(slots.nextConfirmation(after: began) == began + 1_000_000_000)
      func isNew(waitedFor: Set<Int32>) -> Bool { slots.deferStalls(of: waitedFor) }
      slots.confirm(1, until: began + 999_999_999)
      #expect(!isNew(waitedFor: []))
      #expect(!isStalled())
      slots.confirm(1, until: began + 1_000_000_000)
      #expect(!isNew(waitedFor: [1]))
      #expect(!isStalled())
      #expect(isNew(waitedFor: []))
      #expect(isStalled())
      #expect(slots.nextConfirmation(after: began) == .max)
      #expect(!isNew(waitedFor: [1]))
      #expect(isStalled())
      begin()
      #expect(!isStalled())
    }
  }

  /// While the pool's probe waits, jobs that are no stalls yet must end.
  @Test func keepsOnlyStalledJobs() {
    let now = clinux_clock_ns()
    // Half of the uptime: far longer than this test.
    let age = now / 2
    withSlots(threshold: .nanoseconds(Int64(age))) { slots, lease in
      _ = slots.begin(1, since: now - age, lease)
      _ = slots.begin(2, since: now - 1_000_000, lease)
      _ = slots.begin(3, since: now - 1_000_000, lease)
      for id: Int32 in 1...3 { slots.confirm(id, until: now) }
      let isNew = slots.deferStalls(of: [])
      #expect(isNew)
      #expect(slots.endAllButStalled(of: [1, 2]) == [1])
      #expect(slots.endAllButStalled(of: [1, 2]) == [1])
      slots.end(1)
      #expect(slots.endAllButStalled(of: [1, 2]) == [])
    }
  }

  @Test func reusesSlotsOfEndedThreads() throws {
    try withSlots { slots, lease in
      var names: [String] = []
      func begin(_ id: Int32) {
        _ = slots.begin(id, since: clinux_clock_ns() - 1000) { name in
          names.append(name)
          return lease(name)
        }
      }
      begin(clinux_task_self())
      slots.end(clinux_task_self())
      for round in 0..<600 {
        let id = Mutex<Int32>(0)
        let thread = try PosixThread(name: "ended") { id.withLock { $0 = clinux_task_self() } }
        #expect(thread.join(until: .max))
        let ended = id.withLock { $0 }
        begin(ended)
        // A job that does not end keeps its slot, even without a thread.
        if round == 0 { begin(.max - 1) }
        slots.end(ended)
      }
      #expect(names.count >= 601 && Set(names) == ["pool thread 1", "pool thread 2", "pool thread 3"])
    }
  }

  @Test func failsWithoutFreeSlots() {
    withSlots { slots, lease in
      #expect(slots.begin(7, since: clinux_clock_ns(), { _ in nil }) == nil)
      for id in 1...Int32(OBSERVER_OWNERS_MAX) { #expect(slots.begin(id, since: clinux_clock_ns(), lease) != nil) }
      #expect(slots.begin(.max - 1, since: clinux_clock_ns(), lease) == nil)
      slots.endAll()
      #expect(slots.begin(.max - 1, since: clinux_clock_ns(), lease) != nil)
    }
  }
}
