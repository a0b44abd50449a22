import CCulpritUnwind
import Testing

/// An incomplete stack is joined with the last complete stack of its work item. Sixteen stacks are kept.
@Suite struct JoinTests {
  /// Stacks that are joined, and their predecessors.
  private static let pairs: [(first: RecordedStack, second: RecordedStack)] = RecordedStack.everything.compactMap {
    second in
    guard let name = second.after, let first = try? RecordedStack(architecture: second.architecture, name: name),
      let unwinder = try? FixtureUnwinder(second.architecture)
    else { return nil }
    _ = unwinder.unwind(first, joins: true)
    return unwinder.unwind(second, joins: true).joinedFrom > 0 ? (first, second) : nil
  }

  private func item(_ change: (inout unwind_work_item) -> Void = { _ in }) -> unwind_work_item {
    var item = FixtureUnwinder.item
    change(&item)
    return item
  }

  @Test func fixturesContainJoinableStacks() { #expect(!Self.pairs.isEmpty) }

  @Test(arguments: pairs.indices) func ignoresStacksOfOtherWorkItems(index: Int) throws {
    let (first, second) = Self.pairs[index]
    for other in [
      item { $0.slot = 2 }, item { $0.generation = 2 }, item { $0.began_ns = 2 }, item { $0.tid = 2 },
      item { $0.began_ns = 0 },
    ] {
      let unwinder = try FixtureUnwinder(second.architecture)
      _ = unwinder.unwind(first, joins: true)
      let alone = unwinder.unwind(second)
      #expect(unwinder.unwind(second, joins: true, item: other) == alone, "\(other)")
      #expect(unwinder.unwind(second, joins: true).joinedFrom > 0)
    }
    let unwinder = try FixtureUnwinder(second.architecture)
    _ = unwinder.unwind(first, joins: true, item: item { $0.began_ns = 0 })
    #expect(unwinder.unwind(second, joins: true, item: item { $0.began_ns = 0 }).joinedFrom == 0)
  }

  @Test(arguments: [(others: 15, isUsed: false), (16, false), (15, true), (16, true), (17, true)])
  func evictsLeastRecentlyUsedStack(others: Int, isUsed: Bool) throws {
    let (first, second) = try #require(Self.pairs.first)
    let unwinder = try FixtureUnwinder(second.architecture)
    _ = unwinder.unwind(first, joins: true)
    func keepOthers(_ numbers: Range<Int>) {
      for number in numbers { _ = unwinder.unwind(first, joins: true, item: item { $0.slot = UInt32(100 + number) }) }
    }
    if isUsed {
      keepOthers(0..<15)
      #expect(unwinder.unwind(second, joins: true).joinedFrom > 0)
    }
    keepOthers(100..<100 + others)
    #expect((unwinder.unwind(second, joins: true).joinedFrom > 0) == (others < 16))
  }

  @Test func keepsOneStackPerWorkItem() throws {
    let (first, second) = try #require(Self.pairs.first)
    let unwinder = try FixtureUnwinder(second.architecture)
    _ = unwinder.unwind(first, joins: true)
    for _ in 0..<40 { _ = unwinder.unwind(first, joins: true, item: item { $0.slot = 2 }) }
    #expect(unwinder.unwind(second, joins: true).joinedFrom > 0)
    let found = unwinder.unwind(second, joins: true)
    let alone = unwinder.unwind(second)
    #expect(found.end == "outermost" && Array(found.frames.prefix(alone.frames.count)) == alone.frames)
    #expect(found.joinedFrom == alone.frames.count && found.frames.last == first.frames.last)
  }

  // MARK: Signs that a frame is alive

  /// Applies `change` to the second stack of a pair and joins it with the first.
  private func joined(
    _ pair: (first: RecordedStack, second: RecordedStack),
    _ change: (inout RecordedStack) -> Void = { _ in }
  ) throws -> FixtureUnwinder.Found {
    let unwinder = try FixtureUnwinder(pair.second.architecture)
    _ = unwinder.unwind(pair.first, joins: true)
    var second = pair.second
    change(&second)
    return unwinder.unwind(second, joins: true)
  }

  private func architecture(_ stack: RecordedStack) throws -> unwind_architecture {
    try #require(cunwind_architecture(stack.architecture)).pointee
  }

  @Test(arguments: pairs.indices) func rejectsFrameRecordsLeadingInwards(index: Int) throws {
    let pair = Self.pairs[index]
    let numbers = try architecture(pair.second)
    let (pointer, sp) = (Int(numbers.frame_pointer), try #require(pair.second.registers[Int(numbers.sp)]))
    let whole = try joined(pair)
    let without = try joined(pair) { $0.registers[pointer] = nil }
    try #require(without.frames.count < whole.frames.count)
    let record = whole.places[whole.joinedFrom] - 8
    let (near, far) = (record - 112, record - 48)
    try #require(near >= sp)
    let outwards = try joined(pair) {
      $0.registers[pointer] = near
      ($0[near], $0[far]) = (far, record)
    }
    #expect(outwards.frames == whole.frames)
    let back = try joined(pair) {
      $0.registers[pointer] = far
      ($0[far], $0[near]) = (near, record)
    }
    #expect(back.frames == without.frames)
    let below = try joined(pair) {
      $0.stackStart -= 64
      $0.bytes = [UInt8](repeating: 0, count: 64) + $0.bytes
      $0.registers[pointer] = sp - 32
      $0[sp - 32] = record
    }
    #expect(below.frames == without.frames)
    let beyond = try joined(pair) {
      $0.registers[pointer] = record + 64
      $0[record + 64] = record
    }
    #expect(beyond.frames == without.frames)
  }

  /// The aarch64 stacks are excluded: their innermost return address is in the link register.
  @Test(arguments: pairs.indices.filter { pairs[$0].second.architecture == "x86_64" })
  func acceptsFrameWithoutInnerCall(index: Int) throws {
    let pair = Self.pairs[index]
    let numbers = try architecture(pair.second)
    let sp = try #require(pair.second.registers[Int(numbers.sp)])
    let places = try FixtureUnwinder(pair.first.architecture).unwind(pair.first).places
    func clear(_ stack: inout RecordedStack) {
      stack.registers[Int(numbers.frame_pointer)] = nil
      for place in stride(from: sp, to: places[1], by: 8) { stack[place] = 0 }
    }
    let all = pair.second.frames.prefix(1) + pair.first.frames.dropFirst()
    #expect(try joined(pair, clear).frames == Array(all))
    for place in stride(from: sp, to: places[1], by: 8) {
      let found = try joined(pair) {
        clear(&$0)
        $0[place] = pair.second.frames[2].address
      }
      #expect(found.frames.count < all.count, "\(place)")
    }
  }

  @Test(arguments: pairs.indices) func rejectsOverwrittenFrame(index: Int) throws {
    let pair = Self.pairs[index]
    let places = try FixtureUnwinder(pair.first.architecture).unwind(pair.first).places
    for number in places.indices.dropFirst() {
      let found = try joined(pair) { $0[places[number]] = 0 }
      let count = found.joinedFrom == 0 ? 0 : found.frames.count - found.joinedFrom
      #expect(count <= places.count - 1 - number, "\(number)")
    }
  }

  /// Memory beyond the copy can have changed since the signal.
  @Test(arguments: pairs.indices) func doesNotJoinTruncatedCopy(index: Int) throws {
    let pair = Self.pairs[index]
    let places = try FixtureUnwinder(pair.first.architecture).unwind(pair.first).places
    for place in places.dropFirst(2) {
      let found = try joined(pair) {
        let count = Int(place - $0.stackStart)
        $0.memory.append(.init(address: place, bytes: Array($0.bytes[count...])))
        $0.memory.sort { $0.address < $1.address }
        $0.bytes.removeSubrange(count...)
      }
      #expect(found.joinedFrom == 0, "\(place)")
    }
  }

  // MARK: Frames in between

  @Test(arguments: [0, 8, 24, 40], [true, false]) func findsCallsInBetween(room: Int, isDescribed: Bool) throws {
    var program = MadeUpProgram()
    program.add("start", isOutermost: true, [.set(.rbx, 0), .call("caller"), .trap])
    program.add("caller", [.move(.rsp, by: -8), .call("work"), .move(.rsp, by: 8), .exit])
    program.add(
      "work",
      [.move(.rsp, by: -room), .label("itself"), .nothing, .branch("other"), .call("lost"), .label("other")]
        + [.call("middle"), .move(.rsp, by: room), .exit]
    )
    program.add("middle", [.move(.rsp, by: -room), .call("lost"), .move(.rsp, by: room), .exit])
    // An undecodable instruction, and a table that needs r12. The frame contains the return address of an earlier call.
    program.add(
      "lost",
      isDescribed: isDescribed,
      rows: [0x0c, 12, 8],
      [.call("earlier"), .move(.rsp, by: -24), .label("here"), .bytes([0x0f, 0x04, 0xc0]), .exit]
    )
    program.add("earlier", [.exit])
    for unwinder in try MadeUpCodeTests.unwinders() {
      for choice in 0...1 {
        var thread = MadeUpThread(program, at: "start")
        thread.run(to: "itself")
        #expect(unwinder.unwind(thread.recorded(), joins: true).frames == thread.frames)
        thread.run(to: "here") { _ in choice }
        let found = unwinder.unwind(thread.recorded(known: [.rbp]), joins: true)
        #expect(found.frames == thread.frames && found.end == "outermost", "\(choice) \(found.end)")
      }
    }
  }
}
