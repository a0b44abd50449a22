import CulpritStallRecord
import Testing

@testable import CulpritBlame

@Suite struct CauseTests {
  private var synthetic = Synthetic()
  private let waits = ["c.start", "handle", "c.read"]

  private mutating func stall(
    _ functions: [String],
    _ activity: ThreadActivity = .running,
    _ change: (Int, inout Sample) -> Void = { _, _ in }
  ) -> Stall {
    var stall = synthetic.stall(Array(repeating: functions, count: 20))
    for place in stall.samples.indices {
      stall.samples[place].activity = activity
      stall.samples[place].cpuTime = nil
      change(place, &stall.samples[place])
    }
    return stall
  }

  /// Returns the texts of `subjects` in reports.
  private func texts(_ subjects: [CauseSubject]) -> [String] { subjects.map { $0.description("x86_64").text } }

  private func causes(_ stall: Stall) -> [StallReport.Cause] { synthetic.blame(stall, architecture: "x86_64").causes }

  /// Checks that the shares of all causes add up to the stall.
  private func expectWhole(_ causes: [StallReport.Cause], _ stall: Stall) {
    let sum = causes.reduce(Duration.zero) { $0 + $1.time }
    #expect(abs((sum - max(stall.duration, stall.samples.map(\.age).max() ?? .zero)).inSeconds) < 1e-6)
    #expect(causes == causes.sorted { $0.time > $1.time })
  }

  /// System call numbers of x86-64.
  @Test(arguments: [
    (Int32(230), "c.clock_nanosleep", StallReport.Cause.Kind.sleep), (61, "c.wait4", .childProcess),
    (74, "c.fsync", .file),
    (45, "c.recv", .network), (73, "c.flock", .lock), (34, "c.pause", .signal), (202, "c.pthread_cond_wait", .signal),
    (202, "c.__pthread_mutex_lock", .lock), (202, "c.dispatch_once_f", .initialization),
    (202, "c._dispatch_apply_invoke_and_wait", .signal),
    (202, "c._ZN5swift14threading_impl9once_slowERNS_6once_t", .initialization),
    (202, "c.__pthread_clockjoin_ex", .threadEnd), (202, "c.something", .unknown), (9, "c.mmap", .memory),
    (9999, "c.something", .unknown), (0, "c.read", .unknown), (71, "c.msgrcv", .unknown),
    (70, "c.msgrcv", .interProcess),
  ]) mutating func classifiesWaitsBySystemCall(call: Int32, function: String, kind: StallReport.Cause.Kind) {
    let stall = stall(["c.start", "handle", function], .inSystemCall(call))
    let causes = causes(stall)
    #expect(causes.map(\.kind) == [kind])
    expectWhole(causes, stall)
  }

  @Test(
    arguments: [
      ("/srv/journal.db", [], StallReport.Cause.Kind.file), ("socket:[4]", [2, 0, 1, 187, 127, 0, 0, 1], .network),
      ("socket:[4]", [1, 0], .interProcess), ("pipe:[5]", [], .interProcess), ("anon_inode:[eventfd]", [], .signal),
      ("anon_inode:[timerfd]", [], .sleep), ("anon_inode:[pidfd]", [], .childProcess),
      ("/dev/pts/3", [], .interProcess),
    ] as [(String, [UInt8], StallReport.Cause.Kind)]
  ) mutating func classifiesWaitsByFileDescriptor(target: String, address: [UInt8], kind: StallReport.Cause.Kind) {
    let stall = stall(waits, .inSystemCall(0)) { _, sample in
      sample.descriptor = Descriptor(number: 3, target: target, address: address)
    }
    #expect(causes(stall).map(\.kind) == [kind])
  }

  /// An unnamed socket, or a named pipe that no process has opened: only the kernel function identifies the object.
  @Test(arguments: ["unix_stream_read_generic", "wait_for_partner"]) mutating func classifiesWaitsByKernelFunction(
    function: String
  ) {
    let stall = stall(waits, .inSystemCall(0)) { _, sample in
      sample.descriptor = Descriptor(number: 3, target: "socket:[4]")
      sample.evidence.kernelFunction = function
    }
    #expect(causes(stall).map(\.kind) == [.interProcess])
  }

  @Test mutating func reportsReasonForUnknownCause() {
    func subjects(_ functions: [String], _ activity: ThreadActivity) -> [String] {
      let stall = stall(functions, activity)
      return causes(stall).flatMap { $0.subjects.map(\.text) }
    }
    #expect(subjects([], .unknown) == texts([.noStack]) && subjects([], .running) == texts([.noStack]))
    #expect(subjects(["c.start", "handle", "c.something"], .unknown) == texts([.noState]))
    #expect(subjects(["c.start", "handle", "c.something"], .inSystemCall(9999)) == texts([.call(9999)]))
    #expect(subjects(["c.start", "handle", "c.sem_wait"], .unknown) == texts([.object(.semaphore)]))
    var mixed = synthetic.stall([["c.start", "handle"], [], []], lasting: .seconds(10))
    mixed.samples[0].activity = .running
    mixed.isDamaged = true
    let unknown = causes(mixed).first { $0.kind == .unknown }
    #expect(Set(unknown?.subjects.map(\.text) ?? []) == Set(texts([.noStack, .unobserved])))
    #expect(unknown?.subjects.reduce(.zero) { $0 + $1.time } == unknown?.time)
  }

  /// poll(2) without descriptors is a sleep.
  @Test mutating func classifiesPollByArguments() {
    let sleeping = stall(["c.start", "handle", "c.poll"], .inSystemCall(7)) { _, sample in
      sample.evidence.arguments = [0, 0, 1500, 0, 0, 0]
    }
    let polling = stall(["c.start", "handle", "c.poll"], .inSystemCall(7)) { _, sample in
      sample.evidence.arguments = [4096, 2, 1500, 0, 0, 0]
    }
    #expect(causes(sleeping).map(\.kind) == [.sleep] && causes(polling).map(\.kind) == [.signal])
  }

  /// Waits for mutexes inside the loader, stdio and the allocator are attributed to these libraries.
  @Test mutating func classifiesMutexesByOwningLibrary() {
    func of(_ functions: [String]) -> StallReport.Cause? {
      let waiting = ["c.start", "handle"] + functions + ["c.___pthread_mutex_lock", "c.__lll_lock_wait"]
      let stall = stall(waiting, .inSystemCall(202))
      return causes(stall).first
    }
    #expect(of(["c.dlopen", "c._dl_open"])?.kind == .loader)
    #expect(of(["c.fputs"])?.subjects.first?.text == texts([.object(.stream)])[0])
    #expect(of(["c.malloc"])?.subjects.first?.text == texts([.object(.allocator)])[0])
    #expect(of([])?.subjects.first?.text == texts([.object(.mutex)])[0])
    let own = stall(["c.start", "sem_wait_for_orders", "c.something"], .inSystemCall(202))
    #expect(causes(own).map(\.kind) == [.unknown])
  }

  @Test mutating func reportsRunDelayAsCause() throws {
    let stall = stall(["c.start", "handle"]) { place, sample in
      sample.cpuTime = sample.age * 0.25
      sample.runDelay = sample.age * 0.75
    }
    let causes = causes(stall)
    #expect(causes.map(\.kind) == [.noCPU, .computing])
    #expect(abs(causes[0].share - 0.75) < 0.01)
    expectWhole(causes, stall)
  }

  /// The kernel counts a wait for a CPU at its end, so the report distributes the wait over earlier samples.
  @Test mutating func distributesLateRunDelayOverEarlierSamples() {
    let stall = stall(["c.start", "handle"]) { place, sample in
      sample.cpuTime = place < 19 ? .milliseconds(1) : .milliseconds(2)
      sample.runDelay = place < 19 ? .zero : sample.age
    }
    #expect(causes(stall).first?.kind == .noCPU)
    expectWhole(causes(stall), stall)
  }

  @Test mutating func assignsCausePerPartOfStall() {
    let stall = stall(["c.start", "handle", "c.fsync"]) { place, sample in
      if place >= 12 { sample.activity = .inSystemCall(74) }
      if place < 4 { sample.activity = .blocked }
    }
    let causes = causes(stall)
    #expect(Set(causes.map(\.kind)) == [.file, .memory])
    expectWhole(causes, stall)
  }

  @Test(arguments: [2, 3, 20]) mutating func prefersCountersOverSampledStates(every: Int) {
    let computing = stall(["c.start", "handle"])
    var stall = stall(["c.start", "handle", "c.clock_nanosleep"], .inSystemCall(230)) { _, sample in
      sample.cpuTime = sample.age * 0.4
      sample.runDelay = sample.age * 0.1
    }
    for place in stall.samples.indices where place.isMultiple(of: every) {
      stall.samples[place].activity = .running
      stall.samples[place].stack = computing.samples[place].stack
    }
    let causes = causes(stall)
    #expect(causes.map(\.kind) == [.sleep, .computing, .noCPU])
    let shares = causes.map(\.share)
    #expect(abs(shares[0] - 0.5) < 0.03 && abs(shares[1] - 0.4) < 0.03 && abs(shares[2] - 0.1) < 0.03)
    expectWhole(causes, stall)
  }

  @Test mutating func infersRunDelayFromCPUUse() {
    func shares(_ stall: Stall) -> [StallReport.Cause.Kind: Double] {
      let causes = causes(stall)
      expectWhole(causes, stall)
      #expect(causes.first { $0.kind == .noCPU }?.isLikely == true)
      return Dictionary(uniqueKeysWithValues: causes.map { ($0.kind, ($0.share * 100).rounded() / 100) })
    }
    let ready = stall(["c.start", "handle"]) { _, sample in sample.cpuTime = sample.age * 0.26 }
    #expect(shares(ready) == [.computing: 0.26, .noCPU: 0.74])
    #expect(abs((synthetic.blame(ready).culprit?.cpuUse?.share ?? 0) - 0.26) < 0.001)
    // The thread sleeps for half of the time, and needs a CPU in the other half.
    let inTurn = stall(["c.start", "handle", "c.clock_nanosleep"]) { place, sample in
      sample.cpuTime = sample.age * 0.26
      if place.isMultiple(of: 2) { sample.activity = .inSystemCall(230) }
    }
    let found = shares(inTurn)
    #expect(abs((found[.sleep] ?? 0) - 0.5) < 0.03 && abs((found[.computing] ?? 0) - 0.26) < 0.01)
    #expect(abs((found[.noCPU] ?? 0) - 0.24) < 0.03)
  }

  @Test mutating func attributesSleepToPollingLibrary() {
    func subject(_ functions: [String]) -> String? {
      let stall = stall(["c.start", "handle"] + functions + ["c.clock_nanosleep"], .inSystemCall(230))
      let causes = causes(stall)
      #expect(causes.map(\.kind) == [.sleep])
      return causes.first?.subjects.first?.text
    }
    #expect(subject(["c.sqlite3_step", "c.usleep"]) == texts([.work(.library("c.sqlite3_step"))])[0])
    #expect(subject(["d.retry", "c.usleep"]) == texts([.work(.library("d.retry"))])[0])
    #expect(subject(["c.usleep"]) == nil && subject(["c.sleep_for"]) == nil && subject([]) == nil)
    let polling = stall(["c.start", "handle", "c.curl_perform", "c.poll"], .inSystemCall(7)) { _, sample in
      sample.evidence.arguments = [0, 0, 100, 0, 0, 0]
    }
    #expect(causes(polling).first?.subjects.first?.text == texts([.work(.library("c.curl_perform"))])[0])
  }

  /// Memory pressure evicts file pages, which are then read again.
  @Test(arguments: [(0, StallReport.Cause.Kind.file), (300, .file), (1500, .memory)])
  mutating func distinguishesMemoryPressureFromFileAccess(stalled: Int, kind: StallReport.Cause.Kind) {
    let stall = stall(["c.start", "handle", "c.openat"], .inSystemCall(257)) { place, sample in
      var surroundings = SurroundingCounters()
      surroundings.memoryStalled = .seconds(7) + .milliseconds(stalled * place / 19)
      sample.evidence.surroundings = surroundings
    }
    #expect(causes(stall).map(\.kind) == [kind] && causes(stall).first?.isLikely == (kind == .memory))
  }

  /// A control group at its limit drops file pages that its threads read again.
  @Test(arguments: [
    (again: UInt64(60 << 20), written: UInt64(0), hits: UInt64(19), kind: StallReport.Cause.Kind.memory),
    (20 << 20, 0, 19, .file), (1 << 19, 0, 19, .file), (60 << 20, 200 << 20, 19, .file), (60 << 20, 0, 0, .file),
  ])
  mutating func repeatedReadsAreWaitsForMemory(
    again: UInt64,
    written: UInt64,
    hits: UInt64,
    kind: StallReport.Cause.Kind
  ) throws {
    let stall = stall(["c.start", "handle", "c.openat"], .inSystemCall(257)) { place, sample in
      var (counters, surroundings) = (ThreadCounters(), SurroundingCounters())
      counters.diskReadBytes = UInt64(place) * (again < 1 << 20 ? 1 << 14 : 100 << 20) / 19
      counters.diskWrittenBytes = UInt64(place) * written / 19
      surroundings.refaultedBytes = 7 + UInt64(place) * again / 19
      surroundings.memoryLimitHits = 5 + UInt64(place) * hits / 19
      (sample.evidence.counters, sample.evidence.surroundings) = (counters, surroundings)
    }
    let found = causes(stall)
    #expect(found.map(\.kind) == [kind] && found.first?.isLikely == (kind == .memory))
    let counts = try #require(synthetic.blame(stall, architecture: "x86_64").counts)
    #expect(counts.refaultedBytes == again && counts.memoryLimitHits == hits)
  }

  @Test mutating func usesCPUClockWhenStateIsUnknown() {
    let stall = stall(["c.start", "handle", "c.sem_wait"], .unknown) { place, sample in
      sample.cpuTime = sample.age * 0.4
      sample.runDelay = .zero
    }
    let causes = causes(stall)
    #expect(causes.map(\.kind) == [.signal, .computing] && abs(causes[0].share - 0.6) < 0.02)
    expectWhole(causes, stall)
  }

  @Test mutating func reportsUnknownCause() {
    let stall = stall(["c.start", "handle"], .unknown)
    #expect(causes(stall).map(\.kind) == [.unknown])
    expectWhole(causes(stall), stall)
    var none = stall
    none.samples = []
    #expect(causes(none).isEmpty)
  }

  @Test(arguments: [
    (["handle", "c.deflate", "c.memcpy"], CauseSubject.work(.kind(.compression))),
    (["handle", "c.malloc", "c._int_malloc"], .work(.kind(.allocation))), (["handle"], .work(.ownCode)),
    (["c.start", "main"], .work(.ownCode)), (["c.start", "main", "c.unheard_of"], .work(.library("c.unheard_of"))),
    (["handle", "c.qsort", "compare"], .work(.ownCode)), (["handle", "c.unheard_of"], .work(.library("c.unheard_of"))),
    (["handle", "c.regexec"], .work(.kind(.regularExpressions))),
    (["handle", "c.__sched_yield"], .work(.kind(.yielding))),
  ]) mutating func classifiesComputation(functions: [String], subject: CauseSubject) {
    let stall = stall(["c.start"] + functions)
    #expect(causes(stall).first?.subjects.first?.text == texts([subject])[0])
  }

  @Test mutating func distinguishesDeallocationFromComputing() {
    let freed = stall(["c.start", "handle", "c._swift_release_dealloc", "c.free"])
    #expect(causes(freed).map(\.kind) == [.deallocation])
    var inTurn = freed
    let allocating = stall(["c.start", "handle", "c.malloc"])
    for place in inTurn.samples.indices where place.isMultiple(of: 2) {
      inTurn.samples[place].stack = allocating.samples[place].stack
    }
    #expect(causes(inTurn).map(\.kind) == [.computing])
    expectWhole(causes(inTurn), inTurn)
  }

  @Test mutating func reportsMovingQueueAsCongested() {
    var stall = stall(["c.start", "handle"]) { place, sample in sample.progress = UInt32(place + 1) }
    stall.source.kind = .queue
    #expect(causes(stall).map(\.kind) == [.congestion])
    for place in stall.samples.indices { stall.samples[place].progress = 1 }
    #expect(causes(stall).map(\.kind) == [.computing])
  }

  @Test mutating func reportsCounterDifferences() throws {
    let stall = stall(waits, .inSystemCall(0)) { place, sample in
      guard place > 3, place.isMultiple(of: 5) else { return }
      var counters = ThreadCounters()
      counters.majorFaults = UInt64(100 + place)
      sample.evidence.counters = counters
      var surroundings = SurroundingCounters()
      surroundings.throttled = .seconds(7) + .milliseconds(place)
      surroundings.runnableThreads = UInt32(20 - place)
      sample.evidence.surroundings = surroundings
      sample.evidence.kernelFunction = "folio_wait_bit"
    }
    let counts = try #require(synthetic.blame(stall, architecture: "x86_64").counts)
    #expect(counts.majorFaults == 10 && counts.throttled == .milliseconds(10) && counts.runnableThreads == 15)
    #expect(counts.kernelFunctions == ["folio_wait_bit"])
    #expect(counts.memoryStalled == nil && counts.timeslices == nil)
  }
}
