import SampleRecordings
import Testing

@testable import CulpritStallRecord

@Suite struct ObservedThreadTests {
  @Test func namesPoolThreads() {
    let names = ["-qos.overcommit", "oot.utility-qos", "shop", "qos", "oot.default-qos"]
    let named = names.map { ObservedThread(id: 1, name: $0).name }
    #expect(named == ["pool thread", "pool thread", "shop", "qos", "pool thread"])
  }
}

@Suite struct ModuleTests {
  private func module(_ path: String, _ ranges: [(UInt64, UInt64)], offset: UInt64 = 0x100) -> Module {
    Module(
      path: path,
      buildID: [],
      mappings: ranges.enumerated()
        .map { number, range in
          Module.Mapping(
            start: RuntimeAddress(range.0),
            end: RuntimeAddress(range.1),
            fileOffset: offset + UInt64(number) * 0x10_0000
          )
        }
    )
  }

  @Test func excludesMappingEnd() {
    var module = module("/a", [(0x1000, 0x2000), (0x4000, 0x5000)])
    for (address, offset) in [
      (0xfff, nil), (0x1000, 0x100), (0x1fff, 0x10ff), (0x2000, nil), (0x3fff, nil), (0x4000, 0x10_0100),
      (0x4fff, 0x10_10ff), (0x5000, nil),
    ] as [(UInt64, UInt64?)] {
      let address = RuntimeAddress(address)
      #expect(module.contains(address) == (offset != nil), "\(address)")
      #expect(module.fileOffset(of: address) == offset, "\(address)")
      // Without a bias, the file offset is used as the address.
      module.bias = nil
      #expect(module.fileAddress(of: address) == offset.map(FileAddress.init))
      module.bias = 0x800
      #expect(module.fileAddress(of: address) == offset.map { _ in FileAddress(address.value - 0x800) })
    }
  }

  @Test func rejectsOverflowingOffset() {
    let module = module("/a", [(0x1000, 0x2000)], offset: .max - 8)
    #expect(module.fileOffset(of: RuntimeAddress(0x1008)) == .max)
    #expect(module.fileOffset(of: RuntimeAddress(0x1009)) == nil)
  }

  @Test func namesModuleByLastComponent() {
    #expect(module("/usr/lib/libz.so", []).name == "libz.so" && module("[vdso]", []).name == "[vdso]")
    #expect(module("/usr/lib/libz.so", []).isFile && !module("[vdso]", []).isFile)
    var frame = ResolvedFrame(function: nil, module: "/opt/a/shop", address: .file(FileAddress(0x20)))
    #expect(frame.moduleName == "shop" && frame.displayName == "shop+0x20")
    frame.start = FileAddress(0x1f)
    #expect(frame.displayName == "shop+0x1f")
    frame.module = ""
    #expect(frame.moduleName == "" && frame.displayName == "0x1f")
  }

  @Test func mapMatchesLinearSearch() {
    var state: UInt64 = 1
    func random(_ limit: UInt64) -> UInt64 {
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return (state >> 33) % limit
    }
    for _ in 0..<100 {
      let modules = (0..<random(8))
        .map { number in
          module(
            "/\(number)",
            (0..<random(3) + 1)
              .map { _ in
                let start = random(40)
                return (start, start + random(20))
              }
          )
        }
      let map = ModuleMap(modules)
      for address in 0..<64 as Range<UInt64> {
        let expected = modules.lastIndex { module in
          module.mappings.contains { ($0.start.value..<$0.end.value).contains(address) }
        }
        #expect(map.index(at: RuntimeAddress(address)) == expected)
      }
    }
  }
}

/// Long texts keep both ends and whole characters.
@Test func abridgesLongTexts() {
  #expect(abridged("GET /orders") == "GET /orders" && abridged("") == "" && abridged("é 漢") == "é 漢")
  let digits = String(repeating: "0123456789", count: 1000)
  #expect(abridged(digits) == "\(digits.prefix(49))…\(digits.suffix(50))")
  #expect(abridged(String(digits.prefix(100))).count == 100 && abridged(String(digits.prefix(101))).count == 100)
  #expect(abridged("a\u{1b}b\u{1b}c", limit: 14) == "a…\\u{1b}c")
  #expect(abridged("a\u{1b}b\u{1b}c", limit: 15) == "a\\u{1b}b\\u{1b}c")
  #expect(abridged(String(repeating: "\u{1b}", count: 100)).count <= 100)
  #expect(abridged("漢字かな交じり文", limit: 5) == "漢字…り文")
  #expect(abridged(digits, limit: .max) == digits)
}

/// Invisible texts are described; empty texts stay empty.
@Test(arguments: [
  " ", "   ", "\u{a0}\u{3000}", "\u{3164}", "\u{2800}\u{115f}",
]) func describesInvisibleTexts(text: String) {
  #expect(visible(text) == "(a name of spaces)" && abridged(text) == "(a name of spaces)")
  #expect(visible(text + "x") == text + "x" && visible("") == "")
}

@Suite struct RecordedValueTests {
  /// Names can come from anywhere, so terminal control characters are printed as numbers.
  @Test func escapesControlCharacters() {
    #expect(printable("a é 漢 🙂") == "a é 漢 🙂")
    #expect(
      printable("a\u{1b}b\n\u{7f}\u{85}\u{200b}\u{202e}\u{2028}\u{2029}")
        == "a\\u{1b}b\\u{a}\\u{7f}\\u{85}\\u{200b}\\u{202e}\\u{2028}\\u{2029}"
    )
    for (text, limit, kept) in [
      ("abc", 3, "abc"), ("abcd", 3, "abc…"), ("éé", 2, "éé"), ("ééé", 2, "éé…"), ("", 0, ""), ("a", 0, "…"),
    ] { #expect(printable(text, limit: limit) == kept) }
  }

  @Test func sumsObservationCosts() {
    var cost = ObservationCost()
    cost.add(outcome: .captured, handlerTime: .nanoseconds(5), unwindTime: .nanoseconds(100))
    cost.add(outcome: .captured, handlerTime: .nanoseconds(9), unwindTime: .nanoseconds(10))
    cost.add(outcome: .captured, handlerTime: .nanoseconds(7), unwindTime: .nanoseconds(1))
    cost.add(outcome: .captured, handlerTime: .zero, unwindTime: .nanoseconds(1000))
    // A handler that gave no answer might have copied nothing.
    cost.add(outcome: .noAnswer, handlerTime: .nanoseconds(2), unwindTime: .zero)
    #expect((cost.bySignal, cost.fromOutside, cost.withoutStack) == (3, 1, 1))
    #expect(cost.longestHandlerTime == .nanoseconds(9) && cost.handlerTime == .nanoseconds(23))
    #expect(cost.unwindTime == .nanoseconds(1111))
  }

  /// The numbers are documented in docs/internals/stall-format.md.
  @Test func activitiesHaveDocumentedCodes() {
    let codes: [(activity: ThreadActivity, code: UInt8, call: Int32, isWaiting: Bool)] = [
      (.unknown, 0, -1, false), (.running, 1, -1, false), (.inSystemCall(0), 2, 0, true), (.blocked, 3, -1, true),
      (.inRestartedCall(230), 4, 230, true), (.inRestartedCall(nil), 4, -1, true), (.inRestartedCall(0), 4, 0, true),
      (.suspended, 5, -1, true), (.enqueued, 6, -1, true),
    ]
    for (activity, code, call, isWaiting) in codes {
      #expect(activity.code == code && activity.call == call && activity.isWaiting == isWaiting)
      #expect(ThreadActivity(code: code, call: call) == activity)
    }
    #expect(ThreadActivity(code: 7, call: 1) == .unknown)
  }

  @Test func endsAndOutcomesHaveDocumentedCodes() {
    let ends: [StackEnd] = [
      .outermost, .copyLimit, .frameLimit, .noUnwindInformation, .noModule, .unreadable, .noProgress, .failed,
      .notCaptured, .noRegister, .childTask, .taskLost,
    ]
    #expect(ends.map(\.rawValue) == Array(0...11) && ends == StackEnd.allCases)
    let outcomes: [CaptureOutcome] = [
      .captured, .unitOver, .threadGone, .noAnswer, .notSignalled, .requestsStuck, .noState, .untouchable,
      .handlerReplaced, .noWorker, .samplerStopped, .taskGone, .sectionLeft,
    ]
    #expect(
      outcomes.map(\.rawValue) == [0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 14] && outcomes == CaptureOutcome.allCases
    )
    for end in ends {
      #expect((end.explanation == nil) == (end == .outermost))
    }
    #expect(Set(ends.compactMap(\.explanation)).count == 11 && Set(outcomes.map(\.explanation)).count == 13)
  }

  @Test func sourceAndNoteKindsHaveDocumentedCodes() {
    let sources: [SourceKind] = [
      .loop, .runLoop, .section, .queue, .pool, .executor, .probedLoop, .phase, .job, .unknown(10),
    ]
    #expect(sources.map(\.code) == Array(1...10) && sources.map { SourceKind(code: $0.code) } == sources)
    let notes: [StallNote.Kind] = [
      .context, .activity, .debugger, .hang, .cpuTime, .unwatched, .overlap, .fileLock, .count, .spared,
      .sharedLabel, .reported, .likely, .meanwhile,
    ]
    #expect(notes.map(\.code) == Array(1...14))
  }

  @Test func convertsDaysToDates() throws {
    var days: UInt64 = 0
    for year in 1970...2553 as ClosedRange<UInt64> {
      let isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
      let lengths: [UInt64] = [31, isLeap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
      for (month, length) in lengths.enumerated() {
        for day in [1, length] {
          func two(_ number: UInt64) -> String { number < 10 ? "0\(number)" : "\(number)" }
          let text = "\(year)-\(two(UInt64(month) + 1))-\(two(day))T00:00:00.000Z"
          let time = WallTime(nanosecondsSince1970: (days + day - 1) * 86_400_000_000_000)
          #expect(time.description == text)
          // Parsing is slower, so only the end of February is parsed, where years differ.
          if month == 1, day > 1 { #expect(WallTime(text: text) == time) }
        }
        days += length
      }
    }
    #expect(WallTime(text: "2026-02-29T00:00:00Z") == nil && WallTime(text: "2026-04-31T00:00:00Z") == nil)
    #expect(WallTime(text: "2554-01-01T00:00:00Z") == nil && WallTime(text: "1969-12-31T23:59:59Z") == nil)
  }

  @Test(arguments: ["2026-11-20T24:00:00Z", "2026-11-20T23:60:00Z", "2026-11-20T23:59:60Z", "2026-11-00T00:00:00Z"])
  func rejectsInvalidTimesOfDay(text: String) {
    #expect(WallTime(text: text) == nil)
  }

  @Test func parsesFractionalSeconds() {
    let time = WallTime(text: "1970-01-02T03:04:05.06Z")
    #expect(time?.nanosecondsSince1970 == 97_445_060_000_000)
    #expect(time?.text(decimals: 1) == "1970-01-02T03:04:05.0Z")
    #expect(time?.text(decimals: 9) == "1970-01-02T03:04:05.060000000Z")
    #expect(Duration.nanoseconds(1_500_000_000).inSeconds == 1.5)
    #expect(Duration.nanoseconds(-1).wholeNanoseconds == 0)
  }
}

@Suite struct NamesOfFramesTests {
  private func frame(_ name: String, start: UInt64, _ change: (inout ResolvedFrame) -> Void = { _ in }) -> ResolvedFrame
  {
    var frame = ResolvedFrame(
      function: name,
      rawName: name,
      module: "/shop",
      start: FileAddress(start),
      address: .file(FileAddress(start + 1)),
      location: SourceLocation(file: "/a.c", line: 1)
    )
    change(&frame)
    return frame
  }

  private let meant = CalledFunction(
    function: "meant",
    fullName: "full",
    rawName: "raw",
    swiftModule: "Shop",
    sourceFunction: "written",
    start: FileAddress(0x10)
  )

  @Test func namesMergedFunctionByCaller() {
    let merged = frame("one of them", start: 0x10) { $0.isMerged = true }
    let caller = frame("caller", start: 0x20) { $0.called = meant }
    let named = [merged, caller].namingMergedFunctions()
    #expect(named[0].function == "meant" && named[0].fullName == "full" && named[0].rawName == "raw")
    #expect(named[0].swiftModule == "Shop" && named[0].sourceFunction == "written" && !named[0].isMerged)
    #expect(named[1] == caller)
    let inner = frame("inner", start: 0x30)
    #expect([inner, merged, caller].namingMergedFunctions() == [inner] + named)
  }

  @Test func ignoresUnrelatedCallers() {
    let merged = frame("one of them", start: 0x10) { $0.isMerged = true }
    let caller = frame("caller", start: 0x20) { $0.called = meant }
    var elsewhere = caller
    elsewhere.module = "/other"
    var another = caller
    another.called?.start = FileAddress(0x11)
    var inlined = merged
    inlined.isInlined = true
    for stack in [
      [merged, elsewhere], [merged, another], [inlined, caller], [merged, frame("caller", start: 0x20)], [merged],
      [caller, merged], [],
    ] { #expect(stack.namingMergedFunctions() == stack) }
  }

  /// Thunks of merged functions have equal code and are marked. Other functions are not.
  @Test func marksThunksOfMergedFunctions() {
    let merged = frame("one of them", start: 0x10) { $0.isMerged = true }
    func thunk(_ change: (inout ResolvedFrame) -> Void) -> ResolvedFrame {
      frame("thunk", start: 0x20) {
        ($0.kind, $0.location) = (.thunk, nil)
        change(&$0)
      }
    }
    #expect([merged, thunk { _ in }].namingMergedFunctions().map(\.isMerged) == [true, true])
    for change in [
      { $0.kind = .function }, { $0.kind = .glue }, { $0.module = "/other" },
      { $0.location = SourceLocation(file: "/a.c", line: 1) },
    ] as [(inout ResolvedFrame) -> Void] {
      #expect([merged, thunk(change)].namingMergedFunctions().map(\.isMerged) == [true, false])
    }
  }

  @Test(arguments: [
    ("load(from:) in Store", 40, "load(from:) in Store"), ("aNameOf15Letter", 15, "aNameOf15Letter"),
    ("aNameOf16Letters", 15, "aNameOf…Letters"), ("abcdef", 5, "ab…ef"), ("abcdef", 4, "abcd"), ("abcdef", 0, ""),
    ("f((a in b)) in g<[c in d]>() in h{e in f}", 30, "f((a in b)) in … in h{e in f}"),
    ("a) in b) in c", 12, "a) in … in c"),
    ("find(key:)  with(a:b:)", 21, "find(key:)  with(a:…)"), ("rebuild(for:)abcdefghij", 10, "rebu…fghij"),
    ("<A as B>::some::path::function", 29, "<A as B>::some…path::function"),
  ])
  func fitsNamesToLimit(name: String, limit: Int, fitted: String) {
    #expect(FunctionName.fitted(name, to: limit) == fitted)
  }

  @Test func splitsNamesOutsideBrackets() {
    #expect(
      FunctionName.split("a in b (c in d) in [e in f] in {g in h}") == ["a", "b (c in d)", "[e in f]", "{g in h}"]
    )
    #expect(FunctionName.split("inner") == ["inner"] && FunctionName.split("") == [""])
    #expect(FunctionName.split("((a in b) in c) in d") == ["((a in b) in c)", "d"])
  }
}

@Suite struct DamagedRecordTests {
  @Test func reportsRecordsThatAreTooShort() throws {
    let whole = StallFileWriter.file(of: sampleRecording())
    var offset = StallFileFormat.headerBytes
    var seen: Set<UInt8> = []
    while offset < whole.count {
      let length = Int(whole[offset]) + Int(whole[offset + 1]) << 8
      let kind = whole[offset + 4]
      if seen.insert(kind).inserted {
        for kept in 0..<length {
          let payload = Array(whole[offset + 8..<offset + 8 + kept])
          var bytes = [UInt8(kept & 255), UInt8(kept >> 8), 0, 0, kind, 0, 0, 0] + payload
          let checksum = CRC32.checksum(bytes[...])
          bytes += (0..<4).map { (place: UInt32) in UInt8(truncatingIfNeeded: checksum >> (place * 8)) }
          // The checksum is right; only the length is wrong.
          let file = try StallFile(bytes: StallFileWriter.header() + bytes)
          #expect(file.recordCount == 1 && file.problems.count == 1)
        }
      }
      offset += 12 + length
    }
    #expect(seen.count >= 10)
  }

  @Test func reportsLocationOfDamage() throws {
    let record = StallFileWriter.record(of: ObservedThread(id: 1, name: "io"))
    let header = StallFileWriter.header()
    func problems(_ bytes: [UInt8]) throws -> [String] {
      try StallFile(bytes: header + bytes).problems.map(\.description)
    }
    #expect(try problems(record) == [])
    #expect(
      try problems(record + record.dropLast(1))
        == ["at byte 36: the file ends inside a record (19 of its 20 bytes are there); the last 19 bytes are lost"]
    )
    #expect(
      try problems(record + [1, 2, 3])
        == ["at byte 36: the file ends inside a record (3 bytes of it are there); the last 3 bytes are lost"]
    )
    var damaged = record
    damaged[8] ^= 1
    let text = try problems(record + damaged + record)
    #expect(text.count == 1 && text[0].hasPrefix("at byte 36: a record's checksum is 0x"))
    #expect(text[0].hasSuffix("; 20 bytes are lost"))
    #expect(try problems(damaged)[0].hasSuffix("; the last 20 bytes are lost"))
  }

  @Test func readsLongestRecord() throws {
    func head(_ length: Int) -> [UInt8] {
      withUnsafeBytes(of: UInt32(length).littleEndian) { Array($0) } + [200, 0, 0, 0]
    }
    var bytes = head(1 << 20) + [UInt8](repeating: 1, count: 1 << 20)
    let checksum = CRC32.checksum(bytes[...])
    bytes += withUnsafeBytes(of: checksum.littleEndian) { Array($0) }
    let file = try StallFile(bytes: StallFileWriter.header() + bytes)
    #expect(file.problems.isEmpty && file.recordCount == 1)
    let longer = try StallFile(bytes: StallFileWriter.header() + head(1 << 20 + 1) + [0, 0, 0, 0])
    #expect(
      longer.problems.first?.text.hasPrefix("a record claims to have 1048577 bytes, more than the 1048576") == true
    )
  }
}
