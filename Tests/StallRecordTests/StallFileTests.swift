import SampleRecordings
import Testing

@testable import CulpritStallRecord

/// An inlined function, its caller and other frames, with all fields set.
private let namedFrames = [
  ResolvedFrame(
    function: "Index.find(_:)",
    fullName: "Shop.Index.find(Swift.Int) -> Swift.Int",
    rawName: "$s4Shop5IndexV4findyS2iF",
    swiftModule: "Shop",
    module: "/opt/shop/shop",
    address: .file(FileAddress(0x1010)),
    location: SourceLocation(file: "/src/Index.swift", line: 12, column: 5),
    origin: .unit(CompilationUnit(directory: "/src", file: "/src/main.swift")),
    isInlined: true
  ),
  ResolvedFrame(
    function: "run()",
    rawName: "run",
    module: "/opt/shop/shop",
    start: FileAddress(0x1000),
    address: .file(FileAddress(0x1010)),
    origin: .undescribed
  ),
  ResolvedFrame(
    function: "shop_main",
    rawName: "shop_main",
    module: "/opt/shop/shop",
    start: FileAddress(0x2000),
    address: .file(FileAddress(0x2010)),
    origin: .unit(CompilationUnit(directory: "/src", file: "/src/main.swift", swiftModule: "shop"))
  ),
  // Code generated at run time has a name but no file address.
  ResolvedFrame(
    function: "jit_add",
    rawName: "jit_add",
    module: "/tmp/perf-17.map",
    start: FileAddress(0x7f00_0000),
    address: .runtime(RuntimeAddress(0x7f00_0010))
  ),
]

private func unnamedFrame(_ reason: MissingNameReason) -> ResolvedFrame {
  ResolvedFrame(function: nil, module: "", address: .runtime(RuntimeAddress(0x201f)), missing: reason)
}

/// A recording with everything that a file can contain.
func sampleRecording(hasEnded: Bool = true) -> Recording {
  let stack = Stack(
    frames: [
      .programCounter(RuntimeAddress(0x1010), functionStart: RuntimeAddress(0x1000)),
      .returnAddress(RuntimeAddress(0x2020)),
    ],
    end: .outermost,
    joinedFrom: 1,
    omission: Stack.Omission(index: 1, count: 700)
  )
  let cut = Stack(frames: [.programCounter(RuntimeAddress(0x1014))], end: .copyLimit)
  let stall = Stall(
    "rebuild – index",
    kind: .section,
    id: 7,
    thread: (4243, "worker"),
    threshold: .seconds(4),
    began: 1_795_170_231_204_000_000,
    samples: [
      Sample(
        age: .milliseconds(500),
        stack: 0,
        outcome: .captured,
        cpuTime: .milliseconds(490),
        activity: .inSystemCall(202),
        handlerTime: .nanoseconds(700)
      ),
      Sample(
        age: .milliseconds(700),
        stack: 1,
        outcome: .captured,
        cpuTime: nil,
        unwindTime: .microseconds(30),
        label: "request 7",
        progress: 9,
        runDelay: .milliseconds(40),
        threadID: 4245
      ),
      Sample(age: .milliseconds(4000), stack: nil, outcome: .noAnswer, cpuTime: .seconds(1)),
    ],
    duration: hasEnded ? .milliseconds(5010) : .milliseconds(4000),
    hasEnded: hasEnded,
    lostSamples: hasEnded ? 3 : 0,
    gap: hasEnded ? .milliseconds(20) : .zero,
    others: AllThreads(
      threads: [
        ThreadSample(
          thread: ObservedThread(id: 4244, name: "pool"),
          stack: 1,
          outcome: .captured,
          cpuTime: .seconds(2),
          activity: .inSystemCall(232)
        ),
        ThreadSample(
          thread: ObservedThread(id: 4245, name: ""),
          stack: nil,
          outcome: .untouchable,
          cpuTime: nil,
          activity: .blocked
        ),
      ],
      leftOut: hasEnded ? 2 : 0,
      isComplete: hasEnded
    ),
    cost: cost(hasEnded: hasEnded),
    notes: [
      StallNote(.context, title: "orders", text: "17 waiting"),
      StallNote(.activity, title: "upload", time: .seconds(31)), StallNote(.debugger, text: "process 9"),
      StallNote(.hang, time: .seconds(8)), StallNote(StallNote.Kind(code: 99), text: "?"),
    ]
  )
  return Recording(
    process: ObservedProcess(
      4242,
      "/usr/bin/shop",
      since: 1_795_170_000_000_000_000,
      ownModules: ["ShopCore", "/srv/shop"],
      wrappers: ["Lock.lock()"],
      host: "web-1"
    ),
    modules: [
      Module(
        path: "/usr/bin/shop",
        buildID: [1, 2, 0xab],
        mappings: [Module.Mapping(start: RuntimeAddress(0x1000), end: RuntimeAddress(0x3000), fileOffset: 0x400)],
        bias: 0x800
      ),
      Module(path: "[vdso]", buildID: [], mappings: []),
    ],
    stacks: [stack, cut],
    stalls: [stall],
    names: [RuntimeAddress(0x1010): namedFrames, RuntimeAddress(0x201f): [unnamedFrame(.noSymbols)]]
  )
}

/// The cost of the recording's samples and of a few more. A file has only the sum.
private func cost(hasEnded: Bool) -> ObservationCost {
  var cost = ObservationCost()
  cost.add(outcome: .captured, handlerTime: .nanoseconds(700), unwindTime: .zero)
  cost.add(outcome: .captured, handlerTime: .zero, unwindTime: .microseconds(30))
  cost.add(outcome: .noAnswer, handlerTime: .zero, unwindTime: .zero)
  cost.add(outcome: .captured, handlerTime: .zero, unwindTime: .zero)
  cost.add(outcome: .untouchable, handlerTime: .zero, unwindTime: .zero)
  guard hasEnded else { return cost }
  for _ in 0..<5 { cost.add(outcome: .captured, handlerTime: .microseconds(2), unwindTime: .microseconds(9)) }
  return cost
}

@Suite struct StallFileTests {
  @Test func roundTripsRecording() throws {
    let file = try StallFile(bytes: StallFileWriter.file(of: sampleRecording()))
    #expect(file.recording == sampleRecording())
    #expect(file.problems.isEmpty)
    #expect(file.version == (1, 0))
  }

  /// The process was killed between two samples.
  @Test func keepsDurationOfUnfinishedStall() throws {
    var recording = sampleRecording(hasEnded: false)
    recording.stalls[0].duration = .milliseconds(4730)
    recording.stalls[0].gap = .milliseconds(7)
    recording.stalls[0].lostSamples = 2
    #expect(try StallFile(bytes: StallFileWriter.file(of: recording)).recording == recording)
  }

  @Test func roundTripsUnfinishedStall() throws {
    let file = try StallFile(bytes: StallFileWriter.file(of: sampleRecording(hasEnded: false)))
    #expect(file.recording == sampleRecording(hasEnded: false))
  }

  /// Other readers depend on the bytes in docs/internals/stall-format.md.
  @Test func bytesMatchDocumentation() {
    let header = ["43554c505249540a", "0100", "0000", "65859660"].joined()
    #expect(hexadecimal(StallFileWriter.header()) == header)
    let thread = StallFileWriter.record(of: ObservedThread(id: 4243, name: "io"))
    let expected = ["08000000", "0300", "0000", "93100000", "0200", "696f", "9a4ddced"].joined()
    #expect(hexadecimal(thread) == expected)
  }

  @Test func checksumMatchesZlib() {
    #expect(CRC32.checksum(Array("123456789".utf8)[...]) == 0xcbf4_3926)
    #expect(CRC32.checksum([]) == 0)
  }

  @Test func truncationLosesOnlyTail() throws {
    let whole = StallFileWriter.file(of: sampleRecording())
    let expected = sampleRecording()
    for length in StallFileFormat.headerBytes..<whole.count {
      let file = try StallFile(bytes: Array(whole[..<length]))
      let recording = file.recording
      #expect(expected.modules.starts(with: recording.modules))
      #expect(expected.stacks.starts(with: recording.stacks))
      if let stall = recording.stalls.first {
        #expect(expected.stalls[0].samples.starts(with: stall.samples))
        #expect(!stall.hasEnded)
      }
      // Truncation between records cannot be detected; any other truncation is reported.
      #expect(file.problems.count <= 1)
      #expect(file.problems.isEmpty == recordEnds(whole).contains(length))
    }
  }

  private func recordEnds(_ bytes: [UInt8]) -> Set<Int> {
    var ends: Set<Int> = [StallFileFormat.headerBytes]
    var offset = StallFileFormat.headerBytes
    while offset < bytes.count {
      offset += 12 + Int(bytes[offset]) + Int(bytes[offset + 1]) << 8
      ends.insert(offset)
    }
    return ends
  }

  @Test func rejectsTruncatedHeader() {
    let whole = StallFileWriter.file(of: sampleRecording())
    #expect(throws: StallFileError.empty) { try StallFile(bytes: []) }
    for length in 1..<StallFileFormat.headerBytes {
      #expect(throws: StallFileError.cutInHeader(bytes: length)) { try StallFile(bytes: Array(whole[..<length])) }
    }
  }

  @Test func damagedByteLosesOneRecord() throws {
    let whole = StallFileWriter.file(of: sampleRecording())
    let count = try StallFile(bytes: whole).recordCount
    for place in StallFileFormat.headerBytes..<whole.count {
      var bytes = whole
      bytes[place] ^= 0x55
      let file = try StallFile(bytes: bytes)
      #expect(file.recordCount == count - 1)
      #expect(!file.problems.isEmpty)
    }
  }

  @Test func rejectsDamagedHeader() {
    let whole = StallFileWriter.file(of: sampleRecording())
    for place in 0..<StallFileFormat.headerBytes {
      var bytes = whole
      bytes[place] ^= 0x55
      #expect(throws: StallFileError.self) { try StallFile(bytes: bytes) }
    }
  }

  @Test func rejectsForeignFile() {
    let error = #expect(throws: StallFileError.self) {
      try StallFile(bytes: [0x7f, 0x45, 0x4c, 0x46, 2, 1, 1, 0, 0, 0])
    }
    #expect(error?.description == "is not a .stall file: it begins with 7f454c4602010100, not 43554c505249540a")
  }

  @Test(arguments: [0, 2, 255] as [UInt8]) func refusesOtherMajorVersions(major: UInt8) {
    let error = #expect(throws: StallFileError.self) { try StallFile(bytes: header(major: major, minor: 5)) }
    #expect(error == .otherVersion(major: UInt16(major), minor: 5))
    #expect(error?.description == "has format version \(major).5; this culprit reads versions 1.x")
  }

  @Test func ignoresAdditionsOfLaterMinorVersions() throws {
    let header = header(major: 1, minor: 9)
    var bytes = header + record(kind: 200, payload: [1, 2, 3])
    bytes += record(kind: 3, payload: [0x93, 0x10, 0, 0, 2, 0, 0x69, 0x6f, 9, 9, 9])
    bytes += StallFileWriter.file(of: sampleRecording()).dropFirst(header.count)
    let file = try StallFile(bytes: bytes)
    #expect(file.recording == sampleRecording() && file.version == (1, 9))
    #expect(file.problems.isEmpty)
  }

  @Test func reportsShortRecord() throws {
    let file = try StallFile(bytes: StallFileWriter.header() + record(kind: 1, payload: [1, 2]))
    #expect(file.problems.map(\.text) == ["a record of kind 1 with 2 bytes does not hold what it should"])
  }

  @Test func countsOrphanedSamples() throws {
    let stall = sampleRecording().stalls[0]
    for count in 2...stall.samples.count {
      let samples = stall.samples.prefix(count).flatMap { StallFileWriter.record(of: $0, stallID: stall.id) }
      let file = try StallFile(bytes: StallFileWriter.header() + samples)
      #expect(file.problems.map(\.text) == ["\(count) samples belong to stalls whose beginning is lost"])
      #expect(file.recording.stalls.isEmpty && file.recordCount == count)
    }
  }

  @Test func rejectsHugeRecordLength() throws {
    let bytes = StallFileWriter.header() + [0xff, 0xff, 0xff, 0x7f, 1, 0, 0, 0] + [UInt8](repeating: 0, count: 64)
    let file = try StallFile(bytes: bytes)
    #expect(file.recordCount == 0)
    #expect(file.problems.first?.text.hasPrefix("a record claims to have 2147483647 bytes") == true)
  }

  /// After a disk failure, a file can contain another file's records.
  @Test func ignoresRecordsOfOtherFile() throws {
    var own = Array(StallFileWriter.file(of: sampleRecording()).dropFirst(16))
    var others = own
    StallFileWriter.tag(&own, 7)
    StallFileWriter.tag(&others, 8)
    let alone = try StallFile(bytes: StallFileWriter.header() + own)
    #expect(alone.recording == sampleRecording() && alone.problems.isEmpty)
    let both = try StallFile(bytes: StallFileWriter.header() + own + others)
    #expect(both.recordCount == alone.recordCount)
    #expect(both.recording.stalls.map(\.samples) == alone.recording.stalls.map(\.samples))
    #expect(both.problems.first?.text.hasPrefix("a record belongs to another file (number 8, not 7)") == true)
  }

  /// A file that was extended but not written has zeros after its header.
  @Test func skipsLongGap() throws {
    let bytes = StallFileWriter.header() + [UInt8](repeating: 0, count: 1 << 20)
    let file = try StallFile(bytes: bytes + StallFileWriter.file(of: sampleRecording()).dropFirst(16))
    var expected = sampleRecording()
    for index in expected.stalls.indices { expected.stalls[index].isDamaged = true }
    #expect(file.recording == expected)
    #expect(file.problems.count == 1)
  }

  /// Names follow the end of a stall, so damage there does not affect its samples.
  @Test func ignoresDamageAfterStallEnd() throws {
    let whole = StallFileWriter.file(of: sampleRecording())
    let name = StallFileWriter.record(ofNameOf: RuntimeAddress(0x1014), namedFrames)
    let cutBehind = try StallFile(bytes: whole + name.dropLast(3))
    #expect(cutBehind.problems.count == 1)
    #expect(cutBehind.recording == sampleRecording())
    let cutBefore = try StallFile(bytes: Array(whole.dropLast(3)))
    #expect(cutBefore.problems.count == 1)
    #expect(cutBefore.recording.stalls.map(\.isDamaged) == [true])
  }

  @Test func truncatesTextAtCharacter() throws {
    var recording = sampleRecording()
    recording.stalls[0].source.name = String(repeating: "é", count: 40_000)
    let file = try StallFile(bytes: StallFileWriter.file(of: recording))
    #expect(file.recording.stalls[0].source.name == String(repeating: "é", count: 32_767))
  }

  private func header(major: UInt8, minor: UInt8) -> [UInt8] {
    checksummed(StallFileFormat.magic + [major, 0, minor, 0])
  }

  private func record(kind: UInt8, payload: [UInt8]) -> [UInt8] {
    checksummed([UInt8(payload.count), 0, 0, 0, kind, 0, 0, 0] + payload)
  }

  private func checksummed(_ bytes: [UInt8]) -> [UInt8] {
    let checksum = CRC32.checksum(bytes[...])
    return bytes + (0..<4).map { (place: UInt32) in UInt8(truncatingIfNeeded: checksum >> (place * 8)) }
  }
}

@Suite struct ValueTests {
  @Test(arguments: [
    (UInt64(0), "1970-01-01T00:00:00.000Z"), (951_782_400_000_000_000, "2000-02-29T00:00:00.000Z"),
    (1_795_170_231_204_999_999, "2026-11-20T10:23:51.204Z"), (4_107_542_399_999_000_000, "2100-02-28T23:59:59.999Z"),
    (4_107_542_400_000_000_000, "2100-03-01T00:00:00.000Z"),
  ])
  func timesOfDay(nanoseconds: UInt64, text: String) {
    #expect(WallTime(nanosecondsSince1970: nanoseconds).description == text)
  }

  @Test func durationsKeepNanoseconds() {
    #expect(Duration(wholeNanoseconds: 5_000_000_001).wholeNanoseconds == 5_000_000_001)
    #expect(Duration(wholeNanoseconds: .max).wholeNanoseconds == .max)
    #expect(Duration.seconds(-1).wholeNanoseconds == 0)
    #expect(Duration.seconds(Int64.max).wholeNanoseconds == .max)
  }

  /// A call can be the last instruction of its function, so the return address belongs to the next function.
  @Test func looksUpReturnAddressInCall() {
    #expect(StackFrame.returnAddress(RuntimeAddress(0x2000)).lookupAddress == RuntimeAddress(0x1fff))
    #expect(StackFrame.programCounter(RuntimeAddress(0x2000)).lookupAddress == RuntimeAddress(0x2000))
  }

  @Test func findsModulesByAddress() {
    func module(_ path: String, _ start: UInt64, _ end: UInt64) -> Module {
      Module(path, at: start..<end, fileOffset: 0x100)
    }
    let map = ModuleMap([module("/b", 0x3000, 0x4000), module("/a", 0x1000, 0x2000)])
    #expect(map.index(at: RuntimeAddress(0xfff)) == nil)
    #expect(map.index(at: RuntimeAddress(0x1000)) == 1)
    #expect(map.index(at: RuntimeAddress(0x1fff)) == 1)
    #expect(map.index(at: RuntimeAddress(0x2000)) == nil)
    #expect(map.index(at: RuntimeAddress(0x3800)) == 0)
    #expect(map.modules[1].fileOffset(of: RuntimeAddress(0x1010)) == 0x110)
  }

  @Test func prefersLastOverlappingModule() {
    func module(_ path: String, _ start: UInt64, _ end: UInt64) -> Module {
      Module(path, at: start..<end, fileOffset: .max - 8)
    }
    let map = ModuleMap([module("/a", 0x1000, 0x9000), module("/b", 0x2000, 0x3000)])
    #expect(map.index(at: RuntimeAddress(0x1800)) == 0)
    #expect(map.index(at: RuntimeAddress(0x2800)) == 1)
    #expect(map.index(at: RuntimeAddress(0x4000)) == 0)
    #expect(map.modules[0].fileOffset(of: RuntimeAddress(0x1800)) == nil)
  }
}

@Suite struct NameRecordTests {
  @Test func storesOnlyNamesFromSymbolFile() throws {
    let address = RuntimeAddress(0x201f)
    var expected = namedFrames
    expected[0].fullName = nil
    var bytes = StallFileWriter.header() + StallFileWriter.record(ofLearnedNameOf: address, namedFrames)
    #expect(try StallFile(bytes: bytes).recording.names == [address: expected])
    for reason in [MissingNameReason.noSymbols, .noSymbolHere] {
      bytes += StallFileWriter.record(ofLearnedNameOf: address, [unnamedFrame(reason)])
      #expect(try StallFile(bytes: bytes).recording.names == [address: [unnamedFrame(reason)]])
    }
    for reason in [MissingNameReason.notMapped, .noFile, .unreadableFile("x"), .unverifiable] {
      #expect(StallFileWriter.record(ofLearnedNameOf: address, [unnamedFrame(reason)]).isEmpty)
    }
  }

  @Test func findsStallEndBeforeNames() throws {
    let recording = sampleRecording()
    var bytes = StallFileWriter.file(of: recording)
    #expect(StallFile.hasEnd(bytes) && !StallFile.hasEnd(StallFileWriter.file(of: sampleRecording(hasEnded: false))))
    #expect(!StallFileWriter.areNamesLookedUp(bytes.suffix(StallFileWriter.namesLookedUpBytes)))
    bytes += StallFileWriter.record(ofNameOf: RuntimeAddress(5), namedFrames) + StallFileWriter.recordOfNamesLookedUp()
    #expect(StallFile.hasEnd(bytes))
    #expect(StallFile.hasEnd(Array(repeating: 7, count: 40) + bytes.dropFirst(16)))
    #expect(StallFileWriter.areNamesLookedUp(bytes.suffix(StallFileWriter.namesLookedUpBytes)))
    let file = try StallFile(bytes: bytes)
    #expect(file.problems.isEmpty && file.recording.names[RuntimeAddress(5)] == namedFrames)
    #expect(file.recording.stalls == recording.stalls)
    // A state record also shows whether the stall has ended.
    var stall = recording.stalls[0]
    let begin = StallFileWriter.header() + StallFileWriter.record(ofBeginOf: stall)
    #expect(StallFile.hasEnd(begin + StallFileWriter.record(ofStateOf: stall)))
    stall.hasEnded = false
    #expect(!StallFile.hasEnd(begin + StallFileWriter.record(ofStateOf: stall)))
  }

  private func readBack(_ frames: [ResolvedFrame]) throws -> [ResolvedFrame]? {
    let address = RuntimeAddress(0x201f)
    let file = try StallFile(bytes: StallFileWriter.file(of: Recording(process: nil, names: [address: frames])))
    #expect(file.problems.isEmpty)
    return file.recording.names[address]
  }

  @Test(arguments: [
    MissingNameReason.notMapped, .noFile, .unreadableFile("no such file"), .changedFile(expected: "0a", found: "none"),
    .unverifiable, .noSymbols, .noSymbolHere,
  ])
  func roundTripsMissingNameReasons(reason: MissingNameReason) throws {
    #expect(try readBack([unnamedFrame(reason)]) == [unnamedFrame(reason)])
  }

  @Test func truncatesLongNamesAndChains() throws {
    var frame = namedFrames[0]
    frame.fullName = String(repeating: "ä", count: 4000)
    let found = try #require(try readBack([ResolvedFrame](repeating: frame, count: 300)))
    #expect(found.count == 64)
    #expect(found.last?.fullName?.hasPrefix("ää") == true)
    #expect((found.last?.fullName?.utf8.count ?? 0) <= 2048)
  }
}
