import CCulpritUnwind
import Testing

/// Which earlier stacks a stack is joined with: the last complete one of the same work item, of the last sixteen.
@Suite struct JoinTests {
  /// Stacks that are joined in plain mode, and the ones before them.
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

  @Test func thereAreStacksToJoin() { #expect(!Self.pairs.isEmpty) }

  @Test(arguments: pairs.indices) func anotherWorkItemsStackIsNotTaken(index: Int) throws {
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
    // Work that has no name is not kept, either.
    let unwinder = try FixtureUnwinder(second.architecture)
    _ = unwinder.unwind(first, joins: true, item: item { $0.began_ns = 0 })
    #expect(unwinder.unwind(second, joins: true, item: item { $0.began_ns = 0 }).joinedFrom == 0)
  }

  /// Sixteen are kept; the one that has not been used for longest makes room.
  @Test(arguments: [(others: 15, isUsed: false), (16, false), (15, true), (16, true), (17, true)])
  func theLongestUnusedMakesRoom(others: Int, isUsed: Bool) throws {
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

  /// A later complete stack of the work item takes the place of the former; it needs no room of another's.
  @Test func oneIsKeptOfEach() throws {
    let (first, second) = try #require(Self.pairs.first)
    let unwinder = try FixtureUnwinder(second.architecture)
    _ = unwinder.unwind(first, joins: true)
    for _ in 0..<40 { _ = unwinder.unwind(first, joins: true, item: item { $0.slot = 2 }) }
    #expect(unwinder.unwind(second, joins: true).joinedFrom > 0)
    // And it is what is joined: with its frames behind those of the stack itself.
    let found = unwinder.unwind(second, joins: true)
    let alone = unwinder.unwind(second)
    #expect(found.end == "outermost" && Array(found.frames.prefix(alone.frames.count)) == alone.frames)
    #expect(found.joinedFrom == alone.frames.count && found.frames.last == first.frames.last)
  }
}
