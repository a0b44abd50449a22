import CCulpritLinux
import CCulpritObserver
import CulpritStallRecord
import Glibc
import TestSupport
import Testing

@testable import Culprit

@Suite(.serialized, .usesSimulatedClock) struct SlotRegistryTests {
  private let registry = SlotRegistry.shared
  private let control = ControlBlock()

  private func withRegistry(_ body: () throws -> Void) rethrows {
    registry.activate(control, Watchdog.Configuration())
    defer { registry.deactivate() }
    try body()
  }

  private func lease(
    _ name: String,
    _ kind: SourceKind = .loop,
    of start: UInt64 = 1,
    threshold: Duration? = nil,
    interval: Duration? = nil,
    polled: Bool = false
  ) throws(WatchdogError) -> SlotRegistry.Lease {
    try registry.lease(
      WatchedSource(kind: kind, name: name),
      of: start,
      for: control,
      threshold: threshold,
      interval: interval,
      polled: polled
    )
  }

  private func name(_ lease: SlotRegistry.Lease) -> String? {
    registry.source(lease.index, generation: lease.generation)?.name
  }

  private func limits(_ lease: SlotRegistry.Lease) -> [UInt64] {
    let view = observer_slot_read(lease.slot)
    return [view.limits.suspicion_ns, view.limits.threshold_ns, view.limits.early_interval_ns, view.limits.interval_ns]
      .map {
        $0 == .max ? .max : $0 / 1_000_000
      }
  }

  @Test func endOfExemptionWakesMonitor() throws {
    try withRegistry {
      let lease = try lease("work", .section, threshold: .seconds(8))
      defer { registry.end(lease) }
      func wakes(asleepFor time: UInt64, _ body: () -> Void) -> Bool {
        let word = observer_control_begin_tick(control.pointer)
        // Stores the deadline without waiting.
        observer_control_end_tick(control.pointer, word &- 1, clinux_clock_ns() + time)
        body()
        return observer_control_begin_tick(control.pointer) != word
      }
      for (time, isWoken) in [(UInt64(1) << 50, true), (1_000_000, false)] {
        lease.exempt()
        lease.exempt()
        #expect(!wakes(asleepFor: time) { lease.endExemption() })
        #expect(wakes(asleepFor: time) { lease.endExemption() } == isWoken)
        #expect(!wakes(asleepFor: time) { lease.endExemption() })
      }
    }
  }

  @Test func distinguishesNames() throws {
    try withRegistry {
      var leases = [try lease("http"), try lease("http", .runLoop)]
      #expect(throws: WatchdogError.alreadyWatched("http")) { try lease("http") }
      #expect(throws: WatchdogError.alreadyWatched("http")) { try lease("http", .probedLoop) }
      leases += [try lease("http", of: 2), try lease("http", .probedLoop, of: 3), try lease("http", .queue, of: 3)]
      #expect(leases.map(name) == ["http", "http", "http (2)", "http (3)", "http"])
      #expect(throws: WatchdogError.alreadyWatched("http")) { try lease("http", of: 2) }
      leases += [try lease("work", .section), try lease("work", .section)]
      #expect(leases.suffix(2).map(name) == ["work", "work"])
      registry.end(leases[0])
      registry.stop(leases[1])
      leases += [try lease("http"), try lease("http", .runLoop)]
      #expect(leases.suffix(2).map(name) == ["http", "http"])
      #expect(Set(leases.dropFirst().map(\.index)).count == leases.count - 1)
      for lease in leases { registry.end(lease) }
    }
  }

  @Test func leasesSlotsToActiveMonitors() throws {
    #expect(throws: WatchdogError.stopped) { try self.lease("early") }
    var kept: SlotRegistry.Lease?
    try withRegistry {
      let other = ControlBlock()
      #expect(throws: WatchdogError.stopped) {
        try registry.lease(WatchedSource(kind: .loop, name: "other"), for: other, polled: false)
      }
      kept = try self.lease("kept")
    }
    let lease = try #require(kept)
    #expect(limits(lease) == [.max, .max, .max, .max] && registry.owns(lease))
    registry.end(lease)
    #expect(!registry.owns(lease))
  }

  @Test func limitsFollowConfiguration() throws {
    try withRegistry {
      let follows = try lease("follows", polled: true)
      let own = try lease("own", threshold: .seconds(8), interval: .milliseconds(500))
      let stopped = try lease("stopped")
      registry.stop(stopped)
      #expect(limits(follows) == [500, 4000, 200, 1000] && limits(own) == [1000, 8000, 400, 500])
      #expect(observer_slot_read(follows.slot).limits.polled && !observer_slot_read(own.slot).limits.polled)
      #expect(observer_control_hang_delay_ns(control.pointer) == 4_000_000_000)
      var configuration = Watchdog.Configuration(
        threshold: .seconds(2),
        hangThreshold: .seconds(3),
        interval: .milliseconds(40)
      )
      registry.follow(configuration, for: ControlBlock())
      #expect(limits(follows) == [500, 4000, 200, 1000])
      registry.follow(configuration, for: control)
      #expect(limits(follows) == [250, 2000, 100, 40] && limits(own) == [1000, 8000, 400, 500])
      #expect(observer_control_hang_delay_ns(control.pointer) == 1_000_000_000)
      #expect(limits(stopped) == [.max, .max, .max, .max])
      configuration.isEnabled = false
      registry.follow(configuration, for: control)
      let later = try lease("later", polled: true)
      for lease in [follows, own, later] { #expect(limits(lease) == [.max, .max, .max, .max]) }
      #expect(observer_slot_read(follows.slot).limits.polled && !observer_slot_read(own.slot).limits.polled)
      for lease in [follows, own, stopped, later] { registry.end(lease) }
    }
  }

  @Test func configurationEndsWithItsWatchdog() throws {
    var configuration = Watchdog.Configuration(threshold: .seconds(2))
    configuration.isEnabled = false
    registry.activate(control, configuration)
    let former = try lease("off")
    #expect(observer_slot_read(former.slot).limits.threshold_ns == .max)
    registry.end(former)
    registry.deactivate()
    try withRegistry {
      let next = try lease("on")
      #expect(observer_slot_read(next.slot).limits.threshold_ns == 4_000_000_000)
      registry.end(next)
    }
  }

  /// A slot's former owner must stay known if the monitor has requested the owner's end time.
  @Test func remembersFormerOwners() throws {
    try withRegistry {
      for isEndRequested in [true, false] {
        let former = try lease("former \(isEndRequested)", .section)
        observer_slot_begin(former.slot)
        if isEndRequested { #expect(observer_slot_want_end_time(former.slot, observer_slot_work_item(former.slot))) }
        registry.end(former)
        #expect(observer_slot_work_item(former.slot) == 0 && !registry.owns(former))
        let present = try lease("present", .section)
        try #require(present.index == former.index && present.generation != former.generation)
        #expect(name(former) == (isEndRequested ? "former true" : nil) && name(present) == "present")
        #expect(registry.source(present.index)?.name == "present")
        observer_slot_begin(present.slot)
        registry.endItem(former)
        registry.end(former)
        registry.stop(former)
        #expect(observer_slot_work_item(present.slot) != 0)
        registry.endItem(present)
        #expect(observer_slot_work_item(present.slot) == 0)
        registry.end(present)
        #expect(registry.source(present.index) == nil)
      }
      #expect(registry.source(1 << 20) == nil && registry.source(1 << 20, generation: 1) == nil)
    }
  }

  @Test func handlersBelongToTheirLease() throws {
    try withRegistry {
      let first = try lease("first", .section)
      registry.onStall(of: first) { nil }
      #expect(registry.handler(first.index, generation: first.generation) != nil)
      #expect(registry.handler(first.index, generation: first.generation &+ 1) == nil)
      #expect(registry.handler(1 << 20, generation: 1) == nil)
      registry.end(first)
      let second = try lease("second", .section)
      #expect(second.index == first.index && registry.handler(second.index, generation: second.generation) == nil)
      registry.onStall(of: first) { nil }
      #expect(registry.handler(second.index, generation: second.generation) == nil)
      registry.end(second)
    }
  }

  @Test func namesStallTableEntries() throws {
    try withRegistry {
      let first = try lease("größer", .section)
      let entry = try #require(observer_stall_table()) + first.index
      var view = observer_stall_snapshot()
      observer_stall_read(entry, &view)
      #expect(view.name_bytes == 8 && view.kind == 3)
      observer_stall_set(entry, 1, 2, 3, 4)
      registry.end(first)
      let second = try lease("x", .section)
      observer_stall_read(entry, &view)
      #expect(second.index == first.index && view.name_bytes == 1 && view.item == 0 && view.age_ns == 0)
      observer_stall_set(entry, 1, 2, 3, 4)
      registry.end(second)
    }
    let table = try #require(observer_stall_table())
    for index in 0..<10 { #expect(!observer_stall_is_stalled(table + index)) }
  }

  @Test func cutsLabelsBetweenCharacters() throws {
    try withRegistry {
      let lease = try self.lease("labelled", .section)
      defer { registry.end(lease) }
      for character in ["x", "ß", "日", "🙂"] {
        for head in 0..<4 {
          for count in [0, 1, 13, 14, 17, 18, 19, 26, 27, 28, 52, 55, 56, 57, 90] {
            let text = String(repeating: character, count: count) + String(repeating: "a", count: head)
            registry.label(lease, text)
            var label = observer_label()
            observer_slot_label(lease.slot, &label)
            let shown = withUnsafeBytes(of: label.text) { String(decoding: $0.prefix(Int(label.bytes)), as: UTF8.self) }
            var expected = text
            while expected.utf8.count > 56 { expected.removeFirst() }
            #expect(shown == expected, "\(text)")
          }
        }
      }
    }
  }

  @Test func wakesMonitorForEarlySuspicions() throws {
    try withRegistry {
      func word() -> UInt32 { UnsafeRawPointer(control.pointer).load(as: UInt32.self) }
      let seen = observer_control_begin_tick(control.pointer)
      observer_control_end_tick(control.pointer, seen &+ 1, .max - 1)
      let before = word()
      let quiet = try lease("quiet")
      #expect(word() == before)
      let polled = try lease("polled", polled: true)
      #expect(word() == before + 1)
      registry.tick(after: .seconds(1))
      #expect(word() == before + 2)
      registry.begin(quiet, suspicion: .seconds(1))
      #expect(word() == before + 3 && observer_slot_read(quiet.slot).thread == observer_thread_current())
      let now = clinux_clock_ns()
      registry.begin(quiet, for: nil, suspicion: .seconds(1), after: .seconds(5))
      #expect(word() == before + 4 && observer_slot_work_item(quiet.slot) == (now + 5_000_000_000) & ~1)
      for lease in [quiet, polled] { registry.end(lease) }
    }
  }
}

@Suite(.serialized, .usesSimulatedClock) struct ActivityLimitTests {
  private func activities(_ limit: Int = 3) -> Activities {
    Activities(
      limit: limit,
      expirationThreshold: .seconds(1),
      reports: ReportLimiter(perMinute: 60, perCulprit: 10),
      ControlBlock()
    )
  }

  @Test func limitsNumberOfActivities() throws {
    let all = activities()
    func begin(_ title: String) throws -> WatchedActivity {
      clock.skip(.seconds(1))
      return try all.begin(title, threshold: nil, nil)
    }
    var kept = [try begin("a"), try begin("b"), try begin("c")]
    #expect(throws: WatchdogError.tooManyActivities(limit: 3)) { try all.begin("d", threshold: nil, nil) }
    #expect(all.notes().map(\.title) == ["a", "b", "c"] && all.notes(limit: 2).map(\.title) == ["a", "b"])
    #expect(all.notes().map(\.time) == [.seconds(2), .seconds(1), .zero])
    #expect(all.notes().allSatisfy { $0.kind == .activity })
    // The text can be the task's state, which another test can have enabled.
    #expect(all.notes().allSatisfy { ["", "its task runs"].contains($0.text) })
    kept[1].end()
    kept[1].end()
    kept.append(try begin("e"))
    #expect(all.notes().map(\.title) == ["a", "c", "e"])
    for activity in kept { activity.end() }
    #expect(all.notes().isEmpty && all.dropped == 0)
    #expect(all.stop(until: clinux_clock_ns() &+ 20_000_000_000))
    #expect(throws: WatchdogError.stopped) { try all.begin("f", threshold: nil, nil) }
  }

  @Test func showsRemainingTime() throws {
    let all = activities()
    let unbound = try all.begin("a", threshold: nil, nil)
    let bound = try all.begin("b", threshold: .seconds(1000), nil)
    #expect(unbound.timeRemaining == nil)
    #expect(bound.timeRemaining == .seconds(1000))
    clock.skip(.seconds(400))
    #expect(bound.timeRemaining == .seconds(600))
    let longest = try all.begin("c", threshold: .seconds(1 << 40), nil)
    #expect(longest.timeRemaining == WatchLimits.longestTime)
    for activity in [unbound, bound, longest] {
      activity.end()
      #expect(activity.timeRemaining == .zero)
    }
    #expect(all.stop(until: clinux_clock_ns() &+ 20_000_000_000))
  }

  @Test func reportsDroppedAndExpiredActivities() throws {
    let all = activities(10)
    let reported = Mutex<[String]>([])
    _ = all.leaked.add { activity in reported.withLock { $0.append("\(activity.name) \(activity.reason)") } }
    try all.begin("ended", threshold: nil, nil).end()
    _ = try all.begin("dropped", threshold: nil, nil)
    let hasExpired = Promise<Bool>()
    all.watch { _, _, body in body() }
    let expired = try all.begin("expired", threshold: .nanoseconds(1)) { hasExpired.fulfill(true) }
    #expect(hasExpired.wait(until: clinux_clock_ns() &+ 60_000_000_000) == true)
    clock.settle()
    #expect(expired.timeRemaining == .zero && all.notes().map { $0.text.prefix(20) } == ["its time has run out"])
    withExtendedLifetime(expired) {}
    #expect(all.stop(until: clinux_clock_ns() &+ 20_000_000_000))
    #expect(reported.withLock { $0.sorted() } == ["dropped dropped", "expired expired"])
  }

  @Test func limitsReportsOfLeakedActivities() throws {
    let all = activities(100)
    let reported = Mutex<[Watchdog.LeakedActivity]>([])
    _ = all.leaked.add { activity in reported.withLock { $0.append(activity) } }
    for number in 0..<30 { _ = try all.begin("request \(number)", threshold: nil, nil) }
    _ = try all.begin("elsewhere", threshold: nil, nil)
    #expect(all.stop(until: clinux_clock_ns() &+ 20_000_000_000))
    let names = reported.withLock { $0.map(\.name) }
    #expect(names == (0..<10).map { "request \($0)" } + ["elsewhere"] && all.counted == 20 && all.dropped == 0)
    #expect(reported.withLock { $0.allSatisfy { $0.repeats == 0 } })
  }
}
