import Foundation
import Testing

@testable import CulpritStallRecord

private func nanoseconds(_ number: UInt64) -> Duration { Duration(wholeNanoseconds: number) }

/// What all versions can say, the first version's kinds of sources for one.
private func oldestRecording() -> Recording {
  func mapping(_ start: UInt64, _ end: UInt64, _ offset: UInt64) -> Module.Mapping {
    Module.Mapping(start: RuntimeAddress(start), end: RuntimeAddress(end), fileOffset: offset)
  }
  let stacks = [
    Stack(
      frames: [
        .programCounter(RuntimeAddress(0x1011)), .returnAddress(RuntimeAddress(0x2022)),
        .returnAddress(RuntimeAddress(0x5033)),
      ],
      end: .outermost
    ), Stack(frames: [.programCounter(RuntimeAddress(0x1044))], end: .copyLimit),
  ]
  var first = Stall(
    id: 11,
    source: WatchedSource(kind: .section, name: "five"),
    thread: ObservedThread(id: 102, name: "six"),
    threshold: nanoseconds(4_000_000_013),
    began: WallTime(nanosecondsSince1970: 1_700_000_000_000_000_017),
    samples: [
      Sample(
        age: nanoseconds(500_000_019),
        stack: 0,
        outcome: .captured,
        cpuTime: nanoseconds(490_000_023),
        activity: .inSystemCall(202),
        handlerTime: nanoseconds(701),
        unwindTime: nanoseconds(30_029)
      ),
      Sample(
        age: nanoseconds(700_000_037),
        stack: 1,
        outcome: .captured,
        cpuTime: nil,
        activity: .blocked,
        unwindTime: nanoseconds(41)
      ),
      Sample(
        age: nanoseconds(900_000_043),
        stack: nil,
        outcome: .noAnswer,
        cpuTime: nanoseconds(1_000_000_047),
        activity: .running
      ),
    ],
    duration: nanoseconds(5_010_000_053),
    hasEnded: true,
    lostSamples: 3,
    gap: nanoseconds(20_000_059)
  )
  // What its samples say.
  (first.cost.fromOutside, first.cost.bySignal, first.cost.withoutStack) = (1, 1, 1)
  (first.cost.longestHandlerTime, first.cost.handlerTime) = (nanoseconds(701), nanoseconds(701))
  first.cost.unwindTime = nanoseconds(30_070)
  var second = Stall(
    id: 12,
    source: WatchedSource(kind: .runLoop, name: "fourteen"),
    thread: ObservedThread(id: 105, name: "fifteen"),
    threshold: nanoseconds(2_000_000_089),
    began: WallTime(nanosecondsSince1970: 1_700_000_000_000_000_097),
    samples: [Sample(age: nanoseconds(3_000_000_101), stack: 1, outcome: .captured, cpuTime: nil)],
    duration: nanoseconds(3_000_000_101)
  )
  second.cost.fromOutside = 1
  return Recording(
    process: ObservedProcess(
      id: 101,
      executable: "/srv/one",
      architecture: "x86_64",
      observerVersion: "1.2.3",
      watchedSince: WallTime(nanosecondsSince1970: 1_000_000_007)
    ),
    modules: [
      Module(
        path: "/srv/one",
        buildID: [0xa1, 0xb2, 0xc3],
        mappings: [mapping(0x1000, 0x3000, 0x400), mapping(0x5000, 0x6000, 0x2400)]
      ), Module(path: "[vdso]", buildID: [], mappings: [mapping(0x7000, 0x7100, 0)]),
    ],
    stacks: stacks,
    stalls: [first, second]
  )
}

/// The recording in the file of version 1.`minor`.
private func recording(_ minor: UInt16) -> Recording {
  var recording = oldestRecording()
  if minor >= 1 { addOthers(to: &recording.stalls[0]) }
  if minor >= 2 {
    recording.stalls[0].samples[0].label = "seven"
    recording.stalls[0].samples[0].progress = 8
    recording.stalls[0].notes = [
      StallNote(.context, title: "ten", text: "eleven"),
      StallNote(.activity, title: "twelve", text: "thirteen", time: nanoseconds(31_000_000_079)),
      StallNote(.hang, time: nanoseconds(8_000_000_083)),
    ]
    recording.stalls[1].source.kind = .queue
    recording.stalls[1].duration = nanoseconds(3_500_000_103)
    recording.stalls[1].gap = nanoseconds(107)
    recording.stalls[1].lostSamples = 109
    recording.names = names()
  }
  if minor >= 3 { addWhatVersion3Has(to: &recording) }
  if minor >= 4 { recording.stalls[0].samples[1].threadID = 113 }
  if minor >= 5 {
    recording.stacks[1].frames += [
      StackFrame(RuntimeAddress(0x2055), .asyncCaller), StackFrame(RuntimeAddress(0x5066), .childStart),
    ]
    recording.stacks[1].end = .childTask
    recording.stalls[0].samples[1].obstacle = .thread
    recording.stalls[0].samples[2].activity = .suspended
  }
  if minor >= 6 {
    recording.stalls[0].samples[1].waitingCount = 127
    recording.stalls[0].samples[0].descriptor = Descriptor(
      number: 131,
      target: "socket:[137]",
      address: [2, 0, 139, 149],
      isPeersAddress: true,
      unreadBytes: 151
    )
  }
  if minor >= 7 {
    recording.stalls[0].samples[2].lock = HeldLock(
      kind: .mutex,
      address: 157,
      holderID: 163,
      waiterID: 102,
      isOrphaned: true
    )
    recording.stalls[0].holders = [
      HolderSample(
        address: 167,
        thread: ObservedThread(id: 173, name: "twenty-one"),
        isHeld: true,
        sample: Sample(
          age: nanoseconds(950_000_179),
          stack: 1,
          outcome: .captured,
          cpuTime: nanoseconds(181),
          activity: .inSystemCall(202),
          lock: HeldLock(kind: .queue, address: 191, holderID: 193, waiterID: 173, isTimed: true)
        )
      )
    ]
  }
  if minor >= 8 { addWhatVersion8Has(to: &recording) }
  if minor >= 9 {
    recording.process?.host = "twenty-three"
    recording.stalls[1].samples[0].obstacle = .actor
    recording.stalls[0].samples[0].lock = HeldLock(kind: .stream, address: 277, holderID: 281, waiterID: 102)
    recording.stalls[1].notes = [StallNote(.fileLock, title: "twenty-four", text: "twenty-five")]
  }
  if minor >= 10 {
    let count = StallCount(
      since: WallTime(nanosecondsSince1970: 283),
      all: 313,
      atSamePlace: 311,
      unrecorded: 307,
      unrecordedTime: nanoseconds(317)
    )
    recording.stalls[1].notes.append(count.note)
  }
  return recording
}

private func addWhatVersion8Has(to recording: inout Recording) {
  recording.stalls[0].samples[0].evidence.arguments = [197, 199, 211, 223, 227, 229]
  recording.stalls[0].samples[0].evidence.words = [233, 239, 241]
  recording.stalls[0].samples[1].evidence.kernelFunction = "twenty_two"
  recording.stalls[0].samples[1].evidence.turns = 251
  var counters = ThreadCounters()
  for (place, count) in ThreadCounters.all.enumerated() { counters[keyPath: count] = UInt64(300 + place) }
  recording.stalls[0].samples[2].evidence.counters = counters
  var surroundings = SurroundingCounters()
  surroundings.throttled = nanoseconds(257)
  surroundings.diskStalled = nanoseconds(263)
  surroundings.runnableThreads = 269
  surroundings.processors = 271
  recording.stalls[0].samples[2].evidence.surroundings = surroundings
}

private func addOthers(to stall: inout Stall) {
  stall.others = AllThreads(
    threads: [
      ThreadSample(
        thread: ObservedThread(id: 103, name: "nine"),
        stack: 1,
        outcome: .captured,
        cpuTime: nanoseconds(2_000_000_067),
        activity: .inSystemCall(232),
        handlerTime: nanoseconds(71),
        unwindTime: nanoseconds(73)
      ),
      ThreadSample(
        thread: ObservedThread(id: 104, name: ""),
        stack: nil,
        outcome: .untouchable,
        cpuTime: nil,
        activity: .blocked
      ),
    ],
    leftOut: 5,
    isComplete: true
  )
  (stall.cost.fromOutside, stall.cost.bySignal, stall.cost.withoutStack) = (61, 62, 63)
  stall.cost.longestHandlerTime = nanoseconds(64)
  stall.cost.handlerTime = nanoseconds(65)
  stall.cost.unwindTime = nanoseconds(66)
}

private func names() -> [RuntimeAddress: [ResolvedFrame]] {
  [
    RuntimeAddress(0x2021): [
      ResolvedFrame(
        function: "sixteen()",
        fullName: "A.sixteen() -> ()",
        rawName: "$s1A7sixteenyyF",
        swiftModule: "A",
        module: "/srv/one",
        address: .file(FileAddress(0x1821)),
        location: SourceLocation(file: "/src/a.swift", line: 111, column: 112),
        isInlined: true
      ),
      ResolvedFrame(
        function: "seventeen",
        rawName: "seventeen_raw",
        module: "/srv/one",
        start: FileAddress(0x1810),
        address: .file(FileAddress(0x1821))
      ),
    ],
    RuntimeAddress(0x5032): [
      ResolvedFrame(
        function: nil,
        module: "/srv/one",
        address: .file(FileAddress(0x4832)),
        missing: .changedFile(expected: "eighteen", found: "nineteen")
      )
    ],
  ]
}

private func addWhatVersion3Has(to recording: inout Recording) {
  recording.process?.ownModules = ["Two", "/three"]
  recording.process?.wrappers = ["four()"]
  recording.modules[0].bias = 0x800
  recording.stacks[0].frames[0].functionStart = RuntimeAddress(0x1010)
  recording.stacks[0].frames[2].functionStart = RuntimeAddress(0x5030)
  recording.stacks[0].joinedFrom = 2
  recording.stacks[0].omission = Stack.Omission(index: 1, count: 77)
  recording.stalls[0].samples[0].runDelay = nanoseconds(40_000_031)
  recording.stalls[1].samples[0].activity = .inRestartedCall(230)
  let unit = CompilationUnit(directory: "/src/twenty", file: "b.swift", swiftModule: "B")
  var called = ResolvedFrame(
    function: "runtime",
    rawName: "runtime_raw",
    sourceFunction: "C.written()",
    kind: .thunk,
    isMerged: true,
    module: "/tmp/perf-101.map",
    address: .runtime(RuntimeAddress(0x7044)),
    origin: .unit(unit)
  )
  called.called = CalledFunction(
    function: "meant()",
    fullName: "D.meant() -> ()",
    rawName: "$s1D5meantyyF",
    swiftModule: "D",
    sourceFunction: "D.meant()",
    start: FileAddress(0x1900)
  )
  recording.names[RuntimeAddress(0x1044)] = [called]
  recording.names[RuntimeAddress(0x2021)]?[0].origin = .undescribed
  recording.names[RuntimeAddress(0x2021)]?[1].origin =
    .unit(CompilationUnit(directory: "/src/c", file: "seventeen.c"))
  recording.names[RuntimeAddress(0x2021)]?[1].kind = .glue
}

/// Files that were written once: what other programs and earlier versions hold.
@Suite struct GoldenFileTests {
  private func path(_ name: String) -> URL {
    URL(fileURLWithPath: #filePath).deletingLastPathComponent().appending(path: "Golden/\(name)")
  }

  @Test(arguments: [UInt16(0), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]) func filesOfEveryVersionAreReadAsEver(minor: UInt16)
    throws
  {
    let file = try StallFile(bytes: [UInt8](Data(contentsOf: path("version-1.\(minor).stall"))))
    #expect(file.version == (1, minor))
    #expect(file.problems.isEmpty)
    let (found, expected) = (file.recording, recording(minor))
    #expect(found.process == expected.process)
    #expect(found.modules == expected.modules)
    #expect(found.stacks == expected.stacks)
    #expect(found.names == expected.names)
    #expect(found.stalls.count == 2)
    for (found, expected) in zip(found.stalls, expected.stalls) { #expect(found == expected) }
  }

  @Test func filesOfThisVersionAreWrittenAsEver() throws {
    let bytes = StallFileWriter.file(of: recording(10))
    let path = path("version-1.10.stall")
    if getenv("RECORD_SNAPSHOTS") != nil { try Data(bytes).write(to: path) }
    #expect(try Data(contentsOf: path) == Data(bytes), "files of a version that was released never change")
  }

  /// The page docs/internals/stall-format.md is enough to read the file: nothing of the reader is used here.
  @Test func everyByteIsWhatTheDocumentationSays() throws {
    let bytes = try [UInt8](Data(contentsOf: path("version-1.10.stall")))
    var page = DocumentedFormat(bytes)
    let text = try page.text()
    if getenv("RECORD_SNAPSHOTS") != nil {
      try text.write(to: path("version-1.10.txt"), atomically: true, encoding: .utf8)
    }
    let expected = try String(contentsOf: path("version-1.10.txt"), encoding: .utf8)
    let (lines, expectedLines) = (text.split(separator: "\n"), expected.split(separator: "\n"))
    for (line, expected) in zip(lines, expectedLines) { try #require(line == expected) }
    #expect(lines.count == expectedLines.count)
    // Each kind of record is there.
    #expect(page.kinds == Set(1...12).union([14]))
  }
}
